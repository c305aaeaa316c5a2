package admin

import (
	"sync/atomic"

	"github.com/sluicelog/sluice/kafkaproto/server"
)

// refusals are the reasons for which a connection is turned away or cut.
var refusals = [...]server.Refusal{
	server.RefusedTotal, server.RefusedPerIP, server.RefusedHandshake, server.RefusedStranger,
	server.RefusedSize, server.RefusedIdle, server.RefusedStalled, server.RefusedStuck,
}

// Connections counts what happens on the Kafka listeners; it is the server's Observer. The zero
// value is ready.
type Connections struct {
	opened, closed, in, out atomic.Int64
	refused                 [len(refusals)]atomic.Int64
}

// ConnOpened implements server.Observer.
func (c *Connections) ConnOpened(*server.Listener) { c.opened.Add(1) }

// ConnClosed implements server.Observer.
func (c *Connections) ConnClosed(*server.Listener) { c.closed.Add(1) }

// Refused implements server.Observer.
func (c *Connections) Refused(_ *server.Listener, why server.Refusal) {
	for i, r := range refusals {
		if r == why {
			c.refused[i].Add(1)
		}
	}
}

// BytesIn implements server.Observer.
func (c *Connections) BytesIn(_ *server.Listener, n int) { c.in.Add(int64(n)) }

// BytesOut implements server.Observer.
func (c *Connections) BytesOut(_ *server.Listener, n int64) { c.out.Add(n) }
