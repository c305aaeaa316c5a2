package store

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
)

// Manifest says what the files of a snapshot are: everything that raft's log up to Index stands for.
// The files themselves travel beside it, as plain bytes of segments.
type Manifest struct {
	Index, Term uint64 // of the last entry
	// Next is the offset behind that entry, LogStart the log start.
	Next, LogStart kafkaproto.Offset
	Segments       []SnapshotSegment    // ascending; none when there is no record
	Epochs         []segment.EpochStart // leader epochs up to Term
	Producers      []byte               // producer state at Next, as the sidecar has it
}

// SnapshotSegment is one segment of a snapshot: Size bytes of whole batches in [Base, Next). The first may
// be empty.
type SnapshotSegment struct {
	Base, Next kafkaproto.Offset
	Size       int64
}

const (
	manifestVersion = 1
	manifestHead    = 1 + 4*8
)

// Append encodes the manifest. All numbers are big-endian:
//
//	version u8 = 1 | index u64 | term u64 | next i64 | log start i64
//	segments u32 | (base i64 | next i64 | size i64)*
//	epochs u32 | (epoch i32 | start i64)*
//	length u32 | producer state
func (m *Manifest) Append(dst []byte) []byte {
	be := binary.BigEndian
	dst = be.AppendUint64(append(dst, manifestVersion), m.Index)
	dst = be.AppendUint64(dst, m.Term)
	dst = be.AppendUint64(dst, uint64(m.Next))
	dst = be.AppendUint64(dst, uint64(m.LogStart))
	dst = be.AppendUint32(dst, uint32(len(m.Segments)))
	for _, s := range m.Segments {
		dst = be.AppendUint64(dst, uint64(s.Base))
		dst = be.AppendUint64(dst, uint64(s.Next))
		dst = be.AppendUint64(dst, uint64(s.Size))
	}
	dst = be.AppendUint32(dst, uint32(len(m.Epochs)))
	for _, e := range m.Epochs {
		dst = be.AppendUint32(dst, uint32(e.Epoch))
		dst = be.AppendUint64(dst, uint64(e.Start))
	}
	dst = be.AppendUint32(dst, uint32(len(m.Producers)))
	return append(dst, m.Producers...)
}

// ParseManifest reads what Append wrote; Producers aliases b. Anything else is marked as corrupt.
func ParseManifest(b []byte) (*Manifest, error) {
	be := binary.BigEndian
	if len(b) < manifestHead || b[0] != manifestVersion {
		return nil, kafkaproto.Corruptf("%d bytes are no manifest of a snapshot", len(b))
	}
	m := &Manifest{
		Index: be.Uint64(b[1:]), Term: be.Uint64(b[9:]),
		Next: kafkaproto.Offset(be.Uint64(b[17:])), LogStart: kafkaproto.Offset(be.Uint64(b[25:])),
	}
	b = b[manifestHead:]
	// list takes the count of a list whose elements have size bytes: it proves that they are there.
	list := func(size int) (n int, ok bool) {
		if len(b) < 4 {
			return 0, false
		}
		count := uint64(be.Uint32(b))
		b = b[4:]
		return int(count), count*uint64(size) <= uint64(len(b))
	}
	n, ok := list(24)
	for ; ok && n > 0; n, b = n-1, b[24:] {
		m.Segments = append(m.Segments, SnapshotSegment{Base: kafkaproto.Offset(be.Uint64(b)),
			Next: kafkaproto.Offset(be.Uint64(b[8:])), Size: int64(be.Uint64(b[16:]))})
	}
	if ok {
		n, ok = list(12)
	}
	for ; ok && n > 0; n, b = n-1, b[12:] {
		m.Epochs = append(m.Epochs, segment.EpochStart{Epoch: kafkaproto.LeaderEpoch(be.Uint32(b)),
			Start: kafkaproto.Offset(be.Uint64(b[4:]))})
	}
	if ok {
		n, ok = list(1)
	}
	if !ok || n != len(b) {
		return nil, kafkaproto.Corruptf("a manifest of a snapshot is cut short, or longer than it says")
	}
	m.Producers = b
	return m, m.check()
}

// check refuses what no log gives.
func (m *Manifest) check() error {
	if m.Index == 0 || m.Index == math.MaxUint64 || m.Term > math.MaxInt32 || m.LogStart < 0 ||
		m.LogStart > m.Next {
		return kafkaproto.Corruptf("snapshot of entry %d, term %d, offsets %d to %d", m.Index, m.Term,
			m.LogStart, m.Next)
	}
	at := kafkaproto.Offset(0)
	for _, s := range m.Segments {
		if s.Base < at || s.Next < s.Base || s.Next > m.Next || s.Next-s.Base > 1<<31 || s.Base >= m.Next ||
			(s.Size == 0) != (s.Next == s.Base) || s.Size < 0 || s.Size > segment.MaxSize {
			return kafkaproto.Corruptf("snapshot with a segment %+v behind offset %d", s, at)
		}
		at = max(s.Next, s.Base+1)
	}
	epoch, start := kafkaproto.LeaderEpoch(-1), kafkaproto.Offset(0)
	for _, e := range m.Epochs {
		if e.Epoch <= epoch || uint64(e.Epoch) > m.Term || e.Start < start || e.Start > m.Next {
			return kafkaproto.Corruptf("snapshot with leader epoch %d at %d", e.Epoch, e.Start)
		}
		epoch, start = e.Epoch, e.Start
	}
	return nil
}

// Export is a snapshot that is being shipped. Until Close is called neither retention nor compaction
// takes anything from the log.
type Export struct {
	// Snapshot is what the MsgSnap to the follower must carry in the place of the one raft made, which
	// may be older. The leader's raft is content with any index from the one it asked for on.
	Snapshot pb.Snapshot
	Manifest Manifest

	l    *Log
	segs []*segment.Segment
}

// Export gives everything that is committed, as files. raft.ErrSnapshotTemporarilyUnavailable: a
// configuration change waits to be applied.
func (l *Log) Export() (*Export, error) {
	if err := l.Offline(); err != nil {
		return nil, err
	}
	l.dirMu.Lock() // no file is on its way out
	defer l.dirMu.Unlock()
	if err := l.Offline(); err != nil {
		return nil, err
	}
	for range exportTries {
		e, err := l.export()
		if err != nil || e != nil {
			return e, err
		}
	}
	return nil, raft.ErrSnapshotTemporarilyUnavailable
}

// exportTries is how often Export looks for a moment in which nothing is committed.
const exportTries = 100

// export tries once: nil when entries were committed meanwhile, so that the state of producers does not
// fit. The caller holds dirMu.
func (l *Log) export() (*Export, error) {
	if !l.raft.on.Load() {
		return nil, fmt.Errorf("export %s: it is in its solo form", l.tp)
	}
	snap, err := l.RaftStorage().Snapshot()
	if err != nil {
		return nil, err
	}
	ref, err := ParseSnapshotRef(snap.Data)
	if err != nil {
		return nil, err
	}
	producers, err := l.producersAt(ref.Next)
	if producers == nil || err != nil {
		return nil, err
	}
	e := &Export{Snapshot: snap, l: l, Manifest: Manifest{
		Index: snap.Metadata.Index, Term: snap.Metadata.Term, Next: ref.Next, LogStart: ref.LogStart,
		Producers: producers,
	}}
	for _, ep := range l.keptEpochs() {
		if uint64(ep.Epoch) <= e.Manifest.Term && ep.Start <= ref.Next {
			e.Manifest.Epochs = append(e.Manifest.Epochs, ep)
		}
	}
	// The segment with the log start goes along even if nothing is left in it: its name is where reading
	// begins.
	segs := *l.segs.Load()
	for i, seg := range segs[max(segmentAt(segs, ref.LogStart), 0):] {
		s := SnapshotSegment{Base: seg.BaseOffset(), Next: seg.NextOffset(), Size: seg.Size()}
		if s.Base >= ref.Next || s.Size == 0 && i > 0 {
			continue
		}
		if s.Size == 0 {
			s.Next = s.Base
		}
		if s.Next > ref.Next {
			s.Next = ref.Next
			if s.Size, err = seg.Lookup(ref.Next); err != nil {
				return nil, l.readFailed(fmt.Errorf("export: %w", err))
			}
		}
		e.Manifest.Segments, e.segs = append(e.Manifest.Segments, s), append(e.segs, seg)
	}
	l.pins.Add(1)
	return e, nil
}

// producersAt encodes the producer state as it was when the log ended at off; nil: more is committed.
func (l *Log) producersAt(off kafkaproto.Offset) ([]byte, error) {
	l.mu.Lock()
	l.prod.Lock()
	committed := l.prod.state.Committed()
	b := l.prod.state.Snapshot(max(l.raft.reserved, l.EndOffset()))
	l.prod.Unlock()
	l.mu.Unlock()
	if committed > off {
		return nil, nil
	}
	state, _, err := producer.Load(b, producer.Options{MaxProducers: math.MaxInt32})
	if err != nil {
		return nil, fmt.Errorf("export producer state of %s: %w", l.tp, err)
	}
	state.Truncate(off)
	state.Commit(off)
	return state.Snapshot(off), nil
}

// ReadAt reads bytes of Manifest.Segments[i], as io.ReaderAt does. segment.ErrGone: the log was deleted,
// or another snapshot replaced it.
func (e *Export) ReadAt(i int, p []byte, pos int64) (int, error) {
	s := e.Manifest.Segments[i]
	if pos < 0 || pos > s.Size {
		return 0, fmt.Errorf("read snapshot of %s: position %d of %d", e.l.tp, pos, s.Size)
	}
	n := int(min(int64(len(p)), s.Size-pos))
	if n == 0 {
		return 0, nil
	}
	return e.segs[i].ReadAt(p[:n], pos)
}

// Close lets retention and compaction go on. It may be called again.
func (e *Export) Close() {
	if e.l != nil {
		e.l.pins.Add(-1)
		e.l = nil
	}
}
