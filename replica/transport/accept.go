package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

const (
	maxWaiting = 128 // connections in their handshake; one more ends the oldest
	maxJoins   = 16  // connections of nodes that want to join
)

// inboundKey is the place of an accepted connection: a second one takes it over.
type inboundKey struct {
	node kafkaproto.NodeID
	role role
	join int // tells joins apart, which have no number
}

// acceptLoop takes connections. None of them can hold it up.
func (t *TCP) acceptLoop() {
	defer t.wg.Done()
	var delay time.Duration
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			if t.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, most likely: it passes.
			delay = min(max(2*delay, backoffMin), backoffMax)
			t.opt.Logger.Error("peers' connections can't be accepted", "err", err)
			if !pause(t.opt.Clock, delay, t.ctx.Done()) {
				return
			}
			continue
		}
		delay = 0
		in := &inbound{t: t, raw: conn}
		in.ctx, in.cancel = context.WithCancel(t.ctx)
		if !t.admitWaiting(in) {
			in.close()
			return
		}
		go in.run()
	}
}

// admitWaiting gives a connection a place among those in their handshake, and its goroutine one in
// the wait group; false when the transport closes.
func (t *TCP) admitWaiting(in *inbound) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return false
	}
	if len(t.mu.order) >= maxWaiting {
		oldest := t.mu.order[0]
		t.leaveWaitingLocked(oldest)
		oldest.close()
	}
	t.mu.waiting[in] = struct{}{}
	t.mu.order = append(t.mu.order, in)
	t.wg.Add(1)
	return true
}

func (t *TCP) leaveWaitingLocked(in *inbound) {
	if _, ok := t.mu.waiting[in]; ok {
		delete(t.mu.waiting, in)
		i := slices.Index(t.mu.order, in)
		t.mu.order = slices.Delete(t.mu.order, i, i+1)
	}
}

// run is the connection's goroutine.
func (in *inbound) run() {
	t := in.t
	defer t.wg.Done()
	defer in.close()
	h, err := in.handshake()
	if err == nil {
		in.from, in.role = h.From, h.Role
		in.serve()
	}
	t.mu.Lock()
	t.leaveWaitingLocked(in)
	if t.mu.inbound[in.key] == in {
		delete(t.mu.inbound, in.key)
	}
	t.mu.Unlock()
	in.close()
	in.jobs.Wait()
	if err != nil && t.ctx.Err() == nil && !errors.Is(err, io.EOF) && t.strays.first(in.raw.RemoteAddr()) {
		t.opt.Logger.Warn("a connection to the controller listener was refused", "remote", in.raw.RemoteAddr().String(),
			"err", err)
	}
}

// handshake proves who is there, and registers the connection.
func (in *inbound) handshake() (hello, error) {
	t := in.t
	timer := t.opt.Clock.AfterFunc(handshakeTime, in.close)
	defer timer.Stop()
	if c, ok := in.raw.(*net.TCPConn); ok {
		_ = c.SetNoDelay(true)
		if err := t.opt.checkAddr(in.raw.RemoteAddr().String()); err != nil {
			return hello{}, err
		}
	}
	p := t.party()
	conn, state, err := t.secureAccept(in.ctx, in.raw, &p)
	in.conn = conn
	if err != nil {
		return hello{}, err
	}
	p.admit = func(h *hello) refusal {
		if state != nil {
			if err := t.opt.Admit(*state, h.From); err != nil {
				return refusedIdentity
			}
		}
		return t.register(in, h)
	}
	h, err := p.accept(conn)
	if err == nil && !timer.Stop() {
		err = errors.New("the handshake took too long")
	}
	return h, err
}

// register makes room for a connection that has proved who it is.
func (t *TCP) register(in *inbound, h *hello) refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return refusedStale
	}
	key := inboundKey{node: h.From, role: h.Role}
	if h.Role == roleJoin {
		key.node = NoNode
		t.mu.joins++
		key.join = t.mu.joins % maxJoins
		h.From = NoNode
	} else if h.Incarnation < t.mu.latest[h.From] {
		return refusedStale
	}
	if h.Role != roleJoin && h.Incarnation > t.mu.latest[h.From] {
		t.mu.latest[h.From] = h.Incarnation
		for k, old := range t.mu.inbound { // what an earlier start of the node has sent is void
			if k.node == h.From {
				old.close()
				delete(t.mu.inbound, k)
			}
		}
	}
	if old := t.mu.inbound[key]; old != nil {
		old.close()
	}
	in.key = key
	t.mu.inbound[key] = in
	t.leaveWaitingLocked(in)
	if p := t.mu.peers[h.From]; p != nil && h.Role == roleControl {
		p.heard()
	}
	return refusedNothing
}

// close ends the connection; its goroutine cleans up.
func (in *inbound) close() {
	in.cancel()
	_ = in.raw.Close()
}

func (in *inbound) fail(format string, args ...any) error {
	return kafkaproto.MarkCorrupt(fmt.Errorf("node %d: "+format, append([]any{in.from}, args...)...))
}
