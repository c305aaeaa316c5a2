package batch

import (
	"encoding/binary"
	"io"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Header is a batch's header in parsed form, for scans that read headers only.
type Header struct {
	BaseOffset      kafkaproto.Offset
	Length          int32 // bytes behind the length field
	LeaderEpoch     kafkaproto.LeaderEpoch
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64 // milliseconds
	MaxTimestamp    int64 // milliseconds
	ProducerID      kafkaproto.ProducerID
	ProducerEpoch   kafkaproto.ProducerEpoch
	BaseSequence    int32
	Count           int32
}

// PeekHeader parses the header at the start of h. It returns io.ErrUnexpectedEOF when h is shorter
// than a header, and a corrupt-marked error when the bytes can not be the header of a stored batch.
func PeekHeader(h []byte) (Header, error) {
	if len(h) < HeaderSize {
		return Header{}, io.ErrUnexpectedEOF
	}
	p := parseHeader(h)
	return p, p.check()
}

// Header parses the batch's header.
func (b Batch) Header() Header { return parseHeader(b) }

func parseHeader(h []byte) Header {
	_ = h[HeaderSize-1]
	return Header{
		BaseOffset:      kafkaproto.Offset(binary.BigEndian.Uint64(h[atBaseOffset:])),
		Length:          int32(binary.BigEndian.Uint32(h[atLength:])),
		LeaderEpoch:     kafkaproto.LeaderEpoch(binary.BigEndian.Uint32(h[atLeaderEpoch:])),
		Magic:           int8(h[atMagic]),
		CRC:             binary.BigEndian.Uint32(h[atCRC:]),
		Attributes:      int16(binary.BigEndian.Uint16(h[atAttributes:])),
		LastOffsetDelta: int32(binary.BigEndian.Uint32(h[atLastOffsetDelta:])),
		BaseTimestamp:   int64(binary.BigEndian.Uint64(h[atBaseTimestamp:])),
		MaxTimestamp:    int64(binary.BigEndian.Uint64(h[atMaxTimestamp:])),
		ProducerID:      kafkaproto.ProducerID(binary.BigEndian.Uint64(h[atProducerID:])),
		ProducerEpoch:   kafkaproto.ProducerEpoch(binary.BigEndian.Uint16(h[atProducerEpoch:])),
		BaseSequence:    int32(binary.BigEndian.Uint32(h[atBaseSequence:])),
		Count:           int32(binary.BigEndian.Uint32(h[atCount:])),
	}
}

// check refuses what no stored batch can say. Offsets, magic, length and counts are looked at
// because base offset, length and magic lie outside the CRC, and because positions are computed
// from them.
func (h *Header) check() error {
	switch {
	case h.Magic != magic2:
		return kafkaproto.Corruptf("batch header: magic is %d, not 2", h.Magic)
	case h.Length < HeaderSize-lengthEnd:
		return kafkaproto.Corruptf("batch header: length %d is less than the %d of an empty batch",
			h.Length, HeaderSize-lengthEnd)
	case h.BaseOffset < 0:
		return kafkaproto.Corruptf("batch header: base offset %d is negative", h.BaseOffset)
	case h.LastOffsetDelta < 0 ||
		h.BaseOffset > math.MaxInt64-1-kafkaproto.Offset(h.LastOffsetDelta):
		return kafkaproto.Corruptf("batch header: base offset %d with last offset delta %d",
			h.BaseOffset, h.LastOffsetDelta)
	case h.Count < 0 || int64(h.Count) > int64(h.LastOffsetDelta)+1:
		return kafkaproto.Corruptf(
			"batch header at offset %d: %d records with last offset delta %d", h.BaseOffset,
			h.Count, h.LastOffsetDelta)
	}
	return nil
}

// Size is the batch's size in bytes, header included.
func (h Header) Size() int { return lengthEnd + int(h.Length) }

// Codec is the payload's compression.
func (h Header) Codec() Codec { return Codec(h.Attributes & codecMask) }

// IsTransactional reports whether the batch belongs to a transaction.
func (h Header) IsTransactional() bool { return h.Attributes&transactionalBit != 0 }

// IsControl reports whether the batch holds a control record.
func (h Header) IsControl() bool { return h.Attributes&controlBit != 0 }

// TimestampType says whose clock the timestamps come from.
func (h Header) TimestampType() TimestampType { return timestampType(h.Attributes) }

// HasProducer reports whether the batch was written by an idempotent producer.
func (h Header) HasProducer() bool { return h.ProducerID > kafkaproto.NoProducerID }

// LastOffset is the last offset the batch takes.
func (h Header) LastOffset() kafkaproto.Offset {
	return h.BaseOffset + kafkaproto.Offset(h.LastOffsetDelta)
}

// NextOffset is the offset behind the batch.
func (h Header) NextOffset() kafkaproto.Offset { return h.LastOffset() + 1 }

// LastSequence is the producer's sequence number of the last record, or NoSequence.
func (h Header) LastSequence() int32 { return lastSequence(h.BaseSequence, h.LastOffsetDelta) }

// DeleteHorizon is the time in milliseconds from which compaction may drop tombstones, if set.
func (h Header) DeleteHorizon() (int64, bool) {
	return h.BaseTimestamp, h.Attributes&deleteHorizonBit != 0
}
