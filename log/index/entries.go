package index

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Sizes of one entry in each file, in bytes.
const (
	OffsetSize = 8
	TimeSize   = 12
	RaftSize   = 12
	SumSize    = 8
	TxnSize    = 34
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC continues a CRC-32C over b.
func CRC(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// Offset is one entry of .index: where a batch begins, found by its last offset. Relative offsets
// are counted from the segment's base.
//
//	 0        4        8
//	| rel    | pos    |
type Offset struct{ Rel, Pos uint32 }

// Time is one entry of .timeindex: all records before the batch that ends at Rel have timestamps
// below Timestamp, and that batch has it.
//
//	 0                 8        12
//	| timestamp       | rel    |
type Time struct {
	Timestamp int64 // milliseconds
	Rel       uint32
}

// Raft is one entry of .raftindex: a batch by its raft index, counted from the segment's base
// index, with its base offset and position.
//
//	 0        4        8        12
//	| rel    | index  | pos    |
type Raft struct{ Rel, Index, Pos uint32 }

// Sum is one entry of .sum: where a block of whole batches ends, and the CRC-32C over the first 21
// bytes of each of them. Those bytes hold the batch's own CRC, which covers all the others.
//
//	 0        4        8
//	| end    | crc    |
type Sum struct{ End, CRC uint32 }

// Txn is one entry of .txnindex: an aborted transaction whose marker is at LastOffset.
//
//	 0         2             10             18            26                   34
//	| version | producer id | first offset | last offset | last stable offset |
type Txn struct {
	ProducerID  kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
	LastOffset  kafkaproto.Offset
	LastStable  kafkaproto.Offset // when the marker was written
}

var be = binary.BigEndian

// Encode appends the entry's bytes.
func (e Offset) Encode(b []byte) []byte { return be.AppendUint32(be.AppendUint32(b, e.Rel), e.Pos) }

// Encode appends the entry's bytes.
func (e Time) Encode(b []byte) []byte {
	return be.AppendUint32(be.AppendUint64(b, uint64(e.Timestamp)), e.Rel)
}

// Encode appends the entry's bytes.
func (e Raft) Encode(b []byte) []byte {
	return be.AppendUint32(be.AppendUint32(be.AppendUint32(b, e.Rel), e.Index), e.Pos)
}

// Encode appends the entry's bytes.
func (e Sum) Encode(b []byte) []byte { return be.AppendUint32(be.AppendUint32(b, e.End), e.CRC) }

// Encode appends the entry's bytes.
func (e Txn) Encode(b []byte) []byte {
	b = be.AppendUint16(b, 0)
	b = be.AppendUint64(b, uint64(e.ProducerID))
	b = be.AppendUint64(b, uint64(e.FirstOffset))
	b = be.AppendUint64(b, uint64(e.LastOffset))
	return be.AppendUint64(b, uint64(e.LastStable))
}

// DecodeOffset reads one entry; b holds at least OffsetSize bytes.
func DecodeOffset(b []byte) Offset { return Offset{be.Uint32(b), be.Uint32(b[4:])} }

// DecodeTime reads one entry; b holds at least TimeSize bytes.
func DecodeTime(b []byte) Time { return Time{int64(be.Uint64(b)), be.Uint32(b[8:])} }

// DecodeRaft reads one entry; b holds at least RaftSize bytes.
func DecodeRaft(b []byte) Raft { return Raft{be.Uint32(b), be.Uint32(b[4:]), be.Uint32(b[8:])} }

// DecodeSum reads one entry; b holds at least SumSize bytes.
func DecodeSum(b []byte) Sum { return Sum{be.Uint32(b), be.Uint32(b[4:])} }

// parse reads all entries of b, each of which must follow the one before it.
func parse[T any](name string, b []byte, size int, decode func([]byte) T,
	follows func(prev, e T) bool,
) ([]T, error) {
	if len(b)%size != 0 {
		return nil, kafkaproto.Corruptf("%s: %d bytes are no whole number of %d-byte entries", name, len(b), size)
	}
	out := make([]T, 0, len(b)/size)
	for at := 0; at < len(b); at += size {
		e := decode(b[at:])
		if n := len(out); n > 0 && !follows(out[n-1], e) {
			return nil, kafkaproto.Corruptf("%s: entry %d %+v does not follow %+v", name, n, e, out[n-1])
		}
		out = append(out, e)
	}
	return out, nil
}

// ParseOffsets reads .index: offsets and positions ascend, and fit in 31 bits.
func ParseOffsets(b []byte) ([]Offset, error) {
	return parse(".index", b, OffsetSize, DecodeOffset, func(p, e Offset) bool {
		return e.Rel > p.Rel && e.Pos > p.Pos && e.Rel <= math.MaxInt32 && e.Pos <= math.MaxInt32
	})
}

// ParseTimes reads .timeindex: timestamps and offsets ascend.
func ParseTimes(b []byte) ([]Time, error) {
	return parse(".timeindex", b, TimeSize, DecodeTime, func(p, e Time) bool {
		return e.Timestamp > p.Timestamp && e.Rel > p.Rel && e.Rel <= math.MaxInt32
	})
}

// ParseRafts reads the entries of .raftindex: all three numbers ascend.
func ParseRafts(b []byte) ([]Raft, error) {
	return parse(".raftindex", b, RaftSize, DecodeRaft, func(p, e Raft) bool {
		return e.Rel > p.Rel && e.Index > p.Index && e.Pos > p.Pos
	})
}

// ParseSums reads the entries of .sum: blocks end one behind the other.
func ParseSums(b []byte) ([]Sum, error) {
	return parse(".sum", b, SumSize, DecodeSum, func(p, e Sum) bool { return e.End > p.End })
}

// ParseTxns reads .txnindex: markers ascend, and lie behind the first offset.
func ParseTxns(b []byte) ([]Txn, error) {
	for at := 0; at+TxnSize <= len(b); at += TxnSize {
		if v := be.Uint16(b[at:]); v != 0 {
			return nil, kafkaproto.Corruptf(".txnindex: entry %d has version %d, only 0 is known", at/TxnSize, v)
		}
	}
	txns, err := parse(".txnindex", b, TxnSize, decodeTxn, func(p, e Txn) bool {
		return e.LastOffset > p.LastOffset
	})
	if err != nil {
		return nil, err
	}
	for i, e := range txns {
		if e.FirstOffset < 0 || e.LastOffset < e.FirstOffset || e.LastStable < 0 {
			return nil, kafkaproto.Corruptf(".txnindex: entry %d %+v", i, e)
		}
	}
	return txns, nil
}

func decodeTxn(b []byte) Txn {
	return Txn{
		ProducerID:  kafkaproto.ProducerID(be.Uint64(b[2:])),
		FirstOffset: kafkaproto.Offset(be.Uint64(b[10:])),
		LastOffset:  kafkaproto.Offset(be.Uint64(b[18:])),
		LastStable:  kafkaproto.Offset(be.Uint64(b[26:])),
	}
}
