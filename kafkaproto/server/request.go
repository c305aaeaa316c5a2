package server

import (
	"io"
	"os"
	"time"
)

// Request is one frame from a client, to be answered exactly once.
type Request struct {
	Conn *Conn
	// Frame is header and body without the size in front. It is the handler's until Recycle.
	Frame []byte
	// Received is when the last byte of the frame had arrived.
	Received time.Time
}

// Payload is an answer: header and body without the size in front, which the server adds.
type Payload struct {
	Chunks []Chunk
	// Release runs exactly once, after the chunks were written or dropped; it may be nil.
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

// Reply answers with p.
func (r *Request) Reply(p Payload) { panic("todo") }

// NoReply ends the request without an answer (Produce with acks=0).
func (r *Request) NoReply() { panic("todo") }

// Fail closes the connection once the answers to earlier requests are out.
func (r *Request) Fail(reason string) { panic("todo") }

// Mute holds back the connection's further requests for d, counted from the answer (KIP-219).
// It must be called before Reply or NoReply.
func (r *Request) Mute(d time.Duration) { panic("todo") }

// Recycle promises that nothing aliases Frame any more: its buffer goes back to the pool. The
// call is optional; without it the buffer is left to the collector.
func (r *Request) Recycle() { panic("todo") }
