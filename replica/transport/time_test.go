package transport

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// downs counts each PeerDown.
type downs struct {
	recorder
	n       atomic.Int64
	refused atomic.Bool
}

func (d *downs) PeerDown(n kafkaproto.NodeID, err error) {
	d.n.Add(1)
	if errors.Is(err, syscall.ECONNREFUSED) {
		d.refused.Store(true)
	}
	d.recorder.PeerDown(n, err)
}

// TestBackoff counts the attempts to reach a peer that refuses, each of which is told; and when the
// peer dials us, it is dialled at once.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		ln, d := newPipeListener(), &downs{}
		one, err := NewTCP(Options{ClusterID: "c", Node: 1, Secret: testSecret, listener: ln,
			dial: func(context.Context, string) (net.Conn, error) {
				attempts.Add(1)
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}})
		if err != nil {
			t.Fatal(err)
		}
		one.Start(d)
		defer func() { _ = one.Close() }()
		one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: "127.0.0.1:1"}})
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		// At 0, 50, 150, 350, 750 and then every 500 ms.
		if got := attempts.Load(); got != 23 || d.n.Load() != got || !d.refused.Load() {
			t.Errorf("%d attempts in 10 s, %d told", got, d.n.Load())
		}
		c, err := ln.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		p := party{cluster: "c", node: 2, incarnation: 1, secret: testSecret, random: rand.Reader}
		if _, err := p.dial(c, roleControl, 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := attempts.Load(); got != 24 {
			t.Errorf("%d attempts after the peer was heard of", got)
		}
	})
}

// TestFlapping has a listener that takes connections and hangs up: the dialler must not spin.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts atomic.Int64
		one, err := NewTCP(Options{ClusterID: "c", Node: 1, Secret: testSecret, listener: newPipeListener(),
			dial: func(context.Context, string) (net.Conn, error) {
				attempts.Add(1)
				near, far := net.Pipe()
				go func() {
					p := party{cluster: "c", node: 2, secret: testSecret, random: rand.Reader}
					_, _ = p.accept(far)
					_ = far.Close()
				}()
				return near, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{}
		one.Start(r)
		defer func() { _ = one.Close() }()
		one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: "127.0.0.1:1"}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := attempts.Load(); got < 20 || got > 80 { // control, and the two data connections if they are quick
			t.Errorf("%d attempts in 10 s", got)
		}
		if !strings.HasPrefix(r.events(), "up 2.0, down 2, up 2.0, down 2") {
			t.Errorf("events %.60s", r.events())
		}
	})
}

// member gives a connection on which the handshake is done.
func member(t *testing.T, ln *pipeListener, r role, incarnation uint64) net.Conn {
	t.Helper()
	c, err := ln.dial()
	if err != nil {
		t.Fatal(err)
	}
	p := party{cluster: "c", node: 1, incarnation: incarnation, secret: testSecret, random: rand.Reader}
	if _, err := p.dial(c, r, 2); err != nil {
		t.Fatal(err)
	}
	return c
}

// open reports whether the other side has not hung up.
func open(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
	_, err := c.Read(make([]byte, 1))
	return !errors.Is(err, io.EOF)
}

func pipeNode(t *testing.T, r Handler) (*TCP, *pipeListener) {
	t.Helper()
	ln := newPipeListener()
	n, err := NewTCP(Options{ClusterID: "c", Node: 2, Secret: testSecret, listener: ln})
	if err != nil {
		t.Fatal(err)
	}
	n.Start(r)
	return n, ln
}

// TestStall stops in the middle of a frame, which ends the connection after its time; between frames
// a peer may be silent for as long as it likes.
func TestStall(t *testing.T) {
	frames := someFrames()
	big := appendMessage(group(1), 1, 200<<10)
	for name, sent := range map[string][]byte{
		"nothing": nil, "a whole frame": encoded(voteMessage(group(1), 1)), "header cut": frames[:7], "body cut": frames[:headerSize+9],
		"payload cut": encoded(big)[:100<<10],
	} {
		synctest.Test(t, func(t *testing.T) {
			n, ln := pipeNode(t, &recorder{})
			defer func() { _ = n.Close() }()
			c := member(t, ln, roleData0, 1)
			_, _ = c.Write(sent)
			time.Sleep(stallTime - time.Second)
			synctest.Wait()
			if !open(c) {
				t.Errorf("%s: closed before its time", name)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if wait := !strings.HasSuffix(name, "cut"); open(c) != wait {
				t.Errorf("%s: open is %v after its time", name, !wait)
			}
			if n.budget.inUse() != 0 {
				t.Errorf("%s: %d bytes are held", name, n.budget.inUse())
			}
			_ = c.Close()
		})
	}
}

func encoded(m Message) []byte {
	w := &frameWriter{buf: make([]byte, 0, writeBuffer)}
	if err := w.message(&m); err != nil {
		panic(err)
	}
	w.cut()
	var out []byte
	for _, b := range w.vec {
		out = append(out, b...)
	}
	return out
}

// TestBudgetDelivers sends two messages in one write, the second of which has room only once the first
// is released: it must have been given to the Handler by then.
func TestBudgetDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		n, ln := pipeNode(t, r)
		defer func() { _ = n.Close() }()
		n.budget.limit = 1000
		c := member(t, ln, roleData0, 1)
		both := append(encoded(appendMessage(group(1), 1, 800)), encoded(appendMessage(group(1), 2, 800))...)
		if _, err := c.Write(both); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := len(r.received()); got != 2 || n.budget.inUse() != 0 {
			t.Errorf("%d messages arrived, %d bytes are held", got, n.budget.inUse())
		}
		_ = c.Close()
	})
}

// breaking is a connection whose writes fail once it is told so.
type breaking struct {
	net.Conn
	broken *atomic.Bool
}

func (b breaking) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, syscall.EPIPE
	}
	return b.Conn.Write(p)
}

// TestWriteFails reports every message of a write that failed, small ones that were gathered before
// a large one too.
func TestWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		a, ln := &recorder{}, newPipeListener()
		two, err := NewTCP(Options{ClusterID: "c", Node: 2, Secret: testSecret, listener: ln})
		if err != nil {
			t.Fatal(err)
		}
		two.Start(&recorder{})
		one, err := NewTCP(Options{ClusterID: "c", Node: 1, Secret: testSecret, listener: newPipeListener(),
			dial: func(context.Context, string) (net.Conn, error) {
				if broken.Load() {
					return nil, syscall.ECONNREFUSED
				}
				c, err := ln.dial()
				return breaking{c, &broken}, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		one.Start(a)
		one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: "127.0.0.1:1"}})
		synctest.Wait()
		broken.Store(true)
		l := one.peer(2).links[roleData0]
		w := newFrameWriter(breaking{broken: &broken}, nil)
		batch := []item{{msg: appendMessage(group(1), 1, 100)}, {msg: appendMessage(group(2), 1, 2<<20)}, {msg: appendMessage(group(3), 1, 100)}}
		for i := range batch {
			l.p.reserve(l.role, batch[i].cost())
		}
		if err := l.writeBatch(w, batch); err == nil {
			t.Error("the write did not fail")
		}
		synctest.Wait()
		for g := range int32(3) {
			if a.dropped(2, group(g+1)) != 1 {
				t.Errorf("the message of group %d is not reported", g+1)
			}
		}
		if n := l.p.bytes[1].Load(); n != 0 {
			t.Errorf("backlog holds %d bytes", n)
		}
		_, _ = one.Close(), two.Close()
	})
}

// TestTakeover: a second connection of a role replaces the first, a later start of the node all of
// the earlier's, and frames in the wrong place end a connection.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		n, ln := pipeNode(t, r)
		defer func() { _ = n.Close() }()
		control, data := member(t, ln, roleControl, 1), member(t, ln, roleData0, 1)
		again := member(t, ln, roleControl, 1)
		synctest.Wait()
		if open(control) || !open(data) || !open(again) {
			t.Error("the first control connection is open, or another is closed")
		}
		later := member(t, ln, roleData1, 2)
		synctest.Wait()
		if open(data) || open(again) || !open(later) {
			t.Error("connections of an earlier start are open")
		}
		for role, frame := range map[role][]byte{
			roleData0: idFrame(kindCall, 1, []byte{0, 1}), roleBulk: encoded(voteMessage(group(1), 1)),
			roleControl: encoded(appendMessage(group(1), 1, 100)), roleJoin: encoded(voteMessage(group(1), 1)),
		} {
			c := member(t, ln, role, 2)
			go func() { _, _ = c.Write(frame) }()
			synctest.Wait()
			if open(c) {
				t.Errorf("a frame of kind %d passes on the %v connection", frame[0], role)
			}
			_ = c.Close()
		}
		if !r.silent() {
			t.Error("the handler heard of frames in the wrong place")
		}
		for _, c := range []net.Conn{control, data, again, later} {
			_ = c.Close()
		}
	})
}

// TestCallsBound makes more calls than one connection may have under way: those above are refused at
// once, and liveness is not held up.
func TestCallsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		b := &recorder{call: func(ctx context.Context, _ kafkaproto.NodeID, _ uint16, _ []byte) ([]byte, error) {
			select {
			case <-free:
			case <-ctx.Done():
			}
			return nil, nil
		}}
		one, _, stop := pipes(t, &recorder{}, b, nil)
		defer stop()
		var all sync.WaitGroup
		var refused atomic.Int64
		for range callsMax + 5 {
			all.Go(func() {
				if _, err := one.Call(t.Context(), 2, 1, nil); err != nil {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		one.SendLiveness(2, []byte("alive"))
		synctest.Wait()
		if got := refused.Load(); got != 5 || len(b.mu.liveness) != 1 {
			t.Errorf("%d calls refused, %d heartbeats", got, len(b.mu.liveness))
		}
		close(free)
		all.Wait()
	})
}

// TestBudget: in line, in order, an oversized one alone, and who gives up leaves the line.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{limit: 100}
		var order []int64
		var mu sync.Mutex
		quit := make(chan struct{})
		wait := func(n int64, quit chan struct{}) {
			go func() {
				if b.take(n, quit) {
					mu.Lock()
					order = append(order, n)
					mu.Unlock()
				}
			}()
			synctest.Wait()
		}
		if !b.try(90) || b.try(20) {
			t.Error("90 of 100 don't fit, or 110 do")
		}
		wait(500, nil)
		wait(30, quit)
		wait(5, nil)
		if b.try(1) {
			t.Error("somebody passed the line")
		}
		b.release(90)
		synctest.Wait()
		if len(order) != 1 || order[0] != 500 || b.inUse() != 500 {
			t.Fatalf("granted %v, %d in use", order, b.inUse())
		}
		close(quit)
		synctest.Wait()
		b.release(500)
		synctest.Wait()
		if len(order) != 2 || order[1] != 5 || b.inUse() != 5 {
			t.Errorf("granted %v, %d in use", order, b.inUse())
		}
	})
}
