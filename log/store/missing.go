package store

import (
	"fmt"
	"path"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// inventory tells what must be in a log's directory: by the journal (its synced mark and log start), and
// by the summaries that segments leave beside their .log. What is missing is damage (S4): neither the log
// start nor the end moves to where the remaining files happen to begin and end.
type inventory struct {
	fs  vfs.FS
	dir string
	g   *journal.GroupState
	// lost: of the journal nothing is known but, perhaps, an older mark.
	lost bool
	// orphans are the summaries of segments without a .log, ascending.
	orphans []*index.Summary
}

// take reads the summaries that stand alone.
func (v *inventory) take(names []string) error {
	var bases []kafkaproto.Offset
	for _, name := range names {
		if base, ok := segment.IsIndex(name); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	for _, base := range slices.Compact(bases) {
		sum, err := segment.ReadSummary(v.fs, v.dir, base)
		if err != nil {
			return err
		}
		if sum != nil && sum.LogSize > 0 {
			v.orphans = append(v.orphans, sum)
		}
	}
	return nil
}

// first checks that the log begins where its start lies, or before: segments go only once a higher start
// is durable (S5).
func (v *inventory) first(base kafkaproto.Offset) error {
	start := v.g.LogStart()
	if v.lost || base <= start {
		return nil
	}
	return kafkaproto.Corruptf("the log starts at %d, and its first segment at %d: %s", start, base,
		v.gone(start, base))
}

// none checks a directory without segments: a log that was never started, or starts where it ends.
func (v *inventory) none() error {
	start, end := v.g.LogStart(), max(v.g.Synced.Offset, v.g.Window.FirstOffset)
	if end <= start {
		return nil
	}
	return kafkaproto.Corruptf("offsets %d to %d were synced, and no segment is there: %s", start, end-1,
		v.gone(start, end))
}

// hole checks that nothing is missing between the end of a segment and the base of the next one.
// cleaned: the first of them was rewritten by the cleaner, which alone makes holes.
func (v *inventory) hole(from, to kafkaproto.Offset, cleaned bool) error {
	if to <= v.g.LogStart() {
		return nil // they were deleted, and a power cut took back some of the removals
	}
	for _, o := range v.orphans {
		if from <= o.BaseOffset && o.BaseOffset < to {
			return kafkaproto.Corruptf("%s", v.gone(from, to))
		}
	}
	if v.lost || cleaned {
		return nil
	}
	return kafkaproto.Corruptf("the segment before %d ends at %d: %s", to, from, v.gone(from, to))
}

// gone words what is missing of [from, to).
func (v *inventory) gone(from, to kafkaproto.Offset) string {
	for _, o := range v.orphans {
		if from <= o.BaseOffset && o.BaseOffset < to {
			return fmt.Sprintf("%s is missing (offsets %d to %d), its indexes are there",
				path.Join(v.dir, segmentName(o.BaseOffset)+".log"), o.BaseOffset, o.NextOffset-1)
		}
	}
	return fmt.Sprintf("the segments with offsets %d to %d are missing", from, to-1)
}

// size checks a segment, behind which others follow and all of whose bytes were synced, against what its summary says of it. placed: it
// got its name just now, and its indexes are made anew.
func (v *inventory) size(base kafkaproto.Offset, size int64, placed bool) error {
	sum, err := segment.ReadSummary(v.fs, v.dir, base)
	if err != nil {
		return err
	}
	name := path.Join(v.dir, segmentName(base)+".log")
	switch {
	case sum != nil && sum.LogSize > size && !placed:
		return kafkaproto.Corruptf("%s has %d bytes, and its index knows of %d, up to offset %d: its end is missing",
			name, size, sum.LogSize, sum.NextOffset-1)
	case size == 0 && sum == nil && !v.lost && !placed && !segment.ProvedEmpty(v.fs, v.dir, base):
		return kafkaproto.Corruptf("%s is empty, and other segments follow: its records are missing", name)
	}
	return nil
}

// position checks the segment in which the synced bytes end.
func (v *inventory) position(base kafkaproto.Offset, size int64) error {
	mark := v.g.Synced
	if base != mark.Segment || size >= mark.Position {
		return nil
	}
	return kafkaproto.Corruptf("%s has %d bytes, %d were synced, up to offset %d: newer records are missing, "+
		"as in an older copy of the directory", path.Join(v.dir, segmentName(base)+".log"), size, mark.Position,
		mark.Offset-1)
}

// end checks that the log goes as far as it was synced.
func (v *inventory) end(end kafkaproto.Offset) error {
	if mark := v.g.Synced; mark.Offset > end {
		return kafkaproto.Corruptf("the log ends at %d, and offsets up to %d were synced: newer records are "+
			"missing, as in an older copy of the directory", end, mark.Offset-1)
	}
	return nil
}

// appended adds to an error of reading a segment that what is bad stands behind all that its index knows.
func (v *inventory) appended(base kafkaproto.Offset, size int64, err error) error {
	sum, e := segment.ReadSummary(v.fs, v.dir, base)
	if !kafkaproto.IsCorrupt(err) || e != nil || sum == nil || !sum.Sealed || sum.LogSize >= size {
		return err
	}
	return fmt.Errorf("%s was sealed with %d bytes and has %d, which was appended to it by another hand: %w",
		path.Join(v.dir, segmentName(base)+".log"), sum.LogSize, size, err)
}
