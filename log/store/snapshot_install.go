package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

// InstallSnapshot puts the files of a snapshot in the place of the log (ruling 8):
//
//  1. Staging.Finish has checked and synced them, as .swap.
//  2. The journal says durably: SNAP, with the log start and the configuration, the synced mark of the
//     new log, and which files are swapped.
//  3. Readers and the writer find the new segments.
//  4. The old files become .deleted, the new ones get their names, the directory is synced.
//  5. The journal says that the swap is done, and the old files go.
//
// A crash before 2 leaves .swap files, which the next start removes; one behind it is finished by the
// next start (finishSnapshot).
//
// It is called when raft hands the snapshot to its append thread (MsgStorageAppend.Snapshot), never
// before Step(MsgSnap): raft takes a log that has the entry already for one that needs no snapshot.
// Everything is durable when it returns, its ticket included.
func (l *Log) InstallSnapshot(snap pb.Snapshot, s *Staging) (Ticket, error) {
	meta := snap.Metadata
	if s.l != l || s.used || len(s.segs) != len(s.m.Segments)+1 || meta.Index != s.m.Index ||
		meta.Term != s.m.Term {
		return 0, fmt.Errorf("install snapshot of entry %d in %s: staged is entry %d", meta.Index, l.tp, s.m.Index)
	}
	if err := l.Offline(); err != nil {
		return 0, err
	}
	l.dirMu.Lock()
	t, old, err := l.installLocked(meta, s)
	if err == nil {
		err = l.placeSnapshot(s, old)
	}
	l.dirMu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("install snapshot in %s: %w", l.tp, err)
	}
	l.store.cleaner.forget(l.tp)
	l.tell(Event{Kind: StartMoved, Offset: l.StartOffset()})
	l.tell(Event{Kind: Synced, Offset: l.SyncedOffset(), Ticket: t})
	return t, nil
}

// installLocked makes the journal and the memory those of the snapshot, and gives the old segments. The
// caller holds dirMu.
func (l *Log) installLocked(meta pb.SnapshotMetadata, s *Staging) (Ticket, []*segment.Segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.shut != nil:
		return 0, nil, l.mu.shut
	case l.store.Err() != nil:
		return 0, nil, l.store.Err()
	case !l.raft.on.Load():
		return 0, nil, errors.New("it is in its solo form")
	case meta.Index <= l.raft.commit.Load():
		return 0, nil, fmt.Errorf("entry %d is committed, the snapshot ends with %d", l.raft.commit.Load(), meta.Index)
	}
	old := *l.segs.Load()
	if err := l.store.journalCommit(l.snapshotRecords(meta, s, old)); err != nil {
		return 0, nil, err
	}
	s.used = true
	l.staging.Store(false)
	l.takeSnapshotFiles(s, old)
	return l.raft.ticket, old, nil
}

// snapshotRecords is what the journal must hold before the first file moves. Swaps that are still open
// are finished: one whose end could not be written must not touch the files that come.
func (l *Log) snapshotRecords(meta pb.SnapshotMetadata, s *Staging, old []*segment.Segment) []journal.Record {
	g, ok := l.store.journal.Group(l.id)
	if !ok {
		g = &journal.GroupState{}
	}
	intent := journal.SwapIntent{ID: nextSwap(g), Kind: journal.SwapSnapshot}
	for _, seg := range s.segs {
		intent.Add = append(intent.Add, segmentName(seg.BaseOffset()))
	}
	for _, seg := range old {
		intent.Remove = append(intent.Remove, segmentName(seg.BaseOffset()))
	}
	var bodies []journal.Body
	for _, open := range g.Swaps {
		bodies = append(bodies, journal.SwapDone{ID: open.ID})
	}
	bodies = append(bodies, journal.Snap{Index: meta.Index, Term: meta.Term, NextOffset: s.m.Next,
		LogStart: s.m.LogStart, Conf: confFromRaft(meta.ConfState)}, s.mark(), intent)
	recs := make([]journal.Record, len(bodies))
	for i, b := range bodies {
		recs[i] = journal.Record{Group: l.id, Body: b}
	}
	return recs
}

// mark is the synced mark of the log that the snapshot makes.
func (s *Staging) mark() journal.Synced {
	return journal.Synced{Offset: s.m.Next, Index: s.m.Index, Segment: s.m.Next}
}

// takeSnapshotFiles puts the staged segments and state in the place of the log's. The caller holds mu.
func (l *Log) takeSnapshotFiles(s *Staging, old []*segment.Segment) {
	m, r := &l.mu, &l.raft
	l.refreshView()
	l.store.janitor.forgetSeals(old)
	l.setSegs(s.segs)
	clear(m.rolledMs)
	m.active, m.unsynced, m.dirDirty, m.checkpoint = s.segs[len(s.segs)-1], nil, false, 0
	m.createdMs, m.appendedMs = l.store.nowMs(), l.store.nowMs()
	m.lastIndex, m.lastNoop, m.mark = s.m.Index, 0, s.mark()
	r.cuts++
	r.ring.clear()
	r.last.Store(s.m.Index)
	r.commit.Store(s.m.Index)
	r.reserved, r.reservedTerm = s.m.Next, 0
	r.told = l.ticketLocked()
	r.pos = l.store.journal.SyncedPos()
	r.sidePos = r.pos

	l.prod.Lock()
	l.prod.state = s.state
	l.publishTxnLocked()
	l.prod.Unlock()
	last := int64(-1)
	for _, seg := range s.segs {
		if list, err := seg.Aborted(); err == nil && len(list) > 0 {
			last = int64(list[len(list)-1].LastOffset)
		}
	}
	l.lastAborted.Store(last)
	l.sidecarAt.Store(int64(s.m.Next))
	epochs := s.m.Epochs
	l.epochs.Store(&epochs)
	l.epochsSynced = &epochs
	l.store.janitor.epochs(l)
	l.term.Store(int32(s.m.Term))
	l.start.Store(max(l.start.Load(), int64(s.m.LogStart), int64(s.segs[0].BaseOffset())))
	l.end.Store(int64(s.m.Next))
	l.synced.Store(int64(s.m.Next))
	l.hw.Store(int64(s.m.Next))
}

// placeSnapshot gives the files their names. When that fails the log is out of use, and the next start
// goes on with it. The caller holds dirMu.
func (l *Log) placeSnapshot(s *Staging, old []*segment.Segment) error {
	var errs []error
	for _, seg := range old {
		errs = append(errs, seg.Delete())
	}
	for _, seg := range s.segs {
		errs = append(errs, seg.Rename(""))
	}
	errs = append(errs, l.placeBeside(s.m.Next))
	err := errors.Join(errs...)
	if err == nil {
		err = l.store.fs.SyncDir(l.dir)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errSwapped, err)
		l.goOffline(fmt.Errorf("install snapshot in %s: %w", l.tp, err))
		return err
	}
	g, _ := l.store.journal.Group(l.id)
	var done []journal.Record
	for _, intent := range g.Swaps {
		done = append(done, journal.Record{Group: l.id, Body: journal.SwapDone{ID: intent.ID}})
	}
	// Durable before a file of one of these names is written again.
	if err := l.store.journalCommit(done); err != nil {
		l.goOffline(fmt.Errorf("install snapshot in %s: %w", l.tp, err))
		return err
	}
	for _, seg := range old {
		if err := seg.Remove(); err != nil {
			l.store.log.Warn("remove what a snapshot has replaced", "partition", l.tp.String(), "error", err)
		}
	}
	return nil
}

// placeBeside puts the staged files beside the segments in place: the producer state at next, which is the
// only one afterwards, and the leader epochs. Doing it again finishes what a crash has left.
func (l *Log) placeBeside(next kafkaproto.Offset) error {
	fsys := l.store.fs
	ours := sidecarName(next, sidecarExt)
	for _, ext := range []string{sidecarExt, snapshotExt} {
		ends, err := l.listSidecars(ext)
		if err != nil {
			return err
		}
		for _, end := range ends {
			if name := sidecarName(end, ext); name != ours {
				if err := removeIfThere(fsys, path.Join(l.dir, name)); err != nil {
					return err
				}
			}
		}
	}
	for _, name := range []string{ours, windowEpochs} {
		at := path.Join(l.dir, name)
		err := fsys.Rename(at+segment.Swap, at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it has its name
			return err
		}
	}
	return nil
}

// finishSnapshot does what a crash left undone of an install whose intent is in the journal.
func (r *logRecovery) finishSnapshot(intent journal.SwapIntent) error {
	add, err := r.removeSwapped(intent)
	if err != nil {
		return err
	}
	for _, base := range add {
		if err := r.placeSegment(base, segment.Swap); err != nil {
			return err
		}
	}
	return r.l.placeBeside(r.g.Window.FirstOffset)
}
