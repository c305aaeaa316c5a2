package segment

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// ReadSummary reads what .raftindex says of the segment with this base, without looking at its .log,
// which may be gone. nil: there is nothing that proves itself. A newer format is an error.
func ReadSummary(fsys vfs.FS, dir string, base kafkaproto.Offset) (*index.Summary, error) {
	s := newSegment(fsys, dir, base, Options{})
	name := s.path(extRaft)
	if st, err := fsys.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && st.IsDir() {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	b, err := s.readStart(extRaft, index.SummarySize)
	if err != nil {
		return nil, unlessCorrupt(err)
	}
	sum, err := index.ParseSummary(b)
	if err != nil || sum.BaseOffset != base {
		return nil, unlessCorrupt(err)
	}
	return &sum, nil
}

// RemoveSummary takes away a .raftindex that speaks of bytes which .log never got, or lost with a power
// cut: it would look as if they had been there later. The removal is not synced.
func RemoveSummary(fsys vfs.FS, dir string, base kafkaproto.Offset) error {
	err := fsys.Remove(path.Join(dir, fileName(base, extRaft, "")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// IsIndex reports whether a name is that of a segment's file other than .log, without a suffix, and of
// which segment.
func IsIndex(name string) (base kafkaproto.Offset, ok bool) {
	base, ext, suffix, ok := parseName(name)
	return base, ok && suffix == "" && ext != extLog
}

// ProvedEmpty reports whether .sum says that the segment, which the cleaner has written, has no batches.
func ProvedEmpty(fsys vfs.FS, dir string, base kafkaproto.Offset) bool {
	s := newSegment(fsys, dir, base, Options{})
	b, err := s.readStart(extSum, index.SumHeaderSize)
	if err != nil {
		return false
	}
	h, _, err := index.ParseSumFile(b)
	return err == nil && h.BaseOffset == base && h.LogSize == 0
}
