package store

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// cleaner compacts logs whose cleanup.policy has "compact", one after the other, as Kafka's
// LogCleaner does: it reads what was written since the last pass into a map from key to newest
// offset, and then rewrites every closed segment without the records that the map shows to be
// superseded. One goroutine per store.
//
// Offsets, batch boundaries and batch headers stay. Batches without a record left go, as our
// producer sidecars are the authority on sequences (ruling 16) and many clients are stuck on empty
// batches. The last batch in front of the active segment keeps its last record, whatever it is:
// a reader can always advance to the end of the log.
type cleaner struct {
	s    *Store
	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	pace pacer
	from map[kafkaproto.TopicPartition]kafkaproto.Offset // first dirty offset

	mu   sync.Mutex
	gone []kafkaproto.TopicPartition // deleted since the last round
}

// cleanState is what the cleaner knows of one log. Only its goroutine uses it.
type cleanState struct {
	failed   bool              // a pass failed: left alone until the next start
	unreadTo kafkaproto.Offset // batches below that cannot be read were warned about
}

func newCleaner(s *Store) *cleaner {
	c := &cleaner{s: s, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
	c.pace = pacer{clock: s.clock, rate: s.o.Cleaner.BytesPerSec, stop: c.stop}
	return c
}

func (c *cleaner) start() {
	if !c.s.o.Cleaner.Enabled {
		close(c.done)
		return
	}
	go c.run()
}

// close ends the goroutine; a pass that runs is abandoned.
func (c *cleaner) close() {
	close(c.stop)
	<-c.done
}

func (c *cleaner) run() {
	defer close(c.done)
	timer := c.s.clock.AfterFunc(c.s.o.Cleaner.Backoff, c.kick)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
		case <-c.stop:
			return
		}
		for c.cleanFilthiest() {
		}
		timer.Reset(c.s.o.Cleaner.Backoff)
	}
}

func (c *cleaner) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// job is one log to clean.
type job struct {
	log      *Log
	from, to kafkaproto.Offset // dirty, and may be cleaned
	ratio    float64           // dirty share of what may be cleaned
	must     bool              // max.compaction.lag.ms has passed
}

// cleanFilthiest cleans the log with the largest dirty share, if one is due.
func (c *cleaner) cleanFilthiest() bool {
	if c.s.Err() != nil {
		return false
	}
	if c.from == nil {
		c.from = readCleanerCheckpoint(c.s)
	}
	c.dropGone()
	var best *job
	for _, l := range c.s.Logs() {
		j, due := c.look(l)
		if due && (best == nil || j.must && !best.must || j.must == best.must &&
			j.ratio > best.ratio) {
			best = &j
		}
	}
	if best == nil {
		return false
	}
	select {
	case <-c.stop:
		return false
	default:
	}
	end, err := c.clean(*best)
	if err != nil {
		return c.failed(best.log, err)
	}
	c.from[best.log.tp] = end
	c.writeCheckpoint()
	return true
}

// forget drops what is known of a deleted log, so that a new one of its name begins at its start.
func (c *cleaner) forget(tp kafkaproto.TopicPartition) {
	c.mu.Lock()
	c.gone = append(c.gone, tp)
	c.mu.Unlock()
}

func (c *cleaner) dropGone() {
	c.mu.Lock()
	gone := c.gone
	c.gone = nil
	c.mu.Unlock()
	known := len(c.from)
	for _, tp := range gone {
		delete(c.from, tp)
	}
	if len(c.from) != known {
		c.writeCheckpoint()
	}
}

// failed sorts out why a pass ended early. The log is left alone until the next start, unless the
// disk was full.
func (c *cleaner) failed(l *Log, err error) bool {
	switch {
	case errors.Is(err, errStop) || errors.Is(err, segment.ErrGone) || l.Offline() != nil ||
		c.s.Err() != nil:
		return false
	case kafkaproto.IsCorrupt(err):
		_ = l.readFailed(err)
		return true
	}
	c.s.log.Warn("clean log", "partition", l.tp.String(), "error", err)
	if vfs.IsNoSpace(err) && !errors.Is(err, errSwapped) {
		return false
	}
	l.clean.failed = true
	return true
}

// look says what of a log may be cleaned, and whether it is due (min.cleanable.dirty.ratio,
// max.compaction.lag.ms).
func (c *cleaner) look(l *Log) (job, bool) {
	cfg := l.config.Load()
	if !cfg.Compact || l.Offline() != nil || l.clean.failed || l.pins.Load() > 0 {
		return job{}, false
	}
	now := c.s.nowMs()
	j := job{log: l, from: max(c.from[l.tp], l.StartOffset())}
	if j.from > l.EndOffset() {
		j.from = l.StartOffset() // the checkpoint belongs to a log that is gone
	}
	var clean, dirty int64
	limit := l.LastStable(l.HighWatermark())
	segs := *l.segs.Load()
	j.to = j.from
	for i, seg := range segs[:len(segs)-1] {
		next := segs[i+1].BaseOffset()
		largest, _ := seg.LargestTimestamp()
		if next > limit || !seg.Sealed() ||
			cfg.MinCompactionLag > 0 && next > j.from &&
				largest > now-cfg.MinCompactionLag.Milliseconds() {
			break
		}
		if next <= j.from {
			clean += seg.Size()
			continue
		}
		dirty += seg.Size()
		if first, ok := seg.FirstTimestamp(); ok && cfg.MaxCompactionLag > 0 &&
			first < now-cfg.MaxCompactionLag.Milliseconds() {
			j.must = true
		}
		j.to = next
	}
	if dirty == 0 {
		return j, false
	}
	j.ratio = float64(dirty) / float64(clean+dirty)
	return j, j.must || j.ratio > cfg.MinCleanableRatio
}

// clean runs one pass and gives the first offset that it left dirty.
func (c *cleaner) clean(j job) (kafkaproto.Offset, error) {
	begun := c.s.clock.Now()
	p, err := newPass(c, j)
	if err != nil {
		return 0, err
	}
	if err := p.fillMap(); err != nil {
		return 0, fmt.Errorf("read keys: %w", err)
	}
	if err := j.log.prepareSwaps(); err != nil {
		return 0, err
	}
	for _, group := range p.groups() {
		if err := p.cleanGroup(group); err != nil {
			return 0, fmt.Errorf("clean segments from %d on: %w", group[0].BaseOffset(), err)
		}
	}
	p.warnUnread()
	c.s.log.Info("cleaned log", "partition", j.log.tp.String(), "from", int64(j.from), "to",
		int64(p.end),
		"keys", p.keys.n, "before", p.before, "after", p.after, "took",
		c.s.clock.Now().Sub(begun).String())
	return p.end, nil
}

// prepareSwaps makes durable what must outlive the segments that a pass replaces: the synced mark,
// a producer state behind all of them (ruling 16), and the leader epochs, which the journal forgets
// below its window.
func (l *Log) prepareSwaps() error {
	l.mu.Lock()
	end := l.EndOffset()
	l.prod.Lock()
	sc := l.takeSnapshotLocked(end)
	l.prod.Unlock()
	l.mu.Unlock()
	if err := l.Flush(); err != nil {
		return err
	}
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	if err := l.Offline(); err != nil {
		return err
	}
	if err := l.syncSidecar(sc); err != nil {
		return err
	}
	return l.syncEpochs()
}

// pacer spreads reads and writes over time.
type pacer struct {
	clock clock.Clock
	rate  int64
	stop  chan struct{}
	free  time.Time // when all that was taken is paid for
}

// take waits until n more bytes are within the rate. errStop: the cleaner is stopping.
func (p *pacer) take(n int) error {
	select {
	case <-p.stop:
		return errStop
	default:
	}
	if p.rate <= 0 {
		return nil
	}
	now := p.clock.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	wait := p.free.Sub(now)
	if wait < 20*time.Millisecond { // not worth a sleep
		return nil
	}
	return p.sleep(wait)
}

// groups splits the closed segments into runs that become one segment each, as Kafka's
// groupSegmentsBySize: within segment.bytes, segment.index.bytes and 31 bits of offsets.
func (p *pass) groups() [][]*segment.Segment {
	cfg := p.log.config.Load()
	var out [][]*segment.Segment
	var run []*segment.Segment
	var size, index int64
	for _, seg := range p.segs {
		fits := len(run) > 0 && size+seg.Size() <= int64(cfg.SegmentBytes) &&
			index+seg.IndexSize() <= int64(cfg.IndexBytes) &&
			seg.NextOffset()-run[0].BaseOffset() <= math.MaxInt32
		if !fits && len(run) > 0 {
			out, run, size, index = append(out, run), nil, 0, 0
		}
		run, size, index = append(run, seg), size+seg.Size(), index+seg.IndexSize()
	}
	if len(run) > 0 {
		out = append(out, run)
	}
	return out
}

// sleep waits for d, or until the cleaner stops.
func (p *pacer) sleep(d time.Duration) error {
	due := make(chan struct{})
	t := p.clock.AfterFunc(d, func() { close(due) })
	defer t.Stop()
	select {
	case <-due:
		return nil
	case <-p.stop:
		return errStop
	}
}
