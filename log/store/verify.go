package store

import (
	"errors"
	"fmt"
	"path"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/journal"
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
// checks headers, CRCs, the order of offsets and of leader epochs, and that nothing is missing that the
// journal beside it, or the segments' own summaries, know of. It opens nothing for writing. The bytes above
// the synced mark of a broker that was killed may be torn: that is no damage.
func Verify(fsys vfs.FS, dir string) ([]Verified, error) {
	files, err := segment.List(fsys, dir)
	if err != nil {
		return nil, err
	}
	if len(files.Segments) > 0 || len(files.Orphans) > 0 {
		return []Verified{verifyLog(fsys, dir, files, readJournal(fsys, path.Dir(dir)))}, nil
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	known := readJournal(fsys, dir)
	var out []Verified
	for _, e := range entries {
		if _, gone, ok := partitionDir(e.Name()); !ok || gone || !e.IsDir() {
			continue
		}
		sub := path.Join(dir, e.Name())
		if files, err = segment.List(fsys, sub); err != nil {
			return out, err
		}
		out = append(out, verifyLog(fsys, sub, files, known))
	}
	return out, nil
}

// readJournal gives what the journal of a data directory knows; nil when there is none, or it is damaged.
func readJournal(fsys vfs.FS, dir string) *journal.State {
	state, err := journal.Read(fsys, path.Join(dir, journalDir))
	if err != nil || state.Fresh {
		return nil
	}
	return state
}

// expected is what must be in the directory of a log.
func expected(fsys vfs.FS, dir string, files segment.Files, known *journal.State) (inventory, error) {
	must := inventory{fs: fsys, dir: dir, g: &journal.GroupState{}, lost: true}
	if tp, _, ok := partitionDir(path.Base(dir)); ok && known != nil {
		id, err := segment.ReadMetadata(fsys, dir)
		if err != nil {
			return must, err
		}
		if g := known.Groups[kafkaproto.PartitionID{Topic: id, Partition: tp.Partition}]; g != nil {
			must.g, must.lost = g, false
		}
	}
	return must, must.take(files.Orphans)
}

// verification goes through one log.
type verification struct {
	Verified
	fs      vfs.FS
	must    inventory
	epoch   kafkaproto.LeaderEpoch
	swaps   bool // one was begun and not finished: files may stand under other names
	cleaned bool // the segment before may have a hole behind it
}

func (v *verification) problem(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

func (v *verification) missing(err error) {
	if err != nil && !v.swaps {
		v.problem("%s: %v", v.Dir, err)
	}
}

func verifyLog(fsys vfs.FS, dir string, files segment.Files, known *journal.State) Verified {
	bases := files.Segments
	v := &verification{Verified: Verified{Dir: dir, Segments: len(bases)}, fs: fsys, epoch: -1}
	var err error
	if v.must, err = expected(fsys, dir, files, known); err != nil {
		v.problem("%v", err)
	}
	v.swaps = len(v.must.g.Swaps) > 0
	if len(bases) > 0 {
		v.Start, v.End = bases[0], bases[0]
		v.missing(v.must.first(bases[0]))
	} else {
		v.Start = v.must.g.LogStart()
		v.End = v.Start
		v.missing(v.must.none())
	}
	for i, base := range bases {
		g := v.must.g
		if base > v.End && (v.must.lost || base <= g.Synced.Offset) {
			v.missing(v.must.hole(v.End, base, v.cleaned && base <= g.Window.FirstOffset))
		}
		v.segment(base, i < len(bases)-1 && (v.must.lost || bases[i+1] <= g.Synced.Offset))
	}
	if len(v.Problems) == 0 {
		v.missing(v.must.end(v.End))
	}
	return v.Verified
}

// segment reads one segment; whole: all of it was synced, and another one follows.
func (v *verification) segment(base kafkaproto.Offset, whole bool) {
	name := path.Join(v.Dir, segmentName(base)+".log")
	if base < v.End {
		v.problem("%s begins below %d, where the segment before it ends", name, v.End)
	}
	v.Holes += max(int64(base-v.End), 0)
	v.End = max(v.End, base)
	err := scanFile(v.fs, name, func(b batch.Batch, pos int64) error {
		v.batch(name, b, pos)
		return nil
	})
	st, e := v.fs.Stat(name)
	if e != nil {
		v.problem("%v", e)
		return
	}
	if err != nil {
		v.problem("%v", v.must.appended(base, st.Size(), err))
	}
	v.missing(v.must.position(base, st.Size()))
	if whole {
		v.missing(v.must.size(base, st.Size(), false))
	}
	sum, _ := segment.ReadSummary(v.fs, v.Dir, base)
	v.cleaned = sum == nil || sum.BaseIndex == 0
}

func (v *verification) batch(name string, b batch.Batch, pos int64) {
	v.Batches++
	v.Bytes += int64(len(b))
	if err := b.VerifyCRC(); err != nil {
		v.problem("%s: at %d: %v", name, pos, err)
	}
	if b.BaseOffset() < v.End {
		v.problem("%s: at %d: offset %d, expected %d or more", name, pos, b.BaseOffset(), v.End)
	}
	if b.LeaderEpoch() < v.epoch {
		v.problem("%s: at %d: leader epoch %d after %d", name, pos, b.LeaderEpoch(), v.epoch)
	}
	v.epoch = max(v.epoch, b.LeaderEpoch())
	v.Holes += max(int64(b.BaseOffset()-v.End), 0)
	v.End = max(v.End, b.NextOffset())
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
