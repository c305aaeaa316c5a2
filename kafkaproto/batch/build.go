package batch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Producer is what an idempotent batch carries of its writer.
type Producer struct {
	ID           kafkaproto.ProducerID
	Epoch        kafkaproto.ProducerEpoch
	BaseSequence int32
}

// BuilderOptions is what a new batch's header says. The zero value builds an uncompressed
// CreateTime batch at offset 0 without producer.
type BuilderOptions struct {
	Codec         Codec
	Level         int // 0 is the codec's default
	BaseOffset    kafkaproto.Offset
	LeaderEpoch   kafkaproto.LeaderEpoch
	Producer      *Producer // nil: none (-1, -1, -1)
	Transactional bool
	Control       bool
	TimestampType TimestampType
	AppendTime    int64  // milliseconds; the maximum timestamp under LogAppendTime
	DeleteHorizon *int64 // milliseconds; nil: none
	KeepOffsets   bool   // Add takes Record.OffsetDelta instead of the next delta
}

// Builder makes one batch out of records. It is not safe for concurrent use.
type Builder struct {
	o            BuilderOptions
	records      []byte // encoded, uncompressed
	count        int32
	lastDelta    int32 // -1 before the first record
	base         int64
	maxTimestamp int64
}

// NewBuilder starts a batch.
func NewBuilder(o BuilderOptions) *Builder {
	b := new(Builder)
	b.Reset(o)
	return b
}

// Reset starts another batch and keeps the builder's memory.
func (b *Builder) Reset(o BuilderOptions) {
	*b = Builder{o: o, records: b.records[:0], lastDelta: -1, base: NoTimestamp,
		maxTimestamp: NoTimestamp}
}

// Add appends a record, which is copied. Its timestamp, key, value and headers are taken; its
// offset delta only with KeepOffsets, and then it must not be negative.
func (b *Builder) Add(r Record) {
	delta := b.count
	if b.o.KeepOffsets {
		delta = r.OffsetDelta
	}
	if delta < 0 {
		panic(fmt.Sprintf("batch builder: offset delta %d of record %d", delta, b.count))
	}
	if b.count == 0 {
		b.base = r.Timestamp
		if b.o.DeleteHorizon != nil {
			b.base = *b.o.DeleteHorizon
		}
	}
	b.records = appendRecord(b.records, &r, delta, r.Timestamp-b.base)
	b.count++
	b.lastDelta = max(b.lastDelta, delta)
	b.maxTimestamp = max(b.maxTimestamp, r.Timestamp)
}

// Len is the number of records added.
func (b *Builder) Len() int { return int(b.count) }

// Size is the batch's size in bytes before compression, header included.
func (b *Builder) Size() int { return HeaderSize + len(b.records) }

// SetLastOffsetDelta makes the batch take offsets up to d although no record stands there, as
// compaction needs. A smaller delta than the largest added has no effect.
func (b *Builder) SetLastOffsetDelta(d int32) { b.lastDelta = max(b.lastDelta, d) }

// Build gives the batch in memory of its own. It fails without records, and when the batch grows
// beyond what its length field can say.
func (b *Builder) Build() (Batch, error) {
	out, err := b.AppendTo(nil)
	return Batch(out), err
}

// AppendTo appends the batch to dst. It fails as Build does, and then gives dst back.
func (b *Builder) AppendTo(dst []byte) ([]byte, error) {
	if b.count == 0 {
		return dst, errors.New("build batch: no records")
	}
	start := len(dst)
	if dst == nil {
		dst = make([]byte, 0, b.Size())
	}
	out := append(dst, make([]byte, HeaderSize)...)
	out, err := b.o.Codec.shrink(out, b.records, b.o.Level)
	if err != nil {
		return dst, fmt.Errorf("build batch: %w", err)
	}
	if size := len(out) - start; size > MaxSize {
		return dst, fmt.Errorf("build batch: %d bytes are more than %d", size, MaxSize)
	}
	b.header(Batch(out[start:]))
	return out, nil
}

func (b *Builder) header(out Batch) {
	attributes := int16(b.o.Codec)
	if b.o.TimestampType == LogAppendTime {
		attributes |= appendTimeBit
		b.maxTimestamp = b.o.AppendTime
	}
	if b.o.Transactional {
		attributes |= transactionalBit
	}
	if b.o.Control {
		attributes |= controlBit
	}
	if b.o.DeleteHorizon != nil {
		attributes |= deleteHorizonBit
	}
	p := Producer{ID: kafkaproto.NoProducerID, Epoch: -1, BaseSequence: NoSequence}
	if b.o.Producer != nil {
		p = *b.o.Producer
	}
	be := binary.BigEndian
	be.PutUint64(out[atBaseOffset:], uint64(b.o.BaseOffset))
	be.PutUint32(out[atLength:], uint32(len(out)-lengthEnd))
	be.PutUint32(out[atLeaderEpoch:], uint32(b.o.LeaderEpoch))
	out[atMagic] = magic2
	be.PutUint16(out[atAttributes:], uint16(attributes))
	be.PutUint32(out[atLastOffsetDelta:], uint32(b.lastDelta))
	be.PutUint64(out[atBaseTimestamp:], uint64(b.base))
	be.PutUint64(out[atMaxTimestamp:], uint64(b.maxTimestamp))
	be.PutUint64(out[atProducerID:], uint64(p.ID))
	be.PutUint16(out[atProducerEpoch:], uint16(p.Epoch))
	be.PutUint32(out[atBaseSequence:], uint32(p.BaseSequence))
	be.PutUint32(out[atCount:], uint32(b.count))
	out.seal()
}

// appendRecord encodes one record: its length, then the body whose length that is.
func appendRecord(p []byte, r *Record, delta int32, timestampDelta int64) []byte {
	size := 1 + sizeVarlong(timestampDelta) + sizeVarint(delta) + sizeField(r.Key) +
		sizeField(r.Value) + sizeVarint(int32(len(r.Headers)))
	for i := range r.Headers {
		key := len(r.Headers[i].Key)
		size += sizeVarint(int32(key)) + key + sizeField(r.Headers[i].Value)
	}
	p = appendVarint(p, int32(size))
	p = append(p, 0) // attributes: none are defined
	p = appendVarlong(p, timestampDelta)
	p = appendVarint(p, delta)
	p = appendField(p, r.Key)
	p = appendField(p, r.Value)
	p = appendVarint(p, int32(len(r.Headers)))
	for i := range r.Headers {
		p = appendVarint(p, int32(len(r.Headers[i].Key)))
		p = append(p, r.Headers[i].Key...)
		p = appendField(p, r.Headers[i].Value)
	}
	return p
}

func sizeField(f []byte) int {
	if f == nil {
		return 1
	}
	return sizeVarint(int32(len(f))) + len(f)
}

func appendField(p, f []byte) []byte {
	if f == nil {
		return append(p, 1) // -1, zig-zag
	}
	p = appendVarint(p, int32(len(f)))
	return append(p, f...)
}
