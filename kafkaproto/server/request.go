package server

import (
	"fmt"
	"io"
	"math"
	"os"
	"sync/atomic"
	"time"
)

// Request is one frame from a client, to be answered exactly once.
type Request struct {
	Conn *Conn
	// Frame is header and body without the size in front. It is the handler's until Recycle.
	Frame []byte
	// Received is when the last byte of the frame had arrived.
	Received time.Time

	buf   atomic.Pointer[frameBuf]
	lease lease
	mute  time.Duration
	one   [1]Chunk

	// Guarded by Conn.mu until a flusher has taken the request off the queue; then the flusher's.
	state   requestState
	payload Payload
	next    *Request
}

type requestState int8

const (
	stateOpen requestState = iota
	stateReplied
	stateSilent
	stateFailed
)

// Payload is an answer: header and body without the size in front, which the server adds.
type Payload struct {
	Chunks []Chunk
	// Release runs exactly once, after the chunks were written or dropped; it may be nil. It must
	// not block.
	Release func()
}

// Chunk is a piece of an answer: bytes, or a range of a file.
type Chunk struct {
	// Buf is sent as it is when no file is set.
	Buf []byte
	// File with Off and Len is a range of an operating system's file, sent by sendfile when that
	// pays. The range must be there: a file that ends early costs the connection.
	File *os.File
	// At is a range's source that is no file of the operating system; used when File is nil.
	At  io.ReaderAt
	Off int64
	Len int64
}

// size is how many bytes the chunk puts on the wire.
func (k *Chunk) size() int64 {
	if k.File == nil && k.At == nil {
		return int64(len(k.Buf))
	}
	return k.Len
}

// sizes gives the bytes of p on the wire without the prefix, and how many of them p holds in
// memory. It panics when they are not a frame's: a handler bounds its answers.
func (p *Payload) sizes() (wire, memory int64) {
	for i := range p.Chunks {
		k := &p.Chunks[i]
		if k.Len < 0 || k.Off < 0 {
			panic(fmt.Sprintf("server: chunk of %d bytes at %d", k.Len, k.Off))
		}
		wire += k.size()
		memory += int64(len(k.Buf))
	}
	if wire > math.MaxInt32 {
		panic(fmt.Sprintf("server: answer of %d bytes is above the protocol's limit", wire))
	}
	return wire, memory
}

func (p *Payload) release() {
	if p.Release != nil {
		p.Release()
	}
	*p = Payload{}
}

// Reply answers with p.
func (r *Request) Reply(p Payload) { r.finish(stateReplied, p, "") }

// ReplyBuf answers with b; release may be nil.
func (r *Request) ReplyBuf(b []byte, release func()) {
	r.one[0] = Chunk{Buf: b}
	r.finish(stateReplied, Payload{Chunks: r.one[:], Release: release}, "")
}

// NoReply ends the request without an answer (Produce with acks=0).
func (r *Request) NoReply() { r.finish(stateSilent, Payload{}, "") }

// Fail closes the connection once the answers to earlier requests are out. No further request is
// served, those already under way are dropped.
func (r *Request) Fail(reason string) { r.finish(stateFailed, Payload{}, reason) }

// Mute holds back the connection's further requests for d, counted from the answer (KIP-219).
// It must be called before Reply, ReplyBuf or NoReply.
func (r *Request) Mute(d time.Duration) { r.mute = d }

// Recycle promises that nothing aliases Frame any more: its buffer goes back to the pool. The
// call is optional; without it the buffer is left to the collector. It may come before or after
// the answer.
func (r *Request) Recycle() {
	buf := r.buf.Swap(nil)
	if buf == nil {
		return
	}
	r.Frame = nil
	r.Conn.srv.pool.put(buf)
	r.Conn.srv.budget.end(&r.lease)
}

// finish is the one way out of a request.
func (r *Request) finish(state requestState, p Payload, reason string) {
	_, memory := p.sizes()
	c := r.Conn
	c.mu.Lock()
	if r.state != stateOpen {
		c.mu.Unlock()
		panic(fmt.Sprintf("server: a request of connection %d is answered twice", c.id))
	}
	r.state, r.payload = state, p
	cut := c.mu.cut
	if !cut {
		c.mu.queued += memory
		if r.mute > 0 {
			c.muteFor(r.mute)
		}
		if state == stateFailed {
			c.mu.reason = reason
			c.stopLocked()
		}
		// The reader flushes what is done when it comes back from Serve, and a flusher looks again
		// before it leaves; all others wake the writer.
		if c.mu.head == r && c.mu.serving != r && !c.mu.writing {
			c.wakeLocked()
		}
	}
	c.mu.Unlock()
	c.srv.budget.end(&r.lease)
	if cut {
		r.payload.release()
	}
}
