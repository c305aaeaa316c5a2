package transport

import (
	"fmt"
	"net"
)

const (
	writeBuffer = 64 << 10 // of headers, bodies and small payloads between two writes
	copyMax     = 4 << 10  // payloads up to this are copied: it costs less than one more vector
	writeMax    = 1 << 20  // bytes of one writev
	vectorMax   = 256      // parts of one writev; the system takes 1024
)

// frameWriter gathers frames and writes many at once. One goroutine uses it.
type frameWriter struct {
	conn  net.Conn
	stall *guard

	buf      []byte      // never grows while vec points into it
	mark     int         // what of buf is not in vec yet begins here
	vec, out net.Buffers // out is what a write consumes
	size     int         // bytes of the payloads in vec
	releases []func()    // of those payloads
}

func newFrameWriter(conn net.Conn, stall *guard) *frameWriter {
	return &frameWriter{conn: conn, stall: stall, buf: make([]byte, 0, writeBuffer)}
}

// room makes sure that n bytes can be appended to buf without moving it.
func (w *frameWriter) room(n int) error {
	if len(w.buf)+n <= cap(w.buf) {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	if n > cap(w.buf) {
		w.buf = make([]byte, 0, n)
	}
	return nil
}

// frame adds a whole frame without payload.
func (w *frameWriter) frame(b []byte) error {
	if len(b) > writeBuffer/2 {
		w.cut()
		w.vec = append(w.vec, b)
		w.size += len(b)
		return w.flush()
	}
	if err := w.room(len(b)); err != nil {
		return err
	}
	w.buf = append(w.buf, b...)
	return nil
}

// droppedError says that a message was not written, and the connection is as before.
type droppedError struct{ err error }

func (d *droppedError) Error() string { return d.err.Error() }
func (d *droppedError) Unwrap() error { return d.err }

// message adds a raft message, whose payload is loaded now. Nothing of it is written when it gives a
// *droppedError; any other error is the connection's.
func (w *frameWriter) message(m *Message) error {
	var parts [][]byte
	var size int
	release := func() {}
	if m.Payload != nil {
		var err error
		if parts, release, err = m.Payload.Load(); err != nil {
			return &droppedError{err}
		}
		for _, p := range parts {
			size += len(p)
		}
		if int64(size) != m.Payload.Size() {
			release()
			return &droppedError{fmt.Errorf("a payload of %d bytes gave %d", m.Payload.Size(), size)}
		}
	}
	room := headerSize + raftSize(&m.Raft)
	if size <= copyMax {
		room += size
	}
	if err := w.room(room); err != nil {
		release()
		return err
	}
	at := len(w.buf)
	b, err := appendRaft(w.buf[:at+headerSize], m.Group, &m.Raft)
	if err != nil {
		release()
		return &droppedError{err}
	}
	putHeader(b[at:], kindRaft, b[at+headerSize:], size)
	w.buf = b
	if size <= copyMax {
		for _, p := range parts {
			w.buf = append(w.buf, p...)
		}
		release()
		return nil
	}
	w.cut()
	w.vec = append(w.vec, parts...)
	w.size += size
	w.releases = append(w.releases, release)
	if w.size >= writeMax || len(w.vec) >= vectorMax {
		return w.flush()
	}
	return nil
}

// cut moves what was appended to buf into vec.
func (w *frameWriter) cut() {
	if len(w.buf) > w.mark {
		w.vec = append(w.vec, w.buf[w.mark:len(w.buf):len(w.buf)])
		w.mark = len(w.buf)
	}
}

// flush writes everything.
func (w *frameWriter) flush() error {
	w.cut()
	if len(w.vec) == 0 {
		return nil
	}
	var err error
	if w.size <= stepSize {
		w.stall.arm()
		w.out = w.vec
		_, err = w.out.WriteTo(w.conn)
	} else {
		err = w.writeSteps()
	}
	w.stall.disarm()
	w.drop()
	return err
}

// writeSteps writes a large batch. It is one writev as long as the other side takes it; the guard's
// time is for each megabyte.
func (w *frameWriter) writeSteps() error {
	w.out = w.vec
	for len(w.out) > 0 {
		w.stall.arm()
		n, size := 0, 0
		for n < len(w.out) && (n == 0 || size+len(w.out[n]) <= writeMax+writeBuffer) {
			size += len(w.out[n])
			n++
		}
		head := w.out[:n:n]
		w.out = w.out[n:]
		if size > 2*writeMax { // one giant batch
			for b := head[0]; len(b) > 0; b = b[min(len(b), writeMax):] {
				w.stall.arm()
				if _, err := w.conn.Write(b[:min(len(b), writeMax)]); err != nil {
					return err
				}
			}
			continue
		}
		if _, err := head.WriteTo(w.conn); err != nil {
			return err
		}
	}
	return nil
}

// drop forgets what was gathered and gives the payloads back.
func (w *frameWriter) drop() {
	for _, r := range w.releases {
		r()
	}
	clear(w.releases)
	clear(w.vec)
	w.releases, w.vec, w.size, w.mark = w.releases[:0], w.vec[:0], 0, 0
	if cap(w.buf) > writeBuffer {
		w.buf = make([]byte, 0, writeBuffer)
	}
	w.buf = w.buf[:0]
}
