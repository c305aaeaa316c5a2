package store

import (
	"errors"
	"fmt"
	"sort"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/journal"
)

// RaftStorage is raft's view of a log in its replicated form:
//
//	index     ...  7      8       9      10      11     12
//	journal              noop                   conf             side entries
//	segments       [b]            [b]    [b]            [b]      one batch, one index
//	               |------ FirstIndex: the window, above what compaction and retention took
//
// Entries are descriptors. Term, FirstIndex and LastIndex never touch the disk; Entries does for
// what has left the ring. Methods take no lock of the writer, so raft may be asked while the log
// writes. An error that is neither raft.ErrCompacted nor raft.ErrUnavailable makes raft panic: the
// log is offline then, and its group must be taken out of use.
type RaftStorage struct{ l *Log }

var _ raft.Storage = (*RaftStorage)(nil)

// RaftStorage gives raft's view of the log; StartReplica must have been called.
func (l *Log) RaftStorage() *RaftStorage {
	if !l.raft.on.Load() {
		panic("store: " + l.tp.String() + " is not in its replicated form")
	}
	return &RaftStorage{l}
}

// InitialState gives term, vote and commit index, with the commit index clamped to what the log
// has: its own tail may be lost when the quorum did not need it, and raft panics on any other value.
func (s *RaftStorage) InitialState() (pb.HardState, pb.ConfState, error) {
	g := s.l.raft.view.Load()
	return pb.HardState{
		Term: max(g.HardState.Term, g.LastTerm()), Vote: g.HardState.Vote, Commit: s.commit(g),
	}, confToRaft(g.Conf.State), nil
}

func (s *RaftStorage) commit(g *journal.GroupState) uint64 {
	return clampCommit(g, max(provenCommit(g), s.l.raft.commit.Load()), s.l.raft.last.Load())
}

// provenCommit is how far the journal proves that entries are committed: a configuration is in force only
// behind the commit of its entry. The commit index itself may lag, and a voter that the configuration
// adds may need a snapshot, which the log gives only of committed entries, to commit anything more.
func provenCommit(g *journal.GroupState) uint64 { return max(g.HardState.Commit, g.Conf.Index) }

func clampCommit(g *journal.GroupState, commit, last uint64) uint64 {
	return min(max(commit, g.FirstIndex()-1), last)
}

// Applied is what raft.Config.Applied must be: committed entries up to there need no second look.
// It lies before the first configuration change that the stored configuration has not seen.
func (s *RaftStorage) Applied() uint64 {
	g := s.l.raft.view.Load()
	return min(confAppliedTo(g), s.commit(g))
}

// confAppliedTo is the index before the first configuration change that is not in the stored
// configuration; the highest index when there is none.
func confAppliedTo(g *journal.GroupState) uint64 {
	for _, side := range g.Sides {
		if side.Index > g.Conf.Index && (side.Kind == journal.SideConf || side.Kind == journal.SideConfV2) {
			return side.Index - 1
		}
	}
	return 1<<64 - 1
}

// FirstIndex is where the window begins.
func (s *RaftStorage) FirstIndex() (uint64, error) { return s.l.raft.view.Load().FirstIndex(), nil }

// LastIndex is the index of the last entry written.
func (s *RaftStorage) LastIndex() (uint64, error) { return s.l.raft.last.Load(), nil }

// Term is the term of the last no-op at or before index i.
func (s *RaftStorage) Term(i uint64) (uint64, error) {
	if i > s.l.raft.last.Load() {
		return 0, raft.ErrUnavailable
	}
	term, ok := s.l.raft.view.Load().TermAt(i)
	if !ok {
		return 0, raft.ErrCompacted
	}
	return term, nil
}

// Entries gives the entries of [lo, hi), at most maxSize bytes of them as raft counts, at least one.
// The slice and all data in it are the caller's.
func (s *RaftStorage) Entries(lo, hi, maxSize uint64) ([]pb.Entry, error) {
	l := s.l
	g := l.raft.view.Load()
	switch last := l.raft.last.Load(); {
	case lo < g.FirstIndex():
		return nil, raft.ErrCompacted
	case hi > last+1 || lo > hi || last < g.FirstIndex():
		return nil, raft.ErrUnavailable
	case lo == hi:
		return nil, nil
	}
	c := collector{g: g, max: maxSize, hi: hi}
	var spare [64]slot
	if slots, ok := l.raft.ring.get(spare[:0], lo, min(hi, lo+cap64(maxSize))); ok {
		for i, slot := range slots {
			if !c.take(lo+uint64(i), slot) {
				break
			}
		}
		return c.out, c.err
	}
	err := l.scanEntries(g, lo, hi, c.take)
	if err = errors.Join(err, c.err); err != nil {
		if g := l.raft.view.Load(); lo < g.FirstIndex() {
			return nil, raft.ErrCompacted // retention or compaction was here meanwhile
		}
		// raft cannot go on without its entries, and panics: the log stops, and only it (G19).
		err = l.readFailed(fmt.Errorf("entries %d to %d: %w", lo, hi-1, err))
		l.goOffline(err)
		return nil, err
	}
	return c.out, nil
}

// leastEntry is less than raft counts for a batch: its descriptor, term and index.
const leastEntry = descriptorSize + 4

// cap64 bounds how many entries maxSize bytes can be, with a few too many for side entries.
func cap64(maxSize uint64) uint64 { return min(maxSize/leastEntry, 1<<16) + 64 }

// collector makes raft's entries.
type collector struct {
	g         *journal.GroupState
	out       []pb.Entry
	size, max uint64
	hi        uint64 // the index behind the last entry that may come
	data      []byte // where descriptors are encoded, one behind the other
	err       error
}

// take adds the entry at index; false when that is enough.
func (c *collector) take(index uint64, s slot) bool {
	e := pb.Entry{Index: index, Type: pb.EntryNormal}
	if s.size == 0 {
		side, ok := sideAt(c.g, index)
		if !ok {
			c.err = fmt.Errorf("side entry %d is not in the journal", index)
			return false
		}
		e = raftEntry(side)
	} else {
		if cap(c.data)-len(c.data) < descriptorSize {
			c.data = make([]byte, 0, min(c.hi-index, 32)*descriptorSize)
		}
		at := len(c.data)
		c.data = Descriptor{Base: s.base, Span: s.span, Size: s.size}.Append(c.data)
		e.Data = c.data[at:len(c.data):len(c.data)]
		e.Term, _ = c.g.TermAt(index)
	}
	c.size += uint64(e.Size())
	if c.size > c.max && len(c.out) > 0 {
		return false
	}
	c.out = append(c.out, e)
	return true
}

// sideAt finds the side entry with this index.
func sideAt(g *journal.GroupState, index uint64) (journal.Side, bool) {
	i := sort.Search(len(g.Sides), func(i int) bool { return g.Sides[i].Index >= index })
	if i == len(g.Sides) || g.Sides[i].Index != index {
		return journal.Side{}, false
	}
	return g.Sides[i], true
}

// skipSides is the index of the last side entry that directly follows prev at or before off.
func skipSides(sides []journal.Side, prev uint64, off kafkaproto.Offset) uint64 {
	i := sort.Search(len(sides), func(i int) bool { return sides[i].Index > prev })
	for ; i < len(sides) && sides[i].Index == prev+1 && sides[i].AtOffset <= off; i++ {
		prev++
	}
	return prev
}

// scanEntries visits the entries of [lo, hi) in order, counting batches from the closest entry of
// .raftindex on and merging the side entries in. visit ends it with false. lo is in the window.
func (l *Log) scanEntries(g *journal.GroupState, lo, hi uint64, visit func(uint64, slot) bool) error {
	segs := *l.segs.Load()
	at := sort.Search(len(segs), func(i int) bool {
		return segs[i].BaseIndex() > lo
	}) - 1
	next, done := lo, false
	// sides visits the side entries from next up to, not including, index to.
	sides := func(to uint64) {
		for ; next < to && !done; next++ {
			if _, ok := sideAt(g, next); !ok {
				return
			}
			done = !visit(next, slot{})
		}
	}
	for at = max(at, 0); at < len(segs) && next < hi && !done; at++ {
		seg := segs[at]
		if seg.BaseIndex() == 0 || seg.Size() == 0 {
			continue
		}
		cur, pos := seg.BaseIndex(), int64(0)
		if p, ok, err := seg.LookupIndex(next); err != nil {
			return err
		} else if ok {
			cur, pos = p.Index, p.Pos
		}
		first := true
		_, err := seg.ScanHeaders(pos, func(h batch.Header, _ int64) error {
			if !first {
				cur = skipSides(g.Sides, cur, h.BaseOffset) + 1
			}
			first = false
			if cur < next {
				return nil
			}
			if sides(min(cur, hi)); done || next >= hi {
				return errStop
			}
			if next != cur {
				return kafkaproto.Corruptf("batch at offset %d has raft index %d, and %d is missing",
					h.BaseOffset, cur, next)
			}
			done = !visit(cur, slot{h.BaseOffset, uint32(h.LastOffsetDelta) + 1, uint32(h.Size())})
			next++
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
	}
	if sides(hi); next < hi && !done {
		return fmt.Errorf("entry %d is neither in the segments nor in the journal", next)
	}
	return nil
}

// startOfEntry is where the entry at index begins: the base offset of a batch, or the offset at
// which a side entry stands.
func (l *Log) startOfEntry(g *journal.GroupState, index uint64) (kafkaproto.Offset, error) {
	if side, ok := sideAt(g, index); ok {
		return side.AtOffset, nil
	}
	if slots, ok := l.raft.ring.get(nil, index, index+1); ok {
		return slots[0].base, nil
	}
	off := kafkaproto.Offset(-1)
	err := l.scanEntries(g, index, index+1, func(_ uint64, s slot) bool {
		off = s.base
		return true
	})
	return off, err
}

// Snapshot stands for everything that is committed: metadata and a reference to files. It is not
// available while a committed configuration change waits to be applied.
func (s *RaftStorage) Snapshot() (pb.Snapshot, error) {
	g := s.l.raft.view.Load()
	index := s.commit(g)
	if confAppliedTo(g) < index || g.Conf.Index > index {
		return pb.Snapshot{}, raft.ErrSnapshotTemporarilyUnavailable
	}
	term, ok := g.TermAt(index)
	if !ok {
		return pb.Snapshot{}, raft.ErrSnapshotTemporarilyUnavailable
	}
	next, err := s.l.endOfPrefix(g, index, s.l.raft.last.Load())
	if err != nil {
		return pb.Snapshot{}, s.l.readFailed(fmt.Errorf("snapshot at entry %d: %w", index, err))
	}
	ref := SnapshotRef{Next: next, LogStart: s.l.StartOffset()}
	return pb.Snapshot{Data: ref.Append(nil), Metadata: pb.SnapshotMetadata{
		Index: index, Term: term, ConfState: confToRaft(g.Conf.State)}}, nil
}

// endOfPrefix is the offset behind the entries up to index; last is the log's last entry.
func (l *Log) endOfPrefix(g *journal.GroupState, index, last uint64) (kafkaproto.Offset, error) {
	switch {
	case index >= last:
		return l.EndOffset(), nil
	case index+1 < g.FirstIndex():
		return 0, fmt.Errorf("entry %d lies below the window: %w", index, raft.ErrCompacted)
	}
	return l.startOfEntry(g, index+1)
}

func confToRaft(c journal.ConfState) pb.ConfState {
	return pb.ConfState{Voters: c.Voters, VotersOutgoing: c.VotersOutgoing, Learners: c.Learners,
		LearnersNext: c.LearnersNext, AutoLeave: c.AutoLeave}
}

func confFromRaft(c pb.ConfState) journal.ConfState {
	return journal.ConfState{Voters: c.Voters, VotersOutgoing: c.VotersOutgoing, Learners: c.Learners,
		LearnersNext: c.LearnersNext, AutoLeave: c.AutoLeave}
}

// replicated reports whether the configuration makes the log part of a group: without one it is in
// its solo form, where what is on disk is committed.
func replicated(c journal.ConfState) bool {
	return len(c.Voters)+len(c.VotersOutgoing)+len(c.Learners)+len(c.LearnersNext) > 0
}
