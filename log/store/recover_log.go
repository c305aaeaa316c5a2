package store

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// maxCutBytes bounds what is kept of a tail that is cut.
const maxCutBytes = 16 << 20

// logRecovery brings one log from disk into memory.
type logRecovery struct {
	l *Log
	o *opening
	g *journal.GroupState // nil: the journal does not know the log

	bases   []kafkaproto.Offset
	segs    []*segment.Segment
	end     kafkaproto.Offset // of the prefix recovered so far
	index   uint64            // raft index of the last entry in it; 0: not known
	epoch   kafkaproto.LeaderEpoch
	changed bool // the disk was changed
	recs    []journal.Record
	swapped []kafkaproto.Offset // segments that finishSwaps put in place
	must    inventory
	orphans []string // files of segments without a .log; they go once all is proved to be there
	// txnsTo is how far the lists of aborted transactions go of segments that were recovered.
	txnsTo map[*segment.Segment]kafkaproto.Offset
}

// run recovers the log. A corruption error takes it offline and leaves its files as they are.
func (r *logRecovery) run() error {
	err := r.recover()
	if err != nil {
		for _, seg := range r.segs {
			seg.Release() // Close would write indexes
		}
		r.l.segs.Store(new([]*segment.Segment))
		r.l.mu.active = nil
	}
	return err
}

func (r *logRecovery) recover() error {
	r.txnsTo = make(map[*segment.Segment]kafkaproto.Offset)
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.setDirsAside(); err != nil {
		return err
	}
	if err := r.finishSwaps(); err != nil {
		return err
	}
	if err := r.list(); err != nil {
		return err
	}
	if len(r.bases) == 0 {
		return r.runEmpty()
	}
	if err := r.checkMark(); err != nil {
		return err
	}
	for i := range r.bases {
		if stop, err := r.enter(i); err != nil {
			return err
		} else if stop {
			break
		}
		if err := r.openSegment(i); err != nil {
			return err
		}
		if stop, err := r.recoverSegment(i); err != nil {
			return err
		} else if stop {
			break
		}
	}
	if err := r.cutAtTrunc(); err != nil {
		return err
	}
	if err := r.must.end(r.end); err != nil {
		return err
	}
	return r.finish()
}

// begin sorts out what is known of the log. One with records that the journal does not know came
// here by hand.
func (r *logRecovery) begin() error {
	if r.g != nil {
		return nil
	}
	r.g = &journal.GroupState{}
	empty, err := r.l.store.holdsNothing(r.l.dir)
	if err == nil && !empty && !r.o.lost {
		r.l.store.log.Warn("the journal does not know a log; its leader epochs are rebuilt",
			"partition", r.l.tp.String())
		o := *r.o
		o.lost, o.clean = true, false
		r.o = &o
	}
	return err
}

// list finds the segments, and removes what earlier processes left half done.
func (r *logRecovery) list() error {
	fsys := r.l.store.fs
	files, err := segment.List(fsys, r.l.dir)
	if err != nil {
		return err
	}
	for _, suffix := range slices.Sorted(maps.Keys(files.Suffixed)) {
		for _, base := range files.Suffixed[suffix] {
			if err := segment.RemoveFiles(fsys, r.l.dir, base, suffix); err != nil {
				return err
			}
			r.changed = true
		}
	}
	if err := removeStagedOthers(fsys, r.l.dir, files.Other); err != nil {
		return err
	}
	r.bases, r.orphans = files.Segments, files.Orphans
	r.must = inventory{fs: fsys, dir: r.l.dir, g: r.g, lost: r.o.lost}
	return r.must.take(r.orphans)
}

// runEmpty is for a directory without segments: a log that was never started, or lost everything.
func (r *logRecovery) runEmpty() error {
	g := r.g
	base := max(g.LogStart(), g.Window.FirstOffset)
	if err := r.must.none(); err != nil {
		return err
	}
	r.index = g.FirstIndex() - 1
	r.end = base
	r.takeSides()
	if err := r.l.createFirst(base, r.index+1); err != nil {
		return err
	}
	r.changed = true
	r.segs = *r.l.segs.Load()
	return r.finish()
}

// durable is how many bytes of segment i are known to be on disk, and whether all of them are, so
// that it can be opened as sealed.
func (r *logRecovery) durable(i int) (from int64, whole bool, err error) {
	last := i == len(r.bases)-1
	switch mark := r.g.Synced; {
	case r.o.lost && mark == (journal.Synced{}):
		whole = !last // nothing is known: what was rolled counts as synced
	case !last && r.bases[i+1] <= mark.Offset:
		whole = true
	case r.bases[i] == mark.Segment:
		from = mark.Position
	}
	if whole {
		st, err := r.l.store.fs.Stat(path.Join(r.l.dir, fmt.Sprintf("%020d.log", r.bases[i])))
		if err != nil {
			return 0, false, err
		}
		from = st.Size()
	}
	return from, whole, nil
}

func (r *logRecovery) openSegment(i int) error {
	_, whole, err := r.durable(i)
	if err != nil {
		return err
	}
	if err := r.checkSize(i, whole); err != nil {
		return err
	}
	sealed := whole && i < len(r.bases)-1
	seg, err := segment.Open(r.l.store.fs, r.l.dir, r.bases[i], r.l.segmentOptions(""), sealed)
	if err == nil && sealed && !r.mayStaySealed(seg) {
		seg.Release()
		seg, err = segment.Open(r.l.store.fs, r.l.dir, r.bases[i], r.l.segmentOptions(""), false)
	}
	if err != nil {
		return err
	}
	r.segs = append(r.segs, seg)
	return nil
}

// recoverSegment recovers segment i behind those before it. stop: its tail was cut, and with it
// everything behind.
func (r *logRecovery) recoverSegment(i int) (stop bool, err error) {
	seg := r.segs[i]
	from, whole, err := r.durable(i)
	if err != nil {
		return false, err
	}
	base := r.baseIndex(seg.BaseOffset())
	known := seg.Ready() && (whole || r.o.clean) && (base == 0 || seg.Size() == 0 ||
		seg.BaseIndex() == base)
	if !known {
		if r.o.sameBoot && !whole && !r.o.clean {
			if err := seg.DropCache(from); err != nil {
				return false, err
			}
		}
		check := r.check(seg)
		how := segment.Recovery{From: from, BaseIndex: base, Index: r.nextIndex, CheckHeader: check}
		how.Check = func(b batch.Batch, pos int64) error { return check(b.Header(), pos) }
		rec, err := seg.Recover(how)
		if err != nil {
			return false, r.must.appended(seg.BaseOffset(), from, err)
		}
		r.txnsTo[seg] = rec.TxnsTo
		if rec.End < rec.FileSize {
			if err := r.cut(i, rec); err != nil {
				return false, err
			}
			stop = true
		}
	}
	if seg.NextOffset() < r.end {
		return false, kafkaproto.Corruptf("segment %d ends at %d, below %d", seg.BaseOffset(),
			seg.NextOffset(), r.end)
	}
	r.end = seg.NextOffset()
	if err := r.countIndexes(seg); err != nil {
		return false, err
	}
	r.takeSides()
	if whole && !stop && i < len(r.bases)-1 && r.bases[i+1] < r.end {
		return false,
			kafkaproto.Corruptf("segment %d holds offsets up to %d, and segment %d begins below",
				seg.BaseOffset(), r.end, r.bases[i+1])
	}
	return stop, nil
}

// countIndexes moves the index to that of the segment's last batch. After a cut the segment does
// not
// know it, and its batches are counted.
func (r *logRecovery) countIndexes(seg *segment.Segment) error {
	if seg.Size() == 0 {
		return nil
	}
	r.index = seg.LastIndex()
	if r.index > 0 || seg.BaseIndex() == 0 {
		return nil
	}
	r.index = seg.BaseIndex() - 1
	_, err := seg.ScanHeaders(0, func(h batch.Header, _ int64) error {
		r.index = r.nextIndex(r.index, h)
		return nil
	})
	return err
}

// baseIndex is the raft index of the first batch of the segment that begins at base; 0: not kept
// any more, since it lies below the window.
func (r *logRecovery) baseIndex(base kafkaproto.Offset) uint64 {
	if r.o.lost || base < r.g.Window.FirstOffset {
		return 0
	}
	if base == r.g.Window.FirstOffset {
		r.index = r.g.FirstIndex() - 1
	}
	r.takeSides()
	return r.index + 1
}

// takeSides moves the index over the side entries that come next at the end (R2: in sequence only).
func (r *logRecovery) takeSides() {
	if r.o.lost || r.end < r.g.Window.FirstOffset {
		return
	}
	r.index = max(r.index, r.g.FirstIndex()-1)
	r.index = r.skipSides(r.index, r.end)
}

// skipSides is the index of the last side entry that directly follows prev at or before off.
func (r *logRecovery) skipSides(prev uint64, off kafkaproto.Offset) uint64 {
	return skipSides(r.g.Sides, prev, off)
}

func (r *logRecovery) nextIndex(prev uint64, h batch.Header) uint64 {
	return r.skipSides(prev, h.BaseOffset) + 1
}

// epochAt is the term in force for a batch at off.
func (r *logRecovery) epochAt(off kafkaproto.Offset) kafkaproto.LeaderEpoch {
	sides := r.g.Sides
	i := sort.Search(len(sides), func(i int) bool { return sides[i].AtOffset > off })
	if i == 0 {
		return kafkaproto.LeaderEpoch(r.g.Window.Term)
	}
	return kafkaproto.LeaderEpoch(sides[i-1].Term) // every side entry carries the term in force
}

// check gives the checks for the batches of a segment that are not known from its indexes: dense
// offsets and the term in force. Below the window compaction has been, and the terms are not known.
// What a batch's own CRC covers is verified above the mark.
func (r *logRecovery) check(seg *segment.Segment) func(h batch.Header, pos int64) error {
	next := seg.BaseOffset()
	old := r.o.lost || seg.BaseOffset() < r.g.Window.FirstOffset
	first := true
	return func(h batch.Header, pos int64) error {
		dense := h.BaseOffset == next || first && pos > 0
		switch epoch := r.epochAt(h.BaseOffset); {
		case !old && !dense:
			return kafkaproto.Corruptf("batch at %d has offset %d, expected %d", pos, h.BaseOffset,
				next)
		case !old && h.LeaderEpoch != epoch && !r.l.store.o.knobs.off.epoch:
			return kafkaproto.Corruptf("batch at %d has leader epoch %d, %d was in force", pos,
				h.LeaderEpoch, epoch)
		case old && h.LeaderEpoch < r.epoch:
			return kafkaproto.Corruptf("batch at %d has leader epoch %d after %d", pos,
				h.LeaderEpoch, r.epoch)
		}
		next, first = h.NextOffset(), false
		if old {
			r.epoch = max(r.epoch, h.LeaderEpoch)
		}
		return nil
	}
}

// cut cuts the torn tail of segment i, which lies above the mark, and drops all segments behind. It
// is kept in side files (ruling 4).
func (r *logRecovery) cut(i int, rec segment.Recovered) error {
	if r.o.lost {
		if err := r.refuseLostCut(i, rec); err != nil {
			return err
		}
	}
	r.changed = true
	r.saveCut(r.segs[i], rec.End, rec.FileSize, rec.Cause)
	if err := r.segs[i].Truncate(rec.End); err != nil {
		return err
	}
	return r.dropFrom(i+1, errors.New("the segment before it was cut"))
}

// dropFrom removes the segments from i on, which lie above the mark.
func (r *logRecovery) dropFrom(i int, cause error) error {
	for _, base := range r.bases[i:] {
		seg, err := segment.Open(r.l.store.fs, r.l.dir, base, r.l.segmentOptions(""), false)
		if err != nil {
			return err
		}
		if st, err := r.l.store.fs.Stat(seg.Path()); err == nil {
			r.saveCut(seg, 0, st.Size(), cause)
		}
		if err := errors.Join(seg.Close(), segment.RemoveFiles(r.l.store.fs, r.l.dir, base,
			"")); err != nil {
			return err
		}
	}
	r.bases = r.bases[:i]
	return nil
}

// refuseLostCut is for a log whose mark is lost: with a good batch behind the bad bytes they are
// damage, not a torn write.
func (r *logRecovery) refuseLostCut(i int, rec segment.Recovered) error {
	if i < len(r.bases)-1 {
		return fmt.Errorf("segment %d is damaged at %d: %w", r.bases[i], rec.End, rec.Cause)
	}
	tail := make([]byte, min(rec.FileSize-rec.End, 4*maxCutBytes))
	if _, err := r.segs[i].ReadAt(tail, rec.End); err != nil {
		return err
	}
	for n := 1; n+batch.HeaderSize <= len(tail); n++ {
		if b, err := batch.First(tail[n:]); err == nil && b.BaseOffset() >= r.end &&
			b.VerifyCRC() == nil {
			return fmt.Errorf("segment %d is damaged at %d, and a good batch follows at %d: %w",
				r.bases[i], rec.End, rec.End+int64(n), rec.Cause)
		}
	}
	return nil
}

// saveCut keeps the bytes that are cut, and says so. On a full disk they are lost: the log is worth
// more.
func (r *logRecovery) saveCut(seg *segment.Segment, from, to int64, cause error) {
	if to == from {
		return
	}
	name := path.Join(r.l.dir, fmt.Sprintf("%020d.%d.cut", seg.BaseOffset(), from))
	r.l.store.log.Warn("cut the torn tail of a log, which was never acknowledged as durable",
		"partition", r.l.tp.String(), "segment", int64(seg.BaseOffset()), "from", from, "bytes",
		to-from,
		"cause", cause, "kept", name)
	tail := make([]byte, min(to-from, maxCutBytes))
	n, err := seg.ReadAt(tail, from)
	if n > 0 {
		err = vfs.WriteFileAtomic(unsynced{r.l.store.fs}, name, tail[:n])
	}
	if err != nil {
		r.l.store.log.Warn("keep what was cut", "file", name, "error", err)
	}
}

// cutAtTrunc finishes a truncation that a crash interrupted: when the entry at the last TRUNC's
// index still has its old term, it and all behind it go.
func (r *logRecovery) cutAtTrunc() error {
	t := r.g.Trunc
	if r.o.lost || t.Index == 0 || t.Index > r.index || t.Index < r.g.FirstIndex() ||
		r.l.store.o.knobs.off.truncCheck {
		return nil
	}
	for i, seg := range r.segs {
		// A segment that was cut just now does not know its last index.
		if last := seg.LastIndex(); seg.BaseIndex() == 0 || seg.Size() == 0 || 0 < last && last < t.Index {
			continue
		}
		at, found := int64(-1), false
		index := seg.BaseIndex() - 1
		_, err := seg.ScanHeaders(0, func(h batch.Header, pos int64) error {
			if index = r.nextIndex(index, h); index < t.Index {
				return nil
			}
			found = index == t.Index && uint64(h.LeaderEpoch) == t.OldTerm
			at = pos
			return errStop
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
		if at < 0 {
			continue
		}
		if !found {
			return nil
		}
		st, err := r.l.store.fs.Stat(seg.Path())
		if err != nil {
			return err
		}
		if seg.Sealed() {
			return kafkaproto.Corruptf("truncation at index %d lies below the synced mark", t.Index)
		}
		later := r.segs[i+1:]
		r.segs = r.segs[:i+1]
		var errs []error
		for _, s := range later {
			errs = append(errs, s.Close())
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if err := r.cut(i, segment.Recovered{End: at, FileSize: st.Size(),
			Cause: errors.New("a truncation was not finished")}); err != nil {
			return err
		}
		r.end = seg.NextOffset()
		r.index = t.Index - 1
		return nil
	}
	return nil
}
