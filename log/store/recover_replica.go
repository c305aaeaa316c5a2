package store

import (
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

// In its replicated form a log that was found may end in entries that are not committed. What is,
// the journal's commit index says, which may lag; raft learns the rest from the leader.

// mayStaySealed reports whether all of a segment is known to be committed, so that no conflict can
// reach it; a sealed one cannot be cut.
func (r *logRecovery) mayStaySealed(seg *segment.Segment) bool {
	if !replicated(r.g.Conf.State) || seg.BaseOffset() < r.g.Window.FirstOffset {
		return true
	}
	last := seg.LastIndex()
	return seg.Ready() && last > 0 && last <= provenCommit(r.g)
}

// commitIndex is the index of the last entry known to be committed: the last one in the solo form,
// where there is one voter.
func (r *logRecovery) commitIndex(after *journal.GroupState) uint64 {
	if !replicated(after.Conf.State) {
		return r.index
	}
	return clampCommit(after, provenCommit(after), r.index)
}

// setCommitted sets the high watermark behind the entry at index.
func (r *logRecovery) setCommitted(after *journal.GroupState, index uint64) error {
	if !replicated(after.Conf.State) {
		r.l.hw.Store(int64(r.end))
		return nil
	}
	hw, err := r.l.endOfPrefix(after, index, r.index)
	if err != nil {
		return err
	}
	r.l.hw.Store(int64(hw))
	return nil
}

// lastSide is the index of the last side entry in the journal.
func lastSide(g *journal.GroupState) uint64 {
	if n := len(g.Sides); n > 0 {
		return g.Sides[n-1].Index
	}
	return 0
}
