package store

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// syncPlan is what one round must make durable.
type syncPlan struct {
	segments []*segment.Segment
	dirs     []string
	journal  bool // the journal must be synced too
	covered  bool // afterwards: it was, asked for or not
}

func (p *syncPlan) reset() {
	clear(p.segments)
	*p = syncPlan{segments: p.segments[:0], dirs: p.dirs[:0]}
}

func (p *syncPlan) size() int {
	n := len(p.segments) + len(p.dirs)
	if p.journal {
		n++
	}
	return n
}

const (
	// syncFSFloor is a time for one syncfs that is never called slow.
	syncFSFloor = 100 * time.Millisecond
	// slowFactor is how much slower than parallel fdatasyncs syncfs may be (ruling 11): it also
	// writes what strangers have dirtied.
	slowFactor = 4
	// retryRounds is after how many rounds without syncfs it gets another chance.
	retryRounds = 64
	// syncWorkers is how many fdatasyncs run side by side.
	syncWorkers = 16
)

// chooser chooses between one syncfs and parallel fdatasyncs, by how long they took so far.
type chooser struct {
	unsupported bool
	perFile     time.Duration // moving average of a parallel round's time by its files
	banned      int           // rounds without syncfs still to come

	rounds, nanos atomic.Int64 // syncs so far and the time they took; anyone may read them
}

// Syncs gives how many rounds of syncs the committer has run and how long they took in all.
func (s *Store) Syncs() (rounds int64, took time.Duration) {
	c := &s.committer.chooser
	return c.rounds.Load(), time.Duration(c.nanos.Load())
}

// sync makes the plan durable. An error means that nothing is known (ruling 5).
func (c *chooser) sync(s *Store, p *syncPlan) error {
	n := p.size()
	if n == 0 {
		return nil
	}
	begun := s.clock.Now()
	err := c.choose(s, p, n)
	c.rounds.Add(1)
	c.nanos.Add(int64(s.clock.Now().Sub(begun)))
	return err
}

func (c *chooser) choose(s *Store, p *syncPlan, n int) error {
	if n > fewFiles && !c.unsupported && c.banned == 0 {
		done, err := c.syncFS(s, p, n)
		if done || err != nil {
			return err
		}
	}
	if c.banned > 0 {
		c.banned--
	}
	return c.syncFiles(s, p, n)
}

func (c *chooser) syncFS(s *Store, p *syncPlan, n int) (done bool, err error) {
	pos := s.journal.Pos()
	begun := s.clock.Now()
	err = s.fs.SyncFS(s.o.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		c.unsupported = true
		s.log.Warn("syncfs is not supported here; files are synced one by one", "error", err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	took := s.clock.Now().Sub(begun)
	if took > syncFSFloor && c.perFile > 0 && took > slowFactor*c.perFile*time.Duration(n) {
		c.banned = retryRounds
	} else if took > syncFSFloor && c.perFile == 0 {
		c.banned = 1 // nothing to compare with: measure the other way once
	}
	p.covered = true
	return true, s.journal.NoteSynced(pos)
}

// syncFiles syncs file by file: in line for a few, else side by side.
func (c *chooser) syncFiles(s *Store, p *syncPlan, n int) error {
	begun := s.clock.Now()
	jobs := make([]func() error, 0, n)
	for _, seg := range p.segments {
		jobs = append(jobs, func() error { return unlessGone(seg.Sync()) })
	}
	for _, dir := range p.dirs {
		jobs = append(jobs, func() error { return unlessGone(s.fs.SyncDir(dir)) })
	}
	if p.journal {
		jobs = append(jobs, s.journal.Sync)
	}
	err := runJobs(jobs)
	if err == nil && n > fewFiles {
		each := s.clock.Now().Sub(begun) / time.Duration(n)
		if c.perFile == 0 {
			c.perFile = each
		}
		c.perFile = (7*c.perFile + each) / 8
	}
	p.covered = p.journal
	return err
}

// unlessGone drops the errors of what was deleted while the round ran.
func unlessGone(err error) error {
	if errors.Is(err, segment.ErrGone) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func runJobs(jobs []func() error) error {
	if len(jobs) <= fewFiles {
		for _, job := range jobs {
			if err := job(); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, min(len(jobs), syncWorkers))
	for w := range errs {
		wg.Go(func() {
			for i := w; i < len(jobs) && errs[w] == nil; i += len(errs) {
				errs[w] = jobs[i]()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
