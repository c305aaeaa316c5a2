package transport

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	slabMin  = 512      // bytes of the smallest pooled buffer
	slabMax  = 2 << 20  // of the largest; what is larger goes to the collector
	slabKeep = 16 << 20 // bytes of large buffers that stay through collections
	slabBig  = 64 << 10 // what is a large buffer

	slabClasses = 13 // slabMin << 12 == slabMax
)

// slab is the buffer of one received payload.
type slab struct {
	b     []byte
	class int // -1: not pooled
	owner *slabs
	// gen counts the uses: a lease of an earlier one is void.
	gen atomic.Uint64
	// held is what the budget is owed, nil budget: nothing.
	held   int64
	budget *budget
}

// lease is the right to a slab's bytes until end.
type lease struct {
	s   *slab
	gen uint64
}

func (l lease) end() {
	if l.s == nil || !l.s.gen.CompareAndSwap(l.gen, l.gen+1) {
		return
	}
	s := l.s
	if s.budget != nil {
		s.budget.release(s.held)
		s.budget, s.held = nil, 0
	}
	s.owner.put(s)
}

// slabs keeps buffers by powers of two. sync.Pool forgets at each collection, which large buffers
// would make frequent: some of those are kept.
type slabs struct {
	small [slabClasses]sync.Pool

	mu struct {
		sync.Mutex
		big  [slabClasses][]*slab
		kept int
	}
}

func slabClass(n int) int {
	if n <= slabMin {
		return 0
	}
	if n > slabMax {
		return -1
	}
	return bits.Len(uint(n-1)) - bits.Len(uint(slabMin-1))
}

// get gives a slab whose b has n bytes of unknown content.
func (p *slabs) get(n int) *slab {
	class := slabClass(n)
	if class < 0 {
		return &slab{b: make([]byte, n), class: -1, owner: p}
	}
	if slabMin<<class >= slabBig {
		if s := p.kept(class); s != nil {
			s.b = s.b[:n]
			return s
		}
	} else if v := p.small[class].Get(); v != nil {
		s := v.(*slab)
		s.b = s.b[:n]
		return s
	}
	return &slab{b: make([]byte, n, slabMin<<class), class: class, owner: p}
}

func (p *slabs) kept(class int) *slab {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.mu.big[class]
	if len(l) == 0 {
		return nil
	}
	s := l[len(l)-1]
	l[len(l)-1] = nil
	p.mu.big[class] = l[:len(l)-1]
	p.mu.kept -= cap(s.b)
	return s
}

func (p *slabs) put(s *slab) {
	switch {
	case s.class < 0:
	case slabMin<<s.class < slabBig:
		p.small[s.class].Put(s)
	default:
		p.mu.Lock()
		if p.mu.kept+cap(s.b) <= slabKeep {
			p.mu.kept += cap(s.b)
			p.mu.big[s.class] = append(p.mu.big[s.class], s)
		}
		p.mu.Unlock()
	}
}

func (s *slab) lease() lease { return lease{s: s, gen: s.gen.Load()} }
