package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestOrder: whatever order and goroutine answers are made from, they leave in the order of the
// requests (N1); each Release runs once (N2); nothing behind a Fail leaves.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(rt *rapid.T) { orderOnce(t, rt) })
	})
}

type plan struct {
	kind   string // inline, later, silent, fail
	delay  time.Duration
	chunks int
	size   int
}

func drawPlans(rt *rapid.T) []plan {
	kind := rapid.SampledFrom([]string{
		"inline", "inline", "inline", "later", "later", "later", "silent", "silent-later", "fail",
	})
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) plan {
		return plan{
			kind:   kind.Draw(rt, "kind"),
			delay:  time.Duration(rapid.IntRange(0, 30).Draw(rt, "delay")),
			chunks: rapid.IntRange(0, 4).Draw(rt, "chunks"),
			size:   rapid.SampledFrom([]int{0, 1, 100, 5000}).Draw(rt, "size"),
		}
	}), 1, 40).Draw(rt, "plans")
}

func orderOnce(t *testing.T, rt *rapid.T) {
	plans := drawPlans(rt)
	var made, released atomic.Int64
	var want [][]byte
	for i, p := range plans {
		if p.kind == "fail" {
			break
		}
		if p.kind == "inline" || p.kind == "later" {
			want = append(want, answerOf(i, p))
		}
	}
	next := 0
	h := &funcs{serve: func(r *Request) {
		i := next
		next++
		p := plans[i]
		if got := string(r.Frame); got != fmt.Sprint("request ", i) {
			rt.Errorf("request %d is %q", i, got)
		}
		r.Recycle()
		answer := func() {
			switch p.kind {
			case "silent", "silent-later":
				r.NoReply()
			case "fail":
				r.Fail("as planned")
			default:
				made.Add(1)
				r.Reply(split(answerOf(i, p), p.chunks, func() { released.Add(1) }))
			}
		}
		if p.kind == "inline" || p.kind == "silent" {
			answer()
			return
		}
		go func() { time.Sleep(p.delay); answer() }()
	}}
	s, err := New(Options{
		Handler: h, Poison: true, MaxPipelined: rapid.IntRange(1, 8).Draw(rt, "pipelined"),
		Listeners: []Listener{{Name: "plain", Protocol: Plaintext, Addr: "127.0.0.1:0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	if err := s.ServeConn("plain", b); err != nil {
		t.Fatal(err)
	}
	go func() {
		for i := range plans {
			if _, err := a.Write(frame(fmt.Append(nil, "request ", i))); err != nil {
				return
			}
		}
	}()
	for i, w := range want {
		got, err := readFrame(a)
		if err != nil {
			rt.Fatalf("answer %d of %d: %v", i, len(want), err)
		}
		if !bytes.Equal(got, w) {
			rt.Fatalf("answer %d is %.40q, want %.40q", i, got, w)
		}
	}
	time.Sleep(time.Second) // bubble time: all late answers are made
	if n := rest(a); n > 0 {
		rt.Fatalf("%d bytes more than all answers", n)
	}
	_ = s.Close()
	_ = a.Close()
	time.Sleep(time.Second)
	if made.Load() != released.Load() {
		rt.Fatalf("%d answers made, %d released", made.Load(), released.Load())
	}
	if n := s.InflightBytes(); n != 0 {
		rt.Fatalf("%d bytes of budget not given back", n)
	}
	if h.opened.Load() != 1 || h.closed.Load() != 1 {
		rt.Fatalf("opened %d times, closed %d times", h.opened.Load(), h.closed.Load())
	}
}

// rest reads what is there without waiting long.
func rest(c net.Conn) int64 {
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	n, _ := io.Copy(io.Discard, c)
	return n
}

func answerOf(i int, p plan) []byte {
	return append(fmt.Append(nil, "answer ", i, " "), bytes.Repeat([]byte{byte(i)}, p.size)...)
}

// split cuts an answer into chunks, some of them ranges of a file in memory.
func split(b []byte, chunks int, release func()) Payload {
	p := Payload{Release: release}
	for ; chunks > 0; chunks-- {
		n := len(b) / 2
		if chunks%2 == 0 {
			padded := append([]byte("xx"), b[:n]...)
			p.Chunks = append(p.Chunks, Chunk{At: bytes.NewReader(padded), Off: 2, Len: int64(n)})
		} else {
			p.Chunks = append(p.Chunks, Chunk{Buf: b[:n]})
		}
		b = b[n:]
	}
	p.Chunks = append(p.Chunks, Chunk{Buf: b})
	return p
}

func TestAnsweredTwicePanics(t *testing.T) {
	panicked := make(chan any, 1)
	s := startServer(t, func(r *Request) {
		r.NoReply()
		defer func() { panicked <- recover() }()
		r.ReplyBuf([]byte("again"), nil)
	}, Options{})
	dial(t, s).send([]byte("one"))
	if <-panicked == nil {
		t.Fatal("a second answer went through")
	}
}

// TestCoalesce: requests that came together are answered by one write, and an answer is not held
// back while the reader waits for the rest of the next request.
func TestCoalesce(t *testing.T) {
	s := newServer(t, echo, Options{})
	a, b := net.Pipe()
	counting := &countWrites{Conn: b}
	if err := s.ServeConn("plain", counting); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c := &client{t, a}
	half := frame([]byte("half a request"))
	go func() {
		var all []byte
		for range 5 {
			all = append(all, frame([]byte("whole"))...)
		}
		_, _ = a.Write(append(all, half[:9]...))
	}()
	for range 5 {
		c.want("whole")
	}
	if n := counting.n.Load(); n != 1 {
		t.Fatalf("5 answers took %d writes, want 1", n)
	}
	go func() { _, _ = a.Write(half[9:]) }()
	c.want("half a request")
}

type countWrites struct {
	net.Conn
	n atomic.Int64
}

func (c *countWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// TestPipelineBound: no more than MaxPipelined requests are under way, and the next is served as
// soon as the first is answered.
func TestPipelineBound(t *testing.T) {
	requests := make(chan *Request, 10)
	s := startServer(t, func(r *Request) { requests <- r }, Options{MaxPipelined: 3})
	c := dial(t, s)
	for i := range 5 {
		c.send(fmt.Append(nil, i))
	}
	eventually(t, "three requests", func() bool { return len(requests) == 3 })
	time.Sleep(20 * time.Millisecond)
	if len(requests) != 3 {
		t.Fatalf("%d requests under way, want 3", len(requests))
	}
	for i := range 5 {
		r := <-requests
		r.ReplyBuf(r.Frame, nil)
		c.want(fmt.Sprint(i))
	}
}
