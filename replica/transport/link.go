package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// item is what waits in a link's queue: a frame, or a message that is encoded when its turn comes.
type item struct {
	frame   []byte
	msg     Message
	request *request // that the frame opens
}

// cost is what an item counts for in the backlog.
func (it *item) cost() int64 {
	if it.frame != nil {
		return int64(len(it.frame))
	}
	n := int64(256 + 64*len(it.msg.Raft.Entries))
	if it.msg.Payload != nil {
		n += it.msg.Payload.Size()
	}
	return n
}

// request is a call or stream that waits for the other side. done is called once, without locks.
type request struct {
	done   func(body []byte, err error)
	stream *stream
	sent   bool // guarded by link.mu
}

// link is one connection to a peer: its queue, and who dials it and writes to it.
type link struct {
	p    *peer
	role role
	wake chan struct{}

	mu struct {
		sync.Mutex
		queue    []item
		failed   error // why nothing is queued: the last attempt to dial failed, or the link ended
		requests map[uint64]*request
		nextID   uint64
	}
}

func newLink(p *peer, r role) *link {
	l := &link{p: p, role: r, wake: make(chan struct{}, 1)}
	l.mu.requests = map[uint64]*request{}
	return l
}

// enqueue queues for the writer; false when the item was not taken.
func (l *link) enqueue(it item) bool {
	cost := it.cost()
	l.mu.Lock()
	if l.mu.failed != nil || !l.p.reserve(l.role, cost) {
		l.mu.Unlock()
		return false
	}
	l.mu.queue = append(l.mu.queue, it)
	first := len(l.mu.queue) == 1
	l.mu.Unlock()
	if first {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take gives the queue to the writer.
func (l *link) take(buf []item) []item {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(buf)
	out := l.mu.queue
	l.mu.queue = buf[:0]
	for i := range out {
		if r := out[i].request; r != nil {
			r.sent = true
		}
	}
	return out
}

// settle sets why nothing can be sent (nil: it can), and drops what waits if there is a reason.
func (l *link) settle(failed error) {
	l.mu.Lock()
	l.mu.failed = failed
	var queue []item
	var open []*request
	if failed != nil {
		queue, l.mu.queue = l.mu.queue, nil
		for id, r := range l.mu.requests {
			open = append(open, r)
			delete(l.mu.requests, id)
		}
	}
	l.mu.Unlock()
	for i := range queue {
		l.dropItem(&queue[i])
	}
	for _, r := range open {
		r.done(nil, fmt.Errorf("%w: %w", ErrUnreachable, failed))
	}
}

// lost ends what was sent over a connection that broke.
func (l *link) lost(why error) {
	l.mu.Lock()
	var open []*request
	for id, r := range l.mu.requests {
		if r.sent {
			open = append(open, r)
			delete(l.mu.requests, id)
		}
	}
	l.mu.Unlock()
	for _, r := range open {
		r.done(nil, fmt.Errorf("%w: %w", ErrLost, why))
	}
}

// dropItem accounts for an item that was not sent.
func (l *link) dropItem(it *item) {
	l.p.unreserve(l.role, it.cost())
	if it.frame == nil {
		l.p.t.dropped.add(l.p.id, it.msg.Group)
	}
}

// run dials and serves until the peer is cancelled.
func (l *link) run() {
	defer l.settle(ErrClosed)
	if l.p.before != nil {
		<-l.p.before
	}
	var delay time.Duration
	for l.rest(delay) {
		session := l.p.ctx
		if l.role != roleControl {
			if session = l.wanted(); session == nil {
				return
			}
		}
		began := l.p.t.opt.Clock.Now()
		l.attempt(session)
		switch {
		case l.p.t.opt.Clock.Now().Sub(began) >= steadyTime:
			delay = 0
		case delay == 0:
			delay = backoffMin
		default:
			delay = min(2*delay, backoffMax)
		}
	}
}

// rest waits before the next attempt; control is woken when the peer is heard of.
func (l *link) rest(d time.Duration) bool {
	if l.p.ctx.Err() != nil {
		return false
	}
	if d == 0 {
		return true
	}
	over := make(chan struct{})
	t := l.p.t.opt.Clock.AfterFunc(d, func() { close(over) })
	defer t.Stop()
	var kick chan struct{}
	if l.role == roleControl {
		kick = l.p.kick
	}
	select {
	case <-over:
	case <-kick:
	case <-l.p.ctx.Done():
		return false
	}
	return true
}

// wanted waits until control is up and, for the bulk connection, somebody asks for it.
func (l *link) wanted() context.Context {
	for {
		s := l.p.session()
		if s == nil || l.role != roleBulk {
			return s
		}
		l.mu.Lock()
		n := len(l.mu.queue)
		l.mu.Unlock()
		if n > 0 {
			return s
		}
		select {
		case <-l.wake:
		case <-l.p.ctx.Done():
			return nil
		}
	}
}

// attempt dials, and serves the connection until it ends.
func (l *link) attempt(session context.Context) {
	t := l.p.t
	conn, w, err := t.connect(session, l.p.Addr, l.role, l.p.id)
	if err != nil {
		l.failed(err)
		return
	}
	if l.role != roleControl {
		l.settle(nil)
		err = l.serve(session, conn)
		l.lost(err)
		return
	}
	session, end := context.WithCancel(session)
	defer end()
	t.opt.Logger.Info("peer is up", "node", l.p.id, "addr", l.p.Addr, "incarnation", w.Incarnation)
	for _, other := range l.p.links {
		other.settle(nil)
	}
	l.p.setSession(session)
	t.handler.PeerUp(l.p.id, w.Incarnation)
	err = l.serve(session, conn)
	end()
	l.p.setSession(nil)
	l.lost(err)
	if l.p.ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errNoPeer, err)
	}
	t.opt.Logger.Info("peer is down", "node", l.p.id, "addr", l.p.Addr, "err", err)
	t.handler.PeerDown(l.p.id, err)
}

// failed tells of an attempt to dial that failed. Without control nothing else has a chance.
func (l *link) failed(err error) {
	if l.p.ctx.Err() != nil {
		return
	}
	l.p.t.opt.Logger.Debug("peer can't be reached", "node", l.p.id, "addr", l.p.Addr, "connection", l.role, "err", err)
	if l.role != roleControl {
		l.settle(err)
		return
	}
	var refused refusal
	if errors.As(err, &refused) && l.p.t.strays.first(stringAddr(l.p.Addr)) {
		l.p.t.opt.Logger.Error("peer refuses", "node", l.p.id, "addr", l.p.Addr, "err", err)
	}
	for _, other := range l.p.links {
		other.settle(err)
	}
	l.p.t.handler.PeerDown(l.p.id, err)
}

type stringAddr string

func (stringAddr) Network() string  { return "tcp" }
func (a stringAddr) String() string { return string(a) }

// serve writes the queue and reads answers, until the connection or the session ends.
func (l *link) serve(session context.Context, conn net.Conn) error {
	stop := context.AfterFunc(session, func() { _ = conn.Close() })
	defer stop()
	dead := make(chan struct{})
	var readErr error
	l.p.t.wg.Add(1)
	go func() {
		defer l.p.t.wg.Done()
		defer close(dead)
		readErr = l.read(conn)
		_ = conn.Close()
	}()
	err := l.write(conn, dead)
	_ = conn.Close()
	<-dead
	if readErr != nil {
		return readErr // it was first, or says more than "closed"
	}
	return err
}

// write carries the queue to the connection.
func (l *link) write(conn net.Conn, dead <-chan struct{}) error {
	w := newFrameWriter(conn, l.p.t.guard(conn))
	defer w.stall.disarm()
	defer w.drop()
	var batch []item
	for {
		batch = l.take(batch)
		if len(batch) > 0 {
			if err := l.writeBatch(w, batch); err != nil {
				return err
			}
			continue
		}
		select {
		case <-l.wake:
		case <-dead:
			return nil
		}
	}
}

// writeBatch writes what was taken off the queue. After an error all of it has been accounted for.
func (l *link) writeBatch(w *frameWriter, batch []item) error {
	for i := range batch {
		if err := l.writeItem(w, &batch[i]); err != nil {
			l.reportLost(batch[:i])
			for j := i; j < len(batch); j++ {
				l.dropItem(&batch[j])
			}
			return err
		}
		l.p.unreserve(l.role, batch[i].cost())
	}
	err := w.flush()
	if err != nil {
		l.reportLost(batch)
	}
	return err
}

// reportLost tells of messages that were in a write that failed.
func (l *link) reportLost(batch []item) {
	for i := range batch {
		if batch[i].frame == nil {
			l.p.t.dropped.add(l.p.id, batch[i].msg.Group)
		}
	}
}

// writeItem gives one item to w. A message that can't be sent is dropped, which is no error.
func (l *link) writeItem(w *frameWriter, it *item) error {
	if it.frame != nil {
		return w.frame(it.frame)
	}
	var release func()
	var err error
	if fits(&it.msg, pieceSize) {
		err = w.message(&it.msg)
	} else {
		var all []Message
		if all, release, err = pieces(it.msg, pieceSize); err != nil {
			l.dropMessage(&it.msg, err)
			return nil
		}
		for i := range all {
			if err = w.message(&all[i]); err != nil {
				break // the pieces behind it would have nothing to follow
			}
		}
	}
	var dropped *droppedError
	if errors.As(err, &dropped) {
		l.dropMessage(&it.msg, err)
		err = nil
	}
	if release != nil { // the pieces share one load: it is given back when all are out
		if err == nil {
			err = w.flush()
		}
		release()
	}
	return err
}

func (l *link) dropMessage(m *Message, why error) {
	l.p.t.opt.Logger.Debug("message dropped", "to", l.p.id, "group", m.Group, "type", m.Raft.Type, "err", why)
	l.p.t.dropped.add(l.p.id, m.Group)
}

// open registers a request and queues the frame that frame makes for its id.
func (l *link) open(r *request, frame func(id uint64) []byte) (id uint64, err error) {
	l.mu.Lock()
	l.mu.nextID++
	id = l.mu.nextID
	failed := l.mu.failed
	if failed == nil {
		l.mu.requests[id] = r
	}
	l.mu.Unlock()
	if failed != nil {
		return id, fmt.Errorf("node %d: %w: %w", l.p.id, ErrUnreachable, failed)
	}
	if !l.enqueue(item{frame: frame(id), request: r}) && l.forget(id) != nil {
		return id, fmt.Errorf("node %d: %w: its backlog is full", l.p.id, ErrUnreachable)
	}
	return id, nil // or settle has told it
}

// forget takes a request out; nil when it was taken out before.
func (l *link) forget(id uint64) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.mu.requests[id]
	delete(l.mu.requests, id)
	return r
}

func (l *link) request(id uint64) *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.requests[id]
}

// connect dials and shakes hands, within dialTime.
func (t *TCP) connect(parent context.Context, addr string, r role, to kafkaproto.NodeID) (net.Conn, welcome, error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	timer := t.opt.Clock.AfterFunc(dialTime, cancel)
	defer timer.Stop()
	conn, err := t.dial(ctx, addr, r)
	if err != nil {
		return nil, welcome{}, err
	}
	raw := conn
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	p := t.party()
	conn, err = t.secureDial(ctx, conn, addr, to, &p)
	if err != nil {
		_ = conn.Close()
		return nil, welcome{}, err
	}
	w, err := p.dial(conn, r, to)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, w, fmt.Errorf("handshake with %s: %w", addr, err)
	}
	return conn, w, nil
}
