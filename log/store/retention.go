package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

func (s *Store) nowMs() int64 { return clock.Millis(s.clock.Now()) }

// retain deletes what is too old or too much, in every log.
func (s *Store) retain(now time.Time) {
	for _, l := range s.Logs() {
		if err := l.retain(clock.Millis(now)); err != nil {
			s.log.Warn("retention", "partition", l.tp.String(), "error", err)
		}
	}
}

// retain deletes the log's old segments, and forgets producers that are long gone. The active
// segment is rolled first when it is to go as well (ruling 15).
func (l *Log) retain(nowMs int64) error {
	if l.Offline() != nil {
		return nil
	}
	l.prod.Lock()
	l.prod.state.Expire(nowMs)
	l.prod.Unlock()
	if l.raft.on.Load() {
		if due := l.startDue(nowMs); due > l.StartOffset() {
			l.tell(Event{Kind: StartDue, Offset: due}) // the leader's engine proposes it (ruling 15)
		}
	}
	n := l.deletable(nowMs)
	if l.pins.Load() > 0 {
		return nil // a snapshot of it is being shipped
	}
	if n > 0 && n == len(*l.segs.Load()) {
		if err := l.Roll(); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	// A mark that points into a segment that goes would be worthless: sync, and write a new one.
	if err := l.Flush(); err != nil {
		return err
	}
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	return l.deleteSegments(nowMs)
}

// deletable counts the segments at the front that may go, the active one included.
func (l *Log) deletable(nowMs int64) int {
	c, segs := l.config.Load(), *l.segs.Load()
	start, hw := l.StartOffset(), l.HighWatermark()
	excess := l.Size() - c.RetentionBytes
	n := 0
	leaders := l.raft.on.Load() // then what is too old or too much is the leader's to say
	for i, seg := range segs {
		last := i == len(segs)-1
		if seg.NextOffset() > hw || last && seg.Size() == 0 {
			break
		}
		below := !last && segs[i+1].BaseOffset() <= start
		old := c.Delete && c.RetentionAge > 0 &&
			nowMs-l.segmentTime(seg) > c.RetentionAge.Milliseconds()
		much := c.Delete && c.RetentionBytes > 0 && excess >= seg.Size()
		if !below && (leaders || !old && !much) {
			break
		}
		excess -= seg.Size()
		n++
	}
	return n
}

// startDue is where the log of a replicated partition would begin if what is too old or too much were
// gone.
func (l *Log) startDue(nowMs int64) kafkaproto.Offset {
	c, due, hw := l.config.Load(), l.StartOffset(), l.HighWatermark()
	excess := l.Size() - c.RetentionBytes
	for _, seg := range *l.segs.Load() {
		old := c.RetentionAge > 0 && nowMs-l.segmentTime(seg) > c.RetentionAge.Milliseconds()
		much := c.RetentionBytes > 0 && excess >= seg.Size()
		if !c.Delete || seg.NextOffset() > hw || seg.Size() == 0 || !old && !much {
			break
		}
		excess -= seg.Size()
		due = max(due, seg.NextOffset())
	}
	return due
}

// segmentTime is the age by which a segment is kept: its largest timestamp, or when it was last
// written to by the broker's clock where that is earlier: clients' clocks may lie ahead (ruling
// 15).
func (l *Log) segmentTime(seg *segment.Segment) int64 {
	written := int64(-1)
	l.mu.Lock()
	if ms, ok := l.mu.rolledMs[seg]; ok {
		written = ms
	} else if seg == l.mu.active {
		written = l.mu.appendedMs
	}
	l.mu.Unlock()
	if written < 0 {
		if st, err := l.store.fs.Stat(seg.Path()); err == nil && !st.ModTime().IsZero() {
			written = st.ModTime().UnixMilli()
		}
	}
	largest, _ := seg.LargestTimestamp()
	switch {
	case largest < 0 && written < 0:
		return l.store.nowMs()
	case largest < 0 || written >= 0 && written < largest:
		return written
	}
	return largest
}

// deleteSegments removes the segments at the front that may go. The window and the log start are
// durable before the first file goes (ruling 15). The caller holds dirMu.
func (l *Log) deleteSegments(nowMs int64) error {
	n := l.deletable(nowMs)
	l.mu.Lock()
	segs := *l.segs.Load()
	n = min(n, len(segs)-1)
	if n <= 0 || l.mu.shut != nil || l.pins.Load() > 0 {
		l.mu.Unlock()
		return nil
	}
	kept := segs[n]
	start := max(l.StartOffset(), kept.BaseOffset())
	recs := l.windowLocked(kept, start)
	l.mu.Unlock()
	if recs == nil {
		return nil
	}
	if err := l.commitWindow(recs); err != nil {
		return err
	}
	moved := l.raiseStart(start)
	l.mu.Lock()
	segs = *l.segs.Load()
	gone := segs[:n:n]
	l.setSegs(append([]*segment.Segment(nil), segs[n:]...))
	for _, seg := range gone {
		delete(l.mu.rolledMs, seg)
	}
	l.mu.Unlock()
	if moved {
		l.tell(Event{Kind: StartMoved, Offset: start})
	}
	var errs []error
	for _, seg := range gone {
		errs = append(errs, seg.Delete(), seg.Remove())
	}
	l.store.log.Info("deleted segments", "partition", l.tp.String(), "segments", n, "start",
		int64(start))
	return errors.Join(errs...)
}

// commitWindow makes recs, of windowLocked, durable, and before them what the journal forgets with
// them. The caller holds dirMu.
func (l *Log) commitWindow(recs []journal.Record) error {
	if err := l.syncEpochs(); err != nil {
		return err
	}
	if err := l.store.journalCommit(recs); err != nil {
		return err
	}
	l.refreshView()
	return nil
}

// raiseStart moves the log start up; false when it is there already.
func (l *Log) raiseStart(start kafkaproto.Offset) bool {
	for {
		old := l.start.Load()
		if int64(start) <= old {
			return false
		}
		if l.start.CompareAndSwap(old, int64(start)) {
			l.store.janitor.epochs(l) // the first kept epoch begins at the start
			return true
		}
	}
}

// windowLocked gives the records that let raft's window begin at seg, with the newest synced mark;
// nil when it may not begin there now, since what lies below is not known to be committed and applied.
// start, when above zero, is the new log start. The caller holds mu.
func (l *Log) windowLocked(seg *segment.Segment, start kafkaproto.Offset) []journal.Record {
	g, ok := l.store.journal.Group(l.id)
	if !ok {
		return nil
	}
	w := g.Window
	w.FirstIndex, w.LogStart = g.FirstIndex(), start
	if seg.BaseOffset() > w.FirstOffset {
		w.FirstOffset = seg.BaseOffset()
		if w.FirstIndex = seg.BaseIndex(); seg.Size() == 0 {
			w.FirstIndex = l.mu.lastIndex + 1
		}
		if l.raft.on.Load() && w.FirstIndex > l.raft.commit.Load()+1 {
			// Side entries in front of seg may still be cut off: the window begins with the first.
			w.FirstIndex = l.raft.commit.Load() + 1
			if side, ok := sideAt(g, w.FirstIndex); !ok || side.AtOffset < seg.BaseOffset() {
				return nil
			}
		}
		w.Term, _ = g.TermAt(w.FirstIndex - 1)
	}
	if l.raft.on.Load() && w.FirstIndex-1 > confAppliedTo(g) {
		return nil
	}
	recs := []journal.Record{{Group: l.id, Body: w}}
	if m := l.mu.mark; m != (journal.Synced{}) && m != g.Synced {
		recs = append(recs, journal.Record{Group: l.id, Body: m})
	}
	return recs
}

// DeleteRecords moves the log start up to to, durably (row 46). It is a side entry of the raft log,
// and so holds up appends until the journal is synced (R1). Segments below go later.
func (l *Log) DeleteRecords(to kafkaproto.Offset) error {
	if err := l.Offline(); err != nil {
		return err
	}
	if to <= l.StartOffset() {
		return nil
	}
	if to > l.EndOffset() {
		return kafkaproto.Faultf(kerr.OffsetOutOfRange,
			"cannot delete records of %s up to %d: it ends at %d",
			l.tp, to, l.EndOffset())
	}
	// The start must not outlive the records that it stands for.
	if err := l.Flush(); err != nil {
		return err
	}
	moved, err := l.logStartEntry(to)
	if err != nil {
		return fmt.Errorf("delete records of %s up to %d: %w", l.tp, to, err)
	}
	if moved {
		l.tell(Event{Kind: StartMoved, Offset: to})
		l.store.janitor.post(func() {
			if err := l.retain(l.store.nowMs()); err != nil {
				l.store.log.Warn("retention", "partition", l.tp.String(), "error", err)
			}
		})
	}
	return nil
}

func (l *Log) logStartEntry(to kafkaproto.Offset) (moved bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.shut != nil:
		return false, l.mu.shut
	case l.raft.on.Load():
		return false, ErrReplicated
	case !l.mu.started:
		return false, errors.New("no term has begun: call StartSolo first")
	}
	side := journal.Side{
		Index: l.mu.lastIndex + 1, Term: uint64(l.Term()), Kind: journal.SideLogStart,
		AtOffset: l.EndOffset(), Data: journal.LogStartData(to),
	}
	if err := l.store.journalCommit([]journal.Record{{Group: l.id, Body: side}}); err != nil {
		return false, err // not in the journal, or the whole directory has stopped
	}
	l.mu.lastIndex++
	return l.raiseStart(to), nil
}
