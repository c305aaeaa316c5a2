package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// funcs is a Handler made of functions; it counts the ends of connections' lives.
type funcs struct {
	serve          func(r *Request)
	opened, closed atomic.Int64
	onClosed       func(c *Conn)
}

func (h *funcs) Serve(r *Request) { h.serve(r) }
func (h *funcs) Opened(*Conn)     { h.opened.Add(1) }
func (h *funcs) Closed(c *Conn) {
	if h.onClosed != nil {
		h.onClosed(c)
	}
	h.closed.Add(1)
}

// echo answers at once with the frame, and recycles it once that is written.
func echo(r *Request) { r.ReplyBuf(r.Frame, r.Recycle) }

// lines is a log that tests read.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.TrimSpace(l.buf.String())
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// counts is an Observer that adds up.
type counts struct {
	opened, closed, in, out atomic.Int64

	mu      sync.Mutex
	refused map[Refusal]int
}

func (o *counts) ConnOpened(*Listener)          { o.opened.Add(1) }
func (o *counts) ConnClosed(*Listener)          { o.closed.Add(1) }
func (o *counts) BytesIn(_ *Listener, n int)    { o.in.Add(int64(n)) }
func (o *counts) BytesOut(_ *Listener, n int64) { o.out.Add(n) }
func (o *counts) Refused(_ *Listener, why Refusal) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused == nil {
		o.refused = make(map[Refusal]int)
	}
	o.refused[why]++
}

func (o *counts) why(r Refusal) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused[r]
}

// newServer makes a server with a PLAINTEXT listener "plain" unless o names others. Cleanup closes
// it and checks that the budget came back and no connection is left.
func newServer(t testing.TB, serve func(r *Request), o Options) *Server {
	t.Helper()
	if o.Handler == nil {
		o.Handler = &funcs{serve: serve}
	}
	if o.Listeners == nil {
		o.Listeners = []Listener{{Name: "plain", Protocol: Plaintext, Addr: "127.0.0.1:0"}}
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := s.Conns(); n != 0 {
			t.Errorf("%d connections left after Close", n)
		}
	})
	return s
}

func startServer(t testing.TB, serve func(r *Request), o Options) *Server {
	t.Helper()
	s := newServer(t, serve, o)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// client is the other end of a connection.
type client struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, s *Server) *client {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addrs()["plain"].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{t, nc}
}

// pipe connects in memory, for synctest bubbles.
func pipe(t testing.TB, s *Server) *client {
	t.Helper()
	a, b := net.Pipe()
	if err := s.ServeConn("plain", b); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return &client{t, a}
}

func frame(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

func (c *client) send(bodies ...[]byte) {
	c.t.Helper()
	var all []byte
	for _, b := range bodies {
		all = append(all, frame(b)...)
	}
	if _, err := c.Write(all); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 0 || n > 200<<20 {
		return nil, fmt.Errorf("answer of %d bytes", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r, body)
	return body, err
}

func (c *client) recv() []byte {
	c.t.Helper()
	b, err := readFrame(c)
	if err != nil {
		c.t.Fatalf("receive: %v", err)
	}
	return b
}

func (c *client) want(body string) {
	c.t.Helper()
	if got := c.recv(); string(got) != body {
		c.t.Fatalf("answer %.60q, want %.60q", got, body)
	}
}

// wantEnd expects the connection to end without another byte.
func (c *client) wantEnd() {
	c.t.Helper()
	b, err := io.ReadAll(c)
	if len(b) > 0 {
		c.t.Fatalf("%d more bytes before the end: %.60q", len(b), b)
	}
	if err != nil && strings.Contains(err.Error(), "timeout") {
		c.t.Fatalf("connection still open: %v", err)
	}
}

// eventually polls a condition on real sockets, where nothing can be waited for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// pattern fills n bytes that differ everywhere, so that a shifted range shows.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// bubble hides from rapid that t is a *testing.T, whose Deadline a synctest bubble must not ask.
type bubble struct{ rapid.TB }
