package server

import (
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

func TestPoolClasses(t *testing.T) {
	if got := classSize(classes - 1); got != classMax {
		t.Fatalf("the last class has %d bytes, want %d", got, classMax)
	}
	for c := 1; c < classes; c++ {
		lo, hi := classSize(c-1), classSize(c)
		if hi <= lo {
			t.Fatalf("class %d of %d bytes is not above the one before (%d)", c, hi, lo)
		}
		for _, n := range []int{lo + 1, (lo + hi) / 2, hi} {
			if got := classOf(n); got != c {
				t.Fatalf("classOf(%d) = %d, want %d", n, got, c)
			}
		}
		if float64(hi) > 1.26*float64(lo) {
			t.Fatalf("class %d wastes %d of %d bytes", c, hi-lo-1, hi)
		}
	}
	for _, n := range []int{-1, 0, 1, classMin} {
		if classOf(n) != 0 {
			t.Fatalf("classOf(%d) = %d, want 0", n, classOf(n))
		}
	}
	if classOf(classMax+1) != -1 || sizeFor(classMax+1) != classMax+1 {
		t.Fatal("a giant has a class")
	}
}

func TestPoolPoison(t *testing.T) {
	p := &pool{poison: true, clock: clock.System}
	defer p.close()
	for _, n := range []int{10, 3000, classMax + 1} {
		f := p.get(n)
		if len(f.b) < n {
			t.Fatalf("get(%d) gives %d bytes", n, len(f.b))
		}
		stale := f.b[:n]
		p.put(f)
		for i, b := range stale {
			if b != 0xDE {
				t.Fatalf("byte %d of %d survives the way back to the pool", i, n)
			}
		}
	}
}

// A large buffer is used again at once, also by what needs somewhat less, and let go of when the
// load has ended.
func TestPoolKeepsLargeBuffers(t *testing.T) {
	hands := clock.NewManual(time.Unix(0, 0))
	p := &pool{clock: hands}
	f := p.get(9 << 20)
	g := p.get(5 << 20)
	p.put(g)
	p.put(f)
	if p.get(3<<20) != f {
		t.Fatal("the buffer used last does not come back")
	}
	if p.get(1<<20) == g {
		t.Fatal("a buffer of more than four times the size is given")
	}
	p.put(f)
	if p.get(8<<20) != f {
		t.Fatal("a kept buffer is not found behind smaller ones")
	}
	p.put(f)
	hands.Advance(keepTime) // used since
	if p.kept.bytes != len(f.b)+len(g.b) {
		t.Fatalf("%d bytes kept, want %d", p.kept.bytes, len(f.b)+len(g.b))
	}
	hands.Advance(keepTime)
	if p.kept.bytes > keepIdle {
		t.Fatalf("%d bytes are kept when idle, want %d at most", p.kept.bytes, keepIdle)
	}
	var all []*frameBuf
	for range keepBytes>>20 + 8 {
		all = append(all, p.get(1<<20))
	}
	for _, f := range all {
		p.put(f)
	}
	if p.kept.bytes > keepBytes {
		t.Fatalf("%d bytes are kept, want %d at most", p.kept.bytes, keepBytes)
	}
	p.close()
}
