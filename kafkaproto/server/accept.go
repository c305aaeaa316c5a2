package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

const (
	backoffMin = 5 * time.Millisecond
	backoffMax = time.Second
)

// keepAlive finds peers that vanished without a word, in about two minutes.
var keepAlive = net.KeepAliveConfig{
	Enable: true, Idle: time.Minute, Interval: 15 * time.Second, Count: 4,
}

// Start binds all listeners and accepts. When one can't be bound none stays open.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closing || len(s.mu.bound) > 0 {
		return errors.New("server: started twice, or closed")
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	for i := range s.opt.Listeners {
		l := &s.opt.Listeners[i]
		ln, err := lc.Listen(context.Background(), "tcp", l.Addr)
		if err != nil {
			for name, ln := range s.mu.bound {
				_ = ln.Close()
				delete(s.mu.bound, name)
			}
			return fmt.Errorf("server: listener %s: %w", l.Name, err)
		}
		s.mu.bound[l.Name] = ln
	}
	for i := range s.opt.Listeners {
		l := &s.opt.Listeners[i]
		ln := s.mu.bound[l.Name]
		s.wg.Go(func() { s.acceptLoop(l, ln) })
	}
	return nil
}

// acceptLoop takes connections until the listener is closed. Out of descriptors, or whatever else
// ails the kernel, it tries again later and later; it never gives up.
func (s *Server) acceptLoop(l *Listener, ln net.Listener) {
	wait := time.Duration(0)
	var logged time.Time
	for {
		nc, err := ln.Accept()
		if err == nil {
			wait = 0
			s.admit(l, nc)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		wait = min(max(2*wait, backoffMin), backoffMax)
		if now := time.Now(); now.Sub(logged) >= strayInterval {
			logged = now
			s.logger.Error("can't accept connections", "listener", l.Name, "err", err, "wait", wait)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.quit:
			t.Stop()
			return
		}
	}
}

// ServeConn serves a connection that is open already, as if it had come in on the named listener.
// The limits hold for it too; one that is over them is closed.
func (s *Server) ServeConn(listener string, nc net.Conn) error {
	for i := range s.opt.Listeners {
		if l := &s.opt.Listeners[i]; l.Name == listener {
			s.admit(l, nc)
			return nil
		}
	}
	return fmt.Errorf("server: no listener %q", listener)
}

// admit starts the connection, or closes it when it is one too many.
func (s *Server) admit(l *Listener, nc net.Conn) {
	ip := remoteIP(nc)
	c := &Conn{
		srv: s, listener: l, peer: ip, raw: nc,
		quit: make(chan struct{}), gone: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	c.room.L = &c.mu.Mutex
	c.in.buf = make([]byte, readMin)
	c.maxFrame.Store(int64(s.opt.MaxRequestBytes))
	if t, ok := nc.(*net.TCPConn); ok {
		s.tune(t)
		if l.Protocol == Plaintext {
			c.tcp = t
		}
	}
	why := s.register(c)
	if why == "" {
		return
	}
	if why != refusedClosing {
		s.observer.Refused(l, why)
		s.strays.log(slog.LevelWarn, ip, "too many connections: closed at once",
			"listener", l.Name, "peer", nc.RemoteAddr().String(), "limit", string(why))
	}
	_ = nc.Close()
}

// tune sets what a socket needs; TCP_NODELAY is Go's default and keepalive the listener's.
func (s *Server) tune(t *net.TCPConn) {
	if s.opt.SendBuffer > 0 {
		_ = t.SetWriteBuffer(s.opt.SendBuffer)
	}
	if s.opt.RecvBuffer > 0 {
		_ = t.SetReadBuffer(s.opt.RecvBuffer)
	}
}

// refusedClosing is register's answer while the server ends; nobody is told.
const refusedClosing Refusal = "closing"

// register counts c and starts its reader, or says why not.
func (s *Server) register(c *Conn) Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closing:
		return refusedClosing
	case s.mu.maxConns > 0 && len(s.mu.conns) >= s.mu.maxConns:
		return RefusedTotal
	case s.mu.maxPerIP > 0 && c.peer.IsValid() && s.mu.perIP[c.peer] >= s.mu.maxPerIP:
		return RefusedPerIP
	}
	s.mu.lastID++
	c.id = s.mu.lastID
	s.mu.conns[c] = struct{}{}
	s.mu.perIP[c.peer]++
	s.observer.ConnOpened(c.listener)
	s.wg.Go(c.run)
	return ""
}

// forget is the last thing a connection's reader does.
func (s *Server) forget(c *Conn) {
	s.mu.Lock()
	delete(s.mu.conns, c)
	if s.mu.perIP[c.peer]--; s.mu.perIP[c.peer] == 0 {
		delete(s.mu.perIP, c.peer)
	}
	s.mu.Unlock()
	s.observer.ConnClosed(c.listener)
}
