package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

// MemFS is a file system in memory. Absolute and relative names mean the same: its root is both
// "/" and ".".
type MemFS struct{ *tree }

// Memory makes an empty file system in memory.
func Memory() *MemFS { return &MemFS{newTree(nil)} }

// tree is what MemFS and PowerFS share: a directory tree of nodes. With a recorder it also keeps
// what a power loss may take away.
type tree struct {
	// mu is held shared by calls on file handles and exclusively by everything else. A crash takes
	// it exclusively, so no call of the dead process is in flight behind it.
	mu sync.RWMutex
	fs struct {
		dead  bool
		root  *node
		locks map[string]*memLock
		rec   *recorder // nil: nothing is recorded
	}
}

// node is a file or a directory.
type node struct {
	children map[string]*node // nil for a file
	durable  map[string]*node // of a recorded directory: the entries a power loss cannot take

	mu   sync.RWMutex // guards data and log against other handles
	data []byte
	log  *writeLog // of a recorded file
}

func newTree(rec *recorder) *tree {
	t := &tree{}
	t.fs.rec = rec
	t.fs.locks = make(map[string]*memLock)
	t.fs.root = t.newDir()
	return t
}

func (t *tree) newDir() *node {
	n := &node{children: make(map[string]*node)}
	if t.fs.rec != nil {
		n.durable = make(map[string]*node)
	}
	return n
}

func (t *tree) newFile() *node {
	n := &node{}
	if t.fs.rec != nil {
		n.log = newWriteLog(nil)
	}
	return n
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// find walks to the directory that holds name. The last element is "" for the root itself.
func (t *tree) find(name string) (dir *node, base string, err error) {
	if t.fs.dead {
		return nil, "", ErrCrashed
	}
	clean := strings.Trim(path.Clean("/"+name), "/")
	if clean == "" {
		return t.fs.root, "", nil
	}
	parts := strings.Split(clean, "/")
	dir = t.fs.root
	for _, p := range parts[:len(parts)-1] {
		next, ok := dir.children[p]
		if !ok {
			return nil, "", fs.ErrNotExist
		}
		if next.children == nil {
			return nil, "", syscall.ENOTDIR
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

func (t *tree) lookup(name string) (*node, error) {
	dir, base, err := t.find(name)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return dir, nil
	}
	n, ok := dir.children[base]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return n, nil
}

// link, unlink and move are the only places that change entries, so all that a power loss may take
// is recorded here.
func (t *tree) link(dir *node, base string, n *node) {
	dir.children[base] = n
	if t.fs.rec != nil {
		t.fs.rec.add(entryOp{dst: dir, to: base, node: n})
	}
}

func (t *tree) unlink(dir *node, base string) {
	if t.fs.rec != nil {
		t.fs.rec.add(entryOp{src: dir, from: base, node: dir.children[base]})
	}
	delete(dir.children, base)
}

func (t *tree) move(src *node, from string, dst *node, to string) {
	n := src.children[from]
	delete(src.children, from)
	dst.children[to] = n
	if t.fs.rec != nil {
		t.fs.rec.add(entryOp{src: src, from: from, dst: dst, to: to, node: n})
	}
}

// OpenFile implements FS.
func (t *tree) OpenFile(name string, flag int, _ fs.FileMode) (File, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.openNode(name, flag)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	mode := flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	return &memFile{t: t, n: n, name: name, read: mode != os.O_WRONLY, write: mode != os.O_RDONLY}, nil
}

func (t *tree) openNode(name string, flag int) (*node, error) {
	if flag&os.O_APPEND != 0 {
		return nil, fs.ErrInvalid
	}
	dir, base, err := t.find(name)
	if err != nil {
		return nil, err
	}
	n := dir
	if base != "" {
		n = dir.children[base]
	}
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, fs.ErrNotExist
	case n == nil:
		n = t.newFile()
		t.link(dir, base, n)
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case n.children != nil:
		return nil, syscall.EISDIR
	case flag&os.O_TRUNC != 0:
		n.mu.Lock()
		n.resize(0)
		n.mu.Unlock()
	}
	return n, nil
}

// Rename implements FS.
func (t *tree) Rename(from, to string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.rename(from, to); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func (t *tree) rename(from, to string) error {
	src, fromBase, err := t.find(from)
	if err != nil {
		return err
	}
	dst, toBase, err := t.find(to)
	if err != nil {
		return err
	}
	n := src.children[fromBase]
	if n == nil {
		return fs.ErrNotExist
	}
	if toBase == "" || fromBase == "" {
		return fs.ErrInvalid
	}
	if old := dst.children[toBase]; old != nil {
		switch {
		case old == n:
			return nil
		case n.children == nil && old.children != nil:
			return fs.ErrExist // what os.Rename makes of EISDIR
		case n.children != nil && old.children == nil:
			return syscall.ENOTDIR
		case n.children != nil:
			return fs.ErrExist // os.Rename refuses a directory that is there, even an empty one
		}
	}
	if n.children != nil && n.holds(dst) {
		return fs.ErrInvalid
	}
	t.move(src, fromBase, dst, toBase)
	return nil
}

// holds reports whether d is n or below it.
func (n *node) holds(d *node) bool {
	if n == d {
		return true
	}
	for _, c := range n.children {
		if c.children != nil && c.holds(d) {
			return true
		}
	}
	return false
}

// Remove implements FS.
func (t *tree) Remove(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, base, err := t.find(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.children[base]
	switch {
	case base == "":
		return pathError("remove", name, fs.ErrInvalid)
	case n == nil:
		return pathError("remove", name, fs.ErrNotExist)
	case len(n.children) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	t.unlink(dir, base)
	return nil
}

// RemoveAll implements FS. Entries go one by one, so that a power loss may leave some.
func (t *tree) RemoveAll(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	dir, base, err := t.find(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	if base == "" {
		t.empty(dir)
		return nil
	}
	if n := dir.children[base]; n != nil {
		t.empty(n)
		t.unlink(dir, base)
	}
	return nil
}

func (t *tree) empty(dir *node) {
	for _, base := range sortedNames(dir.children) {
		t.empty(dir.children[base])
		t.unlink(dir, base)
	}
}

func sortedNames(m map[string]*node) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// MkdirAll implements FS.
func (t *tree) MkdirAll(name string, _ fs.FileMode) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fs.dead {
		return pathError("mkdir", name, ErrCrashed)
	}
	dir := t.fs.root
	for p := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if p == "" {
			continue
		}
		next := dir.children[p]
		if next == nil {
			next = t.newDir()
			t.link(dir, p, next)
		}
		if next.children == nil {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		dir = next
	}
	return nil
}

// ReadDir implements FS.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, err := t.lookup(name)
	if err == nil && n.children == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	var out []fs.DirEntry
	for _, base := range sortedNames(n.children) {
		out = append(out, fs.FileInfoToDirEntry(n.children[base].info(base)))
	}
	return out, nil
}

// Stat implements FS.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, err := t.lookup(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return n.info(path.Base(name)), nil
}

// SyncDir implements FS.
func (t *tree) SyncDir(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.lookup(name)
	if err == nil && n.children == nil {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("syncdir", name, err)
	}
	if t.fs.rec != nil {
		t.fs.rec.syncDir(n)
	}
	return nil
}

// SyncFS implements FS.
func (t *tree) SyncFS(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, err := t.lookup(name); err != nil {
		return pathError("syncfs", name, err)
	}
	if t.fs.rec != nil {
		if err := t.fs.rec.syncAll(t.fs.root); err != nil {
			return pathError("syncfs", name, err)
		}
	}
	return nil
}

type memLock struct {
	t    *tree
	name string
}

// Lock implements FS.
func (t *tree) Lock(name string) (io.Closer, error) {
	f, err := t.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	_ = f.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	name = path.Clean("/" + name)
	if t.fs.locks[name] != nil {
		return nil, fmt.Errorf("lock %s: %w", name, ErrLocked)
	}
	l := &memLock{t: t, name: name}
	t.fs.locks[name] = l
	return l, nil
}

func (l *memLock) Close() error {
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if l.t.fs.locks[l.name] != l {
		return fs.ErrClosed
	}
	delete(l.t.fs.locks, l.name)
	return nil
}

// Free implements FS: memory counts as a terabyte.
func (t *tree) Free(string) (int64, error) { return 1 << 40, nil }

type memInfo struct {
	name string
	size int64
	dir  bool
}

func (n *node) info(name string) memInfo {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return memInfo{name: name, size: int64(len(n.data)), dir: n.children != nil}
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) ModTime() time.Time { return time.Time{} }
func (i memInfo) IsDir() bool        { return i.dir }
func (i memInfo) Sys() any           { return nil }
func (i memInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
