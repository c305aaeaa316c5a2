package segment

import (
	"sync"
	"sync/atomic"

	"github.com/sluicelog/sluice/log/vfs"
)

// windowSize is what a lookup reads of a .log file or an index at once. Sequential scans read
// chunkSize, as many small reads of a cold file were measured up to eleven times slower.
const (
	windowSize = 4 << 10
	chunkSize  = 1 << 20
)

// FileCache bounds the open handles of sealed segments, over all segments that share it, and holds
// the buffers that reading them needs. A handle in use is never closed, so the bound is exceeded
// while more readers than that are active.
type FileCache struct {
	max     int
	windows sync.Pool // *[]byte of windowSize
	chunks  sync.Pool // *[]byte of chunkSize

	mu struct {
		sync.Mutex
		open int
		idle handle // head of a ring of open handles without users, longest idle first
	}
}

// NewFileCache makes a cache that keeps at most max handles open, at least one.
func NewFileCache(max int) *FileCache {
	c := &FileCache{max: max}
	if c.max < 1 {
		c.max = 1
	}
	c.windows.New = func() any { b := make([]byte, windowSize); return &b }
	c.chunks.New = func() any { b := make([]byte, chunkSize); return &b }
	c.mu.idle.prev, c.mu.idle.next = &c.mu.idle, &c.mu.idle
	return c
}

// Open is the number of handles open now.
func (c *FileCache) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.open
}

// handle is one file that is opened when it is used. While users is above zero the file stays open
// and more users need no lock; the last one leaves it to the cache, which closes the longest idle
// ones above its bound.
type handle struct {
	open    func() (vfs.File, error)
	opening sync.Mutex // held while the file is being opened, without the cache's lock
	users   atomic.Int64
	file    vfs.File // set while users > 0 or the handle is idle in the ring

	// under the cache's lock
	prev, next *handle // in the ring of idle ones, else nil
	gone       bool    // closed with its last user, not kept
	pinned     bool    // not counted: the active segment's file, with the segment as a user
}

// acquire opens the file if need be and keeps it open until release.
func (c *FileCache) acquire(h *handle) (vfs.File, error) {
	for n := h.users.Load(); n > 0; n = h.users.Load() {
		if h.users.CompareAndSwap(n, n+1) {
			return h.file, nil
		}
	}
	if f := c.reuse(h); f != nil {
		return f, nil
	}
	h.opening.Lock()
	defer h.opening.Unlock()
	if f := c.reuse(h); f != nil {
		return f, nil
	}
	f, err := h.open()
	if err != nil {
		return nil, err
	}
	c.adopt(h, f)
	return f, nil
}

// reuse takes an open handle, idle or just left by its last user.
func (c *FileCache) reuse(h *handle) vfs.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.file == nil {
		return nil
	}
	c.unlinkLocked(h)
	h.users.Add(1)
	return h.file
}

// adopt gives the handle an open file and one user.
func (c *FileCache) adopt(h *handle, f vfs.File) {
	c.mu.Lock()
	h.file = f
	h.users.Add(1)
	c.mu.open++
	evicted := c.evictLocked()
	c.mu.Unlock()
	closeFiles(evicted)
}

// closeFiles closes files without the lock. An error says nothing that matters: what was written is
// reported by syncs.
func closeFiles(files []vfs.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// pin gives the handle an open file that stays open and is not counted until unpin.
func (c *FileCache) pin(h *handle, f vfs.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.file, h.pinned = f, true
	h.users.Add(1)
}

// unpin makes a pinned handle one like the others; without pin it does nothing.
func (c *FileCache) unpin(h *handle) {
	c.mu.Lock()
	was := h.pinned
	if was {
		h.pinned = false
		c.mu.open++
	}
	c.mu.Unlock()
	if was {
		c.release(h)
	}
}

// release gives one use back.
func (c *FileCache) release(h *handle) {
	if h.users.Add(-1) > 0 {
		return
	}
	c.mu.Lock()
	if h.users.Load() > 0 || h.file == nil || h.next != nil {
		c.mu.Unlock() // another user came in between, or another last one was faster
		return
	}
	h.prev, h.next = c.mu.idle.prev, &c.mu.idle
	h.prev.next, h.next.prev = h, h
	var closing []vfs.File
	if h.gone {
		closing = append(closing, c.closeLocked(h))
	} else {
		closing = c.evictLocked()
	}
	c.mu.Unlock()
	closeFiles(closing)
}

// drop closes the handle's file now or with its last user.
func (c *FileCache) drop(h *handle) {
	c.mu.Lock()
	h.gone = true
	var closing []vfs.File
	if h.next != nil {
		closing = append(closing, c.closeLocked(h))
	}
	c.mu.Unlock()
	closeFiles(closing)
}

func (c *FileCache) evictLocked() []vfs.File {
	var out []vfs.File
	for c.mu.open > c.max && c.mu.idle.next != &c.mu.idle {
		out = append(out, c.closeLocked(c.mu.idle.next))
	}
	return out
}

// closeLocked takes an idle handle's file from it; the caller closes it without the lock.
func (c *FileCache) closeLocked(h *handle) vfs.File {
	c.unlinkLocked(h)
	f := h.file
	h.file = nil
	c.mu.open--
	return f
}

func (c *FileCache) unlinkLocked(h *handle) {
	if h.next != nil {
		h.prev.next, h.next.prev = h.next, h.prev
		h.prev, h.next = nil, nil
	}
}
