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
)

// frameBuf is a buffer of a size class; class is -1 for a giant.
type frameBuf struct {
	b     []byte
	class int
}

// pool keeps frame buffers by size class, four classes per doubling, so that at most a fifth of a
// buffer is slack. sync.Pool lets go of what two collections did not need.
type pool struct {
	poison bool
	free   [classes]sync.Pool
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
	if f.class >= 0 {
		p.free[f.class].Put(f)
	}
}
