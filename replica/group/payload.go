package group

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
)

// filePayload is the batches of a message's entries, which lie back to back in the log. They are read
// when the message is written to the peer's connection; until then it holds descriptors only.
type filePayload struct {
	log     *store.Log
	batches []described
	size    int64
}

type described struct {
	store.Descriptor
	term uint64
}

// payloadOf gives the payload of entries, or nil when there is no batch among them.
func payloadOf(l *store.Log, ents []pb.Entry) *filePayload {
	var p *filePayload
	for i := range ents {
		if ents[i].Type != pb.EntryNormal || len(ents[i].Data) == 0 {
			continue
		}
		d, err := store.ParseDescriptor(ents[i].Data)
		if err != nil {
			continue // a log start
		}
		if p == nil {
			p = &filePayload{log: l, batches: make([]described, 0, len(ents)-i)}
		}
		p.batches = append(p.batches, described{d, ents[i].Term})
		p.size += int64(d.Size)
	}
	return p
}

// Size is the bytes of the batches.
func (p *filePayload) Size() int64 { return p.size }

// Load reads the batches. A truncation may have replaced them meanwhile: each must be the one that its
// entry describes.
func (p *filePayload) Load() (parts [][]byte, release func(), err error) {
	buf := make([]byte, 0, p.size)
	for i := 0; i < len(p.batches); {
		last := p.batches[len(p.batches)-1]
		r, err := p.log.ReadEntries(p.batches[i].Base, int(p.size)-len(buf), last.Next())
		if err != nil {
			return nil, nil, err
		}
		at := len(buf)
		if r.Len == 0 || int64(at+r.Len) > p.size {
			r.Release()
			return nil, nil, p.gone(i)
		}
		buf = buf[:at+r.Len]
		_, err = r.File.ReadAt(buf[at:], r.Pos)
		r.Release()
		if err != nil {
			return nil, nil, fmt.Errorf("read entries of %s: %w", p.log.TP(), err)
		}
		n, err := p.check(buf[at:], i)
		if err != nil {
			return nil, nil, err
		}
		i += n
	}
	return [][]byte{buf}, func() {}, nil
}

// check tells how many batches b holds: those of the entries from i on.
func (p *filePayload) check(b []byte, i int) (n int, err error) {
	for len(b) > 0 {
		if i+n == len(p.batches) {
			return 0, p.gone(i + n - 1)
		}
		d := &p.batches[i+n]
		got, err := batch.First(b)
		if err != nil || uint32(len(got)) != d.Size || got.BaseOffset() != d.Base ||
			got.LeaderEpoch() != kafkaproto.LeaderEpoch(d.term) {
			return 0, p.gone(i + n)
		}
		b = b[len(got):]
		n++
	}
	return n, nil
}

func (p *filePayload) gone(i int) error {
	return fmt.Errorf("the batch at offset %d of %s is no longer the one that was to be sent",
		p.batches[min(i, len(p.batches)-1)].Base, p.log.TP())
}
