package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// someFrames are what a stranger would like to have taken.
func someFrames() []byte {
	w := &frameWriter{buf: make([]byte, 0, writeBuffer)}
	m := voteMessage(group(1), 99)
	if err := w.message(&m); err != nil {
		panic(err)
	}
	b := append([]byte(nil), w.buf...)
	b = append(b, newFrame(kindLiveness, 5, func(b []byte) []byte { return append(b, "alive"...) })...)
	return append(b, idFrame(kindCall, 1, []byte{0, 1}, []byte("let me in"))...)
}

// shake returns a stranger who tries the handshake as p and then sends frames in any case.
func shake(p party, r role, to kafkaproto.NodeID) func(t *testing.T, c net.Conn) {
	p.random = rand.Reader
	return func(t *testing.T, c net.Conn) {
		if _, err := p.dial(c, r, to); err == nil {
			t.Errorf("%+v was taken in", p)
		}
		_, _ = c.Write(someFrames())
	}
}

// insist holds the secret and goes on, whatever it is answered.
func insist(h hello) func(t *testing.T, c net.Conn) {
	return func(_ *testing.T, c net.Conn) {
		hb := h.encode()
		_, _ = c.Write(hb[:])
		var wb [welcomeSize]byte
		_, _ = io.ReadFull(c, wb[:])
		proof := prove(testSecret, labelDial, &hb, &wb, nil)
		_, _ = c.Write(append(proof[:], someFrames()...))
	}
}

// TestStrangers has everybody try who must not get anything to the Handler. Each is tried on the
// connection's own roles, and must be hung up on.
func TestStrangers(t *testing.T) {
	member := party{cluster: "c", node: 1, incarnation: 9, secret: testSecret}
	change := func(f func(*party)) party { p := member; f(&p); return p }
	strangers := map[string]func(t *testing.T, c net.Conn){
		"no secret":    shake(change(func(p *party) { p.secret = nil }), roleControl, 2),
		"wrong secret": shake(change(func(p *party) { p.secret = []byte("another secret, as long") }), roleControl, 2),
		"wrong secret, to join": shake(change(func(p *party) {
			p.secret, p.node, p.cluster = []byte("another secret, as long"), NoNode, ""
		}), roleJoin, NoNode),
		"no secret, to join":   shake(change(func(p *party) { p.secret, p.node, p.cluster = nil, NoNode, "" }), roleJoin, NoNode),
		"wrong cluster":        shake(change(func(p *party) { p.cluster = "d" }), roleData0, 2),
		"no cluster":           shake(change(func(p *party) { p.cluster = "" }), roleControl, 2),
		"for another node":     insist(hello{Version: 1, Secret: true, Cluster: "c", From: 1, To: 3, Incarnation: 9}),
		"for no node":          insist(hello{Version: 1, Secret: true, Cluster: "c", From: 1, To: NoNode, Incarnation: 9}),
		"as the node itself":   shake(change(func(p *party) { p.node = 2 }), roleControl, 2),
		"as no node":           shake(change(func(p *party) { p.node = NoNode }), roleControl, 2),
		"of an earlier start":  shake(change(func(p *party) { p.incarnation = 4 }), roleControl, 2),
		"frames at once":       func(_ *testing.T, c net.Conn) { _, _ = c.Write(someFrames()) },
		"nothing":              func(_ *testing.T, c net.Conn) { _ = c.(*net.TCPConn).CloseWrite() },
		"half a hello":         func(_ *testing.T, c net.Conn) { _, _ = c.Write([]byte("sluP\x01")); _ = c.(*net.TCPConn).CloseWrite() },
		"garbage":              func(_ *testing.T, c net.Conn) { _, _ = c.Write(bytes.Repeat([]byte{0xff}, 4096)) },
		"flag without a proof": zeroProof,
		"TLS": func(t *testing.T, c net.Conn) {
			if err := tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
				t.Error("TLS was answered")
			}
		},
		"HTTP": func(t *testing.T, c net.Conn) {
			r, _ := http.NewRequest(http.MethodGet, "http://x/", nil)
			_ = r.Write(c)
		},
	}
	for name, try := range strangers {
		t.Run(name, func(t *testing.T) {
			r, l := &recorder{}, &logs{}
			n := startNode(t, 2, r, logTo(l))
			n.mu.Lock()
			n.mu.latest[1] = 5 // an incarnation of node 1 that is known
			n.mu.Unlock()
			c, err := net.Dial("tcp", n.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			try(t, c)
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, context.DeadlineExceeded) {
				t.Error("the connection is still open")
			}
			if name == "wrong secret" {
				eventually(t, "the log says why", func() bool { return strings.Contains(l.String(), "secret") })
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
			if !r.silent() || r.events() != "" {
				t.Errorf("the handler heard of it: %d messages, %d calls", len(r.mu.messages), r.mu.calls)
			}
			if lines := strings.Count(l.String(), "\n"); lines > 1 {
				t.Errorf("log: %s", l)
			}
		})
	}
}

// zeroProof says it has a secret, and proves with nothing.
func zeroProof(t *testing.T, c net.Conn) {
	h := hello{Version: 1, Secret: true, Cluster: "c", From: 1, To: 2, Incarnation: 9}
	b := h.encode()
	_, _ = c.Write(append(append(b[:], make([]byte, proofSize)...), someFrames()...))
	var answer [welcomeSize + verdictSize]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil || refusal(answer[welcomeSize]) != refusedSecret {
		t.Errorf("verdict %v, %v", answer[welcomeSize:], err)
	}
}

// tap passes bytes between two sides and keeps what the first has sent.
type tap struct {
	mu   sync.Mutex
	sent []byte
}

func (x *tap) pass(from, to net.Conn) {
	var b [4096]byte
	for {
		n, err := from.Read(b[:])
		x.mu.Lock()
		x.sent = append(x.sent, b[:n]...)
		x.mu.Unlock()
		if _, werr := to.Write(b[:n]); err != nil || werr != nil {
			_ = to.Close()
			return
		}
	}
}

// TestReplay plays the bytes of a good connection again, handshake and frames.
func TestReplay(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	two := startNode(t, 2, b, nil)
	ln := listen(t)
	x := &tap{}
	var all sync.WaitGroup
	all.Go(func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		_ = ln.Close() // one connection, the control one
		up, err := net.Dial("tcp", two.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		all.Go(func() { new(tap).pass(up, c) })
		x.pass(c, up)
	})
	one := startNode(t, 1, a, nil)
	one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: ln.Addr().String()}})
	one.Send(2, voteMessage(group(1), 3))
	eventually(t, "the vote arrives", func() bool { return len(b.received()) == 1 })
	_ = one.Close()
	all.Wait()

	c, err := net.Dial("tcp", two.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, _ = c.Write(x.sent)
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.Copy(io.Discard, c)
	_ = two.Close()
	if n := len(b.received()); n != 1 || len(x.sent) < helloSize+proofSize+headerSize {
		t.Errorf("%d messages after %d bytes were played again", n, len(x.sent))
	}
}

// TestReflection answers a dialler with its own words, and with those of the dialler's own listener:
// neither makes it believe that it talks to node 2.
func TestReflection(t *testing.T) {
	t.Run("echo", func(t *testing.T) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(far, far) }()
		defer func() { _, _ = near.Close(), far.Close() }()
		p := party{cluster: "c", node: 1, secret: testSecret, random: rand.Reader}
		if _, err := p.dial(near, roleControl, 2); err == nil {
			t.Error("an echo passes for node 2")
		}
	})
	t.Run("own proof", func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _, _ = near.Close(), far.Close() }()
		go func() {
			var h [helloSize]byte
			_, _ = io.ReadFull(far, h[:])
			w := welcome{Version: 1, Secret: true, Node: 2}
			wb := w.encode()
			_, _ = far.Write(wb[:])
			var proof [proofSize]byte
			_, _ = io.ReadFull(far, proof[:])
			_, _ = far.Write(append([]byte{0}, proof[:]...))
		}()
		p := party{cluster: "c", node: 1, secret: testSecret, random: rand.Reader}
		if _, err := p.dial(near, roleControl, 2); !errors.Is(err, refusedSecret) {
			t.Errorf("the dialler's own proof passes for node 2's: %v", err)
		}
	})
}

// TestRogueListener dials who does not hold the secret: nothing but the handshake reaches it.
func TestRogueListener(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	rogue := startNode(t, 2, b, func(o *Options) { o.Secret = nil })
	one := startNode(t, 1, a, nil)
	one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: rogue.Addr().String()}})
	eventually(t, "node 2 is down", func() bool { return a.events() == "down 2" })
	if _, err := one.Call(context.Background(), 2, 1, nil); !errors.Is(err, ErrUnreachable) || !errors.Is(err, refusedSecret) {
		t.Errorf("a call to it: %v", err)
	}
	if !b.silent() {
		t.Error("it heard something")
	}
}

// TestUnguarded wants a secret or TLS from who is to be reached from elsewhere, or to go there.
func TestUnguarded(t *testing.T) {
	for addr, ok := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "127.8.8.8:0": true,
		"0.0.0.0:0": false, ":0": false, "[::]:0": false, "192.0.2.1:0": false,
	} {
		n, err := NewTCP(Options{ClusterID: "c", Node: 1, Listen: addr})
		if n != nil {
			_ = n.Close()
		}
		refused := err != nil && strings.Contains(err.Error(), "leaves this machine")
		if ok && refused || !ok && !refused {
			t.Errorf("listen on %s without a secret: %v", addr, err)
		}
	}
	a := &recorder{}
	one := startNode(t, 1, a, func(o *Options) { o.Secret = nil })
	if _, err := one.CallAddr(context.Background(), "192.0.2.1:9", 1, nil); err == nil || !strings.Contains(err.Error(), "leaves this machine") {
		t.Errorf("dial without a secret: %v", err)
	}
	if n, err := NewTCP(Options{Listen: "0.0.0.0:0", Secret: testSecret}); err != nil {
		t.Errorf("with a secret: %v", err)
	} else {
		_ = n.Close()
	}
	if _, err := NewTCP(Options{Listen: "127.0.0.1:0", Secret: []byte("short")}); err == nil {
		t.Error("a short secret passes")
	}
	// Two nodes without a secret on one machine work, and still only of one cluster.
	b := &recorder{}
	two := startNode(t, 2, b, func(o *Options) { o.Secret = nil })
	other := startNode(t, 2, b, func(o *Options) { o.Secret, o.ClusterID = nil, "d" })
	one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: two.Addr().String()}})
	eventually(t, "node 2 is up", func() bool { return a.events() == "up 2.1" })
	one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: other.Addr().String()}})
	eventually(t, "node 2 is another's", func() bool { return strings.HasSuffix(a.events(), "down 2") })
	if _, err := one.Call(context.Background(), 2, 1, nil); err == nil {
		t.Error("a call to another cluster passes")
	}
}

// pipeListener accepts one side of pipes.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (l *pipeListener) dial() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// TestSilentStrangers opens connections and says nothing: each is closed after its time, the oldest
// before that when there are too many, and a member gets in all the while.
func TestSilentStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln, r := newPipeListener(), &recorder{}
		n, err := NewTCP(Options{ClusterID: "c", Node: 2, Secret: testSecret, listener: ln})
		if err != nil {
			t.Fatal(err)
		}
		n.Start(r)
		var conns []net.Conn
		for range maxWaiting + 10 {
			c, err := ln.dial()
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
			synctest.Wait()
		}
		closed := func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
			_, err := c.Read(make([]byte, 1))
			return errors.Is(err, io.EOF)
		}
		for i, c := range conns {
			if closed(c) != (i < 10) {
				t.Errorf("connection %d closed: %v", i, i >= 10)
			}
		}
		c, err := ln.dial()
		if err != nil {
			t.Fatal(err)
		}
		p := party{cluster: "c", node: 1, incarnation: 1, secret: testSecret, random: rand.Reader}
		if _, err := p.dial(c, roleControl, 2); err != nil {
			t.Errorf("a member beside them: %v", err)
		}
		time.Sleep(handshakeTime + time.Second)
		synctest.Wait()
		for i, s := range conns {
			if !closed(s) {
				t.Errorf("connection %d is open after its time", i)
			}
		}
		if closed(c) {
			t.Error("the member was closed")
		}
		_ = n.Close()
		_ = c.Close()
	})
}
