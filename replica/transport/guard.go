package transport

import (
	"net"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// guard closes a connection on which nothing moves for a time. One goroutine arms and disarms it.
// (A deadline would be the machine's time; this is the clock's.)
type guard struct {
	clock clock.Clock
	conn  net.Conn
	after time.Duration
	timer clock.Timer
}

// arm starts the time anew. A nil guard does nothing.
func (g *guard) arm() {
	switch {
	case g == nil:
	case g.timer == nil:
		g.timer = g.clock.AfterFunc(g.after, func() { _ = g.conn.Close() })
	default:
		g.timer.Reset(g.after)
	}
}

func (g *guard) disarm() {
	if g != nil && g.timer != nil {
		g.timer.Stop()
	}
}

// pause waits; false when quit closed first.
func pause(c clock.Clock, d time.Duration, quit <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	over := make(chan struct{})
	t := c.AfterFunc(d, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
		return true
	case <-quit:
		return false
	}
}
