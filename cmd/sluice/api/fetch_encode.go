package api

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/valyala/bytebufferpool"

	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/log/vfs"
)

// sendfileFrom is the size from which a range of a file is sent by the kernel instead of being
// read into the answer's buffer: below it a second system call costs more than the copy.
const sendfileFrom = 64 << 10

// fetchEncoder writes a Fetch answer by hand, so that records go from their segment to the socket
// without a copy through the message. A test compares it with kmsg for every version.
type fetchEncoder struct {
	version  int16
	flexible bool
	plain    bool // the connection can send from files
	buf      []byte
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
	e := &fetchEncoder{version: r.Version, flexible: r.flexible, plain: r.Conn.TLS() == nil}
	e.buf = r.appendResponseHeader(pooled.B[:0])
	e.head(op.fc.id)
	groups := groupByTopic(results)
	e.arrayLen(len(groups))
	for _, g := range groups {
		e.topic(g[0].part)
		e.arrayLen(len(g))
		for i := range g {
			e.partition(op, &g[i])
		}
		e.noTags()
	}
	e.tail(op, results)
	pooled.B = e.buf
	for i := range results {
		if n := results[i].size(); n > 0 {
			op.b.Stats.fetched(results[i].topic, n)
		}
	}
	p := server.Payload{Chunks: e.chunks(), Release: func() {
		for i := range results {
			results[i].records.Release()
		}
		putBuffer(pooled)
	}}
	r.send(p, len(e.buf)+e.fileSize)
}

// groupByTopic joins neighbours of the same topic, as Kafka does: the session's order wins over
// tidiness.
func groupByTopic(results []fetchResult) [][]fetchResult {
	var groups [][]fetchResult
	for start := 0; start < len(results); {
		end := start + 1
		for end < len(results) && results[end].part.topic == results[start].part.topic &&
			results[end].part.id == results[start].part.id {
			end++
		}
		groups = append(groups, results[start:end])
		start = end
	}
	return groups
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
		e.int32(int32(op.b.NodeID))
		e.int32(int32(r.leader.LeaderEpoch()))
		e.noTags()
	}
}

// aborted writes the list for read_committed, and null for all others; for a partition that is not
// known the list is empty (row 25 and §3b).
func (e *fetchEncoder) aborted(r *fetchResult) {
	unknown := r.code == kerr.UnknownTopicOrPartition.Code || r.code == kerr.UnknownTopicID.Code
	if !unknown && (!r.committed || r.code != 0) {
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

// inlined reports whether the range is copied into the answer's buffer.
func (e *fetchEncoder) inlined(r *fetchResult) bool {
	return !e.plain || r.size() < sendfileFrom || vfs.OSFile(r.records.File) == nil
}

// records writes the length and either the bytes or a cut for a file range. A range that cannot
// be read makes the partition's answer an error without records.
func (e *fetchEncoder) records(op *fetchOp, r *fetchResult, codeAt int) {
	n := r.size()
	if n == 0 {
		e.bytesLen(0)
		return
	}
	if !e.inlined(r) {
		e.bytesLen(n)
		e.cuts = append(e.cuts, fileCut{at: len(e.buf), res: r})
		e.fileSize += n
		return
	}
	before := len(e.buf)
	e.bytesLen(n)
	at := len(e.buf)
	e.buf = append(e.buf, make([]byte, n)...)
	if _, err := r.records.File.ReadAt(e.buf[at:], r.records.Pos); err != nil {
		op.b.Log.Error("read failed", "topic", r.topic.Name, "partition", r.part.partition, "err", err)
		e.buf = e.buf[:before]
		e.bytesLen(0)
		binary.BigEndian.PutUint16(e.buf[codeAt:], uint16(kerr.KafkaStorageError.Code))
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
	named := false
	for i := range results {
		named = named || results[i].leader != nil
	}
	if !named || e.version < 16 {
		e.buf = append(e.buf, 0)
		return
	}
	host, port := op.b.Advertise(op.r.Conn)
	one := fetchEncoder{flexible: true}
	one.arrayLen(1)
	one.int32(int32(op.b.NodeID))
	one.str(host)
	one.int32(port)
	one.uvarint(0) // rack: null
	one.noTags()
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
		chunks = append(chunks, server.Chunk{Buf: e.buf[from:c.at]}, server.Chunk{
			File: vfs.OSFile(c.res.records.File), Off: c.res.records.Pos, Len: int64(c.res.size()),
		})
		from = c.at
	}
	if from < len(e.buf) {
		chunks = append(chunks, server.Chunk{Buf: e.buf[from:]})
	}
	return chunks
}
