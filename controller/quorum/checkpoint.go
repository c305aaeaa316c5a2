package quorum

import (
	"time"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// snapshotState is when the next snapshot is due, and the one being written.
type snapshotState struct {
	last    *snapshotID // the newest one that was read or written whole
	version int64       // of the image that the newest snapshot, tried or read, holds
	bytes   int64       // of the log since
	since   time.Time   // when the oldest record behind it came; zero: none
	timer   clock.Timer
	writing chan written // nil: none
}

// written is the outcome of writing a snapshot.
type written struct {
	id  snapshotID
	err error
}

// wait waits for a snapshot under way.
func (s *snapshotState) wait() {
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.writing != nil {
		<-s.writing
	}
}

// maybeSnapshot writes a snapshot when enough bytes or time have passed since the last.
func (c *Controller) maybeSnapshot() {
	s := &c.snap
	select {
	case w := <-s.writing:
		s.writing = nil
		c.snapshotWritten(w)
	default:
	}
	if s.writing != nil || c.failed != nil || c.current.Version() == s.version {
		return
	}
	m := c.o.Config.Broker().Metadata
	now := c.o.Clock.Now()
	if s.since.IsZero() {
		s.since = now
		if m.SnapshotInterval > 0 {
			s.arm(c, m.SnapshotInterval)
		}
	}
	old := m.SnapshotInterval > 0 && now.Sub(s.since) >= m.SnapshotInterval
	if old || s.bytes >= m.SnapshotBytes {
		c.beginSnapshot(c.current)
	}
}

func (s *snapshotState) arm(c *Controller, d time.Duration) {
	if s.timer == nil {
		s.timer = c.o.Clock.AfterFunc(d, c.kick)
		return
	}
	s.timer.Reset(d)
}

// beginSnapshot writes a snapshot of an image on a goroutine of its own. The log is rolled, so that
// what lies below can be removed as whole segments.
func (c *Controller) beginSnapshot(img *meta.Image) {
	s := &c.snap
	if err := c.cut.Roll(); err != nil {
		c.logger.Warn("cannot roll the metadata log", "error", err)
	}
	s.bytes, s.since, s.version = 0, time.Time{}, img.Version()
	s.writing = make(chan written, 1)
	epoch, nowMs := c.cut.Term(), clock.Millis(c.o.Clock.Now())
	go func(done chan written, older *snapshotID) {
		id, err := writeSnapshot(c.o.FS, c.cut.Dir(), img, epoch, nowMs)
		if err == nil {
			err = c.forget(id, older)
		}
		done <- written{id, err}
		c.kick()
	}(s.writing, s.last)
}

// forget removes what a new snapshot makes superfluous: the log below the snapshot before it, and
// the snapshots before that (Q5).
func (c *Controller) forget(newest snapshotID, older *snapshotID) error {
	if older == nil {
		return trimSnapshots(c.o.FS, c.cut.Dir(), newest)
	}
	if older.offset > c.cut.StartOffset() {
		if err := c.cut.DeleteRecords(older.offset); err != nil {
			return err
		}
	}
	return trimSnapshots(c.o.FS, c.cut.Dir(), newest, *older)
}

func (c *Controller) snapshotWritten(w written) {
	if w.err != nil {
		// The next one is tried when as much has come again: the log itself holds everything.
		c.logger.Warn("metadata snapshot failed", "error", w.err)
		return
	}
	c.logger.Info("metadata snapshot written", "file", w.id.file())
	c.snap.last = &w.id
}
