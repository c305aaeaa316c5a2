package producer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
)

// ErrNewerFormat is in the chain of the error for a file of a newer release. It is not damaged.
var ErrNewerFormat = errors.New("producer state written by a newer release")

// Our sidecar, version 1, all numbers big-endian:
//
//	0       8         10     12    16    24          32          36        40
//	| magic | version | zero | crc | end | committed | producers | pending | entries, pending
//	| 8 B   | u16     | u16  | u32 | i64 | i64       | u32       | u32     | batches
//
// The CRC (CRC32C) covers everything from byte 16 on. end is the log end offset the state belongs
// to, committed the high watermark.
//
// An entry is a producer's committed part; entries stand in the order of their ids:
//
//	0            8       10                  14          22       30          38  39
//	| producer   | epoch | coordinator epoch | timestamp | active | txn first | n | n batches
//	| i64        | i16   | i32               | i64       | i64    | i64       | u8|
//
//	a batch of it:   | last sequence i32 | offset delta i32 | last offset i64 | timestamp i64 |
//
// active is the broker's clock when the producer last wrote. Pending batches follow, in offset
// order; applied to the entries they give the tip:
//
//	0          8       10              14            22      26              34
//	| producer | epoch | base sequence | base offset | delta | max timestamp | ...
//	| i64      | i16   | i32           | i64         | i32   | i64           |
//
//	    34      38                  42       50
//	... | flags | coordinator epoch | active |
//	    | u32   | i32               | i64    |
//
// flags: bit 0 transactional, bits 1 and 2 the Marker.
const (
	sidecarMagic   = "SLUICEPS"
	sidecarVersion = 1
	sidecarHead    = 40
	sidecarCRCFrom = 16
	entryHead      = 39
	batchBytes     = 24
	pendingBytes   = 50
)

var (
	be         = binary.BigEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Snapshot gives our sidecar: everything known at log end offset end, all five batches of each
// producer, committed part and pending batches apart. It panics when more was appended than end
// says.
func (s *State) Snapshot(end kafkaproto.Offset) []byte {
	if end < s.end {
		panic(fmt.Sprintf("producer: snapshot at log end %d, appended up to %d", end, s.end))
	}
	pending := s.pending[s.head:]
	// What is committed of a producer with pending batches is what its first one keeps.
	committed := map[kafkaproto.ProducerID]*op{}
	for i := range pending {
		if o := &pending[i]; committed[o.b.Producer] == nil {
			committed[o.b.Producer] = o
		}
	}
	b := make([]byte, 0, sidecarHead+len(s.producers)*(entryHead+batchBytes)+len(pending)*pendingBytes)
	b = append(b, sidecarMagic...)
	b = be.AppendUint16(b, sidecarVersion)
	b = append(b, make([]byte, 6)...)
	b = be.AppendUint64(b, uint64(end))
	b = be.AppendUint64(b, uint64(s.committed))
	b = append(b, make([]byte, 4)...)
	b = be.AppendUint32(b, uint32(len(pending)))
	n := uint32(0)
	for _, id := range s.ids() {
		e := s.producers[id]
		v := &e.view
		if o := committed[id]; o != nil {
			if !o.had {
				continue
			}
			v = &o.prev
		}
		b = appendEntry(b, id, v, e.active)
		n++
	}
	be.PutUint32(b[32:], n)
	for i := range pending {
		o := &pending[i]
		b = appendPending(b, o.b, s.producers[o.b.Producer].active)
	}
	be.PutUint32(b[12:], checksum(b[sidecarCRCFrom:]))
	return b
}

func appendEntry(b []byte, id kafkaproto.ProducerID, v *view, active int64) []byte {
	b = be.AppendUint64(b, uint64(id))
	b = be.AppendUint16(b, uint16(v.epoch))
	b = be.AppendUint32(b, uint32(v.coordEp))
	b = be.AppendUint64(b, uint64(v.timestamp))
	b = be.AppendUint64(b, uint64(active))
	b = be.AppendUint64(b, uint64(v.txnFirst))
	b = append(b, v.n)
	for _, r := range v.batches[:v.n] {
		b = be.AppendUint32(b, uint32(r.lastSeq))
		b = be.AppendUint32(b, uint32(r.delta))
		b = be.AppendUint64(b, uint64(r.lastOffset))
		b = be.AppendUint64(b, uint64(r.timestamp))
	}
	return b
}

func appendPending(b []byte, p Batch, active int64) []byte {
	flags := uint32(p.Marker) << 1
	if p.Transactional {
		flags |= 1
	}
	b = be.AppendUint64(b, uint64(p.Producer))
	b = be.AppendUint16(b, uint16(p.Epoch))
	b = be.AppendUint32(b, uint32(p.BaseSequence))
	b = be.AppendUint64(b, uint64(p.BaseOffset))
	b = be.AppendUint32(b, uint32(p.LastOffsetDelta))
	b = be.AppendUint64(b, uint64(p.MaxTimestamp))
	b = be.AppendUint32(b, flags)
	b = be.AppendUint32(b, uint32(p.CoordinatorEpoch))
	return be.AppendUint64(b, uint64(active))
}

// Load reads what Snapshot wrote, and the end offset it was taken at: replay goes on there. Errors
// are marked corrupt, except for a newer format (ErrNewerFormat).
func Load(b []byte, o Options) (*State, kafkaproto.Offset, error) {
	if len(b) < sidecarHead || string(b[:8]) != sidecarMagic {
		return nil, 0, kafkaproto.Corruptf("producer state of %d bytes has no header", len(b))
	}
	if v := be.Uint16(b[8:]); v > sidecarVersion {
		return nil, 0, fmt.Errorf("producer state has format version %d, this release reads up to %d: %w",
			v, sidecarVersion, ErrNewerFormat)
	}
	if be.Uint16(b[10:]) != 0 || checksum(b[sidecarCRCFrom:]) != be.Uint32(b[12:]) {
		return nil, 0, kafkaproto.Corruptf("producer state of %d bytes fails its checksum", len(b))
	}
	s := New(o)
	end := kafkaproto.Offset(be.Uint64(b[16:]))
	s.committed = kafkaproto.Offset(be.Uint64(b[24:]))
	entries, pending := int(be.Uint32(b[32:])), int(be.Uint32(b[36:]))
	if end < 0 || s.committed < 0 {
		return nil, 0, kafkaproto.Corruptf("producer state at %d, committed up to %d", end, s.committed)
	}
	d := &decoder{b: b[sidecarHead:]}
	for range entries {
		if err := s.loadEntry(d, min(end, s.committed)); err != nil {
			return nil, 0, err
		}
	}
	if err := s.openLoaded(); err != nil {
		return nil, 0, err
	}
	for range pending {
		if err := s.loadPending(d, end); err != nil {
			return nil, 0, err
		}
	}
	if len(d.b) != 0 {
		return nil, 0, kafkaproto.Corruptf("%d bytes behind the producer state", len(d.b))
	}
	s.end = end
	return s, end, nil
}

// decoder reads numbers; its caller has made sure that they are there.
type decoder struct{ b []byte }

func (d *decoder) has(n int) bool { return len(d.b) >= n }
func (d *decoder) skip(n int)     { d.b = d.b[n:] }

func (d *decoder) u8() uint8  { v := d.b[0]; d.skip(1); return v }
func (d *decoder) i16() int16 { v := int16(be.Uint16(d.b)); d.skip(2); return v }
func (d *decoder) i32() int32 { v := int32(be.Uint32(d.b)); d.skip(4); return v }
func (d *decoder) i64() int64 { v := int64(be.Uint64(d.b)); d.skip(8); return v }

func (d *decoder) offset() kafkaproto.Offset { return kafkaproto.Offset(d.i64()) }

// loadEntry reads a producer, everything of which lies below limit.
func (s *State) loadEntry(d *decoder, limit kafkaproto.Offset) error {
	if !d.has(entryHead) {
		return kafkaproto.Corruptf("producer state ends within a producer")
	}
	id := kafkaproto.ProducerID(d.i64())
	v := view{epoch: kafkaproto.ProducerEpoch(d.i16()), coordEp: d.i32(), timestamp: d.i64()}
	e := &entry{active: d.i64()}
	v.txnFirst, v.n = d.offset(), d.u8()
	if _, twice := s.producers[id]; twice || id < 0 || v.n > Retained || v.txnFirst < -1 ||
		v.txnFirst >= limit {
		return kafkaproto.Corruptf("producer %d with %d batches and a transaction from %d", id, v.n,
			v.txnFirst)
	}
	if !d.has(int(v.n) * batchBytes) {
		return kafkaproto.Corruptf("producer state ends within producer %d", id)
	}
	from := kafkaproto.Offset(0)
	for i := range v.n {
		r := retained{lastSeq: d.i32(), delta: d.i32(), lastOffset: d.offset(), timestamp: d.i64()}
		if !r.plausible(from, limit) {
			return kafkaproto.Corruptf("producer %d with a batch %+v", id, r)
		}
		v.batches[i], from = r, r.lastOffset+1
	}
	s.end = max(s.end, from, v.txnFirst+1)
	e.view = v
	s.producers[id] = e
	return nil
}

// plausible reports whether the batch lies in [from, limit).
func (r retained) plausible(from, limit kafkaproto.Offset) bool {
	return r.lastSeq >= -1 && r.delta >= 0 && r.lastOffset < limit &&
		r.lastOffset-kafkaproto.Offset(r.delta) >= from
}

// openLoaded finds the transactions that the entries leave open.
func (s *State) openLoaded() error {
	for _, id := range s.ids() {
		if v := s.producers[id]; v.txnFirst >= 0 {
			s.open = append(s.open, OpenTxn{Producer: id, FirstOffset: v.txnFirst, Marker: -1})
		}
	}
	sortOpen(s.open)
	for i := 1; i < len(s.open); i++ {
		if s.open[i].FirstOffset == s.open[i-1].FirstOffset {
			return kafkaproto.Corruptf("producers %d and %d both begin a transaction at %d",
				s.open[i-1].Producer, s.open[i].Producer, s.open[i].FirstOffset)
		}
	}
	return nil
}

func (s *State) loadPending(d *decoder, end kafkaproto.Offset) error {
	if !d.has(pendingBytes) {
		return kafkaproto.Corruptf("producer state ends within a pending batch")
	}
	b := Batch{
		Producer:        kafkaproto.ProducerID(d.i64()),
		Epoch:           kafkaproto.ProducerEpoch(d.i16()),
		BaseSequence:    d.i32(),
		BaseOffset:      d.offset(),
		LastOffsetDelta: d.i32(),
		MaxTimestamp:    d.i64(),
	}
	flags := d.i32()
	b.Transactional, b.Marker = flags&1 != 0, Marker(flags>>1)
	b.CoordinatorEpoch = d.i32()
	active := d.i64()
	if b.Producer < 0 || flags < 0 || flags>>1 > int32(Commit) ||
		b.BaseSequence < -1 || b.LastOffsetDelta < 0 ||
		b.BaseOffset < s.end || b.BaseOffset > math.MaxInt64-math.MaxInt32-1 ||
		b.LastOffset() < s.committed || b.LastOffset() >= end {
		return kafkaproto.Corruptf("pending batch %+v in a state from %d to %d", b, s.committed, end)
	}
	s.Append(b, active)
	return nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
