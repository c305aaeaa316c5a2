package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

const (
	// smallFrame is what any connection may announce and get a buffer for at once.
	smallFrame = 64 << 10
	// stallBytes is what a frame under way must gain within StallTimeout.
	stallBytes = 64 << 10
	// readMin and readMax bound the read-ahead buffer. It doubles when a read fills it.
	readMin = 4 << 10
	readMax = 32 << 10
	// peekBytes is read of a next frame while frames are large: enough for its size and for a
	// small frame, little enough that the copy into the frame's own buffer costs nothing.
	peekBytes = 512
)

// errStopped ends the read loop of a connection that was told to stop.
var errStopped = errors.New("stopped")

// refusedError ends a connection whose peer did what it must not.
type refusedError struct {
	why  Refusal
	msg  string
	args []any
}

func (e *refusedError) Error() string { return e.msg }

// frameReader cuts a byte stream into frames.
//
//	buf   ┌────────┬──────────────────────┬───────┐   frames up to len(buf) are completed here by
//	      │  done  │ r   read ahead     w │ free  │   few, greedy reads and copied out; a larger
//	      └────────┴──────────────────────┴───────┘   one is read straight to its own buffer.
type frameReader struct {
	buf  []byte
	r, w int

	last   int  // size of the last frame
	proven int  // size of the largest frame so far
	heard  bool // the first four bytes were looked at
	owed   int  // requests served since the last flush

	// Patience with the peer: within a frame it must gain stallBytes per StallTimeout, between
	// frames it may be silent for IdleTimeout. Both count from since.
	within bool
	since  time.Time
	gained int
	until  time.Time // the armed deadline
}

// nextFrame reads one frame. It waits where the connection or the broker has no room for it.
func (c *Conn) nextFrame() (*Request, error) {
	size, err := c.readSize()
	if err != nil {
		return nil, err
	}
	if err := c.gate(); err != nil {
		return nil, err
	}
	r := &Request{Conn: c}
	buf, err := c.readBody(r, size)
	if err != nil {
		if buf != nil {
			c.srv.pool.put(buf)
		}
		c.srv.budget.end(&r.lease)
		return nil, err
	}
	r.buf.Store(buf)
	r.Frame = buf.b[:size:size]
	f := &c.in
	f.last, f.proven = size, max(f.proven, size)
	f.within, f.since = false, time.Now()
	r.Received = f.since
	if c.srv.opt.Clock != clock.System {
		r.Received = c.srv.opt.Clock.Now()
	}
	// An answer may have muted the connection while the body came in.
	if err := c.waitMuted(); err != nil {
		r.Recycle()
		return nil, err
	}
	return r, nil
}

// readSize reads and judges the four bytes in front of a frame.
func (c *Conn) readSize() (int, error) {
	f := &c.in
	for f.w-f.r < 4 {
		limit := len(f.buf)
		if f.last > readMax {
			limit = peekBytes
		}
		if err := c.fill(limit); err != nil {
			return 0, err
		}
		if f.w-f.r < 4 {
			f.enter()
		}
	}
	size := frameSize(f.buf[f.r:])
	first := [4]byte(f.buf[f.r:])
	if !f.heard {
		f.heard = true
		if s := sniff(first); s != strangerNone {
			return 0, c.turnAway(s)
		}
	}
	if limit := int(c.maxFrame.Load()); size < 0 || size > limit {
		return 0, &refusedError{RefusedSize, "request size out of bounds: connection closed",
			[]any{"bytes", size, "limit", limit, "first", strconv.Quote(string(first[:]))}}
	}
	f.r += 4
	return size, nil
}

// turnAway answers a stranger in its own tongue where that is easy.
func (c *Conn) turnAway(s stranger) error {
	if s == strangerHTTP {
		c.armWrite()
		_, _ = c.nc.Write([]byte(httpHint))
		return &refusedError{RefusedStranger,
			"HTTP request on a Kafka listener: answered 400 and closed", nil}
	}
	return &refusedError{RefusedStranger,
		"TLS handshake on a PLAINTEXT listener: connection closed; " +
			"the client has security.protocol=SSL, or the listener should", nil}
}

// readBody reads size bytes into a buffer of their own. On an error it gives the buffer too.
func (c *Conn) readBody(r *Request, size int) (*frameBuf, error) {
	f := &c.in
	for size <= len(f.buf) && f.w-f.r < size {
		f.enter()
		if err := c.fill(len(f.buf)); err != nil {
			return nil, err
		}
	}
	grant := size
	if size > smallFrame && size > f.proven {
		grant = smallFrame
	}
	if !c.claim(r, grant, size <= smallFrame) {
		return nil, errStopped
	}
	buf := c.buffer(r, grant)
	n := copy(buf.b[:grant], f.buf[f.r:f.w])
	f.r += n
	for n < size {
		if n == grant {
			grant = min(2*grant, size)
			bigger, err := c.growBody(r, buf, grant)
			if err != nil {
				return buf, err
			}
			buf = bigger
		}
		f.enter()
		m, err := c.receive(buf.b[n:grant])
		if err != nil {
			return buf, err
		}
		n += m
	}
	return buf, nil
}

// growBody moves a body that has filled its buffer to one of at least n bytes.
func (c *Conn) growBody(r *Request, buf *frameBuf, n int) (*frameBuf, error) {
	if !c.claim(r, n, false) {
		return nil, errStopped
	}
	bigger := c.buffer(r, n)
	copy(bigger.b, buf.b)
	old := int64(len(buf.b))
	c.srv.pool.put(buf)
	c.srv.budget.shrink(&r.lease, old)
	return bigger, nil
}

// buffer gives one of at least n bytes, for which there is a claim. One that the pool happens to have
// may be larger: the rest is claimed too, without waiting.
func (c *Conn) buffer(r *Request, n int) *frameBuf {
	buf := c.srv.pool.get(n)
	if more := len(buf.b) - sizeFor(n); more > 0 {
		c.srv.budget.grow(&r.lease, int64(more), true, nil, nil)
	}
	return buf
}

// claim takes room for a buffer of n bytes from the broker's budget; false when the connection
// ends first. A small frame always passes when it is all that its connection has under way.
func (c *Conn) claim(r *Request, n int, small bool) bool {
	if small {
		c.mu.Lock()
		small = c.mu.open == 0
		c.mu.Unlock()
	}
	waited := false
	ok := c.srv.budget.grow(&r.lease, int64(sizeFor(n)), small, c.quit, func() {
		waited = true
		c.flushOwed()
	})
	if waited && c.in.within {
		c.in.since, c.in.gained = time.Now(), 0 // the wait was ours, not the peer's
	}
	return ok
}

// enter starts the peer's clock for the frame under way.
func (f *frameReader) enter() {
	if !f.within {
		f.within, f.since, f.gained = true, time.Now(), 0
	}
}

// fill reads ahead at least one byte and at most limit.
func (c *Conn) fill(limit int) error {
	f := &c.in
	if f.r > 0 {
		f.w = copy(f.buf, f.buf[f.r:f.w])
		f.r = 0
	}
	limit = min(limit, len(f.buf))
	if f.w >= limit {
		limit = len(f.buf)
	}
	n, err := c.receive(f.buf[f.w:limit])
	f.w += n
	if err != nil {
		return err
	}
	if f.w == len(f.buf) && len(f.buf) < readMax {
		bigger := make([]byte, 2*len(f.buf))
		copy(bigger, f.buf[:f.w])
		f.buf = bigger
	}
	return nil
}

// receive reads at least one byte into p. It flushes what is owed first (N5), and gives up on a
// peer that has used up its patience (N6).
func (c *Conn) receive(p []byte) (int, error) {
	f := &c.in
	c.flushOwed()
	for {
		c.armRead()
		n, err := c.nc.Read(p)
		if n > 0 {
			f.gained += n
			c.srv.observer.BytesIn(c.listener, n)
			return n, nil
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			if f.within {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, io.EOF
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		}
		if err := c.outOfPatience(); err != nil {
			return 0, err
		}
	}
}

// patience is how long the peer may take, 0 for ever.
func (c *Conn) patience() time.Duration {
	if c.in.within {
		return c.srv.opt.StallTimeout
	}
	return max(c.srv.opt.IdleTimeout, 0)
}

// armRead moves the read deadline to where patience ends. A deadline costs a timer, so one that is
// early by up to an eighth stays, and outOfPatience moves it when it fires.
func (c *Conn) armRead() {
	f := &c.in
	d := c.patience()
	if d == 0 {
		if !f.until.IsZero() {
			f.until = time.Time{}
			c.setReadDeadline(f.until)
		}
		return
	}
	end := f.since.Add(d)
	if early := end.Sub(f.until); f.until.IsZero() || early < 0 || early > d/8 {
		f.until = end
		c.setReadDeadline(end)
	}
}

// outOfPatience judges a read deadline that fired: nil to read on.
func (c *Conn) outOfPatience() error {
	f := &c.in
	c.mu.Lock()
	stop, open, wrote := c.mu.stop, c.mu.open, c.mu.wrote
	c.mu.Unlock()
	if stop {
		return errStopped
	}
	now := time.Now()
	f.until = time.Time{}
	d := c.patience()
	if !f.within && wrote.After(f.since) {
		f.since = wrote
	}
	switch {
	case now.Before(f.since.Add(d)):
	case f.within && f.gained >= stallBytes:
		f.since, f.gained = now, 0
	case f.within:
		return &refusedError{RefusedStalled, "request stalled: connection closed",
			[]any{"timeout", d}}
	case open > 0:
		f.since = now
	default:
		return &refusedError{RefusedIdle, "idle connection closed", []any{"timeout", d}}
	}
	return nil
}

// handshake makes nc of raw.
func (c *Conn) handshake() error {
	now := time.Now()
	c.in.since = now
	c.nc = c.raw
	if c.listener.Protocol != SSL {
		return nil
	}
	session := tls.Server(c.raw, c.listener.TLS)
	end := now.Add(c.srv.opt.HandshakeTimeout)
	c.setReadDeadline(end)
	_ = c.raw.SetWriteDeadline(end)
	c.in.until, c.out.until = end, end
	if err := session.Handshake(); err != nil {
		return err
	}
	state := session.ConnectionState()
	c.nc, c.tlsState = session, &state
	c.in.since, c.out.until = time.Now(), time.Time{}
	return nil
}

// handshakeFailed tells why, and gives a browser a hint.
func (c *Conn) handshakeFailed(err error) {
	c.mu.Lock()
	stop := c.mu.stop
	c.mu.Unlock()
	if stop {
		return
	}
	c.srv.observer.Refused(c.listener, RefusedHandshake)
	why := err.Error()
	var header tls.RecordHeaderError
	switch {
	case errors.Is(err, io.EOF):
		return // a port check, by a load balancer for one
	case errors.As(err, &header) && header.Conn != nil:
		why = "the client speaks no TLS; it has security.protocol=PLAINTEXT, or the listener should"
		if sniff([4]byte(header.RecordHeader[:4])) == strangerHTTP {
			why = "plain HTTP request"
			_, _ = c.raw.Write([]byte(httpHint))
			defer c.drain()
		}
	}
	c.stray(slog.LevelWarn, "TLS handshake failed: connection closed", "err", why)
}

// remoteIP is the address that limits and log lines count by.
func remoteIP(nc net.Conn) (ip netip.Addr) {
	if t, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().WithZone("")
	}
	return ip
}
