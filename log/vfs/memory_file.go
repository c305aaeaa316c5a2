package vfs

import (
	"io"
	"io/fs"
	"sync/atomic"
)

// memFile is a handle of a file in a tree. It outlives the file's name.
type memFile struct {
	t           *tree
	n           *node
	name        string
	read, write bool
	closed      atomic.Bool
}

// enter takes the locks of a call on the handle; leave gives them back.
func (f *memFile) enter(op string, exclusive, allowed bool) error {
	f.t.mu.RLock()
	err := error(nil)
	switch {
	case f.t.fs.dead:
		err = ErrCrashed
	case f.closed.Load():
		err = fs.ErrClosed
	case !allowed:
		err = fs.ErrPermission
	}
	if err != nil {
		f.t.mu.RUnlock()
		return pathError(op, f.name, err)
	}
	if exclusive {
		f.n.mu.Lock()
	} else {
		f.n.mu.RLock()
	}
	return nil
}

func (f *memFile) leave(exclusive bool) {
	if exclusive {
		f.n.mu.Unlock()
	} else {
		f.n.mu.RUnlock()
	}
	f.t.mu.RUnlock()
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("read", f.name, fs.ErrInvalid)
	}
	if err := f.enter("read", false, f.read); err != nil {
		return 0, err
	}
	defer f.leave(false)
	if len(p) == 0 {
		return 0, nil
	}
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, pathError("write", f.name, fs.ErrInvalid)
	}
	if err := f.enter("write", true, f.write); err != nil {
		return 0, err
	}
	defer f.leave(true)
	if len(p) == 0 {
		return 0, nil
	}
	end := off + int64(len(p))
	if size := int64(len(f.n.data)); end > size {
		f.n.grow(end)
		f.n.data = f.n.data[:end]
		if off > size {
			clear(f.n.data[size:off])
		}
	}
	copy(f.n.data[off:], p)
	if f.n.log != nil {
		f.n.log.wrote(f.n.data, off, end)
	}
	return len(p), nil
}

// grow makes room for size bytes; by half each time, so that appends cost linear time in all.
func (n *node) grow(size int64) {
	if size <= int64(cap(n.data)) {
		return
	}
	data := make([]byte, len(n.data), max(size, int64(cap(n.data))*3/2))
	copy(data, n.data)
	n.data = data
}

// resize cuts or extends the file; the caller holds n.mu.
func (n *node) resize(size int64) {
	old := int64(len(n.data))
	if size > old {
		n.grow(size)
		n.data = n.data[:size]
		clear(n.data[old:])
	} else {
		n.data = n.data[:size]
	}
	if n.log != nil {
		n.log.resized(n.data, old)
	}
}

func (f *memFile) Truncate(size int64) error {
	if size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	if err := f.enter("truncate", true, f.write); err != nil {
		return err
	}
	defer f.leave(true)
	if size != int64(len(f.n.data)) {
		f.n.resize(size)
	}
	return nil
}

func (f *memFile) Sync() error {
	if err := f.enter("sync", true, true); err != nil {
		return err
	}
	defer f.leave(true)
	if f.n.log != nil {
		if err := f.t.fs.rec.syncFile(f.n); err != nil {
			return pathError("sync", f.name, err)
		}
	}
	return nil
}

func (f *memFile) StartWriteback(_, _ int64) error {
	if err := f.enter("writeback", false, true); err != nil {
		return err
	}
	f.leave(false)
	return nil
}

func (f *memFile) DropCache(off, n int64) error {
	if err := f.enter("dropcache", true, true); err != nil {
		return err
	}
	defer f.leave(true)
	if f.n.log != nil {
		f.n.log.dropCache(f.n.data, off, n)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	if err := f.enter("stat", false, true); err != nil {
		return 0, err
	}
	defer f.leave(false)
	return int64(len(f.n.data)), nil
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}
