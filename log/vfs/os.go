package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// OSFS is the machine's file system. It keeps one descriptor open per file system that SyncFS was
// asked for: a failed write is reported to descriptors that were open when it failed.
type OSFS struct {
	mu struct {
		sync.Mutex
		dirs map[string]*os.File
	}
}

// OS gives the machine's file system.
func OS() *OSFS { return &OSFS{} }

type osFile struct{ f *os.File }

// OpenFile implements FS.
func (*OSFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if flag&os.O_APPEND != 0 {
		return nil, fmt.Errorf("open %s: O_APPEND: %w", name, fs.ErrInvalid)
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

// Rename implements FS.
func (*OSFS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove implements FS.
func (*OSFS) Remove(name string) error { return os.Remove(name) }

// RemoveAll implements FS.
func (*OSFS) RemoveAll(name string) error { return os.RemoveAll(name) }

// MkdirAll implements FS.
func (*OSFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }

// ReadDir implements FS.
func (*OSFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat implements FS.
func (*OSFS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SyncDir implements FS.
func (*OSFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// SyncFS implements FS.
func (o *OSFS) SyncFS(dir string) error {
	d, err := o.dirHandle(dir)
	if err != nil {
		return err
	}
	return syncFS(d)
}

func (o *OSFS) dirHandle(dir string) (*os.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d, ok := o.mu.dirs[dir]; ok {
		return d, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if o.mu.dirs == nil {
		o.mu.dirs = make(map[string]*os.File)
	}
	o.mu.dirs[dir] = d
	return d, nil
}

// Close gives the descriptors back that SyncFS keeps open.
func (o *OSFS) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, d := range o.mu.dirs {
		errs = append(errs, d.Close())
	}
	o.mu.dirs = nil
	return errors.Join(errs...)
}

// Lock implements FS, by flock(2): the lock goes with the process, however it ends.
func (*OSFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}

// Free implements FS: what an unprivileged process may use.
func (*OSFS) Free(dir string) (int64, error) { return statfsFree(dir) }

func (f *osFile) ReadAt(p []byte, off int64) (int, error)  { return f.f.ReadAt(p, off) }
func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.f.WriteAt(p, off) }
func (f *osFile) Truncate(n int64) error                   { return f.f.Truncate(n) }
func (f *osFile) Sync() error                              { return fdatasync(f.f) }
func (f *osFile) StartWriteback(off, n int64) error        { return startWriteback(f.f, off, n) }
func (f *osFile) DropCache(off, n int64) error             { return dropCache(f.f, off, n) }
func (f *osFile) Name() string                             { return f.f.Name() }
func (f *osFile) Close() error                             { return f.f.Close() }

func (f *osFile) Size() (int64, error) {
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
