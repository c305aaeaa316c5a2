package transport

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// window is the most bytes of a stream that are sent and not yet read: what a stream whose reader is
// slow can hold of the memory, and no more of the connection.
const window = 16 * chunkSize

// stream is the reading end. Chunks come in by the link's reader, bytes leave by Read, which gives
// credit for them at the receiver's rate.
type stream struct {
	l    *link
	id   uint64
	ctx  context.Context
	stop func() bool
	wake chan struct{} // something changed; cap 1

	// owed is what was read and not credited yet; head is the chunk that is being read. Read's alone.
	owed int
	head []byte

	mu struct {
		sync.Mutex
		chunks [][]byte
		room   int   // what the other side may still send
		err    error // after the chunks
	}
}

// OpenStream is Transport's. The reader is for one goroutine; Close may come from another.
func (t *TCP) OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	p := t.peer(to)
	if p == nil {
		return nil, fmt.Errorf("node %d: %w: %w", to, ErrUnreachable, errNoPeer)
	}
	if len(body) > MaxCall {
		return nil, fmt.Errorf("transport: a request of %d bytes, more than %d", len(body), MaxCall)
	}
	s := &stream{l: p.links[roleBulk], ctx: ctx, wake: make(chan struct{}, 1)}
	s.mu.room = window
	r := &request{stream: s, done: func(_ []byte, err error) {
		if err == nil {
			err = io.EOF
		}
		s.end(err)
	}}
	id, err := s.l.open(r, func(id uint64) []byte {
		return idFrame(kindOpen, id, binary.BigEndian.AppendUint16(nil, method), body)
	})
	if err != nil {
		return nil, err
	}
	s.id = id
	s.stop = context.AfterFunc(ctx, func() { s.abandon(ctx.Err()) })
	return s, nil
}

func (s *stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// push takes a chunk off the connection; false when it is more than was allowed.
func (s *stream) push(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b) > s.mu.room || len(b) == 0 {
		return false
	}
	s.mu.room -= len(b)
	s.mu.chunks = append(s.mu.chunks, append([]byte(nil), b...))
	s.signal()
	return true
}

func (s *stream) end(err error) {
	s.mu.Lock()
	if s.mu.err == nil {
		s.mu.err = err
	}
	s.mu.Unlock()
	s.signal()
}

// abandon ends the stream from this side.
func (s *stream) abandon(err error) {
	if s.l.forget(s.id) != nil {
		s.l.enqueue(item{frame: idFrame(kindStop, s.id)})
	}
	s.end(err)
}

// Read gives what has arrived, and waits for the first byte.
func (s *stream) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for len(s.head) == 0 {
		s.mu.Lock()
		err := s.mu.err
		if len(s.mu.chunks) > 0 {
			s.head = s.mu.chunks[0]
			s.mu.chunks[0] = nil
			s.mu.chunks = s.mu.chunks[1:]
			err = nil
		}
		s.mu.Unlock()
		switch {
		case err != nil:
			return 0, err
		case len(s.head) == 0:
			<-s.wake
		}
	}
	n := copy(b, s.head)
	s.head = s.head[n:]
	s.owed += n
	if s.owed >= window/2 {
		s.credit()
	}
	return n, nil
}

// credit lets the other side send more, once the receiver's rate allows it.
func (s *stream) credit() {
	t := s.l.p.t
	if !pause(t.opt.Clock, t.recvRate.take(s.owed), s.ctx.Done()) {
		return // abandon tells Read
	}
	s.mu.Lock()
	s.mu.room += s.owed
	s.mu.Unlock()
	if !s.l.enqueue(item{frame: idFrame(kindCredit, s.id, binary.BigEndian.AppendUint32(nil, uint32(s.owed)))}) {
		s.abandon(fmt.Errorf("node %d: %w", s.l.p.id, ErrLost))
	}
	s.owed = 0
}

// Close ends the stream; the other side stops sending.
func (s *stream) Close() error {
	s.stop()
	s.abandon(ErrClosed)
	return nil
}

// served is the sending end of a stream.
type served struct {
	cancel context.CancelFunc
	wake   chan struct{}

	mu struct {
		sync.Mutex
		credit int64
	}
}

func (in *inbound) served(id uint64) *served {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.mu.streams[id]
}

// credit lets a stream send n bytes more. A stream that has ended has nothing to do with it.
func (in *inbound) credit(id uint64, n int64) error {
	s := in.served(id)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	s.mu.credit += n
	over := s.mu.credit > window
	s.mu.Unlock()
	if over {
		return in.fail("more credit for a stream than its window")
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// grant waits for credit and takes up to a chunk of it.
func (s *served) grant(ctx context.Context) (int, error) {
	for {
		s.mu.Lock()
		n := min(s.mu.credit, chunkSize)
		s.mu.credit -= n
		s.mu.Unlock()
		if n > 0 {
			return int(n), nil
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// open serves a stream on a goroutine of its own.
func (in *inbound) open(b []byte) error {
	id, method := binary.BigEndian.Uint64(b), binary.BigEndian.Uint16(b[idSize:])
	body := append([]byte(nil), b[callHead:]...)
	ctx, cancel := context.WithCancel(in.ctx)
	s := &served{cancel: cancel, wake: make(chan struct{}, 1)}
	s.mu.credit = window
	in.mu.Lock()
	_, twice := in.mu.streams[id]
	full := len(in.mu.streams) >= streamsMax
	if !twice && !full {
		in.mu.streams[id] = s
	}
	in.mu.Unlock()
	if twice {
		cancel()
		return in.fail("stream %d was opened twice", id)
	}
	in.jobs.Add(1)
	go func() {
		defer in.jobs.Done()
		defer cancel()
		err := error(kafkaproto.Faultf(kerr.ThrottlingQuotaExceeded, "%d streams are under way", streamsMax))
		if !full {
			err = in.copyStream(ctx, id, s, method, body)
			in.mu.Lock()
			delete(in.mu.streams, id)
			in.mu.Unlock()
		}
		if in.ctx.Err() == nil {
			_ = in.write(answerFrame(kindEnd, id, nil, err)) // the end of the connection says it otherwise
		}
	}()
	return nil
}

// copyStream sends what the Handler gives, at the sender's rate.
func (in *inbound) copyStream(ctx context.Context, id uint64, s *served, method uint16, body []byte) error {
	r, err := in.t.handler.Stream(ctx, in.from, method, body)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	frame := make([]byte, headerSize+idSize+chunkSize)
	binary.BigEndian.PutUint64(frame[headerSize:], id)
	for {
		n, err := s.grant(ctx)
		if err != nil {
			return err
		}
		at := headerSize + idSize
		got, err := fill(r, frame[at:at+n])
		if got > 0 {
			if !pause(in.t.opt.Clock, in.t.sendRate.take(got), ctx.Done()) {
				return ctx.Err()
			}
			putHeader(frame, kindChunk, frame[headerSize:at+got], 0)
			if err := in.write(frame[:at+got]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF: //nolint:errorlint // only the plain one is the end
			return nil
		case err != nil:
			return err
		}
	}
}

// fill reads until b is full or r gives an error. Other than io.ReadFull it keeps a source's
// io.ErrUnexpectedEOF, which is no end, apart from a short last chunk.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}
