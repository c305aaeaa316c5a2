package api

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/valyala/bytebufferpool"

	"github.com/sluicelog/sluice/kafkaproto/server"
)

// Request is one decoded request on its way to its answer.
type Request struct {
	*server.Request
	Key, Version  int16
	CorrelationID int32
	ClientID      string
	Body          kmsg.Request

	broker   *Broker
	row      *Row
	flexible bool
	size     int
}

// ClientInfo is what the broker keeps of a connection; it is the server.Conn's user value.
type ClientInfo struct {
	// What the connection said of itself in ApiVersions. The connection's reader alone uses them.
	SoftwareName    string
	SoftwareVersion string
	warned          bool // one line for an unsupported version per connection

	mu     sync.Mutex
	parked map[*fetchOp]struct{} // fetches that wait
}

// park notes a fetch that waits.
func (i *ClientInfo) park(op *fetchOp) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.parked == nil {
		i.parked = make(map[*fetchOp]struct{}, 1)
	}
	i.parked[op] = struct{}{}
}

func (i *ClientInfo) unpark(op *fetchOp) {
	i.mu.Lock()
	delete(i.parked, op)
	i.mu.Unlock()
}

// waiting lists the fetches that wait now.
func (i *ClientInfo) waiting() []*fetchOp {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.parked))
}

// maxPooled is the largest buffer that goes back to the pool: giants are left to the collector,
// as the pool would keep them at their full size for ever.
const maxPooled = 1 << 20

// putBuffer gives a response buffer back.
func putBuffer(b *bytebufferpool.ByteBuffer) {
	if cap(b.B) <= maxPooled {
		bytebufferpool.Put(b)
	}
}

// appendResponseHeader writes the header that goes before a response body: the correlation id,
// and an empty tag section for flexible versions. ApiVersions alone always has the old header, so
// that a client can read the answer before it knows the broker (KIP-511).
func (r *Request) appendResponseHeader(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.CorrelationID))
	if r.flexible && r.Key != int16(kmsg.ApiVersions) {
		dst = append(dst, 0)
	}
	return dst
}

// Respond encodes and sends the answer. It is called exactly once, from any goroutine; resp may
// be reused when it returns.
func (r *Request) Respond(resp kmsg.Response) {
	resp.SetVersion(r.Version)
	buf := bytebufferpool.Get()
	buf.B = r.appendResponseHeader(buf.B[:0])
	buf.B = resp.AppendTo(buf.B)
	if len(buf.B) > math.MaxInt32 {
		r.Close("the answer is larger than a frame can be")
		return
	}
	r.send(server.Payload{
		Chunks:  []server.Chunk{{Buf: buf.B}},
		Release: func() { putBuffer(buf) },
	}, len(buf.B))
}

func (r *Request) send(p server.Payload, size int) {
	r.broker.Stats.answered(r, size)
	r.Request.Reply(p)
}

// Nothing ends a request that has no answer (acks=0).
func (r *Request) Nothing() {
	r.broker.Stats.answered(r, 0)
	r.Request.NoReply()
}

// Close ends a request by closing its connection once earlier answers are out: Kafka's answer to
// what cannot be answered.
func (r *Request) Close(reason string) {
	r.broker.Stats.answered(r, 0)
	r.Request.Fail(reason)
}

// Info gives what is kept of the request's connection.
func (r *Request) Info() *ClientInfo { return r.Conn.User().(*ClientInfo) }

// withoutRepeats drops what key has given before, in place. A request that names one thing a
// million times would cost, and be answered, a million times what it is worth.
func withoutRepeats[T any, K comparable](list []T, key func(*T) K) []T {
	if len(list) < 2 {
		return list
	}
	seen := make(map[K]struct{}, len(list))
	kept := list[:0]
	for i := range list {
		k := key(&list[i])
		if _, twice := seen[k]; !twice {
			seen[k] = struct{}{}
			kept = append(kept, list[i])
		}
	}
	return kept
}

func millis(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
