package server

import (
	"context"
	"net"
)

// Server listens and serves until Shutdown or Close.
type Server struct{}

// New checks the options; nothing is bound yet.
func New(o Options) (*Server, error) { panic("todo") }

// Start binds all listeners and accepts. When one can't be bound none stays open.
func (s *Server) Start() error { panic("todo") }

// Addrs gives each listener's bound address by its name.
func (s *Server) Addrs() map[string]net.Addr { panic("todo") }

// ServeConn serves a connection that is open already, as if it had come in on the named listener.
func (s *Server) ServeConn(listener string, nc net.Conn) error { panic("todo") }

// SetConnLimits changes MaxConns and MaxConnsPerIP; connections that are open stay.
func (s *Server) SetConnLimits(total, perIP int) { panic("todo") }

// Shutdown stops accepting and reading, lets the answers of the requests under way out, closes
// and waits for all goroutines. When ctx ends first the rest is cut and ctx's error returned.
func (s *Server) Shutdown(ctx context.Context) error { panic("todo") }

// Close cuts all connections and waits for all goroutines.
func (s *Server) Close() error { panic("todo") }
