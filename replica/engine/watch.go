package engine

import "sync/atomic"

// Watcher is told when a partition moves: new visible records, a new log start, or its end.
type Watcher struct {
	wake func()
	// asleep is 1 while a call to wake is owed; it folds a burst of moves into one call.
	asleep atomic.Bool
}

// NewWatcher makes a watcher; wake is called without locks held, from the goroutine that moved
// the partition, and must be quick. After each call Arm must be called before it is called again.
func NewWatcher(wake func()) *Watcher {
	w := &Watcher{wake: wake}
	w.asleep.Store(true)
	return w
}

// Arm lets the next move call wake again. The caller re-reads the partitions after Arm (E4).
func (w *Watcher) Arm() { w.asleep.Store(true) }

// Watch registers w; Unwatch must follow.
func (p *Partition) Watch(w *Watcher) {
	p.mu.Lock()
	p.mu.watchers = append(p.mu.watchers, w)
	p.mu.Unlock()
}

// Unwatch takes w off the partition.
func (p *Partition) Unwatch(w *Watcher) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ws := p.mu.watchers
	for i, x := range ws {
		if x == w {
			ws[i] = ws[len(ws)-1]
			ws[len(ws)-1] = nil
			p.mu.watchers = ws[:len(ws)-1]
			return
		}
	}
}

func (p *Partition) wake() {
	p.mu.Lock()
	if len(p.mu.watchers) == 0 {
		p.mu.Unlock()
		return
	}
	var few [8]*Watcher
	due := few[:0]
	for _, w := range p.mu.watchers {
		if w.asleep.CompareAndSwap(true, false) {
			due = append(due, w)
		}
	}
	p.mu.Unlock()
	for _, w := range due {
		w.wake()
	}
}
