package transport

import (
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// bucket lets bytes through at a rate, with a burst of a fifth of a second.
type bucket struct {
	clock clock.Clock

	mu struct {
		sync.Mutex
		rate   int64 // bytes/s; 0: no limit
		free   float64
		filled time.Time
	}
}

// set changes the rate, at any time.
func (b *bucket) set(rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fillLocked()
	b.mu.rate = max(0, rate)
	b.mu.free = min(b.mu.free, b.burstLocked())
}

func (b *bucket) burstLocked() float64 { return max(float64(b.mu.rate)/5, chunkSize) }

func (b *bucket) fillLocked() {
	now := b.clock.Now()
	if !b.mu.filled.IsZero() {
		b.mu.free = min(b.burstLocked(), b.mu.free+now.Sub(b.mu.filled).Seconds()*float64(b.mu.rate))
	}
	b.mu.filled = now
}

// take takes n bytes at once and tells how long to wait before they may go. Who comes later waits
// longer, so that the order is kept.
func (b *bucket) take(n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.rate == 0 {
		return 0
	}
	b.fillLocked()
	b.mu.free -= float64(n)
	if b.mu.free >= 0 {
		return 0
	}
	return time.Duration(-b.mu.free / float64(b.mu.rate) * float64(time.Second))
}
