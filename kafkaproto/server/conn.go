package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxQueuedAnswers is the memory of unsent answers above which a connection is not read.
	maxQueuedAnswers = 4 << 20
	// lingerTime and lingerBytes bound what is still read of a client that is being closed: bytes
	// left unread would make the kernel reset the connection and lose answers under way.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// past is a deadline that ends a blocked call.
var past = time.Unix(1, 0)

// Conn is one client's connection. Its methods may be called from any goroutine.
type Conn struct {
	srv      *Server
	id       uint64
	listener *Listener
	peer     netip.Addr // invalid when the peer has no IP address
	raw      net.Conn   // as accepted
	tcp      *net.TCPConn
	nc       net.Conn // raw, or TLS on top of it; set by the reader before Opened
	tlsState *tls.ConnectionState
	user     atomic.Pointer[any]
	maxFrame atomic.Int64
	muted    atomic.Int64 // until then (nanoseconds since Server.started) no request is served

	quit chan struct{} // closed when no more requests are read
	gone chan struct{} // closed when the socket is
	wake chan struct{} // tells the writer to flush
	room sync.Cond     // on mu: answers went out, or the connection is ending

	in  frameReader // the reader's
	out answerWriter

	// mu is never held during I/O or while a handler's function runs.
	mu struct {
		sync.Mutex
		head, tail *Request  // requests not yet taken by a flusher, in arrival order
		open       int       // requests served and not yet written
		wrote      time.Time // when the last answers went out
		queued     int64     // bytes of memory in finished, unwritten answers
		serving    *Request  // the request in Handler.Serve
		writing    bool      // a flusher owns out
		writer     bool      // the writer goroutine runs
		stop       bool      // read no more; quit is closed
		cut        bool      // write no more; answers are dropped
		dead       bool      // the socket is closed
		reason     string    // of Request.Fail
	}
}

// ID is unique among the connections of a server.
func (c *Conn) ID() uint64 { return c.id }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// LocalAddr is the address the peer reached.
func (c *Conn) LocalAddr() net.Addr { return c.raw.LocalAddr() }

// Listener is where the connection came in.
func (c *Conn) Listener() *Listener { return c.listener }

// TLS is the state of the TLS session, nil on a plain connection.
func (c *Conn) TLS() *tls.ConnectionState { return c.tlsState }

// Done is closed when no more requests are read: the connection is about to end.
func (c *Conn) Done() <-chan struct{} { return c.quit }

// Close ends the connection at once; answers that are not out are dropped.
func (c *Conn) Close() { c.kill() }

// SetUser keeps the handler's state of this connection.
func (c *Conn) SetUser(v any) { c.user.Store(&v) }

// User is what SetUser was given last, or nil.
func (c *Conn) User() any {
	if p := c.user.Load(); p != nil {
		return *p
	}
	return nil
}

// SetMaxRequestBytes lowers (or raises) the frame limit of this connection, for peers that have
// not yet said who they are. It holds from the next frame on.
func (c *Conn) SetMaxRequestBytes(n int) { c.maxFrame.Store(int64(n)) }

// run is the reader: the whole life of the connection.
func (c *Conn) run() {
	defer c.srv.forget(c)
	defer c.kill()
	if err := c.handshake(); err != nil {
		c.handshakeFailed(err)
		return
	}
	c.srv.handler.Opened(c)
	defer c.srv.handler.Closed(c)
	defer c.kill() // a handler that is told of the end finds Done closed
	err := c.readLoop()
	if c.report(err) {
		c.drain()
	}
}

// readLoop serves requests until one can't be read, and says why.
func (c *Conn) readLoop() error {
	for {
		r, err := c.nextFrame()
		if err != nil {
			return err
		}
		if !c.enqueue(r) {
			r.Recycle()
			return errStopped
		}
		c.srv.handler.Serve(r)
		c.mu.Lock()
		c.mu.serving = nil
		c.mu.Unlock()
		c.in.owed++
		if c.in.owed >= maxOwed {
			c.flushOwed()
		}
	}
}

// enqueue puts r at the end of the queue; false when the connection is ending.
func (c *Conn) enqueue(r *Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.stop { // also whenever cut is set: nothing may join a queue that nobody empties
		return false
	}
	if c.mu.tail == nil {
		c.mu.head = r
	} else {
		c.mu.tail.next = r
	}
	c.mu.tail = r
	c.mu.open++
	c.mu.serving = r
	return true
}

// gate waits until the connection may have one more request: fewer are under way than allowed,
// its finished answers are taken by the client, and it is not muted.
func (c *Conn) gate() error {
	for {
		c.mu.Lock()
		full := c.mu.open >= c.srv.opt.MaxPipelined || c.mu.queued > maxQueuedAnswers
		if c.mu.stop {
			c.mu.Unlock()
			return errStopped
		}
		if !full {
			c.mu.Unlock()
			return c.waitMuted()
		}
		if c.in.owed == 0 {
			c.room.Wait()
		}
		c.mu.Unlock()
		c.flushOwed()
		c.in.since = time.Now() // the peer was not asked for anything meanwhile
	}
}

// muteFor is called with mu held, so that of two answers the later end holds.
func (c *Conn) muteFor(d time.Duration) {
	if until := int64(time.Since(c.srv.started) + d); until > c.muted.Load() {
		c.muted.Store(until)
	}
}

// waitMuted returns when no answer's mute holds any more.
func (c *Conn) waitMuted() error {
	for {
		until := c.muted.Load()
		if until == 0 {
			return nil
		}
		left := time.Duration(until) - time.Since(c.srv.started)
		if left <= 0 {
			c.muted.CompareAndSwap(until, 0)
			continue
		}
		c.flushOwed()
		t := time.NewTimer(left)
		select {
		case <-t.C:
			c.in.since = time.Now()
		case <-c.quit:
			t.Stop()
			return errStopped
		}
	}
}

// report logs and counts the reason for the end; it says whether answers under way are still
// worth sending.
func (c *Conn) report(err error) bool {
	var refused *refusedError
	switch {
	case errors.Is(err, errStopped):
		c.mu.Lock()
		reason := c.mu.reason
		c.mu.Unlock()
		if reason != "" {
			c.stray(slog.LevelInfo, "connection closed", "reason", reason)
		}
		return true
	case errors.As(err, &refused):
		level := slog.LevelWarn
		if refused.why == RefusedIdle {
			level = slog.LevelDebug
		}
		c.srv.observer.Refused(c.listener, refused.why)
		c.stray(level, refused.msg, refused.args...)
		c.mu.Lock()
		c.stopLocked()
		c.mu.Unlock()
		return true
	}
	if !errors.Is(err, io.EOF) {
		c.srv.logger.Debug("connection lost", "peer", c.RemoteAddr().String(), "err", err)
	}
	return false
}

// stray logs a line that is limited per peer.
func (c *Conn) stray(level slog.Level, msg string, args ...any) {
	args = append([]any{"listener", c.listener.Name, "peer", c.RemoteAddr().String()}, args...)
	c.srv.strays.log(level, c.peer, msg, args...)
}

// drain lets the answers to what was served out, then says goodbye so that the client gets them.
func (c *Conn) drain() {
	c.flush()
	c.mu.Lock()
	for (c.mu.head != nil || c.mu.writing) && !c.mu.cut {
		c.room.Wait()
	}
	dead := c.mu.dead
	c.mu.Unlock()
	if dead {
		return
	}
	c.armWrite()
	if session, ok := c.nc.(*tls.Conn); ok {
		_ = session.CloseWrite()
	}
	half, ok := c.raw.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.raw.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, c.raw, lingerBytes)
}

// stopLocked makes the reader read no more.
func (c *Conn) stopLocked() {
	if c.mu.stop {
		return
	}
	c.mu.stop = true
	close(c.quit)
	_ = c.raw.SetReadDeadline(past)
	c.room.Broadcast()
}

// stop makes the reader read no more and leave once its answers are out.
func (c *Conn) stop() {
	c.mu.Lock()
	c.stopLocked()
	c.mu.Unlock()
}

// setReadDeadline is the reader's; it must not undo the deadline that stops it.
func (c *Conn) setReadDeadline(t time.Time) {
	c.mu.Lock()
	if !c.mu.stop {
		_ = c.raw.SetReadDeadline(t)
	}
	c.mu.Unlock()
}

// kill closes the socket and drops all answers; more calls do nothing.
func (c *Conn) kill() {
	c.mu.Lock()
	if c.mu.dead {
		c.mu.Unlock()
		return
	}
	c.stopLocked()
	c.mu.dead = true
	close(c.gone)
	dropped := c.cutLocked()
	c.mu.Unlock()
	_ = c.raw.Close()
	dropAll(dropped)
}

// cutLocked ends all writing. It gives the finished requests of the queue, which the caller must
// drop when it has let go of mu.
func (c *Conn) cutLocked() *Request {
	c.mu.cut = true
	var dropped *Request
	for r := c.mu.head; r != nil; {
		next := r.next
		r.next = nil
		if r.state != stateOpen {
			r.next, dropped = dropped, r
		}
		r = next
	}
	c.mu.head, c.mu.tail = nil, nil
	c.mu.queued = 0
	c.room.Broadcast()
	return dropped
}

// dropAll releases the answers of a list that cutLocked gave.
func dropAll(r *Request) {
	for r != nil {
		next := r.next
		r.next = nil
		r.payload.release()
		r = next
	}
}

// wakeLocked has the writer flush, and starts it when there is none yet.
func (c *Conn) wakeLocked() {
	if !c.mu.writer {
		c.mu.writer = true
		// The reader is running: dead is not set, so the group can't be at zero.
		c.srv.wg.Go(c.writeLoop)
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
