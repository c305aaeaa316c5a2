package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

// errSwapped is in the chain of an error behind the point of no return: the new segment is in use,
// and the next start finishes the swap.
var errSwapped = errors.New("swap is not finished")

// indexExts are the files beside a segment's .log that can be made again.
var indexExts = [...]string{".index", ".timeindex", ".raftindex", ".txnindex", ".sum"}

func segmentName(base kafkaproto.Offset) string { return fmt.Sprintf("%020d", base) }

// swap puts a cleaned segment in the place of the group it was made from (ruling 8):
//
//  1. The new files are whole and synced, under .cleaned.
//  2. The journal says durably what will be swapped, and that raft's window begins behind it.
//  3. Readers find the new segment.
//  4. The old files become .deleted, the new ones get their names, the directory is synced.
//  5. The journal says that the swap is done, and the old files go.
//
// A crash before 2 leaves .cleaned files, which the next start removes; one behind it is finished
// by
// the next start (finishSwaps).
func (l *Log) swap(group []*segment.Segment, out *segment.Segment) error {
	if err := errors.Join(out.SyncAll(), l.store.fs.SyncDir(l.dir)); err != nil {
		return l.store.fail(fmt.Errorf("sync cleaned segment of %s: %w", l.tp, err))
	}
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	intent, recs, err := l.swapRecords(group, out)
	if err != nil {
		return err
	}
	if err := l.commitWindow(recs); err != nil {
		if l.store.Err() != nil { // the intent may be on disk all the same: the new files must stay
			err = errors.Join(errSwapped, err, out.Close())
		}
		return err
	}
	if err := l.replace(group, out); err != nil {
		return errors.Join(errSwapped, err, out.Close())
	}
	var errs []error
	for _, seg := range group {
		errs = append(errs, seg.Delete())
	}
	if errs = append(errs, out.Rename("")); errors.Join(errs...) == nil {
		errs = append(errs, l.store.fs.SyncDir(l.dir))
	}
	if err := errors.Join(errs...); err != nil {
		err = fmt.Errorf("%w: %w", errSwapped, err)
		l.goOffline(fmt.Errorf("swap segments of %s: %w", l.tp, err))
		return err
	}
	// Durable before the next pass writes a file of the same name, which an open intent would take
	// for
	// the new segment.
	err = l.store.journalCommit([]journal.Record{{Group: l.id,
		Body: journal.SwapDone{ID: intent.ID}}})
	for _, seg := range group {
		err = errors.Join(err, seg.Remove())
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errSwapped, err)
	}
	return nil
}

// swapRecords is what the journal must hold before the swap.
func (l *Log) swapRecords(group []*segment.Segment, out *segment.Segment) (journal.SwapIntent,
	[]journal.Record, error) {
	intent := journal.SwapIntent{Kind: journal.SwapCompact,
		Add: []string{segmentName(out.BaseOffset())}}
	for _, seg := range group {
		intent.Remove = append(intent.Remove, segmentName(seg.BaseOffset()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.shut != nil {
		return intent, nil, l.mu.shut
	}
	if l.pins.Load() > 0 {
		return intent, nil, errStop
	}
	segs := *l.segs.Load()
	at := slices.Index(segs, group[0])
	if at < 0 || len(segs) < at+len(group)+1 || !slices.Equal(segs[at:at+len(group)], group) {
		return intent, nil, errStop // retention was here
	}
	next := segs[at+len(group)]
	recs := l.windowLocked(next, 0)
	if recs == nil {
		return intent, nil, errStop
	}
	if w, ok := recs[0].Body.(journal.Window); !ok || w.FirstOffset < next.BaseOffset() ||
		w.FirstIndex == 0 {
		return intent, nil, fmt.Errorf("raft index of the segment at %d is not known",
			next.BaseOffset())
	}
	g, _ := l.store.journal.Group(l.id)
	intent.ID = nextSwap(g)
	return intent, append(recs, journal.Record{Group: l.id, Body: intent}), nil
}

// nextSwap is a number that no open swap has.
func nextSwap(g *journal.GroupState) (id uint64) {
	for _, s := range g.Swaps {
		id = max(id, s.ID)
	}
	return id + 1
}

// replace publishes the new segment.
func (l *Log) replace(group []*segment.Segment, out *segment.Segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.shut != nil {
		return l.mu.shut
	}
	segs := *l.segs.Load()
	at := slices.Index(segs, group[0])
	list := append(append(slices.Clone(segs[:at]), out), segs[at+len(group):]...)
	l.setSegs(list)
	for _, seg := range group {
		if ms, ok := l.mu.rolledMs[seg]; ok {
			l.mu.rolledMs[out] = max(l.mu.rolledMs[out], ms)
			delete(l.mu.rolledMs, seg)
		}
	}
	return nil
}

// finishSwaps does what a crash left undone of swaps whose intent is in the journal. All indexes of
// the new segment are made anew: which renames the disk has kept is not known.
func (r *logRecovery) finishSwaps() error {
	for _, intent := range r.g.Swaps {
		var err error
		switch {
		case intent.Kind == journal.SwapCompact && len(intent.Add) == 1:
			err = r.finishSwap(intent)
		case intent.Kind == journal.SwapSnapshot && len(intent.Add) > 0:
			err = r.finishSnapshot(intent)
		default:
			return fmt.Errorf("swap %d of kind %d was begun by another release", intent.ID, intent.Kind)
		}
		if err != nil {
			return fmt.Errorf("finish swap of segment %s: %w", intent.Add[0], err)
		}
		r.changed = true
		r.recs = append(r.recs, journal.Record{Group: r.l.id,
			Body: journal.SwapDone{ID: intent.ID}})
	}
	return nil
}

func (r *logRecovery) finishSwap(intent journal.SwapIntent) error {
	base, err := r.removeSwapped(intent)
	if err != nil {
		return err
	}
	return r.placeSegment(base[0], segment.Cleaned)
}

// removeSwapped removes the old segments, but for those in whose place a new one comes, or has come:
// that is the new one's renaming. It gives the bases of the new ones.
func (r *logRecovery) removeSwapped(intent journal.SwapIntent) (add []kafkaproto.Offset, err error) {
	parse := func(names []string) (bases []kafkaproto.Offset) {
		for _, name := range names {
			base, e := strconv.ParseInt(name, 10, 64)
			if e != nil {
				err = kafkaproto.Corruptf("swap names segment %q", name)
			}
			bases = append(bases, kafkaproto.Offset(base))
		}
		return bases
	}
	add = parse(intent.Add)
	remove := parse(intent.Remove)
	if err != nil {
		return nil, err
	}
	for _, base := range remove {
		if slices.Contains(add, base) {
			continue
		}
		if err := segment.RemoveFiles(r.l.store.fs, r.l.dir, base, ""); err != nil {
			return nil, err
		}
	}
	return add, nil
}

// placeSegment gives a new segment with the suffix its name, unless it has that already. What its
// indexes are called says nothing of it: a power cut takes renames in any order.
func (r *logRecovery) placeSegment(base kafkaproto.Offset, suffix string) error {
	fsys, name := r.l.store.fs, path.Join(r.l.dir, segmentName(base))
	err := fsys.Rename(name+".log"+suffix, name+".log")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = fsys.Stat(name + ".log"); errors.Is(err, fs.ErrNotExist) {
			return kafkaproto.Corruptf("neither the old nor the new segment %d is there", base)
		}
	}
	if err != nil {
		return err
	}
	for _, ext := range indexExts {
		for _, n := range []string{name + ext, name + ext + suffix} {
			if err := removeIfThere(fsys, n); err != nil {
				return err
			}
		}
	}
	r.swapped = append(r.swapped, base)
	return nil
}
