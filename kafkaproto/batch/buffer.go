package batch

import (
	"math/bits"
	"sync"
)

// Decompressed payloads live in buffers of a few size classes. Larger ones are made for the one use
// and left to the garbage collector, so that a single giant does not stay.
const (
	minClassBits = 14 // 16 KiB
	classStep    = 2  // each class is four times the one before
	classes      = 5  // up to 4 MiB
)

// buffer is a growing byte slice out of a pool. Its owner calls free once.
type buffer struct {
	b     []byte
	class int // -1: not pooled
}

var buffers [classes]sync.Pool

func classOf(n int) int {
	if n <= 1<<minClassBits {
		return 0
	}
	return (bits.Len(uint(n-1)) - minClassBits + classStep - 1) / classStep
}

// newBuffer gives an empty buffer with room for at least n bytes.
func newBuffer(n int) *buffer {
	class := classOf(n)
	if class >= classes {
		return &buffer{b: make([]byte, 0, n), class: -1}
	}
	if got, ok := buffers[class].Get().(*buffer); ok {
		return got
	}
	return &buffer{b: make([]byte, 0, 1<<(minClassBits+classStep*class)), class: class}
}

// grow makes room for at least n more bytes, by a factor of two at least so that growing stays
// linear in the bytes written.
func (f *buffer) grow(n int) {
	if cap(f.b)-len(f.b) >= n {
		return
	}
	next := newBuffer(max(len(f.b)+n, 2*cap(f.b)))
	next.b = append(next.b, f.b...)
	*f, *next = *next, *f
	next.free()
}

// room is the unwritten part of the buffer.
func (f *buffer) room() []byte { return f.b[len(f.b):cap(f.b)] }

// take adds the first n bytes of room to the buffer.
func (f *buffer) take(n int) { f.b = f.b[:len(f.b)+n] }

func (f *buffer) free() {
	if mangle {
		for i := range f.b {
			f.b[i] = 0xdb
		}
	}
	if f.class < 0 {
		return
	}
	f.b = f.b[:0]
	buffers[f.class].Put(f)
}
