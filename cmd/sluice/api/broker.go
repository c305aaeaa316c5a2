package api

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/controller/quorum"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/txn/pid"
)

// Broker is what the handlers work on: every part is given by the node that assembles it.
type Broker struct {
	Engine     *engine.Engine
	Controller *quorum.Controller
	Config     *config.Resolver
	Groups     *group.Service
	PIDs       *pid.Allocator
	Clock      clock.Clock
	Log        *slog.Logger
	NodeID     kafkaproto.NodeID
	ClusterID  string
	// Advertise gives the address that a client on this connection reaches the broker at.
	Advertise func(c *server.Conn) (host string, port int32)

	Stats Stats

	rows []Row // the table, which the handlers of its own rows cannot name

	topics   atomic.Pointer[topicTable]
	sessions sessionCache
	running  sync.WaitGroup // woken fetches
}

// Start makes the broker ready to serve; it is called once, before the first request.
func (b *Broker) Start() { b.rows = Table[:] }

// Opened is called for each new connection.
func (b *Broker) Opened(*server.Conn) {}

// Closed is called when a connection is gone; its parked requests end by their deadlines.
func (b *Broker) Closed(*server.Conn) {}

// Close waits for what the handlers started. The server is shut down before.
func (b *Broker) Close() { b.running.Wait() }

// spawn runs f on a goroutine that Close waits for.
func (b *Broker) spawn(f func()) {
	b.running.Go(f)
}

// nowMs is the broker's time in milliseconds since 1970.
func (b *Broker) nowMs() int64 { return clock.Millis(b.Clock.Now()) }
