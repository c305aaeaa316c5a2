package group

import "container/heap"

// timer is a deadline that somebody embeds; it sits in at most one heap.
type timer struct {
	at    int64 // steady milliseconds
	seq   uint64
	index int // in the heap, +1; 0 when it is not armed
	fire  func(m *Machine)
}

// timers is a heap of deadlines. Equal deadlines fire in the order in which they were set, so that
// the machine does the same for the same calls.
type timers struct {
	heap []*timer
	seq  uint64
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (t *timers) Len() int { return len(t.heap) }

func (t *timers) Less(i, j int) bool {
	a, b := t.heap[i], t.heap[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return a.seq < b.seq
}

func (t *timers) Swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].index, t.heap[j].index = i+1, j+1
}

func (t *timers) Push(x any) {
	e := x.(*timer)
	e.index = len(t.heap) + 1
	t.heap = append(t.heap, e)
}

func (t *timers) Pop() any {
	last := len(t.heap) - 1
	e := t.heap[last]
	t.heap[last] = nil
	t.heap = t.heap[:last]
	e.index = 0
	return e
}

// set arms e for the steady time at, again if it was armed.
func (t *timers) set(e *timer, at int64) {
	t.seq++
	e.at, e.seq = at, t.seq
	if e.index > 0 {
		heap.Fix(t, e.index-1)
		return
	}
	heap.Push(t, e)
}

// cancel disarms e; it is no harm when it is not armed.
func (t *timers) cancel(e *timer) {
	if e.index > 0 {
		heap.Remove(t, e.index-1)
	}
}

// due takes the first timer whose time has come, nil for none.
func (t *timers) due(now int64) *timer {
	if len(t.heap) == 0 || t.heap[0].at > now {
		return nil
	}
	return heap.Pop(t).(*timer)
}
