package transport

import "sync"

// budget bounds the bytes of payloads that were received and not yet released. Whoever finds no room
// waits in line. What is larger than the whole budget passes when nothing else is held.
type budget struct {
	limit int64

	mu struct {
		sync.Mutex
		used int64
		line []*claim
	}
}

type claim struct {
	n       int64
	granted chan struct{}
}

// try takes n bytes if that needs no wait.
func (b *budget) try(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.mu.line) > 0 || !b.fitsLocked(n) {
		return false
	}
	b.mu.used += n
	return true
}

func (b *budget) fitsLocked(n int64) bool { return b.mu.used == 0 || b.mu.used+n <= b.limit }

// take waits for n bytes; false when quit closed first.
func (b *budget) take(n int64, quit <-chan struct{}) bool {
	b.mu.Lock()
	if len(b.mu.line) == 0 && b.fitsLocked(n) {
		b.mu.used += n
		b.mu.Unlock()
		return true
	}
	c := &claim{n: n, granted: make(chan struct{})}
	b.mu.line = append(b.mu.line, c)
	b.mu.Unlock()
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
			b.grantLocked()
			return false
		}
	}
	b.mu.used -= n // granted meanwhile
	b.grantLocked()
	return false
}

// release gives n bytes back.
func (b *budget) release(n int64) {
	b.mu.Lock()
	b.mu.used -= n
	b.grantLocked()
	b.mu.Unlock()
}

func (b *budget) grantLocked() {
	for len(b.mu.line) > 0 && b.fitsLocked(b.mu.line[0].n) {
		c := b.mu.line[0]
		b.mu.used += c.n
		b.mu.line[0] = nil
		b.mu.line = b.mu.line[1:]
		close(c.granted)
	}
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
