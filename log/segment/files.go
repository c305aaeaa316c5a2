package segment

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// extensions are a segment's files in the order in which a suffix is taken off: .log goes last, so
// that a .log under its final name has its indexes beside it. A suffix is put on the other way.
var extensions = [...]string{extTxn, extOffset, extTime, extSum, extRaft, extLog}

// Files is what a partition directory holds.
type Files struct {
	Segments []kafkaproto.Offset            // base offsets of .log files without suffix, ascending
	Suffixed map[string][]kafkaproto.Offset // by suffix: .deleted, .cleaned, .swap; any file of theirs
	Orphans  []string                       // segment files without a .log beside them, no suffix
	Other    []string                       // everything else: checkpoints, snapshots, strangers
}

// List reads a partition directory.
func List(fsys vfs.FS, dir string) (Files, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return Files{}, err
	}
	out := Files{Suffixed: make(map[string][]kafkaproto.Offset)}
	rest := make(map[string]kafkaproto.Offset)
	for _, e := range entries { // sorted by name, so by base offset
		base, ext, suffix, ok := parseName(e.Name())
		switch {
		case !ok || e.IsDir():
			out.Other = append(out.Other, e.Name())
		case suffix != "":
			if list := out.Suffixed[suffix]; len(list) == 0 || list[len(list)-1] != base {
				out.Suffixed[suffix] = append(list, base)
			}
		case ext == extLog:
			out.Segments = append(out.Segments, base)
		default:
			rest[e.Name()] = base
		}
	}
	for name, base := range rest {
		if _, found := slices.BinarySearch(out.Segments, base); !found {
			out.Orphans = append(out.Orphans, name)
		}
	}
	slices.Sort(out.Orphans)
	return out, nil
}

// parseName takes a file name of a segment apart.
func parseName(name string) (base kafkaproto.Offset, ext, suffix string, ok bool) {
	digits, rest, _ := strings.Cut(name, ".")
	if len(digits) != 20 || strings.Trim(digits, "0123456789") != "" {
		return 0, "", "", false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, "", "", false
	}
	ext, suffix, _ = strings.Cut(rest, ".")
	ext = "." + ext
	if suffix != "" {
		suffix = "." + suffix
	}
	known := slices.Contains(extensions[:], ext) &&
		slices.Contains([]string{"", Deleted, Cleaned, Swap}, suffix)
	return kafkaproto.Offset(n), ext, suffix, known && name == fileName(kafkaproto.Offset(n), ext, suffix)
}

// RemoveFiles takes away all files of the segment with this base and suffix, .log first; missing
// ones are no error.
func RemoveFiles(fsys vfs.FS, dir string, base kafkaproto.Offset, suffix string) error {
	for _, ext := range slices.Backward(extensions[:]) {
		err := fsys.Remove(path.Join(dir, fileName(base, ext, suffix)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// RenameFiles gives all files of a segment that is not open another suffix, replacing files that
// have it. Missing ones are no error, so a rename that a crash cut short is finished by another.
func RenameFiles(fsys vfs.FS, dir string, base kafkaproto.Offset, from, to string) error {
	order := slices.Clone(extensions[:])
	if to != "" {
		slices.Reverse(order)
	}
	for _, ext := range order {
		a, b := path.Join(dir, fileName(base, ext, from)), path.Join(dir, fileName(base, ext, to))
		if err := fsys.Rename(a, b); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Rename gives all files of the segment another suffix, while readers go on. Not synced.
func (s *Segment) Rename(suffix string) error {
	s.flush.Lock() // a flush would make files under the old name
	defer s.flush.Unlock()
	s.names.Lock()
	defer s.names.Unlock()
	old := *s.suffix.Load()
	if err := RenameFiles(s.fs, s.dir, s.base, old, suffix); err != nil {
		return s.errorf("rename to %q: %w", suffix, err)
	}
	s.suffix.Store(&suffix)
	return nil
}

// Delete renames the files to .deleted and closes the segment; readers that hold it go on. Remove
// takes the files away.
func (s *Segment) Delete() error {
	if s.closed.Swap(true) {
		return s.errorf("%w", ErrGone)
	}
	err := s.Rename(Deleted)
	s.Release()
	return err
}

// Remove takes away the files of a segment after Delete. Readers keep the handles they have.
func (s *Segment) Remove() error {
	if !s.closed.Load() {
		return s.errorf("remove: the segment is in use")
	}
	if err := RemoveFiles(s.fs, s.dir, s.base, *s.suffix.Load()); err != nil {
		return s.errorf("remove: %w", err)
	}
	return nil
}

// SyncAll makes all files of the segment durable, without their directory entries.
func (s *Segment) SyncAll() error {
	s.flush.Lock()
	defer s.flush.Unlock()
	for _, ext := range extensions {
		f, err := vfs.Open(s.fs, s.path(ext))
		if errors.Is(err, fs.ErrNotExist) && ext != extLog {
			continue
		}
		if err != nil {
			return s.errorf("sync: %w", err)
		}
		err = f.Sync()
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return s.errorf("sync: %w", err)
		}
	}
	return nil
}
