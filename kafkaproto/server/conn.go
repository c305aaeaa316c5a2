package server

import (
	"crypto/tls"
	"net"
)

// Conn is one client's connection. Its methods may be called from any goroutine.
type Conn struct{}

// ID is unique among the connections of a server.
func (c *Conn) ID() uint64 { panic("todo") }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { panic("todo") }

// LocalAddr is the address the peer reached.
func (c *Conn) LocalAddr() net.Addr { panic("todo") }

// Listener is where the connection came in.
func (c *Conn) Listener() *Listener { panic("todo") }

// TLS is the state of the TLS session, nil on a plain connection.
func (c *Conn) TLS() *tls.ConnectionState { panic("todo") }

// Done is closed when the connection is about to end.
func (c *Conn) Done() <-chan struct{} { panic("todo") }

// Close ends the connection at once; answers that are not out are dropped.
func (c *Conn) Close() { panic("todo") }

// SetUser keeps the handler's state of this connection.
func (c *Conn) SetUser(v any) { panic("todo") }

// User is what SetUser was given last, or nil.
func (c *Conn) User() any { panic("todo") }

// SetMaxRequestBytes lowers (or raises) the frame limit of this connection, for peers that have
// not yet said who they are.
func (c *Conn) SetMaxRequestBytes(n int) { panic("todo") }
