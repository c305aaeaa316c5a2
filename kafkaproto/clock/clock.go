package clock

import (
	"sort"
	"sync"
	"time"
)

// Clock tells the time and wakes callers. Implementations may be used by many goroutines.
type Clock interface {
	// Now is the current time; differences between two readings are monotonic.
	Now() time.Time
	// AfterFunc calls f once, on a goroutine of the clock's, when d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending AfterFunc.
type Timer interface {
	// Stop keeps f from being called; false when it was called or stopped already.
	Stop() bool
	// Reset arms the timer anew; true when it had been pending.
	Reset(d time.Duration) bool
}

// Millis is t as Kafka counts time: milliseconds since 1970.
func Millis(t time.Time) int64 { return t.UnixMilli() }

type system struct{}

// System is the machine's clock.
var System Clock = system{}

func (system) Now() time.Time { return time.Now() }

func (system) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }

// Manual is a clock that stands still until Advance is called. Functions run on the goroutine
// that calls Advance, in order of their deadlines.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	seq    uint64
	timers []*manualTimer
}

// NewManual starts a manual clock at the given time.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

type manualTimer struct {
	clock *Manual
	at    time.Time
	seq   uint64
	f     func()
	armed bool
}

// Now gives the time that Advance has reached.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// AfterFunc arms a timer that a later Advance fires.
func (m *Manual) AfterFunc(d time.Duration, f func()) Timer {
	t := &manualTimer{clock: m, f: f}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.armLocked(t, d)
	return t
}

func (m *Manual) armLocked(t *manualTimer, d time.Duration) {
	m.seq++
	t.at, t.seq, t.armed = m.now.Add(d), m.seq, true
	m.timers = append(m.timers, t)
}

func (m *Manual) disarmLocked(t *manualTimer) bool {
	if !t.armed {
		return false
	}
	t.armed = false
	for i, x := range m.timers {
		if x == t {
			m.timers = append(m.timers[:i], m.timers[i+1:]...)
			break
		}
	}
	return true
}

// Advance moves the clock and fires what is due, one timer after the other.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	end := m.now.Add(d)
	for {
		sort.Slice(m.timers, func(i, j int) bool {
			if m.timers[i].at.Equal(m.timers[j].at) {
				return m.timers[i].seq < m.timers[j].seq
			}
			return m.timers[i].at.Before(m.timers[j].at)
		})
		if len(m.timers) == 0 || m.timers[0].at.After(end) {
			break
		}
		t := m.timers[0]
		m.timers = m.timers[1:]
		t.armed = false
		if t.at.After(m.now) {
			m.now = t.at
		}
		m.mu.Unlock()
		t.f()
		m.mu.Lock()
	}
	m.now = end
	m.mu.Unlock()
}

// Stop disarms the timer.
func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.clock.disarmLocked(t)
}

// Reset disarms the timer and arms it anew.
func (t *manualTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	was := t.clock.disarmLocked(t)
	t.clock.armLocked(t, d)
	return was
}
