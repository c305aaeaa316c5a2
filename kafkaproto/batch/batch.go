package batch

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
)

// HeaderSize is the size in bytes of a batch's header, from the base offset to the record count.
const HeaderSize = 61

// lengthEnd is where the length field ends: the length counts the bytes from there on.
const lengthEnd = 12

// MaxSize is the largest batch the length field can announce, in bytes.
const MaxSize = lengthEnd + math.MaxInt32

// Positions of the header's fields.
//
//	 0 base offset          8 | 21 attributes        2 | 43 producer id     8
//	 8 length               4 | 23 last offset delta 4 | 51 producer epoch  2
//	12 partition epoch      4 | 27 base timestamp    8 | 53 base sequence   4
//	16 magic                1 | 35 max timestamp     8 | 57 record count    4
//	17 CRC-32C of 21..end   4 |                        | 61 records
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57
)

// Bits of the attributes.
const (
	codecMask        = 0x07
	appendTimeBit    = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
)

// magic2 is the only batch format since Kafka 4.0 (KIP-724).
const magic2 = 2

// NoTimestamp stands for "no timestamp" in records, headers and answers.
const NoTimestamp int64 = -1

// NoSequence is the base sequence of a batch without producer.
const NoSequence int32 = -1

// TimestampType says whose clock a batch's timestamps come from.
type TimestampType int8

// The two timestamp types of message.timestamp.type.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// String gives the spelling of message.timestamp.type.
func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// Batch is exactly one whole batch, header included, as First proved it. Getters read in place;
// they panic on bytes shorter than a header, which First never returns.
type Batch []byte

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// First gives the batch at the start of b, without the bytes behind it. It returns
// io.ErrUnexpectedEOF when b is too short for the batch, and a corrupt-marked error when the header
// can not be one. The CRC is not looked at: VerifyCRC does that.
func First(b []byte) (Batch, error) {
	h, err := PeekHeader(b)
	if err != nil {
		return nil, err
	}
	if len(b) < h.Size() {
		return nil, io.ErrUnexpectedEOF
	}
	return Batch(b[:h.Size():h.Size()]), nil
}

// Scan calls fn for each of the back-to-back batches in b, with its position, until fn answers
// false or fails. It returns the number of bytes passed over, which is where the batch that stopped
// it begins: io.ErrUnexpectedEOF means that b ends in the middle of a batch, a corrupt-marked error
// that no batch can begin there. CRCs are fn's business.
func Scan(b []byte, fn func(pos int, b Batch) (bool, error)) (int, error) {
	pos := 0
	for pos < len(b) {
		one, err := First(b[pos:])
		if err != nil {
			return pos, err
		}
		more, err := fn(pos, one)
		if err != nil {
			return pos, err
		}
		pos += len(one)
		if !more {
			break
		}
	}
	return pos, nil
}

func (b Batch) u16(at int) uint16 { return binary.BigEndian.Uint16(b[at:]) }
func (b Batch) u32(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
func (b Batch) u64(at int) uint64 { return binary.BigEndian.Uint64(b[at:]) }

// Size is the batch's size in bytes, header included.
func (b Batch) Size() int { return len(b) }

// BaseOffset is the offset of the batch's first record as it was written; compaction may have
// removed that record.
func (b Batch) BaseOffset() kafkaproto.Offset { return kafkaproto.Offset(b.u64(atBaseOffset)) }

// LastOffset is the last offset the batch takes.
func (b Batch) LastOffset() kafkaproto.Offset {
	return b.BaseOffset() + kafkaproto.Offset(b.LastOffsetDelta())
}

// NextOffset is the offset behind the batch.
func (b Batch) NextOffset() kafkaproto.Offset { return b.LastOffset() + 1 }

// LeaderEpoch is the epoch of the leader that took the batch, -1 as clients send it.
func (b Batch) LeaderEpoch() kafkaproto.LeaderEpoch {
	return kafkaproto.LeaderEpoch(b.u32(atLeaderEpoch))
}

// Magic is the format's number, 2.
func (b Batch) Magic() int8 { return int8(b[atMagic]) }

// CRC is the stored CRC-32C of the bytes from the attributes on.
func (b Batch) CRC() uint32 { return b.u32(atCRC) }

// Attributes are the raw attribute bits.
func (b Batch) Attributes() int16 { return int16(b.u16(atAttributes)) }

// Codec is the payload's compression; 5 to 7 are not defined.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & codecMask) }

// IsTransactional reports whether the batch belongs to a transaction (KIP-98).
func (b Batch) IsTransactional() bool { return b.Attributes()&transactionalBit != 0 }

// IsControl reports whether the batch holds a control record, which clients do not see.
func (b Batch) IsControl() bool { return b.Attributes()&controlBit != 0 }

// TimestampType says whose clock the timestamps come from.
func (b Batch) TimestampType() TimestampType { return timestampType(b.Attributes()) }

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(b.u32(atLastOffsetDelta)) }

// BaseTimestamp is what the records' timestamps are relative to, in milliseconds. It is the delete
// horizon where the batch has one.
func (b Batch) BaseTimestamp() int64 { return int64(b.u64(atBaseTimestamp)) }

// MaxTimestamp is the largest timestamp of the batch's records in milliseconds, and the timestamp
// of each of them under LogAppendTime.
func (b Batch) MaxTimestamp() int64 { return int64(b.u64(atMaxTimestamp)) }

// HasProducer reports whether the batch was written by an idempotent producer.
func (b Batch) HasProducer() bool { return b.ProducerID() > kafkaproto.NoProducerID }

// ProducerID is the producer's id, or NoProducerID.
func (b Batch) ProducerID() kafkaproto.ProducerID {
	return kafkaproto.ProducerID(b.u64(atProducerID))
}

// ProducerEpoch is the producer's epoch, or -1.
func (b Batch) ProducerEpoch() kafkaproto.ProducerEpoch {
	return kafkaproto.ProducerEpoch(b.u16(atProducerEpoch))
}

// BaseSequence is the producer's sequence number of the first record, or NoSequence.
func (b Batch) BaseSequence() int32 { return int32(b.u32(atBaseSequence)) }

// LastSequence is the producer's sequence number of the last record, or NoSequence.
func (b Batch) LastSequence() int32 { return lastSequence(b.BaseSequence(), b.LastOffsetDelta()) }

// Count is the number of records in the batch; compaction makes it smaller than LastOffsetDelta+1,
// down to 0.
func (b Batch) Count() int32 { return int32(b.u32(atCount)) }

// Payload is what stands behind the header: the records, compressed by Codec.
func (b Batch) Payload() []byte { return b[HeaderSize:] }

// DeleteHorizon is the time in milliseconds from which compaction may drop the batch's tombstones
// and markers (KIP-534), if it has been set.
func (b Batch) DeleteHorizon() (int64, bool) {
	return b.BaseTimestamp(), b.Attributes()&deleteHorizonBit != 0
}

// VerifyCRC compares the stored CRC with the bytes; its error is corrupt-marked.
func (b Batch) VerifyCRC() error {
	if got, want := checksum(b), b.CRC(); got != want {
		return kafkaproto.Corruptf("batch at offset %d of %d bytes: CRC is %08x, header says %08x",
			b.BaseOffset(), len(b), got, want)
	}
	return nil
}

func checksum(b []byte) uint32 { return crc32.Update(0, castagnoli, b[atAttributes:]) }

// SetBaseOffset moves the batch to o. The field lies outside the CRC.
func (b Batch) SetBaseOffset(o kafkaproto.Offset) {
	binary.BigEndian.PutUint64(b[atBaseOffset:], uint64(o))
}

// SetLeaderEpoch stamps the epoch of the leader that appends. The field lies outside the CRC.
func (b Batch) SetLeaderEpoch(e kafkaproto.LeaderEpoch) {
	binary.BigEndian.PutUint32(b[atLeaderEpoch:], uint32(e))
}

// SetMaxTimestamp stamps the timestamp type and the largest timestamp in milliseconds. The CRC is
// computed anew only if one of them changed.
func (b Batch) SetMaxTimestamp(t TimestampType, maxTimestamp int64) {
	if b.TimestampType() == t && b.MaxTimestamp() == maxTimestamp {
		return
	}
	attributes := b.Attributes() &^ appendTimeBit
	if t == LogAppendTime {
		attributes |= appendTimeBit
	}
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(maxTimestamp))
	b.seal()
}

// seal writes the CRC of what the batch now says.
func (b Batch) seal() { binary.BigEndian.PutUint32(b[atCRC:], checksum(b)) }

// Clone copies the batch into memory of its own.
func (b Batch) Clone() Batch { return append(make(Batch, 0, len(b)), b...) }

// Emptied is a new batch that takes b's offsets and says what b says of its producer, without any
// record. Compaction leaves it where a producer's last sequence number must outlive its records.
func (b Batch) Emptied() Batch {
	e := make(Batch, HeaderSize)
	copy(e, b)
	binary.BigEndian.PutUint32(e[atLength:], HeaderSize-lengthEnd)
	attributes := b.Attributes() & (appendTimeBit | transactionalBit | controlBit)
	binary.BigEndian.PutUint16(e[atAttributes:], uint16(attributes))
	none := NoTimestamp
	binary.BigEndian.PutUint64(e[atBaseTimestamp:], uint64(none))
	binary.BigEndian.PutUint32(e[atCount:], 0)
	e.seal()
	return e
}

// AddSequence is the sequence number n records behind sequence: it wraps from 2^31-1 to 0, as
// sequence numbers do.
func AddSequence(sequence, n int32) int32 {
	return int32((int64(sequence) + int64(n)) & math.MaxInt32)
}

func lastSequence(base, lastOffsetDelta int32) int32 {
	if base < 0 {
		return NoSequence
	}
	return AddSequence(base, lastOffsetDelta)
}

func timestampType(attributes int16) TimestampType {
	if attributes&appendTimeBit != 0 {
		return LogAppendTime
	}
	return CreateTime
}
