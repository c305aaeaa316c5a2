package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// life gives how long until the server ended the connection, reading whatever it says.
func life(c net.Conn) time.Duration {
	start := time.Now()
	_, _ = io.Copy(io.Discard, c)
	return time.Since(start)
}

func TestIdleClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, echo, Options{IdleTimeout: time.Minute})
		if got := life(pipe(t, s)); got != time.Minute {
			t.Fatalf("a silent connection lives %v, want 1m", got)
		}
		c := pipe(t, s)
		for range 5 {
			time.Sleep(50 * time.Second)
			c.send([]byte("alive"))
			c.want("alive")
		}
		if got := life(c); got != time.Minute {
			t.Fatalf("closed %v after the last request, want 1m", got)
		}
	})
}

func TestIdleNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, echo, Options{IdleTimeout: -1})
		c := pipe(t, s)
		time.Sleep(1000 * time.Hour)
		c.send([]byte("alive"))
		c.want("alive")
	})
}

// TestParkedIsNotIdle: a request that waits longer than the idle time keeps its connection.
func TestParkedIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(r *Request) {
			go func() { time.Sleep(10*time.Minute + 30*time.Second); echo(r) }()
		}, Options{IdleTimeout: time.Minute})
		c := pipe(t, s)
		c.send([]byte("join"))
		c.want("join")
		if got := life(c); got < time.Minute || got > 2*time.Minute {
			t.Fatalf("closed %v after the answer, want 1m to 2m", got)
		}
	})
}

// TestStalledFrame: a frame must go on, whether its sender stops or drips.
func TestStalledFrame(t *testing.T) {
	for _, tc := range []struct {
		name     string
		first    int // bytes sent at once, the size counted
		drip     int // bytes sent each second after that
		min, max time.Duration
	}{
		{"half a size", 2, 0, 30 * time.Second, 30 * time.Second},
		{"small", 50, 0, 30 * time.Second, 30 * time.Second},
		{"large", 200_000, 0, 30 * time.Second, 60 * time.Second},
		{"dripping", 50, 1, 30 * time.Second, 30 * time.Second},
		{"dripping large", 200_000, 1000, 30 * time.Second, 90 * time.Second},
		{"slow but steady", 10, 5000, 200 * time.Second, 240 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lines
				var obs counts
				s := newServer(t, echo, Options{Logger: log.logger(), Observer: &obs})
				size := 100
				if tc.first > 1000 || tc.drip > 1000 {
					size = 1_000_000
				}
				c := pipe(t, s)
				var sender sync.WaitGroup
				defer sender.Wait()
				sender.Go(func() {
					all := frame(make([]byte, size))
					_, _ = c.Write(all[:tc.first])
					all = all[tc.first:]
					for tc.drip > 0 && len(all) > 0 {
						time.Sleep(time.Second)
						n := min(tc.drip, len(all))
						if _, err := c.Write(all[:n]); err != nil {
							return
						}
						all = all[n:]
					}
				})
				if tc.name == "slow but steady" {
					start := time.Now()
					c.recv()
					if got := time.Since(start); got < tc.min || got > tc.max {
						t.Fatalf("answered after %v, want %v to %v", got, tc.min, tc.max)
					}
					return
				}
				if got := life(c); got < tc.min || got > tc.max {
					t.Fatalf("lives %v, want %v to %v", got, tc.min, tc.max)
				}
				if obs.why(RefusedStalled) != 1 || len(log.all()) != 1 {
					t.Fatalf("refused %v, log %q; want one of each", obs.refused, log.all())
				}
				if s.InflightBytes() != 0 {
					t.Fatalf("%d bytes still held", s.InflightBytes())
				}
			})
		})
	}
}

// TestStuckClient: a client that takes no answers is closed, and what it was to get is released.
func TestStuckClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var released, closed atomic.Int64
		var log lines
		var obs counts
		h := &funcs{
			serve: func(r *Request) {
				go r.ReplyBuf(r.Frame, func() { released.Add(1) })
			},
			onClosed: func(*Conn) { closed.Add(1) },
		}
		s := newServer(t, nil, Options{
			Handler: h, WriteTimeout: 20 * time.Second, Logger: log.logger(), Observer: &obs,
		})
		c := pipe(t, s)
		start := time.Now()
		c.send([]byte("one"), []byte("two"), []byte("three"))
		synctest.Wait()
		<-s.anyConn().Done()
		if got := time.Since(start); got != 20*time.Second {
			t.Fatalf("closed after %v, want 20s", got)
		}
		synctest.Wait()
		if released.Load() != 3 || closed.Load() != 1 {
			t.Fatalf("%d answers released, %d closed; want 3 and 1", released.Load(), closed.Load())
		}
		if obs.why(RefusedStuck) != 1 || len(log.all()) != 1 {
			t.Fatalf("refused %v, log %q; want one of each", obs.refused, log.all())
		}
	})
}

// anyConn is the only connection of a test.
func (s *Server) anyConn() *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.mu.conns {
		return c
	}
	return nil
}

// TestQueuedAnswersBound: a client that sends and never reads makes the broker hold a bounded
// amount of answers.
func TestQueuedAnswersBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var served, released atomic.Int64
		s := newServer(t, func(r *Request) {
			served.Add(1)
			r.ReplyBuf(make([]byte, 1<<20), func() { released.Add(1) })
		}, Options{WriteTimeout: time.Hour})
		c := pipe(t, s)
		go func() {
			_, _ = c.Write(bytes.Repeat(frame([]byte("give me a lot")), 50))
		}()
		time.Sleep(time.Minute)
		if n := served.Load(); n > maxQueuedAnswers>>20+1 {
			t.Fatalf("%d answers of 1 MiB are queued", n)
		}
		for range 50 {
			if len(c.recv()) != 1<<20 {
				t.Fatal("short answer")
			}
		}
		synctest.Wait()
		if released.Load() != 50 {
			t.Fatalf("%d answers released, want 50", released.Load())
		}
	})
}

// breaking is a connection whose first write takes half and fails.
type breaking struct {
	net.Conn
	writes atomic.Int64
}

func (c *breaking) Write(p []byte) (int, error) {
	if c.writes.Add(1) == 1 {
		return len(p) / 2, os.ErrDeadlineExceeded
	}
	return len(p), nil
}

// refusing is an Observer that acts on a refusal.
type refusing struct {
	noObserver
	then func()
}

func (o refusing) Refused(*Listener, Refusal) { o.then() }

// TestNothingBehindBrokenWrite: once a write failed half way, no other answer may be written, as
// it would be read as the rest of the first.
func TestNothingBehindBrokenWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first *Request
		a, b := net.Pipe()
		defer a.Close()
		c := &client{t, a}
		s := newServer(t, func(r *Request) {
			if string(r.Frame) == "parked" {
				first = r
				return
			}
			echo(r)
		}, Options{Observer: refusing{then: func() {
			_, _ = c.Write(frame([]byte("answered by the reader while the writer gives up")))
			time.Sleep(time.Second)
		}}})
		broken := &breaking{Conn: b}
		if err := s.ServeConn("plain", broken); err != nil {
			t.Fatal(err)
		}
		c.send([]byte("parked"))
		synctest.Wait()
		first.ReplyBuf([]byte("half of this is written"), nil)
		time.Sleep(time.Minute)
		if n := broken.writes.Load(); n != 1 {
			t.Fatalf("%d writes, want none behind the broken one", n)
		}
	})
}

// TestMute: the answer comes at once, the next request is served when the time is over, whether it
// came before or after the answer.
func TestMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		start := time.Now()
		s := newServer(t, func(r *Request) {
			at = append(at, time.Since(start))
			if string(r.Frame) == "throttled" {
				go func() {
					time.Sleep(time.Second)
					r.Mute(10 * time.Second)
					echo(r)
				}()
				return
			}
			echo(r)
		}, Options{IdleTimeout: 5 * time.Second})
		c := pipe(t, s)
		c.send([]byte("throttled"))
		c.want("throttled")
		if got := time.Since(start); got != time.Second {
			t.Fatalf("answered after %v, want 1s", got)
		}
		c.send([]byte("next"))
		c.want("next")
		c.send([]byte("last"))
		c.want("last")
		if at[1] != 11*time.Second || at[2] != 11*time.Second {
			t.Fatalf("served at %v, want 0s 11s 11s", at)
		}
	})
}

// TestMuteDuringBody: a request half of which had come before the mute waits as well.
func TestMuteDuringBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var served time.Duration
		s := newServer(t, func(r *Request) {
			if string(r.Frame) == "throttled" {
				go func() {
					time.Sleep(time.Second)
					r.Mute(10 * time.Second)
					echo(r)
				}()
				return
			}
			served = time.Since(start)
			echo(r)
		}, Options{})
		c := pipe(t, s)
		c.send([]byte("throttled"))
		next := frame([]byte("next"))
		_, _ = c.Write(next[:6])
		c.want("throttled")
		_, _ = c.Write(next[6:])
		c.want("next")
		if served != 11*time.Second {
			t.Fatalf("served after %v, want 11s", served)
		}
	})
}

// TestBudgetWaitIsNotStall: the time a frame waits for the broker's memory does not count against
// its sender.
func TestBudgetWaitIsNotStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(r *Request) {
			go func() {
				time.Sleep(5 * time.Minute)
				r.ReplyBuf([]byte("done"), nil)
			}()
		}, Options{InflightBytes: 100 << 10, StallTimeout: 10 * time.Second, IdleTimeout: time.Minute})
		first, second := pipe(t, s), pipe(t, s)
		rest := frame(make([]byte, 1<<20))
		_, _ = second.Write(rest[:60_000])
		rest = rest[60_000:]
		first.send(make([]byte, 3<<20)) // overdraws
		synctest.Wait()
		if got, want := s.InflightBytes(), int64(sizeFor(3<<20)+smallFrame); got != want {
			t.Fatalf("a frame grown to 3 MiB and a first piece hold %d bytes, want %d", got, want)
		}
		go func() { _, _ = second.Write(rest) }()
		first.want("done")
		second.want("done")
	})
}

// TestFailAfterAnswers: earlier answers are out, later ones are not, and the client reads them all
// although it had sent much more.
func TestFailAfterAnswers(t *testing.T) {
	var log lines
	var released atomic.Int64
	s := startServer(t, func(r *Request) {
		switch string(r.Frame) {
		case "slow":
			go func() {
				time.Sleep(20 * time.Millisecond)
				r.ReplyBuf(bytes.Repeat([]byte("s"), 200_000), func() { released.Add(1) })
			}()
		case "bad":
			r.Fail("unsupported version")
		default:
			r.ReplyBuf(r.Frame, func() { released.Add(1) })
		}
	}, Options{Logger: log.logger()})
	c := dial(t, s)
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	c.send([]byte("first"), []byte("slow"), []byte("bad"), []byte("after"), make([]byte, 200_000))
	time.Sleep(100 * time.Millisecond) // more than the socket holds is not out when the rest fails
	c.want("first")
	if got := c.recv(); len(got) != 200_000 {
		t.Fatalf("%d bytes of the slow answer", len(got))
	}
	c.wantEnd()
	c.Close()
	eventually(t, "connection gone", func() bool { return s.Conns() == 0 })
	if released.Load() != 2 {
		t.Fatalf("%d answers released; the request behind Fail was served", released.Load())
	}
	if got := log.all(); len(got) != 1 || !strings.Contains(got[0], "unsupported version") {
		t.Fatalf("log is %q, want one line with the reason", got)
	}
}

// TestShutdown lets what was asked out, refuses what comes, and waits for everything.
func TestShutdown(t *testing.T) {
	parked := make(chan *Request, 10)
	h := &funcs{serve: func(r *Request) { parked <- r }}
	s := startServer(t, nil, Options{Handler: h})
	idle, busy, half := dial(t, s), dial(t, s), dial(t, s)
	busy.send([]byte("parked"))
	_, _ = half.Write([]byte{0, 0, 1})
	r := <-parked
	eventually(t, "three open", func() bool { return h.opened.Load() == 3 })
	done := make(chan error)
	go func() { done <- s.Shutdown(context.Background()) }()
	idle.wantEnd()
	half.wantEnd()
	if c, err := net.Dial("tcp", s.Addrs()["plain"].String()); err == nil {
		c.Close()
		t.Fatal("a connection is accepted during shutdown")
	}
	select {
	case <-done:
		t.Fatal("Shutdown is back before the answer is out")
	case <-time.After(20 * time.Millisecond):
	}
	r.ReplyBuf([]byte("bye"), nil)
	busy.want("bye")
	busy.wantEnd()
	busy.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if h.closed.Load() != 3 || s.Conns() != 0 {
		t.Fatalf("%d closed, %d left; want 3 and 0", h.closed.Load(), s.Conns())
	}
	a, b := net.Pipe()
	defer a.Close()
	_ = s.ServeConn("plain", b)
	if _, err := a.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("a connection is served after shutdown: %v", err)
	}
}

// TestShutdownCut: an answer that never comes does not hold Shutdown beyond its context, and is
// dropped when it comes at last.
func TestShutdownCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var parked *Request
		s := newServer(t, func(r *Request) { parked = r }, Options{})
		c := pipe(t, s)
		c.send([]byte("parked"))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Shutdown gives %v, want deadline exceeded", err)
		}
		if got := time.Since(start); got != 5*time.Second {
			t.Fatalf("Shutdown took %v, want 5s", got)
		}
		released := 0
		parked.ReplyBuf([]byte("late"), func() { released++ })
		if released != 1 {
			t.Fatal("a late answer is not released")
		}
	})
}

// TestClientGone: the handler hears of it while a request is parked; its answer is dropped.
func TestClientGone(t *testing.T) {
	parked := make(chan *Request, 1)
	gone := make(chan struct{})
	h := &funcs{
		serve:    func(r *Request) { parked <- r },
		onClosed: func(c *Conn) { <-c.Done(); close(gone) },
	}
	s := startServer(t, nil, Options{Handler: h})
	c := dial(t, s)
	c.send([]byte("fetch"))
	r := <-parked
	c.Close()
	<-gone
	released := false
	r.ReplyBuf([]byte("x"), func() { released = true })
	if !released {
		t.Fatal("the answer is not released")
	}
}

// TestUser keeps the handler's state.
func TestUser(t *testing.T) {
	s := startServer(t, func(r *Request) {
		n, _ := r.Conn.User().(int)
		r.Conn.SetUser(n + 1)
		r.ReplyBuf([]byte{byte(n)}, nil)
	}, Options{})
	c := dial(t, s)
	for i := range 3 {
		c.send([]byte("count"))
		if got := c.recv(); got[0] != byte(i) {
			t.Fatalf("state is %d, want %d", got[0], i)
		}
	}
	conn := s.anyConn()
	if conn.RemoteAddr().String() != c.LocalAddr().String() || conn.Listener().Name != "plain" ||
		conn.LocalAddr().String() != c.RemoteAddr().String() || conn.TLS() != nil || conn.ID() == 0 {
		t.Fatal("the connection does not know where it is")
	}
	conn.Close()
	c.wantEnd()
}

// TestSlowReaderGetsAll: a client that reads slowly but steadily is not cut by the write timeout.
func TestSlowReaderGetsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, func(r *Request) {
			r.ReplyBuf(make([]byte, 3<<20), nil)
		}, Options{WriteTimeout: 10 * time.Second})
		c := pipe(t, s)
		c.send([]byte("all"))
		buf := make([]byte, 64<<10)
		for got := 0; got < 4+3<<20; {
			time.Sleep(time.Second)
			n, err := c.Read(buf)
			if err != nil {
				t.Fatalf("after %d bytes: %v", got, err)
			}
			got += n
		}
	})
}
