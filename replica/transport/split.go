package transport

import (
	"bytes"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/log/store"
)

// pieceSize is the most payload of one frame, unless a single batch is larger.
const pieceSize = 1 << 20

// maxEntriesBody bounds the entries of one piece without their payload.
const maxEntriesBody = maxRaft / 2

// fits reports whether a message is sent as it is.
func fits(m *Message, limit int64) bool {
	return m.Payload == nil || m.Payload.Size() <= limit && raftSize(&m.Raft) <= maxEntriesBody
}

// pieces are the messages as which m is sent. A MsgApp with more payload than limit becomes several,
// each of them a MsgApp that a leader might have sent: it begins where the one before ends. release,
// unless it is nil, must be called once all of them are written.
func pieces(m Message, limit int64) (out []Message, release func(), err error) {
	if fits(&m, limit) {
		return []Message{m}, nil, nil
	}
	sizes, err := payloadSizes(m.Raft.Entries, m.Payload.Size())
	if err != nil {
		return nil, nil, err
	}
	whole, ok := m.Payload.(Slicer)
	if !ok {
		parts, done, err := m.Payload.Load()
		if err != nil {
			return nil, nil, err
		}
		b := bytes.Join(parts, nil)
		if len(parts) == 1 {
			b, release = parts[0], done
		} else {
			done()
		}
		if int64(len(b)) != m.Payload.Size() {
			if release != nil {
				release()
			}
			return nil, nil, fmt.Errorf("a payload of %d bytes gave %d", m.Payload.Size(), len(b))
		}
		whole = Bytes(b)
	}
	var at int64
	for from := 0; from < len(sizes); {
		to, n, body := from, int64(0), 0
		for to < len(sizes) {
			size, more := sizes[to], entrySize+len(m.Raft.Entries[to].Data)
			if to > from && (n+size > limit || body+more > maxEntriesBody) {
				break
			}
			to, n, body = to+1, n+size, body+more
		}
		p := Message{Group: m.Group, Raft: m.Raft}
		p.Raft.Entries = m.Raft.Entries[from:to:to]
		if from > 0 {
			prev := &m.Raft.Entries[from-1]
			p.Raft.Index, p.Raft.LogTerm = prev.Index, prev.Term
		}
		if n > 0 {
			p.Payload = whole.Slice(at, at+n)
		}
		out = append(out, p)
		at, from = at+n, to
	}
	return out, release, nil
}

// payloadSizes tells how many bytes of the payload belong to each entry.
func payloadSizes(ents []pb.Entry, total int64) ([]int64, error) {
	sizes := make([]int64, len(ents))
	var sum int64
	for i := range ents {
		if ents[i].Type != pb.EntryNormal || len(ents[i].Data) == 0 {
			continue
		}
		e, d, err := store.EntryOf(ents[i])
		if err != nil {
			return nil, err
		}
		if e.Kind == store.EntryData {
			sizes[i] = int64(d.Size)
			sum += sizes[i]
		}
	}
	if sum != total {
		return nil, fmt.Errorf("entries describe %d bytes, their payload has %d", sum, total)
	}
	return sizes, nil
}
