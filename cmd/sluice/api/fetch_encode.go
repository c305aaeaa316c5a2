package api

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/valyala/bytebufferpool"

	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/log/vfs"
)

const (
	// sendfileFrom is the size from which a range of a file is sent by the kernel instead of being
	// read into the answer's buffer: below it a second system call costs more than the copy.
	sendfileFrom = 64 << 10
	// maxInlined bounds what is read into the buffer in all: an answer that waits for a slow client
	// holds no more than this, however many partitions it has.
	maxInlined = 512 << 10
)

// fetchEncoder writes a Fetch answer by hand, so that records go from their segment to the socket
// without a copy through the message. A test compares it with kmsg for every version.
type fetchEncoder struct {
	version  int16
	flexible bool
	buf      []byte
	inline   int // bytes of records in buf
	cuts     []fileCut
	fileSize int
}

// fileCut is a file range that stands in the answer after buf[:at].
type fileCut struct {
	at  int
	res *fetchResult
}

// respond encodes and sends the answer; the ranges are released when it is written.
func (op *fetchOp) respond(results []fetchResult) {
	r := op.r
	pooled := bytebufferpool.Get()
	e := &fetchEncoder{version: r.Version, flexible: r.flexible}
	e.buf = r.appendResponseHeader(pooled.B[:0])
	e.body(op, results)
	pooled.B = e.buf
	op.b.Stats.fetched(results)
	p := server.Payload{Chunks: e.chunks(), Release: func() {
		for i := range results {
			results[i].records.Release()
		}
		putBuffer(pooled)
	}}
	r.send(p, len(e.buf)+e.fileSize)
}

// body writes everything behind the header, but for the ranges of files.
func (e *fetchEncoder) body(op *fetchOp, results []fetchResult) {
	e.head(op.fc.id)
	e.arrayLen(countTopics(results))
	for start := 0; start < len(results); {
		end := topicEnd(results, start)
		e.topic(results[start].part)
		e.arrayLen(end - start)
		for i := start; i < end; i++ {
			e.partition(op, &results[i])
		}
		e.noTags()
		start = end
	}
	e.tail(op, results)
}

// topicEnd is where the neighbours of results[start] with the same topic end. They are answered
// together, as Kafka does; the session's order wins over tidiness.
func topicEnd(results []fetchResult, start int) int {
	first := results[start].part
	end := start + 1
	for end < len(results) && results[end].part.id == first.id && results[end].part.topic == first.topic {
		end++
	}
	return end
}

func countTopics(results []fetchResult) int {
	n := 0
	for start := 0; start < len(results); start = topicEnd(results, start) {
		n++
	}
	return n
}

func (e *fetchEncoder) int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

func (e *fetchEncoder) uvarint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }

func (e *fetchEncoder) arrayLen(n int) {
	if e.flexible {
		e.uvarint(uint64(n) + 1)
	} else {
		e.int32(int32(n))
	}
}

func (e *fetchEncoder) noTags() {
	if e.flexible {
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) str(s string) {
	if e.flexible {
		e.uvarint(uint64(len(s)) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

// nullable writes a string that may be null; flexible versions only.
func (e *fetchEncoder) nullable(s *string) {
	if s == nil {
		e.uvarint(0)
		return
	}
	e.str(*s)
}

func (e *fetchEncoder) head(session int32) {
	e.int32(0) // throttle
	if e.version >= 7 {
		e.int16(0)
		e.int32(session)
	}
}

func (e *fetchEncoder) topic(p *fetchPart) {
	if e.version >= 13 {
		e.buf = append(e.buf, p.id[:]...)
	} else {
		e.str(p.topic)
	}
}

func (e *fetchEncoder) partition(op *fetchOp, r *fetchResult) {
	e.int32(r.part.partition)
	codeAt := len(e.buf)
	e.int16(r.code)
	e.int64(int64(r.hw))
	e.int64(int64(r.lso))
	if e.version >= 5 {
		e.int64(int64(r.logStart))
	}
	e.aborted(r)
	if e.version >= 11 {
		e.int32(-1) // preferred read replica: none without a selector (row 68)
	}
	e.records(op, r, codeAt)
	if !e.flexible {
		return
	}
	tags := 0
	if r.diverging != nil {
		tags++
	}
	if r.leader != nil {
		tags++
	}
	e.uvarint(uint64(tags))
	if r.diverging != nil {
		e.uvarint(0)
		e.uvarint(4 + 8 + 1)
		e.int32(int32(r.diverging.epoch))
		e.int64(int64(r.diverging.end))
		e.noTags()
	}
	if r.leader != nil {
		e.uvarint(1)
		e.uvarint(4 + 4 + 1)
		e.int32(int32(r.leader.node))
		e.int32(int32(r.leader.epoch))
		e.noTags()
	}
}

// aborted writes the list for read_committed, and null for all others; for a partition that is not
// known the list is empty (row 25 and §3b).
func (e *fetchEncoder) aborted(r *fetchResult) {
	if !r.unknown() && (!r.committed || r.code != 0) {
		if e.flexible {
			e.uvarint(0)
		} else {
			e.int32(-1)
		}
		return
	}
	e.arrayLen(len(r.aborted))
	for _, a := range r.aborted {
		e.int64(int64(a.ProducerID))
		e.int64(int64(a.FirstOffset))
		e.noTags()
	}
}

// records writes the length and either the bytes or a cut for a file range. A range that cannot
// be read makes the partition's answer an error without records.
func (e *fetchEncoder) records(op *fetchOp, r *fetchResult, codeAt int) {
	n := r.size()
	if n == 0 {
		e.bytesLen(0)
		return
	}
	before := len(e.buf)
	e.bytesLen(n)
	if n >= sendfileFrom || e.inline+n > maxInlined {
		e.cuts = append(e.cuts, fileCut{at: len(e.buf), res: r})
		e.fileSize += n
		return
	}
	e.inline += n
	at := len(e.buf)
	e.buf = slices.Grow(e.buf, n)[:at+n]
	_, err := r.records.File.ReadAt(e.buf[at:], r.records.Pos)
	r.records.Release()
	if err != nil {
		op.b.Log.Error("read failed", "topic", r.topic.Name, "partition", r.part.partition, "err", err)
		e.buf = e.buf[:before]
		e.bytesLen(0)
		r.code, r.records.Len = kerr.KafkaStorageError.Code, 0
		binary.BigEndian.PutUint16(e.buf[codeAt:], uint16(r.code))
	}
}

func (e *fetchEncoder) bytesLen(n int) {
	if e.flexible {
		e.uvarint(uint64(n) + 1)
	} else {
		e.int32(int32(n))
	}
}

// tail ends the answer: from v16 on an answer that names a leader brings its address (KIP-951).
func (e *fetchEncoder) tail(op *fetchOp, results []fetchResult) {
	if !e.flexible {
		return
	}
	var named []int32
	for i := range results {
		if results[i].leader != nil {
			named = append(named, int32(results[i].leader.node))
		}
	}
	if named == nil || e.version < 16 {
		e.buf = append(e.buf, 0)
		return
	}
	endpoints := op.b.nodeEndpoints(op.r.Conn, named)
	one := fetchEncoder{flexible: true}
	one.arrayLen(len(endpoints))
	for _, n := range endpoints {
		one.int32(n.NodeID)
		one.str(n.Host)
		one.int32(n.Port)
		one.nullable(n.Rack)
		one.noTags()
	}
	e.uvarint(1)
	e.uvarint(0)
	e.uvarint(uint64(len(one.buf)))
	e.buf = append(e.buf, one.buf...)
}

// chunks cuts the buffer where file ranges stand.
func (e *fetchEncoder) chunks() []server.Chunk {
	chunks := make([]server.Chunk, 0, 2*len(e.cuts)+1)
	from := 0
	for _, c := range e.cuts {
		r := &c.res.records
		part := server.Chunk{File: vfs.OSFile(r.File), Off: r.Pos, Len: int64(r.Len)}
		if part.File == nil {
			part.At = r.File
		}
		chunks = append(chunks, server.Chunk{Buf: e.buf[from:c.at]}, part)
		from = c.at
	}
	if from < len(e.buf) {
		chunks = append(chunks, server.Chunk{Buf: e.buf[from:]})
	}
	return chunks
}
