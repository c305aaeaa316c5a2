package admin

import (
	"sync/atomic"

	"github.com/sluicelog/sluice/kafkaproto/server"
)

// Connections counts what happens on the Kafka listeners; it is the server's Observer.
type Connections struct {
	opened, closed, refused, in, out atomic.Int64
}

// ConnOpened implements server.Observer.
func (c *Connections) ConnOpened(*server.Listener) { c.opened.Add(1) }

// ConnClosed implements server.Observer.
func (c *Connections) ConnClosed(*server.Listener) { c.closed.Add(1) }

// Refused implements server.Observer.
func (c *Connections) Refused(*server.Listener, server.Refusal) { c.refused.Add(1) }

// BytesIn implements server.Observer.
func (c *Connections) BytesIn(_ *server.Listener, n int) { c.in.Add(int64(n)) }

// BytesOut implements server.Observer.
func (c *Connections) BytesOut(_ *server.Listener, n int64) { c.out.Add(n) }
