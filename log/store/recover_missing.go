package store

import (
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

// removeOrphans takes away what segments that were deleted have left.
func (r *logRecovery) removeOrphans() error {
	for _, name := range r.orphans {
		if err := removeIfThere(r.l.store.fs, path.Join(r.l.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// checkMark sees to it that the segment is there in which the synced bytes end.
func (r *logRecovery) checkMark() error {
	if err := r.must.first(r.bases[0]); err != nil {
		return err
	}
	mark := r.g.Synced
	if mark == (journal.Synced{}) || mark.Offset <= r.bases[0] {
		return nil
	}
	i := sort.Search(len(r.bases), func(i int) bool { return r.bases[i] >= mark.Segment })
	if i == len(r.bases) || r.bases[i] != mark.Segment && r.bases[i] != mark.Offset {
		return kafkaproto.Corruptf("offsets up to %d were synced, and segment %d is not there: newer records "+
			"are missing, as in an older copy of the directory", mark.Offset-1, mark.Segment)
	}
	return nil
}

// checkSize holds the size of segment i against what is known of it, before it is opened.
func (r *logRecovery) checkSize(i int, whole bool) error {
	base := r.bases[i]
	st, err := r.l.store.fs.Stat(path.Join(r.l.dir, segmentName(base)+".log"))
	if err != nil {
		return err
	}
	if err := r.must.position(base, st.Size()); err != nil {
		return err
	}
	if whole {
		return r.must.size(base, st.Size(), slices.Contains(r.swapped, base))
	}
	sum, err := segment.ReadSummary(r.l.store.fs, r.l.dir, base)
	if err != nil || sum == nil || sum.LogSize <= st.Size() {
		return err
	}
	r.changed = true // the bytes were lost with the power, and the next start is not to look for them
	return segment.RemoveSummary(r.l.store.fs, r.l.dir, base)
}

// enter checks the hole between the end so far and segment i. Only compaction makes holes, and only
// below the window; above the mark a hole is a lost tail, and what follows goes with it. stop: it
// has gone.
func (r *logRecovery) enter(i int) (stop bool, err error) {
	base := r.bases[i]
	switch {
	case i == 0, base == r.end:
		r.end = base
		return false, nil
	case base > r.end && (r.o.lost || base <= r.g.Window.FirstOffset):
		if err := r.must.hole(r.end, base, r.segs[i-1].BaseIndex() == 0); err != nil {
			return false, err
		}
		r.end = base
		return false, nil
	case base > r.end && r.end >= r.g.Synced.Offset:
		r.changed = true
		return true, r.dropFrom(i, fmt.Errorf("the log before it ends at %d", r.end))
	}
	return false, kafkaproto.Corruptf("segment %d follows the end at %d: %s", base, r.end,
		r.must.gone(r.end, base))
}

// setDirsAside renames directories that stand where an index or a file of ours belongs: those are made
// again. One in the place of a .log is damage.
func (r *logRecovery) setDirsAside() error {
	fsys := r.l.store.fs
	entries, err := fsys.ReadDir(r.l.dir)
	if err != nil {
		return err
	}
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || !ownFile(name) {
			continue
		}
		if strings.HasSuffix(name, ".log") {
			return kafkaproto.Corruptf("%s is a directory: the segment is missing", path.Join(r.l.dir, name))
		}
		aside := name + ".aside"
		for n := 2; names[aside]; n++ {
			aside = fmt.Sprintf("%s.%d.aside", name, n)
		}
		r.l.store.log.Warn("a directory stands in the place of a file, which is made again", "partition",
			r.l.tp.String(), "directory", name, "kept", aside)
		if err := fsys.Rename(path.Join(r.l.dir, name), path.Join(r.l.dir, aside)); err != nil {
			return err
		}
		r.changed = true
	}
	return nil
}

// ownFile reports whether a name in a partition's directory is that of a file which we, or Kafka, write.
func ownFile(name string) bool {
	if digits, rest, _ := strings.Cut(name, "."); len(digits) == 20 && strings.Trim(digits, "0123456789") == "" {
		return !strings.HasSuffix(rest, "aside")
	}
	return slices.Contains([]string{segment.EpochFile, windowEpochs}, strings.TrimSuffix(name, ".tmp"))
}
