package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestFirstBytes: what is not Kafka is closed with one clear line, browsers with a hint.
func TestFirstBytes(t *testing.T) {
	for _, tc := range []struct {
		name, send, answer, line string
		why                      Refusal
	}{
		{"tls", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "",
			"TLS handshake on a PLAINTEXT", RefusedStranger},
		{"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", httpHint,
			"HTTP request on a Kafka", RefusedStranger},
		{"http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", httpHint,
			"HTTP request on a Kafka", RefusedStranger},
		{"ssh", "SSH-2.0-OpenSSH_9.6\r\n", "", `SSH-`, RefusedSize},
		{"negative", "\xff\xff\xff\xff", "", "bytes=-1", RefusedSize},
		{"above", "\x00\x00\x04\x01", "", "bytes=1025 limit=1024", RefusedSize},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log lines
			var obs counts
			s := startServer(t, echo, Options{
				MaxRequestBytes: 1024, Logger: log.logger(), Observer: &obs,
			})
			for range 3 {
				c := dial(t, s)
				_, _ = io.WriteString(c, tc.send)
				got, _ := io.ReadAll(c)
				if string(got) != tc.answer {
					t.Fatalf("answer %q, want %q", got, tc.answer)
				}
			}
			eventually(t, "counted", func() bool { return obs.why(tc.why) == 3 })
			got := log.all()
			if len(got) != 1 || !strings.Contains(got[0], tc.line) {
				t.Fatalf("log is %q, want one line with %q", got, tc.line)
			}
		})
	}
}

// TestOversizeAfterAnswers: the answers to requests before a bad one still arrive.
func TestOversizeAfterAnswers(t *testing.T) {
	s := startServer(t, func(r *Request) {
		go func() { time.Sleep(5 * time.Millisecond); echo(r) }()
	}, Options{MaxRequestBytes: 100})
	c := dial(t, s)
	bad := append(frame([]byte("good")), "\x7f\xff\xff\xff and much more that nobody reads"...)
	if _, err := c.Write(bad); err != nil {
		t.Fatal(err)
	}
	c.want("good")
	c.wantEnd()
}

func TestSetMaxRequestBytes(t *testing.T) {
	s := startServer(t, func(r *Request) {
		r.Conn.SetMaxRequestBytes(50)
		echo(r)
	}, Options{})
	c := dial(t, s)
	c.send(make([]byte, 100))
	c.recv()
	c.send(make([]byte, 51))
	c.wantEnd()
}

func TestConnLimits(t *testing.T) {
	for _, tc := range []struct {
		name         string
		total, perIP int
		why          Refusal
	}{{"total", 2, 0, RefusedTotal}, {"per IP", 0, 2, RefusedPerIP}} {
		t.Run(tc.name, func(t *testing.T) {
			var log lines
			var obs counts
			s := startServer(t, echo, Options{
				MaxConns: tc.total, MaxConnsPerIP: tc.perIP, Logger: log.logger(), Observer: &obs,
			})
			open := []*client{dial(t, s), dial(t, s)}
			for _, c := range open {
				c.send([]byte("x"))
				c.want("x")
			}
			for range 5 {
				dial(t, s).wantEnd()
			}
			if got := log.all(); len(got) != 1 {
				t.Fatalf("log is %q, want one line for five refusals", got)
			}
			if n := obs.why(tc.why); n != 5 {
				t.Fatalf("%d refusals counted as %s, want 5", n, tc.why)
			}
			open[0].Close()
			eventually(t, "room for one", func() bool { return s.Conns() == 1 })
			c := dial(t, s)
			c.send([]byte("again"))
			c.want("again")
			s.SetConnLimits(0, 0)
			c = dial(t, s)
			c.send([]byte("more"))
			c.want("more")
		})
	}
}

// TestAnnouncedSizes: a hundred connections that announce 60 MB cost neither memory nor budget,
// and others are served (lesson 10).
func TestAnnouncedSizes(t *testing.T) {
	s := startServer(t, echo, Options{InflightBytes: 32 << 20})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range 100 {
		c := dial(t, s)
		announced := []byte{0x03, 0x93, 0x87, 0x00}
		if _, err := c.Write(append(announced, make([]byte, 1000)...)); err != nil {
			t.Fatal(err)
		}
	}
	want := int64(100 * smallFrame)
	eventually(t, "all read", func() bool { return s.InflightBytes() == want })
	if grown := int64(heap()) - int64(before); grown > want+(4<<20) {
		t.Fatalf("the heap grew by %d bytes; 100 first pieces are %d", grown, want)
	}
	c := dial(t, s)
	big := pattern(5 << 20)
	for range 3 {
		c.send(big)
		if got := c.recv(); string(got) != string(big) {
			t.Fatal("a large frame comes back changed")
		}
	}
}

// TestBudgetBlocksLarge: frames above the budget are read one after the other, small ones pass.
func TestBudgetBlocksLarge(t *testing.T) {
	requests := make(chan *Request, 10)
	s := startServer(t, func(r *Request) {
		if len(r.Frame) < 100 {
			echo(r)
			return
		}
		requests <- r
	}, Options{InflightBytes: 1 << 20})
	clients := []*client{dial(t, s), dial(t, s), dial(t, s)}
	for _, c := range clients {
		go c.send(make([]byte, 3<<20))
	}
	for range clients {
		r := <-requests
		time.Sleep(10 * time.Millisecond)
		if len(requests) > 0 {
			t.Fatal("two frames of 3 MiB fit a budget of 1 MiB")
		}
		small := dial(t, s)
		small.send([]byte("small"))
		small.want("small")
		r.ReplyBuf([]byte("done"), nil)
	}
	for _, c := range clients {
		c.want("done")
	}
	eventually(t, "budget back", func() bool { return s.InflightBytes() == 0 })
}

// TestBodySizes sends frames around each border of the reader, in pieces and at once, pipelined
// and poisoned.
func TestBodySizes(t *testing.T) {
	s := startServer(t, echo, Options{Poison: true})
	c := dial(t, s)
	var all []byte
	var sizes []int
	for _, n := range []int{
		0, 1, 3, 500, 508, 512, readMin - 4, readMin, readMin + 1, readMax - 4, readMax,
		readMax + 1, smallFrame - 1, smallFrame, smallFrame + 1, 2*smallFrame + 1, 1 << 20, 100,
		1<<20 + 100, 7, 3 << 20,
	} {
		sizes = append(sizes, n, n/2)
	}
	data := pattern(4 << 20)
	for i, n := range sizes {
		all = append(all, frame(data[i:i+n])...)
	}
	for _, step := range []int{len(all), 100_000, 10_007} {
		go func() {
			for rest := all; len(rest) > 0; {
				n := min(step, len(rest))
				if _, err := c.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		for i, n := range sizes {
			if got := c.recv(); string(got) != string(data[i:i+n]) {
				t.Fatalf("frame %d of %d bytes comes back changed", i, n)
			}
		}
	}
}

// failingListener gives errors before a connection, as a kernel without descriptors does.
type failingListener struct {
	net.Listener
	errs  atomic.Int64
	conns chan net.Conn
	times []time.Time
	done  chan struct{}
}

func (l *failingListener) Accept() (net.Conn, error) {
	l.times = append(l.times, time.Now())
	if l.errs.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func TestAcceptBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		s := newServer(t, echo, Options{Logger: log.logger()})
		ln := &failingListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		ln.errs.Store(12)
		a, b := net.Pipe()
		defer a.Close()
		ln.conns <- b
		s.wg.Go(func() { s.acceptLoop(&s.opt.Listeners[0], ln) })
		c := &client{t, a}
		c.send([]byte("patience"))
		c.want("patience")
		close(ln.done)
		synctest.Wait()
		for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000} {
			if got := ln.times[i+1].Sub(ln.times[i]); got != want*time.Millisecond {
				t.Fatalf("wait %d is %v, want %v ms", i, got, want)
			}
		}
		if got := log.all(); len(got) != 1 || !strings.Contains(got[0], "too many open files") {
			t.Fatalf("log is %q, want one line", got)
		}
	})
}

func TestStraysPerPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		s := strays{logger: log.logger()}
		addr := func(i int) netip.Addr {
			return netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		}
		for range 5 {
			s.log(slog.LevelWarn, addr(1), "hello")
			s.log(slog.LevelWarn, addr(2), "hello")
		}
		if got := log.all(); len(got) != 2 {
			t.Fatalf("%d lines for two peers in one interval", len(got))
		}
		time.Sleep(strayInterval)
		s.log(slog.LevelWarn, addr(1), "hello")
		if got := log.all(); len(got) != 3 || !strings.Contains(got[2], "skipped=4") {
			t.Fatalf("log is %q, want a third line that tells of 4 skipped", got)
		}
		for range 5 {
			s.log(slog.LevelWarn, addr(1), "another kind", "peer", "p")
		}
		if got := log.all(); len(got) != 4 || !strings.Contains(got[3], "another kind") {
			t.Fatalf("log is %q, want one line more of another kind", got)
		}
		for i := range 3 * strayPeers {
			s.log(slog.LevelWarn, addr(i+10), "flood")
		}
		if n := len(log.all()); n > strayPeers+5 {
			t.Fatalf("%d lines for a flood of peers", n)
		}
		if n := len(s.mu.peers); n > strayPeers+1 {
			t.Fatalf("%d peers remembered", n)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	h := &funcs{serve: echo}
	plain := Listener{Name: "a", Protocol: Plaintext}
	for name, o := range map[string]Options{
		"no handler":  {},
		"twice":       {Handler: h, Listeners: []Listener{plain, plain}},
		"no name":     {Handler: h, Listeners: []Listener{{Protocol: Plaintext}}},
		"no TLS":      {Handler: h, Listeners: []Listener{{Name: "a", Protocol: SSL}}},
		"no protocol": {Handler: h, Listeners: []Listener{{Name: "a", Protocol: "HTTP"}}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestStartAllOrNone: when one address is taken, the others are free again.
func TestStartAllOrNone(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	s := newServer(t, echo, Options{Listeners: []Listener{
		{Name: "a", Protocol: Plaintext, Addr: addr},
		{Name: "b", Protocol: Plaintext, Addr: taken.Addr().String()},
	}})
	err = s.Start()
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(fmt.Sprint(err), "listener b") {
		t.Fatalf("Start gives %v, want address in use at listener b", err)
	}
	again, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatalf("the first listener stays bound: %v", err)
	}
	again.Close()
}

// FuzzFrame feeds any bytes: the frames served must be those that a plain parser finds, and
// memory must follow the bytes that came.
func FuzzFrame(f *testing.F) {
	f.Add([]byte{}, uint8(1))
	f.Add(append(frame([]byte("hello")), frame(nil)...), uint8(3))
	f.Add([]byte{0x16, 0x03, 0x01}, uint8(2))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint8(5))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1}, uint8(1))
	f.Add([]byte{0x06, 0x00, 0x00, 0x00, 1, 2, 3}, uint8(0))
	f.Add(append(frame(pattern(70_000)), frame(pattern(40_000))...), uint8(200))
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		const limit = 100 << 20
		var got [][]byte
		var served, sent int64 // most bytes held, as seen while serving and while sending
		var s *Server
		h := &funcs{serve: func(r *Request) {
			got = append(got, append([]byte(nil), r.Frame...))
			served = max(served, s.InflightBytes())
			r.Recycle()
			r.NoReply()
		}}
		s, err := New(Options{
			Handler: h, MaxRequestBytes: limit, Poison: true,
			Listeners: []Listener{{Name: "plain", Protocol: Plaintext}},
		})
		if err != nil {
			t.Fatal(err)
		}
		a, b := net.Pipe()
		if err := s.ServeConn("plain", b); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, a) }()
		size := max(int(step)*97, 1)
		for rest := data; len(rest) > 0; {
			n := min(size, len(rest))
			if _, err := a.Write(rest[:n]); err != nil {
				break
			}
			sent = max(sent, s.InflightBytes())
			rest = rest[n:]
		}
		a.Close()
		for h.closed.Load() == 0 {
			time.Sleep(10 * time.Microsecond)
		}
		_ = s.Close()
		held := max(served, sent)
		if bound := 4*int64(len(data)) + smallFrame; held > bound {
			t.Fatalf("%d bytes held for %d received", held, len(data))
		}
		if n := s.InflightBytes(); n != 0 {
			t.Fatalf("%d bytes of budget not given back", n)
		}
		want := parse(data, limit)
		if len(got) != len(want) {
			t.Fatalf("%d frames served, want %d", len(got), len(want))
		}
		for i := range want {
			if string(got[i]) != string(want[i]) {
				t.Fatalf("frame %d differs", i)
			}
		}
	})
}

// parse is the plain reading of a byte stream.
func parse(b []byte, limit int) (frames [][]byte) {
	if len(b) >= 4 && sniff([4]byte(b)) != strangerNone {
		return nil
	}
	for len(b) >= 4 {
		n := int(int32(binary.BigEndian.Uint32(b)))
		if n < 0 || n > limit || len(b)-4 < n {
			break
		}
		frames = append(frames, b[4:4+n])
		b = b[4+n:]
	}
	return frames
}
