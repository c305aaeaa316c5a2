package server

import (
	"math/bits"
	"sync"
)

const (
	// classMin is the smallest frame buffer, classMax the largest that is pooled; what is larger
	// (a giant) goes to the collector.
	classMin = 256
	classMax = 8 << 20
	classes  = 4*15 + 1

	// keepFrom is the size from which buffers are kept through collections, keepBytes how many
	// bytes of them. A broker allocates little else, so collections are frequent, and each lets
	// sync.Pool forget: large frames would be allocated and cleared anew all the time.
	keepFrom  = 64 << 10
	keepBytes = 16 << 20
)

// frameBuf is a buffer of a size class; class is -1 for a giant.
type frameBuf struct {
	b     []byte
	class int
}

// pool keeps frame buffers by size class, four classes per doubling, so that at most a fifth of a
// buffer is slack. sync.Pool lets go of what two collections did not need; keepBytes of the large
// ones stay.
type pool struct {
	poison bool
	free   [classes]sync.Pool

	kept struct {
		sync.Mutex
		bytes   int
		byClass [classes][]*frameBuf
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
	class := classOf(n)
	if class < 0 {
		return &frameBuf{b: make([]byte, n), class: -1}
	}
	if f := p.take(class); f != nil {
		return f
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

// take gives a large buffer that was kept, nil when there is none.
func (p *pool) take(class int) *frameBuf {
	if classSize(class) < keepFrom {
		return nil
	}
	p.kept.Lock()
	defer p.kept.Unlock()
	have := p.kept.byClass[class]
	if len(have) == 0 {
		return nil
	}
	f := have[len(have)-1]
	have[len(have)-1] = nil
	p.kept.byClass[class] = have[:len(have)-1]
	p.kept.bytes -= len(f.b)
	return f
}

// keep keeps a large buffer; false when it is small or enough is kept.
func (p *pool) keep(f *frameBuf) bool {
	if len(f.b) < keepFrom {
		return false
	}
	p.kept.Lock()
	defer p.kept.Unlock()
	if p.kept.bytes+len(f.b) > keepBytes {
		return false
	}
	p.kept.bytes += len(f.b)
	p.kept.byClass[f.class] = append(p.kept.byClass[f.class], f)
	return true
}
