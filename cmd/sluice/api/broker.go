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
	Peers      Peers // nil on a broker that is alone
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
	running  tasks    // woken fetches
	conns    sync.Map // of *ClientInfo
	draining atomic.Bool

	failedMs, failedSkipped atomic.Int64 // of appendFailed
}

// Start makes the broker ready to serve; it is called once, before the first request.
func (b *Broker) Start() { b.rows = Table[:] }

// Opened is called for each new connection.
func (b *Broker) Opened(c *server.Conn) {
	info := &ClientInfo{}
	c.SetUser(info)
	b.conns.Store(info, nil)
}

// Closed is called when a connection is gone: what waits for it is let go.
func (b *Broker) Closed(c *server.Conn) {
	info := c.User().(*ClientInfo)
	b.conns.Delete(info)
	for _, op := range info.waiting() {
		op.abandon()
	}
}

// Drain answers every fetch that waits with what there is, and lets none wait from now on: the
// server can then be shut down without delay.
func (b *Broker) Drain() {
	b.draining.Store(true)
	for info := range b.conns.Range {
		for _, op := range info.(*ClientInfo).waiting() {
			op.evaluate(true)
		}
	}
}

// Close waits for what the handlers started. The server is shut down before.
func (b *Broker) Close() { b.running.close() }

// spawn runs f on a goroutine that Close waits for, after it not at all.
func (b *Broker) spawn(f func()) { b.running.spawn(f) }

// tasks are goroutines that end together.
type tasks struct {
	mu     sync.RWMutex
	closed bool
	wg     sync.WaitGroup
}

func (t *tasks) spawn(f func()) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if !t.closed {
		t.wg.Go(f)
	}
}

func (t *tasks) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.wg.Wait()
}

// nowMs is the broker's time in milliseconds since 1970.
func (b *Broker) nowMs() int64 { return clock.Millis(b.Clock.Now()) }
