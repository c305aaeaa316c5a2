package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// Server listens and serves until Shutdown or Close.
type Server struct {
	opt      Options
	handler  Handler
	observer Observer
	logger   *slog.Logger
	strays   strays
	pool     pool
	budget   budget
	started  time.Time

	quit chan struct{}  // closed when no more connections are taken
	wg   sync.WaitGroup // all goroutines; grows only under mu, or under the mu of a running Conn

	mu struct {
		sync.Mutex
		closing  bool
		bound    map[string]net.Listener
		conns    map[*Conn]struct{}
		perIP    map[netip.Addr]int
		lastID   uint64
		maxConns int
		maxPerIP int
	}
}

// New checks the options; nothing is bound yet.
func New(o Options) (*Server, error) {
	if o.Handler == nil {
		return nil, errors.New("server: no handler")
	}
	o.Listeners = append([]Listener(nil), o.Listeners...)
	names := make(map[string]bool)
	for i := range o.Listeners {
		l := &o.Listeners[i]
		switch {
		case l.Name == "" || names[l.Name]:
			return nil, fmt.Errorf("server: listener name %q is empty or used twice", l.Name)
		case l.Protocol != Plaintext && l.Protocol != SSL:
			return nil, fmt.Errorf("server: listener %s: protocol %q is not %s or %s",
				l.Name, l.Protocol, Plaintext, SSL)
		case l.Protocol == SSL && l.TLS == nil:
			return nil, fmt.Errorf("server: listener %s: SSL without a TLS configuration", l.Name)
		}
		names[l.Name] = true
	}
	o.setDefaults()
	s := &Server{
		opt:      o,
		handler:  o.Handler,
		observer: o.Observer,
		logger:   o.Logger,
		strays:   strays{logger: o.Logger},
		pool:     pool{poison: o.Poison, clock: o.Clock},
		budget:   budget{limit: o.InflightBytes},
		started:  time.Now(),
		quit:     make(chan struct{}),
	}
	s.mu.bound = make(map[string]net.Listener)
	s.mu.conns = make(map[*Conn]struct{})
	s.mu.perIP = make(map[netip.Addr]int)
	s.mu.maxConns, s.mu.maxPerIP = o.MaxConns, o.MaxConnsPerIP
	return s, nil
}

func (o *Options) setDefaults() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.IdleTimeout, 10*time.Minute)
	def(&o.StallTimeout, 30*time.Second)
	def(&o.WriteTimeout, 30*time.Second)
	def(&o.HandshakeTimeout, 10*time.Second)
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = 100 << 20
	}
	if o.InflightBytes <= 0 {
		o.InflightBytes = 256 << 20
	}
	if o.MaxPipelined <= 0 {
		o.MaxPipelined = 64
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
}

type noObserver struct{}

func (noObserver) ConnOpened(*Listener)       {}
func (noObserver) ConnClosed(*Listener)       {}
func (noObserver) Refused(*Listener, Refusal) {}
func (noObserver) BytesIn(*Listener, int)     {}
func (noObserver) BytesOut(*Listener, int64)  {}

// Addrs gives each listener's bound address by its name; empty before Start.
func (s *Server) Addrs() map[string]net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make(map[string]net.Addr, len(s.mu.bound))
	for name, ln := range s.mu.bound {
		addrs[name] = ln.Addr()
	}
	return addrs
}

// SetConnLimits changes MaxConns and MaxConnsPerIP; connections that are open stay.
func (s *Server) SetConnLimits(total, perIP int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.maxConns, s.mu.maxPerIP = total, perIP
}

// Conns is the number of open connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.conns)
}

// InflightBytes is how much of Options.InflightBytes is taken now.
func (s *Server) InflightBytes() int64 { return s.budget.inUse() }

// Shutdown stops accepting and reading, lets the answers of the requests under way out, closes
// and waits for all goroutines. When ctx ends first the rest is cut and ctx's error returned.
func (s *Server) Shutdown(ctx context.Context) error {
	for _, c := range s.stopAccepting() {
		c.stop()
	}
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.stopAccepting() {
		c.kill()
	}
	<-done
	return ctx.Err()
}

// Close cuts all connections and waits for all goroutines.
func (s *Server) Close() error {
	for _, c := range s.stopAccepting() {
		c.kill()
	}
	s.wg.Wait()
	return nil
}

// stopAccepting closes the listeners and gives the connections that are left.
func (s *Server) stopAccepting() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.closing {
		s.mu.closing = true
		close(s.quit)
		s.pool.close()
		for _, ln := range s.mu.bound {
			_ = ln.Close()
		}
	}
	conns := make([]*Conn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		conns = append(conns, c)
	}
	return conns
}
