package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// ErrLocked means that another process, or another caller in this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// ErrUnsupported means that the file system or the kernel has no such call; callers fall back.
var ErrUnsupported = errors.ErrUnsupported

// FS is a file system. All methods may be called together. Names are slash-separated paths. Errors
// that mean "not there" or "there already" answer to errors.Is with fs.ErrNotExist and fs.ErrExist.
//
// Nothing is durable before a sync: File.Sync for a file's bytes and size, SyncDir for the entries
// of a directory (a file made, renamed or removed in it), SyncFS for everything.
type FS interface {
	// OpenFile opens a file with os.O_* flags. O_APPEND is refused: all writes are positioned.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Rename gives a file or a directory another name, replacing a file that has it. It is atomic:
	// after a crash one of the two names is there.
	Rename(from, to string) error
	// Remove takes a file or an empty directory away. Open handles stay usable.
	Remove(name string) error
	// RemoveAll takes a tree away; a missing one is no error.
	RemoveAll(name string) error
	// MkdirAll makes a directory and its missing parents.
	MkdirAll(name string, perm fs.FileMode) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat tells size and kind of a file.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the entries of dir durable, not what the files hold.
	SyncDir(dir string) error
	// SyncFS makes everything written to the file system that holds dir durable: file data, sizes
	// and directory entries (syncfs(2)). ErrUnsupported where the kernel cannot do it or would not
	// report a failed write.
	SyncFS(dir string) error
	// Lock takes an exclusive lock on the file name, which is made when missing. ErrLocked when it
	// is held. The lock goes with the process, or with Close.
	Lock(name string) (io.Closer, error)
	// Free is the number of bytes that may still be written to the file system that holds dir.
	Free(dir string) (int64, error)
}

// File is an open file. Reads may run together with anything; writes, Truncate and Sync too, as
// far as their byte ranges do not overlap.
type File interface {
	io.ReaderAt
	// WriteAt writes all of p at off or tells how much of it was written and why no more.
	io.WriterAt
	// Truncate cuts or extends (with zeros) the file to n bytes.
	Truncate(n int64) error
	// Sync makes the file's bytes and size durable (fdatasync), not its directory entry. After an
	// error nothing is known about earlier writes, and calling again proves nothing (ruling 5).
	Sync() error
	// StartWriteback begins to write dirty pages in [off, off+n) to disk and does not wait. It
	// promises nothing; n = 0 means to the end.
	StartWriteback(off, n int64) error
	// DropCache drops clean pages in [off, off+n) from the page cache, so that the next read comes
	// from the disk; n = 0 means to the end. Dirty pages stay: sync first.
	DropCache(off, n int64) error
	// Size is the file's length in bytes.
	Size() (int64, error)
	// Name is the name the file was opened by.
	Name() string
	// Close gives the handle back; it syncs nothing.
	Close() error
}

// OSFile is the operating system's file behind f, for sendfile; nil when there is none, or when
// reads of it must pass through a layer above it.
func OSFile(f File) *os.File {
	if o, ok := f.(*osFile); ok {
		return o.f
	}
	return nil
}

// IsNoSpace reports whether err means that the disk, the quota or the process's file size limit
// is used up: writing may go on later, without a restart (ruling 6).
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// Create makes a file or empties it, for reading and writing.
func Create(fsys FS, name string) (File, error) {
	return fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
}

// Open opens a file for reading.
func Open(fsys FS, name string) (File, error) {
	return fsys.OpenFile(name, os.O_RDONLY, 0)
}

// ReadFile reads a whole file. One that is larger than limit bytes is refused unread.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := Open(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("read %s: %d bytes, at most %d expected", name, size, limit)
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); n < len(data) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return data, nil
}

// WriteFileAtomic replaces name by a file with the given bytes, durably: written under
// name.tmp, synced, renamed, and the directory synced. After a crash the old or the new one is
// there, whole.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data); err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(path.Dir(name))
}

func writeSynced(fsys FS, name string, data []byte) error {
	f, err := Create(fsys, name)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
