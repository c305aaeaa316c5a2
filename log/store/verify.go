package store

import (
	"errors"
	"fmt"
	"path"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// Verified is what Verify found in one partition's directory.
type Verified struct {
	Dir        string
	Start, End kafkaproto.Offset
	Segments   int
	Batches    int64
	Bytes      int64
	// Holes is how many offsets no batch stands for: compaction makes them.
	Holes int64
	// Problems are sentences, none when all is well.
	Problems []string
}

// Verify reads every batch in a partition's directory, or in those of a whole data directory, and
// checks headers, CRCs, the order of offsets and of leader epochs. It opens nothing for writing.
// The bytes above the synced mark of a broker that runs, or was killed, may be torn: that is no
// damage.
func Verify(fsys vfs.FS, dir string) ([]Verified, error) {
	files, err := segment.List(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(files.Segments) > 0 {
		return []Verified{verifyLog(fsys, dir, files.Segments)}, nil
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Verified
	for _, e := range entries {
		if _, gone, ok := partitionDir(e.Name()); !ok || gone || !e.IsDir() {
			continue
		}
		sub := path.Join(dir, e.Name())
		if files, err = segment.List(fsys, sub); err != nil {
			return out, err
		}
		out = append(out, verifyLog(fsys, sub, files.Segments))
	}
	return out, nil
}

func verifyLog(fsys vfs.FS, dir string, bases []kafkaproto.Offset) Verified {
	v := Verified{Dir: dir, Segments: len(bases)}
	if len(bases) > 0 {
		v.Start, v.End = bases[0], bases[0]
	}
	problem := func(format string, args ...any) {
		v.Problems = append(v.Problems,
			fmt.Sprintf(format, args...))
	}
	epoch := kafkaproto.LeaderEpoch(-1)
	for _, base := range bases {
		name := path.Join(dir, segmentName(base)+".log")
		if base < v.End {
			problem("%s begins below %d, where the segment before it ends", name, v.End)
		}
		v.Holes += max(int64(base-v.End), 0)
		v.End = max(v.End, base)
		err := scanFile(fsys, name, func(b batch.Batch, pos int64) error {
			v.Batches++
			v.Bytes += int64(len(b))
			if err := b.VerifyCRC(); err != nil {
				problem("%s: at %d: %v", name, pos, err)
			}
			if b.BaseOffset() < v.End {
				problem("%s: at %d: offset %d, expected %d or more", name, pos, b.BaseOffset(),
					v.End)
			}
			if b.LeaderEpoch() < epoch {
				problem("%s: at %d: leader epoch %d after %d", name, pos, b.LeaderEpoch(), epoch)
			}
			epoch = max(epoch, b.LeaderEpoch())
			v.Holes += max(int64(b.BaseOffset()-v.End), 0)
			v.End = max(v.End, b.NextOffset())
			return nil
		})
		if err != nil {
			problem("%v", err)
		}
	}
	return v
}

// scrubber reads every sealed segment from disk now and then, so that damage at rest is found
// before the good copies are gone (ruling 9). One goroutine per store.
type scrubber struct {
	s    *Store
	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	pace pacer
}

func newScrubber(s *Store) *scrubber {
	c := &scrubber{s: s, wake: make(chan struct{}, 1), stop: make(chan struct{}),
		done: make(chan struct{})}
	c.pace = pacer{clock: s.clock, rate: s.o.Scrub.BytesPerSec, stop: c.stop}
	return c
}

func (c *scrubber) start() {
	if c.s.o.Scrub.Interval <= 0 {
		close(c.done)
		return
	}
	go c.run(c.s.clock.AfterFunc(c.s.o.Scrub.Interval, c.kick))
}

// close ends the goroutine.
func (c *scrubber) close() {
	close(c.stop)
	<-c.done
}

func (c *scrubber) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *scrubber) run(timer clock.Timer) {
	defer close(c.done)
	defer timer.Stop()
	for {
		select {
		case <-c.wake:
		case <-c.stop:
			return
		}
		if c.scrub() != nil {
			return
		}
		timer.Reset(c.s.o.Scrub.Interval)
	}
}

// scrub reads all sealed segments once. The error says that the scrubber is stopping.
func (c *scrubber) scrub() error {
	for _, l := range c.s.Logs() {
		for _, seg := range *l.segs.Load() {
			if l.Offline() != nil || c.s.Err() != nil {
				break
			}
			if !seg.Sealed() {
				continue
			}
			err := seg.Verify(c.pace.take)
			switch {
			case err == nil, errors.Is(err, segment.ErrGone):
			case errors.Is(err, errStop):
				return err
			case kafkaproto.IsCorrupt(err):
				_ = l.readFailed(err)
			default:
				c.s.log.Warn("scrub", "partition", l.tp.String(), "error", err)
			}
		}
	}
	return nil
}
