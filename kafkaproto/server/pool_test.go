package server

import "testing"

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
	p := &pool{poison: true}
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
