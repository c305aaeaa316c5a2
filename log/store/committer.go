package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

const (
	// markEvery is how often synced marks go into the journal while syncs run (ruling 4).
	markEvery = 250 * time.Millisecond
	// markSync is how much later the journal is synced for them at the latest.
	markSync = time.Second
	// fewFiles is up to how many files are synced one by one.
	fewFiles = 2
)

// committer makes logs durable in groups: one sync covers every log that was written to while the
// sync before it ran. Nothing but the end of that sync starts the next one.
type committer struct {
	s    *Store
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu struct {
		sync.Mutex
		queue   []*Log
		relaxed []*Log
		waiters []chan error
	}

	// Only the goroutine uses what follows.
	spare    []*Log
	targets  []target
	plan     syncPlan
	chooser  chooser
	marks    []*Log // synced further than their mark in the journal says
	lastMark time.Time
	unsynced time.Time // when the oldest mark was written that no sync has covered; zero: none
	timer    clock.Timer
}

// target is how far one log will be synced when the round ends.
type target struct {
	log    *Log
	end    kafkaproto.Offset
	mark   journal.Synced
	rolled []*segment.Segment
	dir    bool
	ticket Ticket
	cuts   uint64
}

func newCommitter(s *Store) *committer {
	return &committer{
		s: s, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

func (c *committer) start() { go c.run() }

// close runs the last round and ends the goroutine.
func (c *committer) close() {
	close(c.stop)
	<-c.done
}

func (c *committer) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// enqueue asks for a sync of the log.
func (c *committer) enqueue(l *Log) {
	if !l.queued.CompareAndSwap(false, true) {
		return
	}
	c.mu.Lock()
	c.mu.queue = append(c.mu.queue, l)
	c.mu.Unlock()
	if !c.s.o.knobs.manual {
		c.kick()
	}
}

// enqueueRelaxed notes a log that the next background sync takes along.
func (c *committer) enqueueRelaxed(l *Log) {
	c.mu.Lock()
	c.mu.relaxed = append(c.mu.relaxed, l)
	c.mu.Unlock()
}

// background queues every relaxed log that was written to since its last sync.
func (c *committer) background() {
	c.mu.Lock()
	logs := c.mu.relaxed
	c.mu.relaxed = nil
	c.mu.Unlock()
	for _, l := range logs {
		c.enqueue(l)
	}
}

// flush syncs the log and waits for it.
func (c *committer) flush(l *Log) error {
	done := make(chan error, 1)
	c.mu.Lock()
	if l.queued.CompareAndSwap(false, true) {
		c.mu.queue = append(c.mu.queue, l)
	}
	// When the log is queued already, the round that takes it looks at its end after this.
	c.mu.waiters = append(c.mu.waiters, done)
	c.mu.Unlock()
	c.kick()
	select {
	case err := <-done:
		return err
	case <-c.done:
		select {
		case err := <-done:
			return err
		default:
			return ErrClosed
		}
	}
}

func (c *committer) run() {
	defer close(c.done)
	for stopping := false; !stopping; {
		select {
		case <-c.wake:
		case <-c.stop:
			stopping = true
			c.background()
		}
		c.round()
	}
	if c.timer != nil {
		c.timer.Stop()
	}
}

// round syncs what is queued and tells the observers.
func (c *committer) round() {
	c.mu.Lock()
	logs, waiters := c.mu.queue, c.mu.waiters
	c.mu.queue, c.mu.waiters = c.spare[:0], nil
	c.mu.Unlock()
	err := c.s.Err()
	if err == nil {
		err = c.sync(logs)
	}
	for i := range logs {
		logs[i] = nil
	}
	c.spare = logs
	for _, w := range waiters {
		w <- err
	}
}

func (c *committer) sync(logs []*Log) error {
	c.targets = c.targets[:0]
	c.plan.reset()
	for _, l := range logs {
		l.queued.Store(false)
		l.relaxed.Store(false)
		if t, ok := l.syncTarget(&c.plan); ok {
			c.targets = append(c.targets, t)
		}
	}
	if err := c.writeMarks(); err != nil {
		return err
	}
	if err := c.chooser.sync(c.s, &c.plan); err != nil {
		for i := range c.targets {
			c.targets[i] = target{}
		}
		return c.s.fail(fmt.Errorf("sync: %w", err))
	}
	if c.plan.covered {
		c.unsynced = time.Time{}
	}
	for i := range c.targets {
		c.finish(&c.targets[i])
		c.targets[i] = target{}
	}
	c.arm()
	return nil
}

// finish publishes what the sync has covered.
func (c *committer) finish(t *target) {
	l := t.log
	l.mu.Lock()
	cut := t.cuts != l.raft.cuts
	moved := !cut && l.syncedLocked(t)
	if moved && l.mu.mark != t.mark {
		l.mu.mark = t.mark
		if !l.mu.markQueued {
			l.mu.markQueued = true
			c.marks = append(c.marks, l)
		}
	}
	l.mu.Unlock()
	switch {
	case cut: // what was synced is gone, or not all that is there
		c.enqueue(l)
	case moved:
		l.tell(Event{Kind: Synced, Offset: t.end, Ticket: t.ticket})
	}
}

// writeMarks writes the marks of earlier rounds to the journal, when it is time. They ride on this
// round's sync if that covers the journal, and have their own otherwise, a second later.
func (c *committer) writeMarks() error {
	now := c.s.clock.Now()
	if len(c.marks) > 0 && now.Sub(c.lastMark) >= markEvery {
		recs := make([]journal.Record, 0, len(c.marks))
		for i, l := range c.marks {
			l.mu.Lock()
			l.mu.markQueued = false
			if l.mu.shut == nil {
				recs = append(recs, l.markRecordsLocked()...)
			}
			l.mu.Unlock()
			c.marks[i] = nil
		}
		c.marks, c.lastMark = c.marks[:0], now
		if len(recs) > 0 {
			// A full disk costs time at the next start, no more.
			if _, err := c.s.journal.Append(recs...); err != nil {
				c.s.log.Warn("write synced marks", "error", err)
			} else if c.unsynced.IsZero() {
				c.unsynced = now
			}
		}
	}
	c.plan.journal = c.plan.journal || !c.unsynced.IsZero() && now.Sub(c.unsynced) >= markSync
	return nil
}

// arm sees to it that marks are written and synced when no round comes for other reasons.
func (c *committer) arm() {
	if len(c.marks) == 0 && c.unsynced.IsZero() || c.s.o.knobs.manual {
		return
	}
	if c.timer == nil {
		c.timer = c.s.clock.AfterFunc(markSync, c.kick)
	} else {
		c.timer.Reset(markSync)
	}
}

// syncTarget notes in the plan what must be synced for the log; false: nothing.
func (l *Log) syncTarget(p *syncPlan) (target, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.mu
	t := target{log: l, end: l.EndOffset(), rolled: m.unsynced, dir: m.dirDirty,
		ticket: l.raft.ticket, cuts: l.raft.cuts}
	record := l.raft.pos > l.store.journal.SyncedPos()
	if m.shut != nil || m.active == nil || t.end == l.SyncedOffset() && len(t.rolled) == 0 &&
		!t.dir && !record && t.ticket == l.raft.told {
		return t, false
	}
	t.mark = l.markLocked()
	m.unsynced, m.dirDirty = nil, false
	p.journal = p.journal || record
	p.segments = append(p.segments, t.rolled...)
	if m.active.Size() > 0 && t.end > l.SyncedOffset() {
		p.segments = append(p.segments, m.active)
	}
	if t.dir {
		p.dirs = append(p.dirs, l.dir)
	}
	return t, true
}

// markLocked is the mark for everything written so far. The caller holds mu.
func (l *Log) markLocked() journal.Synced {
	m := &l.mu
	return journal.Synced{
		Offset: l.EndOffset(), Index: m.lastIndex, Segment: m.active.BaseOffset(),
		Position: m.active.Size(),
	}
}

// syncedLocked moves the synced offset up. The caller holds mu.
func (l *Log) syncedLocked(t *target) bool {
	if l.mu.shut != nil || int64(t.end) < l.synced.Load() {
		return false
	}
	moved := int64(t.end) > l.synced.Load()
	l.synced.Store(int64(t.end))
	moved = moved || t.ticket > l.raft.told
	l.raft.told = t.ticket
	return moved || len(t.rolled) > 0 || t.dir
}

// markRecordsLocked is the newest mark, and with it how far entries are committed: that needs no
// sync of its own. The caller holds mu.
func (l *Log) markRecordsLocked() []journal.Record {
	recs := []journal.Record{{Group: l.id, Body: l.mu.mark}}
	if commit := l.raft.commit.Load(); l.raft.on.Load() && commit > l.raft.hinted {
		l.raft.hinted = commit
		recs = append(recs, journal.Record{Group: l.id, Body: journal.CommitHint{Index: commit}})
	}
	return recs
}

// markAtEnd is the final mark of a log that was synced to its end; false when the journal has it.
func (l *Log) markAtEnd() (journal.Record, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.active == nil || l.Offline() != nil || !l.mu.started {
		return journal.Record{}, false
	}
	mark := l.markLocked()
	g, ok := l.store.journal.Group(l.id)
	if !ok || g.Synced == mark {
		return journal.Record{}, false
	}
	return journal.Record{Group: l.id, Body: mark}, true
}

// syncFiles makes everything of the log durable, file by file.
func (l *Log) syncFiles() error {
	l.mu.Lock()
	segs := append(append([]*segment.Segment(nil), l.mu.unsynced...), l.mu.active)
	shut := l.mu.shut
	l.mu.Unlock()
	if shut != nil || l.Offline() != nil {
		return nil
	}
	var errs []error
	for _, s := range segs {
		errs = append(errs, s.Sync())
	}
	return errors.Join(append(errs, l.store.fs.SyncDir(l.dir))...)
}
