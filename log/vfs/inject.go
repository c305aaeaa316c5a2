package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"syscall"
)

// Op is a kind of file system call, as a bit, so that a rule may name several.
type Op uint32

// The kinds of calls that a Rule can name.
const (
	OpOpen   Op = 1 << iota // OpenFile without O_CREATE
	OpCreate                // OpenFile with O_CREATE
	OpRead
	OpWrite
	OpTruncate
	OpSync
	OpSyncDir
	OpSyncFS
	OpRename
	OpRemove // Remove and RemoveAll
	OpMkdir
	OpReadDir
	OpAny Op = 1<<iota - 1
)

// Rule says which calls fail, and how.
type Rule struct {
	Op Op
	// Glob is matched (path.Match) against the base name of the file, of a rename against both;
	// "" matches all.
	Glob string
	// Nth is the first matching call that fails, counted from 1; 0 means 1.
	Nth int
	// Times is how many calls fail from the Nth on; 0 means 1, negative means all.
	Times int
	// Err is what they return; nil means EIO.
	Err error
	// Short is, for OpWrite, how many bytes are written all the same before the error.
	Short int
}

// ErrFS is a file system with faults. A call fails before it does anything, but for short writes.
type ErrFS struct {
	under FS
	hook  atomic.Pointer[func(op Op, name string) error]

	mu struct {
		sync.Mutex
		rules  []*ruleCount
		budget int64
		full   bool // budget counts
	}
	// grow serialises writes while a budget counts, so that sizes and budget agree.
	grow sync.Mutex
}

type ruleCount struct {
	Rule
	seen int
}

// Inject puts faults into a file system.
func Inject(under FS, rules ...Rule) *ErrFS {
	e := &ErrFS{under: under}
	for _, r := range rules {
		e.Add(r)
	}
	return e
}

// Add adds a rule; its count begins now.
func (e *ErrFS) Add(r Rule) {
	if r.Nth == 0 {
		r.Nth = 1
	}
	if r.Times == 0 {
		r.Times = 1
	}
	if r.Err == nil {
		r.Err = syscall.EIO
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.rules = append(e.mu.rules, &ruleCount{Rule: r})
}

// Clear removes all rules, the byte budget and the hook.
func (e *ErrFS) Clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.rules, e.mu.full = nil, false
	e.hook.Store(nil)
}

// SetBudget lets files grow by n more bytes in all; after that writes are cut short and fail with
// ENOSPC. Shrinking and removing give back.
func (e *ErrFS) SetBudget(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.budget, e.mu.full = n, true
}

// Hook sets a function that is called before every call, outside of locks; an error makes the call
// fail with it.
func (e *ErrFS) Hook(fn func(op Op, name string) error) { e.hook.Store(&fn) }

// check asks hook and rules about a call. short is the number of bytes a failing write writes.
func (e *ErrFS) check(op Op, names ...string) (short int, err error) {
	if fn := e.hook.Load(); fn != nil {
		if err := (*fn)(op, names[0]); err != nil {
			return 0, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.mu.rules {
		if r.Op&op == 0 || !r.matches(names) {
			continue
		}
		r.seen++
		if r.seen >= r.Nth && (r.Times < 0 || r.seen < r.Nth+r.Times) && err == nil {
			short, err = r.Short, r.Err
		}
	}
	return short, err
}

func (r *ruleCount) matches(names []string) bool {
	if r.Glob == "" {
		return true
	}
	for _, n := range names {
		if ok, err := path.Match(r.Glob, path.Base(n)); ok && err == nil {
			return true
		}
	}
	return false
}

// OpenFile implements FS.
func (e *ErrFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	op := OpOpen
	if flag&os.O_CREATE != 0 {
		op = OpCreate
	}
	if _, err := e.check(op, name); err != nil {
		return nil, pathError("open", name, err)
	}
	var back int64
	if flag&os.O_TRUNC != 0 {
		back = e.size(name)
	}
	f, err := e.under.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	e.giveBack(back)
	return &errFile{e: e, f: f}, nil
}

// Rename implements FS.
func (e *ErrFS) Rename(from, to string) error {
	if _, err := e.check(OpRename, from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	back := int64(0)
	if from != to {
		back = e.size(to)
	}
	err := e.under.Rename(from, to)
	if err == nil {
		e.giveBack(back)
	}
	return err
}

// Remove implements FS.
func (e *ErrFS) Remove(name string) error { return e.remove(name, e.under.Remove) }

// RemoveAll implements FS.
func (e *ErrFS) RemoveAll(name string) error { return e.remove(name, e.under.RemoveAll) }

func (e *ErrFS) remove(name string, call func(string) error) error {
	if _, err := e.check(OpRemove, name); err != nil {
		return pathError("remove", name, err)
	}
	back := e.size(name)
	err := call(name)
	if err == nil {
		e.giveBack(back)
	}
	return err
}

// size is the bytes of the files at and below name, 0 while no budget counts.
func (e *ErrFS) size(name string) int64 {
	e.mu.Lock()
	full := e.mu.full
	e.mu.Unlock()
	if !full {
		return 0
	}
	st, err := e.under.Stat(name)
	if err != nil {
		return 0
	}
	if !st.IsDir() {
		return st.Size()
	}
	sum := int64(0)
	entries, _ := e.under.ReadDir(name)
	for _, d := range entries {
		sum += e.size(path.Join(name, d.Name()))
	}
	return sum
}

func (e *ErrFS) giveBack(n int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.budget += n
}

// take asks for up to n bytes of the budget and gives what there is.
func (e *ErrFS) take(n int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.full {
		n = min(n, max(e.mu.budget, 0))
		e.mu.budget -= n
	}
	return n
}

// MkdirAll implements FS.
func (e *ErrFS) MkdirAll(name string, perm fs.FileMode) error {
	if _, err := e.check(OpMkdir, name); err != nil {
		return pathError("mkdir", name, err)
	}
	return e.under.MkdirAll(name, perm)
}

// ReadDir implements FS.
func (e *ErrFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if _, err := e.check(OpReadDir, name); err != nil {
		return nil, pathError("readdir", name, err)
	}
	return e.under.ReadDir(name)
}

// Stat implements FS.
func (e *ErrFS) Stat(name string) (fs.FileInfo, error) { return e.under.Stat(name) }

// SyncDir implements FS.
func (e *ErrFS) SyncDir(dir string) error {
	if _, err := e.check(OpSyncDir, dir); err != nil {
		return pathError("syncdir", dir, err)
	}
	return e.under.SyncDir(dir)
}

// SyncFS implements FS.
func (e *ErrFS) SyncFS(dir string) error {
	if _, err := e.check(OpSyncFS, dir); err != nil {
		return pathError("syncfs", dir, err)
	}
	return e.under.SyncFS(dir)
}

// Lock implements FS.
func (e *ErrFS) Lock(name string) (io.Closer, error) { return e.under.Lock(name) }

// Free implements FS: what is left of the budget while one counts.
func (e *ErrFS) Free(dir string) (int64, error) {
	free, err := e.under.Free(dir)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil && e.mu.full {
		free = min(free, max(e.mu.budget, 0))
	}
	return free, err
}

type errFile struct {
	e *ErrFS
	f File
}

func (f *errFile) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.e.check(OpRead, f.f.Name()); err != nil {
		return 0, pathError("read", f.f.Name(), err)
	}
	return f.f.ReadAt(p, off)
}

func (f *errFile) WriteAt(p []byte, off int64) (int, error) {
	if short, err := f.e.check(OpWrite, f.f.Name()); err != nil {
		n, under := f.write(p[:min(short, len(p))], off)
		return n, pathError("write", f.f.Name(), errors.Join(err, under))
	}
	return f.write(p, off)
}

// write writes as much as the budget allows.
func (f *errFile) write(p []byte, off int64) (int, error) {
	f.e.mu.Lock()
	full := f.e.mu.full
	f.e.mu.Unlock()
	if !full || len(p) == 0 {
		return f.f.WriteAt(p, off)
	}
	f.e.grow.Lock()
	defer f.e.grow.Unlock()
	size, err := f.f.Size()
	if err != nil {
		return 0, err
	}
	growth := max(off+int64(len(p))-size, 0)
	missing := growth - f.e.take(growth)
	if missing == 0 {
		return f.f.WriteAt(p, off)
	}
	n := max(int64(len(p))-missing, 0)
	done, err := f.f.WriteAt(p[:n], off)
	if err != nil {
		return done, err
	}
	return done, pathError("write", f.f.Name(), syscall.ENOSPC)
}

func (f *errFile) Truncate(n int64) error {
	if _, err := f.e.check(OpTruncate, f.f.Name()); err != nil {
		return pathError("truncate", f.f.Name(), err)
	}
	f.e.grow.Lock()
	defer f.e.grow.Unlock()
	size, err := f.f.Size()
	if err != nil {
		return err
	}
	if err := f.f.Truncate(n); err != nil {
		return err
	}
	f.e.giveBack(max(size-n, 0))
	return nil
}

func (f *errFile) Sync() error {
	if _, err := f.e.check(OpSync, f.f.Name()); err != nil {
		return pathError("sync", f.f.Name(), err)
	}
	return f.f.Sync()
}

func (f *errFile) StartWriteback(off, n int64) error { return f.f.StartWriteback(off, n) }
func (f *errFile) DropCache(off, n int64) error      { return f.f.DropCache(off, n) }
func (f *errFile) Size() (int64, error)              { return f.f.Size() }
func (f *errFile) Name() string                      { return f.f.Name() }
func (f *errFile) Close() error                      { return f.f.Close() }
