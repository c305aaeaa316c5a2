package server

import "sync"

// budget bounds the bytes of all frame buffers. Who finds no room waits in line, with two ways
// around the line that keep it moving:
//
//   - a small frame of a connection that has nothing else under way always passes;
//   - one frame at a time may overdraw. Frames grow while they are read, so without it two
//     half-read frames could each wait for the bytes the other holds. The one that overdraws can
//     always be read to its end, is answered, and passes the right on.
type budget struct {
	limit int64

	mu struct {
		sync.Mutex
		used      int64
		overdrawn *lease
		line      []*claim
	}
}

// lease is what one frame holds of the budget.
type lease struct {
	held  int64 // guarded by budget.mu
	ended bool  // guarded by budget.mu
}

// claim is a frame in the line.
type claim struct {
	l       *lease
	n       int64
	granted chan struct{}
}

// grow adds n bytes to l. It waits for room unless always is set; false when quit closed first.
// wait is called once before the first wait.
func (b *budget) grow(l *lease, n int64, always bool, quit <-chan struct{}, wait func()) bool {
	b.mu.Lock()
	if always || b.mu.overdrawn == l || len(b.mu.line) == 0 && b.fitsLocked(l, n) {
		b.mu.used += n
		l.held += n
		b.mu.Unlock()
		return true
	}
	c := &claim{l: l, n: n, granted: make(chan struct{})}
	b.mu.line = append(b.mu.line, c)
	b.mu.Unlock()

	wait()
	select {
	case <-c.granted:
		return true
	case <-quit:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, x := range b.mu.line {
		if x == c {
			b.mu.line = append(b.mu.line[:i], b.mu.line[i+1:]...)
			b.advanceLocked()
			return false
		}
	}
	return true // granted meanwhile; the caller's end gives it back
}

// fitsLocked reports whether l may have n bytes more, and takes the right to overdraw if that is
// what it needs and it is free.
func (b *budget) fitsLocked(l *lease, n int64) bool {
	if b.mu.used+n <= b.limit {
		return true
	}
	if b.mu.overdrawn == nil {
		b.mu.overdrawn = l
	}
	return b.mu.overdrawn == l
}

// shrink gives n of l's bytes back.
func (b *budget) shrink(l *lease, n int64) {
	b.mu.Lock()
	b.mu.used -= n
	l.held -= n
	b.advanceLocked()
	b.mu.Unlock()
}

// end gives all of l back, for good; more calls do nothing.
func (b *budget) end(l *lease) {
	b.mu.Lock()
	if !l.ended {
		l.ended = true
		b.mu.used -= l.held
		l.held = 0
		if b.mu.overdrawn == l {
			b.mu.overdrawn = nil
		}
		b.advanceLocked()
	}
	b.mu.Unlock()
}

// advanceLocked grants from the front of the line what fits now.
func (b *budget) advanceLocked() {
	for len(b.mu.line) > 0 {
		c := b.mu.line[0]
		if !b.fitsLocked(c.l, c.n) {
			return
		}
		b.mu.used += c.n
		c.l.held += c.n
		b.mu.line[0] = nil
		b.mu.line = b.mu.line[1:]
		close(c.granted)
	}
}

// inUse is the number of bytes held now.
func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
