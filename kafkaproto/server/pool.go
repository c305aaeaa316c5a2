package server

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

const (
	// classMin is the smallest frame buffer, classMax the largest that is pooled; what is larger
	// (a giant) goes to the collector.
	classMin = 256
	classMax = 64 << 20
	classes  = 4*18 + 1

	// keepFrom is the size from which buffers are kept through collections, keepBytes how many
	// bytes of them, and keepIdle how many once keepTime has passed in which none was wanted. A broker
	// allocates little else, so collections are frequent, and each lets sync.Pool forget: large frames
	// would be allocated and cleared anew all the time.
	keepFrom  = 64 << 10
	keepBytes = 64 << 20
	keepIdle  = 8 << 20
	keepTime  = 5 * time.Second
	// keepSlack is how many times larger than asked for a kept buffer may be. The one used last is
	// preferred to one that fits: its memory is still in the processor's caches.
	keepSlack = 4
)

// frameBuf is a buffer of a size class; class is -1 for a giant.
type frameBuf struct {
	b     []byte
	class int
}

// pool keeps frame buffers by size class, four classes per doubling, so that at most a fifth of a
// new buffer is slack. sync.Pool lets go of what two collections did not need; keepBytes of the
// large ones stay.
type pool struct {
	poison bool
	clock  clock.Clock
	free   [classes]sync.Pool

	kept struct {
		sync.Mutex
		buffers []*frameBuf // the one used last is at the end
		bytes   int
		used    bool // since the timer was armed
		timer   clock.Timer
		closed  bool
	}
}

// classOf is the smallest class that holds n bytes, -1 when there is none.
//
//	class   0    1    2    3    4    5 ...
//	bytes 256  320  384  448  512  640 ...
func classOf(n int) int {
	if n <= classMin {
		return 0
	}
	if n > classMax {
		return -1
	}
	k := bits.Len(uint(n-1)) - bits.Len(uint(classMin))
	base := classMin << k
	step := base / 4
	return 4*k + (n-base+step-1)/step
}

// classSize is the number of bytes in a buffer of the class.
func classSize(class int) int {
	base := classMin << (class / 4)
	return base + (class%4)*base/4
}

// sizeFor is the number of bytes that get(n) takes from memory.
func sizeFor(n int) int {
	if class := classOf(n); class >= 0 {
		return classSize(class)
	}
	return n
}

// get gives a buffer whose b has at least n bytes, of unknown content.
func (p *pool) get(n int) *frameBuf {
	if f := p.take(n); f != nil {
		return f
	}
	class := classOf(n)
	if class < 0 {
		return &frameBuf{b: make([]byte, n), class: -1}
	}
	if v := p.free[class].Get(); v != nil {
		return v.(*frameBuf)
	}
	return &frameBuf{b: make([]byte, classSize(class)), class: class}
}

// put takes a buffer back.
func (p *pool) put(f *frameBuf) {
	if p.poison {
		for i := range f.b {
			f.b[i] = 0xDE
		}
	}
	if f.class >= 0 && !p.keep(f) {
		p.free[f.class].Put(f)
	}
}

// take gives a kept buffer, nil when there is none for n bytes.
func (p *pool) take(n int) *frameBuf {
	if n < keepFrom {
		return nil
	}
	k := &p.kept
	k.Lock()
	defer k.Unlock()
	k.used = true
	for i, f := range slices.Backward(k.buffers) {
		if len(f.b) >= n && len(f.b) <= max(keepSlack*n, classSize(classOf(n))) {
			k.buffers = slices.Delete(k.buffers, i, i+1)
			k.bytes -= len(f.b)
			return f
		}
	}
	return nil
}

// keep keeps a large buffer; false when it is small or enough is kept.
func (p *pool) keep(f *frameBuf) bool {
	if len(f.b) < keepFrom {
		return false
	}
	k := &p.kept
	k.Lock()
	defer k.Unlock()
	if k.closed || k.bytes+len(f.b) > keepBytes {
		return false
	}
	k.bytes += len(f.b)
	k.buffers = append(k.buffers, f)
	if k.bytes > keepIdle && k.timer == nil {
		k.used = false
		k.timer = p.clock.AfterFunc(keepTime, p.trim)
	}
	return true
}

// trim lets go of what was kept for a load that has ended.
func (p *pool) trim() {
	k := &p.kept
	k.Lock()
	defer k.Unlock()
	k.timer = nil
	switch {
	case k.closed:
	case k.used:
		k.used = false
		k.timer = p.clock.AfterFunc(keepTime, p.trim)
	default:
		n := 0
		for n < len(k.buffers) && k.bytes > keepIdle {
			k.bytes -= len(k.buffers[n].b)
			n++
		}
		k.buffers = slices.Delete(k.buffers, 0, n)
	}
}

// close ends the timer; what is put back from now on goes to the collector.
func (p *pool) close() {
	p.kept.Lock()
	defer p.kept.Unlock()
	p.kept.closed = true
	if p.kept.timer != nil {
		p.kept.timer.Stop()
	}
}
