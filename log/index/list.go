package index

import "sync/atomic"

// List is an append-only list for one writer and any number of readers without a lock (I3). The
// zero value is empty and holds no memory.
//
// Why this is free of races: entries are written behind the published length only, the length is
// published after the entry, and a reader takes the array and its length from one pointer. Growing
// and cutting publish another array, so the writer never writes where a reader may look.
type List[T any] struct{ p atomic.Pointer[array[T]] }

type array[T any] struct {
	e []T // as long as its capacity
	n atomic.Int64
}

// View is the entries so far; they never change.
func (l *List[T]) View() []T {
	a := l.p.Load()
	if a == nil {
		return nil
	}
	n := a.n.Load()
	return a.e[:n:n]
}

// Len is the number of entries so far.
func (l *List[T]) Len() int { return len(l.View()) }

// Last is the newest entry.
func (l *List[T]) Last() (T, bool) {
	v := l.View()
	if len(v) == 0 {
		var zero T
		return zero, false
	}
	return v[len(v)-1], true
}

// Append adds an entry. Only the writer may call it.
func (l *List[T]) Append(e T) {
	a := l.p.Load()
	if a == nil || int(a.n.Load()) == len(a.e) {
		a = l.grow()
	}
	n := a.n.Load()
	a.e[n] = e
	a.n.Store(n + 1)
}

// grow doubles while small and adds a quarter later, so that little memory stands idle.
func (l *List[T]) grow() *array[T] {
	v := l.View()
	room := 2 * len(v)
	if len(v) >= 4096 {
		room = len(v) + len(v)/4
	}
	return l.replace(v, max(room, 8))
}

func (l *List[T]) replace(v []T, room int) *array[T] {
	a := &array[T]{e: make([]T, room)}
	a.n.Store(int64(copy(a.e, v)))
	l.p.Store(a)
	return a
}

// Cut keeps the first n entries. Only the writer may call it.
func (l *List[T]) Cut(n int) {
	if v := l.View(); n < len(v) {
		l.replace(v[:n], n)
	}
}

// Set replaces all entries. Only the writer may call it.
func (l *List[T]) Set(v []T) { l.replace(v, len(v)) }
