package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"
)

const (
	// maxOwed is how many requests that lie in the read buffer are served before their answers go
	// out in one write.
	maxOwed = 16
	// writePiece is the most that one write call is given; each piece has its own deadline.
	writePiece = 256 << 10
	// maxPieces bounds the slices of one writev; the kernel takes 1024.
	maxPieces = 256
	// sendfileMin is the range from which sendfile beats a copy through a buffer.
	sendfileMin = 64 << 10
	// slabSize is the unit in which answers are joined for connections without writev.
	slabSize = 64 << 10
)

// answerWriter turns answers into as few and as large writes as may be. It belongs to the flusher,
// the one goroutine that has set Conn.mu.writing.
type answerWriter struct {
	batch  []*Request  // taken off the queue, being written
	prefix []byte      // backing of the size prefixes of a batch
	iov    [][]byte    // not yet written
	size   int         // bytes in iov
	held   []*frameBuf // file bytes that iov refers to
	bufs   net.Buffers // scratch of one writev: WriteTo eats its receiver
	until  time.Time   // the armed write deadline
	wrote  time.Time   // when the last piece was written
	sock   rawSocket
}

// writeLoop is the writer goroutine.
func (c *Conn) writeLoop() {
	for {
		select {
		case <-c.wake:
			c.flush()
		case <-c.gone:
			return
		}
	}
}

// flushOwed flushes what the reader has left unwritten.
func (c *Conn) flushOwed() {
	if c.in.owed > 0 {
		c.in.owed = 0
		c.flush()
	}
}

// flush writes the finished answers at the front of the queue, unless somebody else does: who
// writes looks at the queue again before leaving, under mu.
func (c *Conn) flush() {
	c.mu.Lock()
	for !c.mu.writing && !c.mu.cut && c.takeLocked() {
		c.mu.writing = true
		c.mu.Unlock()
		queued, failed, err := c.writeBatch()
		c.mu.Lock()
		c.mu.writing = false
		c.mu.wrote = c.out.wrote
		c.mu.open -= len(c.out.batch)
		clear(c.out.batch)
		var dropped *Request
		if !c.mu.cut {
			c.mu.queued -= queued
			if failed || err != nil {
				c.stopLocked()
				dropped = c.cutLocked()
			}
		}
		c.room.Broadcast()
		if dropped != nil || err != nil {
			c.mu.Unlock()
			dropAll(dropped)
			if err != nil {
				c.writeFailed(err)
			}
			c.mu.Lock()
		}
	}
	c.mu.Unlock()
}

// takeLocked moves the finished requests from the front of the queue to the batch, up to and with
// a failed one.
func (c *Conn) takeLocked() bool {
	c.out.batch = c.out.batch[:0]
	for r := c.mu.head; r != nil && r.state != stateOpen; r = c.mu.head {
		c.mu.head, r.next = r.next, nil
		if c.mu.head == nil {
			c.mu.tail = nil
		}
		c.out.batch = append(c.out.batch, r)
		if r.state == stateFailed {
			break
		}
	}
	return len(c.out.batch) > 0
}

// writeBatch writes the batch and releases its answers. It gives the memory they held, and
// whether a failed request ends the connection's answers.
func (c *Conn) writeBatch() (queued int64, failed bool, err error) {
	w := &c.out
	w.prefix = w.prefix[:0]
	for _, r := range w.batch {
		switch r.state {
		case stateReplied:
			wire, memory := r.payload.sizes()
			queued += memory
			if err == nil {
				err = c.writeAnswer(&r.payload, wire)
			}
		case stateFailed:
			failed = true
		}
	}
	if err == nil {
		err = c.flushPieces(false)
	}
	c.resetPieces()
	for _, r := range w.batch {
		r.payload.release()
	}
	return queued, failed, err
}

// writeFailed ends a connection whose answers can't be written.
func (c *Conn) writeFailed(err error) {
	var short *shortFileError
	switch {
	case errors.As(err, &short):
		c.srv.logger.Error("answer cut: file range can't be read", "peer", c.RemoteAddr().String(), "err", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.srv.observer.Refused(c.listener, RefusedStuck)
		c.stray(slog.LevelWarn, "client does not take its answers: connection closed",
			"timeout", c.srv.opt.WriteTimeout)
		if t, ok := c.raw.(*net.TCPConn); ok {
			_ = t.SetLinger(0) // else the kernel keeps what is unsent for minutes
		}
	}
	c.kill()
}

// shortFileError is a range that the handler promised and the file does not give.
type shortFileError struct{ err error }

func (e *shortFileError) Error() string { return e.err.Error() }
func (e *shortFileError) Unwrap() error { return e.err }

// writeAnswer queues or writes the size and the chunks of one answer.
func (c *Conn) writeAnswer(p *Payload, wire int64) error {
	w := &c.out
	n := len(w.prefix)
	w.prefix = binary.BigEndian.AppendUint32(w.prefix, uint32(wire))
	if err := c.addPiece(w.prefix[n:]); err != nil {
		return err
	}
	for i := range p.Chunks {
		k := &p.Chunks[i]
		var err error
		switch {
		case k.File == nil && k.At == nil:
			err = c.addPiece(k.Buf)
		case k.File != nil && c.tcp != nil && k.Len >= sendfileMin && canSendfile:
			err = c.sendRange(k.File, k.Off, k.Len)
		case k.File != nil:
			err = c.copyRange(k.File, k.Off, k.Len)
		default:
			err = c.copyRange(k.At, k.Off, k.Len)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addPiece queues b and writes what has come together when it is enough for one call.
func (c *Conn) addPiece(b []byte) error {
	w := &c.out
	for len(b) > 0 {
		n := min(len(b), writePiece-w.size)
		w.iov = append(w.iov, b[:n])
		w.size += n
		b = b[n:]
		if w.size == writePiece || len(w.iov) == maxPieces {
			if err := c.flushPieces(false); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyRange sends a file's range through pooled buffers.
func (c *Conn) copyRange(f io.ReaderAt, off, n int64) error {
	w := &c.out
	for n > 0 {
		step := int(min(n, int64(writePiece-w.size)))
		buf := c.srv.pool.get(step)
		w.held = append(w.held, buf)
		got, err := f.ReadAt(buf.b[:step], off)
		if got < step {
			return &shortFileError{fmt.Errorf("read %d bytes at %d: %w", step, off, err)}
		}
		if err := c.addPiece(buf.b[:step]); err != nil {
			return err
		}
		off += int64(step)
		n -= int64(step)
	}
	return nil
}

// sendRange sends a file's range by sendfile, and by copying where the file system has no
// sendfile.
func (c *Conn) sendRange(f *os.File, off, n int64) error {
	if err := c.flushPieces(true); err != nil {
		return err
	}
	sent, err := c.sendfile(f, off, n)
	c.wrote(sent)
	if errors.Is(err, errors.ErrUnsupported) {
		return c.copyRange(f, off+sent, n-sent)
	}
	return err
}

// flushPieces writes what addPiece queued. more says that a sendfile follows at once, so that the
// header does not travel in a packet of its own.
func (c *Conn) flushPieces(more bool) error {
	w := &c.out
	if w.size == 0 {
		return nil
	}
	c.armWrite()
	var n int64
	var err error
	switch {
	case c.tcp == nil:
		n, err = c.writeSlabs(w.iov)
	case more:
		n, err = c.sendMore(w.iov)
	case len(w.iov) == 1:
		var m int
		m, err = c.tcp.Write(w.iov[0])
		n = int64(m)
	default:
		w.bufs = w.iov
		n, err = w.bufs.WriteTo(c.tcp)
	}
	c.wrote(n)
	c.resetPieces()
	return err
}

// resetPieces forgets the queued pieces and gives their file buffers back.
func (c *Conn) resetPieces() {
	w := &c.out
	clear(w.iov)
	w.iov, w.size, w.bufs = w.iov[:0], 0, nil
	for i, buf := range w.held {
		c.srv.pool.put(buf)
		w.held[i] = nil
	}
	w.held = w.held[:0]
}

// writeSlabs writes the pieces joined into slabs: each write of a TLS connection makes a record of
// its own.
func (c *Conn) writeSlabs(iov [][]byte) (written int64, err error) {
	if len(iov) == 1 {
		n, err := c.nc.Write(iov[0])
		return int64(n), err
	}
	total := 0
	for _, b := range iov {
		total += len(b)
	}
	slab := c.srv.pool.get(min(total, slabSize))
	defer c.srv.pool.put(slab)
	fill := 0
	for i, b := range iov {
		for len(b) > 0 {
			n := copy(slab.b[fill:], b)
			fill += n
			b = b[n:]
			if fill < len(slab.b) && (len(b) > 0 || i < len(iov)-1) {
				continue
			}
			m, err := c.nc.Write(slab.b[:fill])
			written += int64(m)
			if err != nil {
				return written, err
			}
			fill = 0
		}
	}
	if fill > 0 {
		m, err := c.nc.Write(slab.b[:fill])
		written += int64(m)
		return written, err
	}
	return written, nil
}

// wrote counts bytes that the socket took.
func (c *Conn) wrote(n int64) {
	if n > 0 {
		c.srv.observer.BytesOut(c.listener, n)
	}
}

// armWrite gives the next piece between half and all of WriteTimeout. A deadline costs a timer, so
// it is moved only when half of it is gone.
func (c *Conn) armWrite() {
	now := time.Now()
	c.out.wrote = now
	if c.out.until.Sub(now) < c.srv.opt.WriteTimeout/2 {
		c.out.until = now.Add(c.srv.opt.WriteTimeout)
		_ = c.raw.SetWriteDeadline(c.out.until)
	}
}
