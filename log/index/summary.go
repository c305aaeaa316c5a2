package index

import (
	"fmt"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
)

// The versions this code reads and writes.
const (
	SummaryVersion = 1
	SumVersion     = 1
)

// SummarySize is the size of the Summary at the start of .raftindex, in bytes.
const SummarySize = 128

// SumHeaderSize is the size of the header of .sum, in bytes.
const SumHeaderSize = 32

// NewerError means that a file was written by a later version: it is left alone.
type NewerError struct {
	File           string
	Version, Known uint16
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s has format version %d; this sluice reads up to %d: use the newer one, "+
		"or remove the file to have it made again", e.File, e.Version, e.Known)
}

// Count is how many entries of a file are valid, and the CRC-32C over their bytes.
type Count struct{ N, CRC uint32 }

// Summary says how far the indexes of a segment go and what a writer must know to go on from there.
//
//	 0 version             2  = 1      |  76 position of last batch  4
//	 2 size of this header 2  = 128    |  80 CRC of its header       4  CRC-32C of 61 bytes
//	 4 CRC-32C of 8..128   4           |  84 CRC of the open block   4
//	 8 base offset         8           |  88 .index     entries, CRC 4 4
//	16 base raft index     8           |  96 .timeindex entries, CRC 4 4
//	24 last raft index     8           | 104 .raftindex entries, CRC 4 4
//	32 next offset         8           | 112 .txnindex  entries, CRC 4 4
//	40 bytes of .log       8           | 120 .sum entries            4
//	48 largest timestamp   8           | 124 zero                    4
//	56 last offset of the batch with it 8
//	64 timestamp of the first batch     8
//	72 flags               4  1 sealed, 2 offsets have gaps
type Summary struct {
	BaseOffset       kafkaproto.Offset
	BaseIndex        uint64 // raft index of the first batch; 0: not kept
	LastIndex        uint64 // raft index of the last batch; 0: none
	NextOffset       kafkaproto.Offset
	LogSize          int64 // bytes of .log that the indexes cover
	LargestTimestamp int64 // milliseconds, -1: none
	LargestOffset    kafkaproto.Offset
	FirstTimestamp   int64 // largest timestamp of the first batch
	Sealed, Gaps     bool
	LastPos          uint32 // position of the last batch covered
	LastHeader       uint32 // CRC-32C of its header, which ties the summary to these very batches
	BlockCRC         uint32 // CRC so far of the block that is not complete
	Offsets, Times   Count
	Rafts, Txns      Count
	Sums             Count
}

const (
	flagSealed = 1
	flagGaps   = 2
)

// Encode gives the SummarySize bytes.
func (s *Summary) Encode() []byte {
	flags := uint32(0)
	if s.Sealed {
		flags |= flagSealed
	}
	if s.Gaps {
		flags |= flagGaps
	}
	b := make([]byte, 8, SummarySize)
	for _, v := range []uint64{
		uint64(s.BaseOffset), s.BaseIndex, s.LastIndex, uint64(s.NextOffset), uint64(s.LogSize),
		uint64(s.LargestTimestamp), uint64(s.LargestOffset), uint64(s.FirstTimestamp),
	} {
		b = be.AppendUint64(b, v)
	}
	for _, v := range []uint32{
		flags, s.LastPos, s.LastHeader, s.BlockCRC, s.Offsets.N, s.Offsets.CRC, s.Times.N, s.Times.CRC,
		s.Rafts.N, s.Rafts.CRC, s.Txns.N, s.Txns.CRC, s.Sums.N, s.Sums.CRC,
	} {
		b = be.AppendUint32(b, v)
	}
	return frame(b, SummaryVersion)
}

// frame writes version, size and CRC into the first 8 bytes.
func frame(b []byte, version uint16) []byte {
	be.PutUint16(b, version)
	be.PutUint16(b[2:], uint16(len(b)))
	be.PutUint32(b[4:], frameCRC(b))
	return b
}

// frameCRC covers all of a header but itself.
func frameCRC(b []byte) uint32 { return CRC(CRC(0, b[:4]), b[8:]) }

// unframe checks them. A later version must keep the first 8 bytes as they are: a header whose CRC
// is right and whose version is not known is newer, and everything else is damage.
func unframe(file string, b []byte, version uint16, size int) error {
	if len(b) < 8 {
		return kafkaproto.Corruptf("%s: %d bytes", file, len(b))
	}
	v, n := be.Uint16(b), int(be.Uint16(b[2:]))
	if n < 8 || n > len(b) || be.Uint32(b[4:]) != frameCRC(b[:n]) {
		return kafkaproto.Corruptf("%s: header of %d bytes fails its CRC", file, n)
	}
	if v > version {
		return &NewerError{File: file, Version: v, Known: version}
	}
	if v != version || n != size {
		return kafkaproto.Corruptf("%s: version %d with a header of %d bytes", file, v, n)
	}
	return nil
}

// ParseSummary reads the Summary at the start of b.
func ParseSummary(b []byte) (Summary, error) {
	if err := unframe(".raftindex", b, SummaryVersion, SummarySize); err != nil {
		return Summary{}, err
	}
	u64 := func(at int) uint64 { return be.Uint64(b[at:]) }
	u32 := func(at int) uint32 { return be.Uint32(b[at:]) }
	count := func(at int) Count { return Count{u32(at), u32(at + 4)} }
	s := Summary{
		BaseOffset: kafkaproto.Offset(u64(8)), BaseIndex: u64(16), LastIndex: u64(24),
		NextOffset: kafkaproto.Offset(u64(32)), LogSize: int64(u64(40)),
		LargestTimestamp: int64(u64(48)), LargestOffset: kafkaproto.Offset(u64(56)),
		FirstTimestamp: int64(u64(64)),
		Sealed:         u32(72)&flagSealed != 0, Gaps: u32(72)&flagGaps != 0,
		LastPos: u32(76), LastHeader: u32(80), BlockCRC: u32(84),
		Offsets: count(88), Times: count(96), Rafts: count(104), Txns: count(112), Sums: count(120),
	}
	switch {
	case s.BaseOffset < 0 || s.NextOffset < s.BaseOffset || s.NextOffset-s.BaseOffset > math.MaxInt32+1:
		return Summary{}, kafkaproto.Corruptf(".raftindex: offsets %d to %d", s.BaseOffset, s.NextOffset)
	case s.LogSize < 0 || s.LogSize > math.MaxInt32 || int64(s.LastPos) > s.LogSize:
		return Summary{}, kafkaproto.Corruptf(".raftindex: %d bytes, last batch at %d", s.LogSize, s.LastPos)
	case s.LastIndex != 0 && s.LastIndex < s.BaseIndex:
		return Summary{}, kafkaproto.Corruptf(".raftindex: raft indexes %d to %d", s.BaseIndex, s.LastIndex)
	case u32(72) > flagSealed|flagGaps:
		return Summary{}, kafkaproto.Corruptf(".raftindex: flags %x", u32(72))
	}
	return s, nil
}

// SumHeader is the start of .sum.
//
//	0 version 2 = 1 | 2 size 2 = 32 | 4 CRC-32C of the rest 4
//	8 base offset 8 | 16 bytes of .log 8 | 24 entries 4   | 28 CRC-32C of the entries 4
type SumHeader struct {
	BaseOffset kafkaproto.Offset
	LogSize    int64
	Entries    Count
}

// Encode gives the SumHeaderSize bytes.
func (h *SumHeader) Encode() []byte {
	b := make([]byte, 8, SumHeaderSize)
	b = be.AppendUint64(b, uint64(h.BaseOffset))
	b = be.AppendUint64(b, uint64(h.LogSize))
	b = be.AppendUint32(b, h.Entries.N)
	b = be.AppendUint32(b, h.Entries.CRC)
	return frame(b, SumVersion)
}

// ParseSumFile reads a whole .sum file. Bytes behind the entries that the header counts are
// ignored: a flush that did not end leaves some.
func ParseSumFile(b []byte) (SumHeader, []Sum, error) {
	if err := unframe(".sum", b, SumVersion, SumHeaderSize); err != nil {
		return SumHeader{}, nil, err
	}
	h := SumHeader{
		BaseOffset: kafkaproto.Offset(be.Uint64(b[8:])), LogSize: int64(be.Uint64(b[16:])),
		Entries: Count{be.Uint32(b[24:]), be.Uint32(b[28:])},
	}
	body, err := h.Entries.Take(".sum", b[SumHeaderSize:], SumSize)
	if err != nil {
		return SumHeader{}, nil, err
	}
	sums, err := ParseSums(body)
	if err != nil {
		return SumHeader{}, nil, err
	}
	if n := len(sums); n > 0 && int64(sums[n-1].End) > h.LogSize {
		return SumHeader{}, nil, kafkaproto.Corruptf(".sum: last block ends at %d of %d bytes", sums[n-1].End, h.LogSize)
	}
	return h, sums, nil
}

// Take gives the bytes of the first N entries of b when they are there and have the CRC.
func (c Count) Take(file string, b []byte, size int) ([]byte, error) {
	n := int64(c.N) * int64(size)
	if n > int64(len(b)) {
		return nil, kafkaproto.Corruptf("%s: %d entries expected, %d bytes there", file, c.N, len(b))
	}
	if got := CRC(0, b[:n]); got != c.CRC {
		return nil, kafkaproto.Corruptf("%s: CRC of %d entries is %08x, not %08x", file, c.N, got, c.CRC)
	}
	return b[:n], nil
}
