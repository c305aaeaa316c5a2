package store

import (
	"slices"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/segment"
)

const (
	// tickEvery is how often the janitor looks around.
	tickEvery = time.Second
	// backgroundSync bounds what a relaxed log may lose to a power cut, beside flush.ms.
	backgroundSync = 5 * time.Second
	// checkpointBytes is after how many bytes the active segment's indexes and the producer state
	// are written, so that a start after a kill reads no more than that.
	checkpointBytes = 64 << 20
)

// janitor does what no caller waits for: sealing rolled segments, retention, removing directories,
// background syncs, watching the free space. One goroutine per store.
type janitor struct {
	s    *Store
	wake chan struct{}
	stop chan struct{}
	done chan struct{}

	mu struct {
		sync.Mutex
		stopped bool
		jobs    []func()
		seals   []sealJob
		epochs  []*Log // whose leader-epoch-checkpoint is to be written
		removes []removeJob
	}

	timer         clock.Timer
	lastSync      time.Time
	lastRetention time.Time
}

// sealJob is a segment that was rolled, and the producer state as it was at its end.
type sealJob struct {
	log *Log
	seg *segment.Segment
	sidecar
}

// removeJob is a directory to remove when its time has come.
type removeJob struct {
	dir string
	at  time.Time
}

func newJanitor(s *Store) *janitor {
	return &janitor{
		s: s, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		lastSync: s.clock.Now(), lastRetention: s.clock.Now(),
	}
}

func (j *janitor) start() {
	j.timer = j.s.clock.AfterFunc(tickEvery, j.kick)
	go j.run()
}

// close finishes what is queued and ends the goroutine.
func (j *janitor) close() {
	close(j.stop)
	<-j.done
}

func (j *janitor) kick() {
	if j.s.o.knobs.manual {
		return
	}
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// post runs fn on the janitor's goroutine; on the caller's when that has ended.
func (j *janitor) post(fn func()) {
	j.mu.Lock()
	stopped := j.mu.stopped
	if !stopped {
		j.mu.jobs = append(j.mu.jobs, fn)
	}
	j.mu.Unlock()
	if stopped {
		fn()
		return
	}
	j.kick()
}

// epochs has the log's leader-epoch-checkpoint written soon; once the janitor has ended, by Close.
func (j *janitor) epochs(l *Log) {
	if !l.epochsQueued.CompareAndSwap(false, true) {
		return
	}
	j.mu.Lock()
	j.mu.epochs = append(j.mu.epochs, l)
	j.mu.Unlock()
	j.kick()
}

// writeEpochs writes the files whose time has come.
func (j *janitor) writeEpochs() {
	j.mu.Lock()
	logs := j.mu.epochs
	j.mu.epochs = nil
	j.mu.Unlock()
	for _, l := range logs {
		l.dirMu.Lock()
		if l.Offline() == nil {
			l.writeEpochs()
		}
		l.dirMu.Unlock()
	}
}

// seal takes over a segment that was rolled.
func (j *janitor) seal(l *Log, seg *segment.Segment, sc sidecar) {
	j.mu.Lock()
	j.mu.seals = append(j.mu.seals, sealJob{log: l, seg: seg, sidecar: sc})
	j.mu.Unlock()
	j.kick()
}

// forgetSeals drops the jobs of segments that a truncation reaches.
func (j *janitor) forgetSeals(segs []*segment.Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.seals = slices.DeleteFunc(j.mu.seals, func(job sealJob) bool {
		return slices.Contains(segs, job.seg)
	})
}

func (j *janitor) removeDirLater(dir string, delay time.Duration) {
	j.mu.Lock()
	j.mu.removes = append(j.mu.removes, removeJob{dir: dir, at: j.s.clock.Now().Add(delay)})
	j.mu.Unlock()
	j.kick()
}

func (j *janitor) run() {
	defer close(j.done)
	for {
		select {
		case <-j.wake:
			j.pass()
		case <-j.stop:
			j.timer.Stop()
			j.mu.Lock()
			j.mu.stopped = true
			j.mu.Unlock()
			j.pass()
			return
		}
	}
}

// pass does everything that is due.
func (j *janitor) pass() {
	j.mu.Lock()
	jobs := j.mu.jobs
	j.mu.jobs = nil
	j.mu.Unlock()
	for _, fn := range jobs {
		fn()
	}
	now := j.s.clock.Now()
	j.removeDirs(now)
	if j.s.Err() != nil {
		return
	}
	j.writeEpochs()
	j.sealReady()
	j.s.space.refresh(j.s, now)
	if now.Sub(j.lastSync) >= backgroundSync {
		j.lastSync = now
		j.s.committer.background()
		j.checkpoints()
	}
	if now.Sub(j.lastRetention) >= j.s.o.RetentionInterval {
		j.lastRetention = now
		j.s.retain(now)
	}
	j.timer.Reset(tickEvery)
}

// sealReady seals the rolled segments in which every marker is committed: until then aborted
// transactions may still be added to their lists.
func (j *janitor) sealReady() {
	j.mu.Lock()
	var ready []sealJob
	rest := j.mu.seals[:0]
	for _, job := range j.mu.seals {
		if job.log.HighWatermark() >= job.seg.NextOffset() {
			ready = append(ready, job)
		} else {
			rest = append(rest, job)
		}
	}
	clear(j.mu.seals[len(rest):])
	j.mu.seals = rest
	j.mu.Unlock()
	for _, job := range ready {
		if err := job.log.sealSegment(job); err != nil {
			j.s.log.Warn("seal segment; trying again", "partition", job.log.tp.String(), "error",
				err)
			j.mu.Lock()
			j.mu.seals = append(j.mu.seals, job)
			j.mu.Unlock()
		}
	}
}

// sealSegment writes the indexes of a rolled segment and the sidecars of its end.
func (l *Log) sealSegment(job sealJob) error {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	if l.Offline() != nil {
		return nil
	}
	// AppendAborted runs under prod: behind this, every list of a committed marker is whole.
	l.prod.Lock()
	l.prod.Unlock() //nolint:staticcheck // a barrier
	if err := job.seg.Seal(); err != nil {
		return unlessGone(err)
	}
	if err := l.flushIndexes(job.seg); err != nil {
		return unlessGone(err)
	}
	if job.ours == nil {
		job.sidecar = l.snapshotNow()
	}
	l.writeSidecar(job.sidecar)
	l.writeEpochs()
	return nil
}

// removeDirs removes the directories of deleted logs whose delay is over.
func (j *janitor) removeDirs(now time.Time) {
	j.mu.Lock()
	var due []string
	rest := j.mu.removes[:0]
	for _, r := range j.mu.removes {
		if r.at.After(now) {
			rest = append(rest, r)
		} else {
			due = append(due, r.dir)
		}
	}
	j.mu.removes = rest
	j.mu.Unlock()
	for _, dir := range due {
		if err := j.s.fs.RemoveAll(dir); err != nil {
			j.s.log.Warn("remove directory of a deleted log", "dir", dir, "error", err)
		}
	}
}

// checkpoints bounds what the next start must read of active segments.
func (j *janitor) checkpoints() {
	for _, l := range j.s.Logs() {
		if err := l.checkpoint(); err != nil {
			j.s.log.Warn("checkpoint", "partition", l.tp.String(), "error", err)
		}
	}
}

func (l *Log) checkpoint() error {
	l.mu.Lock()
	seg := l.mu.active
	if l.Offline() != nil || l.mu.shut != nil || seg.Size()-l.mu.checkpoint < checkpointBytes {
		l.mu.Unlock()
		return nil
	}
	l.mu.checkpoint = seg.Size()
	end := l.EndOffset()
	l.prod.Lock()
	sc := l.takeSnapshotLocked(end)
	l.prod.Unlock()
	l.mu.Unlock()
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	if err := l.flushIndexes(seg); err != nil {
		return unlessGone(err)
	}
	l.writeSidecar(sc)
	return nil
}
