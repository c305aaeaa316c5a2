package server

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// Protocols of a Listener, by Kafka's names.
const (
	Plaintext = "PLAINTEXT"
	SSL       = "SSL"
)

// Listener is one address that clients connect to.
type Listener struct {
	// Name is what `listeners` calls it; it is unique in a server.
	Name string
	// Protocol is PLAINTEXT or SSL.
	Protocol string
	// Addr is host:port; port 0 takes a free one.
	Addr string
	// TLS is needed for SSL, see LoadTLS.
	TLS *tls.Config
}

// Options are what New needs. Zero values mean the defaults named here.
type Options struct {
	Listeners []Listener
	// MaxRequestBytes is socket.request.max.bytes; default 100 MiB.
	MaxRequestBytes int
	// IdleTimeout is connections.max.idle.ms; default 10 minutes, negative for never. A connection
	// with a request under way is not idle.
	IdleTimeout time.Duration
	// StallTimeout is how long a frame may take to end or to gain another 64 KiB; default 30 s.
	StallTimeout time.Duration
	// WriteTimeout is how long a client may take for the next 256 KiB of its answers, counted
	// loosely (half of it is always given); default 30 s.
	WriteTimeout time.Duration
	// HandshakeTimeout bounds the TLS handshake; default 10 s.
	HandshakeTimeout time.Duration
	// MaxConns is max.connections of the whole server; 0 for no limit.
	MaxConns int
	// MaxConnsPerIP is max.connections.per.ip; 0 for no limit.
	MaxConnsPerIP int
	// InflightBytes bounds the frame buffers of all connections together; default 256 MiB.
	InflightBytes int64
	// MaxPipelined is how many requests of one connection may be under way; default 64.
	MaxPipelined int
	// SendBuffer is socket.send.buffer.bytes; 0 or less leaves it to the kernel.
	SendBuffer int
	// RecvBuffer is socket.receive.buffer.bytes; 0 or less leaves it to the kernel.
	RecvBuffer int
	// Clock stamps Request.Received; default clock.System. Deadlines of sockets always follow the
	// machine's clock.
	Clock clock.Clock
	// Logger takes the server's few lines; default none.
	Logger *slog.Logger
	// Handler serves the requests.
	Handler Handler
	// Observer counts; may be nil.
	Observer Observer
	// Poison overwrites each recycled frame, so that tests see who still reads it.
	Poison bool
}

// Handler serves the requests of all connections.
type Handler interface {
	// Opened is called once per connection, before its first request. It runs on the reader.
	Opened(c *Conn)
	// Serve takes one request. It runs on the connection's reader goroutine, in arrival order, one
	// at a time per connection, and must not block for long. Exactly one of Reply, NoReply and Fail
	// must follow per request, from any goroutine, now or later.
	Serve(r *Request)
	// Closed is called once per connection after the last Serve returned. Answers to requests that
	// are still open are dropped from then on, but must be made.
	Closed(c *Conn)
}

// Refusal is why a connection was turned away or cut.
type Refusal string

// The reasons an Observer is told.
const (
	RefusedTotal     Refusal = "max-connections"
	RefusedPerIP     Refusal = "max-connections-per-ip"
	RefusedHandshake Refusal = "tls-handshake"
	RefusedStranger  Refusal = "not-kafka"
	RefusedSize      Refusal = "request-size"
	RefusedIdle      Refusal = "idle"
	RefusedStalled   Refusal = "stalled"
	RefusedStuck     Refusal = "stuck-writer"
)

// Observer is told what happens, for metrics. Its methods are called from many goroutines and
// must be quick.
type Observer interface {
	ConnOpened(l *Listener)
	ConnClosed(l *Listener)
	Refused(l *Listener, why Refusal)
	BytesIn(l *Listener, n int)
	BytesOut(l *Listener, n int64)
}
