package store

import (
	"errors"
	"fmt"
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

// truncateFrom cuts the entry at index and all behind it off, which are not committed (R3):
//
//  1. TRUNC is durable, with the synced mark lowered.
//  2. Later segments go, the last one first; the one with the entry is cut and is active again.
//  3. The file and the directory are synced. Only then may anything be written.
//
// A crash between 1 and 3 leaves some of the old bytes; the next start finishes the cut, as the entry
// at index still has the term that TRUNC names.
func (l *Log) truncateFrom(index uint64) error {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.shut != nil {
		return l.mu.shut
	}
	g := l.raft.view.Load()
	if commit := l.raft.commit.Load(); index <= commit || index < g.FirstIndex() {
		panic(fmt.Sprintf("store: truncation of %s at %d, committed up to %d, window from %d", l.tp, index,
			commit, g.FirstIndex()))
	}
	oldTerm, _ := g.TermAt(index)
	off, err := l.startOfEntry(g, index)
	if err != nil {
		return l.readFailed(fmt.Errorf("truncate at %d: %w", index, err))
	}
	segs := *l.segs.Load()
	at := segmentAt(segs, off)
	pos := segs[at].Size()
	if off < segs[at].NextOffset() {
		if pos, err = segs[at].Lookup(off); err != nil {
			return l.readFailed(fmt.Errorf("truncate at %d: %w", index, err))
		}
	}
	end := journal.Synced{Offset: off, Index: index - 1, Segment: segs[at].BaseOffset(), Position: pos}
	if err := l.recordTrunc(g, journal.Trunc{Index: index, OldTerm: oldTerm}, end); err != nil {
		return err
	}
	l.cutMemoryLocked(index, end)
	if err := l.cutFilesLocked(segs, at, pos); err != nil {
		return fmt.Errorf("%w: truncate at %d: %w", segment.ErrBroken, index, err)
	}
	return nil
}

// lowered is the mark for a log that is cut back to end. One that speaks of no more bytes than are
// left keeps its place: the segment that end names may be newer than the last sync.
func lowered(mark, end journal.Synced) journal.Synced {
	switch {
	case mark.Index <= end.Index:
		return mark
	case mark.Offset <= end.Offset:
		mark.Index = end.Index
		return mark
	}
	return end
}

// recordTrunc is the first step. A mark that speaks of what goes away is lowered in the same breath.
func (l *Log) recordTrunc(g *journal.GroupState, t journal.Trunc, end journal.Synced) error {
	recs := []journal.Record{{Group: l.id, Body: t}}
	if g.Synced.Index >= t.Index {
		recs = append(recs, journal.Record{Group: l.id, Body: lowered(g.Synced, end)})
	}
	if l.store.o.knobs.off.truncFirst {
		_, err := l.store.journal.Append(recs...)
		return err
	}
	return l.store.journalCommit(recs)
}

// cutMemoryLocked lowers what the writer and readers go by.
func (l *Log) cutMemoryLocked(index uint64, end journal.Synced) {
	m, off := &l.mu, end.Offset
	l.refreshView()
	g := l.raft.view.Load()
	l.raft.cuts++
	l.raft.ring.cut(index)
	l.raft.last.Store(index - 1)
	m.lastIndex, m.lastNoop = index-1, 0
	for i := len(g.Sides) - 1; i >= 0 && m.lastNoop == 0; i-- {
		if g.Sides[i].Kind == journal.SideNoop {
			m.lastNoop = g.Sides[i].Index
		}
	}
	l.raft.reserved = max(l.raft.reserved, l.EndOffset())
	l.unreserveLocked(off)
	m.mark = lowered(m.mark, end)
	l.synced.Store(min(l.synced.Load(), int64(off)))
	l.end.Store(int64(off))
	l.term.Store(int32(g.LastTerm()))
	epochs := *l.epochs.Load()
	n := sort.Search(len(epochs), func(i int) bool { return uint64(epochs[i].Epoch) > g.LastTerm() })
	l.setEpochs(epochs[:n:n])
	if kafkaproto.Offset(l.hw.Load()) > off {
		panic(fmt.Sprintf("store: truncation of %s to offset %d, high watermark is %d", l.tp, off, l.hw.Load()))
	}
}

// cutFilesLocked cuts segs[at] to pos and removes the segments behind it, and makes that durable.
func (l *Log) cutFilesLocked(segs []*segment.Segment, at int, pos int64) error {
	m, seg, gone := &l.mu, segs[at], segs[at+1:]
	l.store.janitor.forgetSeals(segs[at:])
	if seg.Size() == pos && len(gone) == 0 {
		return nil // only side entries went
	}
	l.setSegs(segs[: at+1 : at+1])
	m.active, m.checkpoint = seg, min(m.checkpoint, pos)
	keep := m.unsynced[:0:0]
	for _, s := range m.unsynced {
		if s.BaseOffset() < seg.BaseOffset() {
			keep = append(keep, s)
		}
	}
	m.unsynced = keep
	if ms, ok := m.rolledMs[seg]; ok {
		m.appendedMs, m.createdMs = ms, ms
	}
	var errs []error
	for i := len(gone) - 1; i >= 0; i-- {
		errs = append(errs, gone[i].Delete(), gone[i].Remove())
	}
	for _, s := range segs[at:] {
		delete(m.rolledMs, s)
	}
	if err := errors.Join(append(errs, seg.Truncate(pos), l.cutSidecarsLocked())...); err != nil {
		return err
	}
	if l.store.o.knobs.off.truncFirst {
		return nil
	}
	if err := errors.Join(seg.Sync(), l.store.fs.SyncDir(l.dir)); err != nil {
		return l.store.fail(fmt.Errorf("sync truncated log: %w", err))
	}
	return nil
}

// cutSidecarsLocked puts the producer state of the log's end in the place of those from behind it.
func (l *Log) cutSidecarsLocked() error {
	end := l.EndOffset()
	l.prod.Lock()
	sc := l.takeSnapshotLocked(end)
	l.prod.Unlock()
	return l.replaceSidecars(end, sc)
}
