package store

import (
	"encoding/binary"
	"fmt"
	"math"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/journal"
)

// EntryKind says what a raft entry is to the log.
type EntryKind uint8

// The kinds of entries. All but EntryData are side entries: they have a raft index, and neither an
// offset nor a byte in a segment.
const (
	EntryData     EntryKind = iota + 1 // one record batch
	EntryNoop                          // empty: the first entry of a term; a later one stands for nothing
	EntryConf                          // raft's EntryConfChange
	EntryConfV2                        // raft's EntryConfChangeV2
	EntryLogStart                      // the log start moves up once it is committed
)

// Entry is one raft entry with its payload, as AppendEntries takes it.
type Entry struct {
	Index, Term uint64
	Kind        EntryKind
	Batch       batch.Batch // of EntryData: offset and leader epoch are in it, the CRC was verified
	Data        []byte      // of a side entry; it is kept, and must not change
}

// Descriptor stands for a record batch in raft's messages and memory: what raft would copy with
// each step is these 17 bytes and never the payload.
type Descriptor struct {
	Base kafkaproto.Offset // of the first record
	Span uint32            // how many offsets the batch takes
	Size uint32            // its bytes, header included
}

// The first byte of an EntryNormal's data tells what follows; without data it is raft's no-op.
const (
	dataDescriptor = 1 // base offset i64 | span u32 | size u32
	dataLogStart   = 2 // journal.LogStartData

	descriptorSize = 1 + 8 + 4 + 4
)

// DescribeBatch gives the descriptor of a batch that has its offset.
func DescribeBatch(b batch.Batch) Descriptor {
	return Descriptor{Base: b.BaseOffset(), Span: uint32(b.LastOffsetDelta()) + 1, Size: uint32(len(b))}
}

// Next is the offset behind the batch.
func (d Descriptor) Next() kafkaproto.Offset { return d.Base + kafkaproto.Offset(d.Span) }

// Append encodes the descriptor, for a proposal's data.
func (d Descriptor) Append(dst []byte) []byte {
	dst = append(dst, dataDescriptor)
	dst = binary.BigEndian.AppendUint64(dst, uint64(d.Base))
	dst = binary.BigEndian.AppendUint32(dst, d.Span)
	return binary.BigEndian.AppendUint32(dst, d.Size)
}

// ParseDescriptor reads what Append wrote. Anything else is marked as corrupt.
func ParseDescriptor(data []byte) (Descriptor, error) {
	if len(data) != descriptorSize || data[0] != dataDescriptor {
		return Descriptor{}, kafkaproto.Corruptf("%d bytes are no descriptor of a batch", len(data))
	}
	d := Descriptor{
		Base: kafkaproto.Offset(binary.BigEndian.Uint64(data[1:])),
		Span: binary.BigEndian.Uint32(data[9:]), Size: binary.BigEndian.Uint32(data[13:]),
	}
	if d.Base < 0 || d.Span == 0 || d.Span > 1<<31 || d.Base > math.MaxInt64-kafkaproto.Offset(d.Span) ||
		d.Size < batch.HeaderSize || d.Size > math.MaxInt32 {
		return Descriptor{}, kafkaproto.Corruptf("descriptor of %d bytes with offsets %d+%d", d.Size,
			d.Base, d.Span)
	}
	return d, nil
}

// LogStartProposal is the data of a proposal that moves the log start to start.
func LogStartProposal(start kafkaproto.Offset) []byte {
	return append([]byte{dataLogStart}, journal.LogStartData(start)...)
}

// EntryOf reads raft's entry. For a batch d says which one: its payload is the caller's to add.
func EntryOf(e pb.Entry) (out Entry, d Descriptor, err error) {
	out = Entry{Index: e.Index, Term: e.Term, Data: e.Data}
	switch {
	case e.Type == pb.EntryConfChange:
		out.Kind = EntryConf
	case e.Type == pb.EntryConfChangeV2:
		out.Kind = EntryConfV2
	case e.Type != pb.EntryNormal:
		err = kafkaproto.Corruptf("raft entry %d has type %d", e.Index, e.Type)
	case len(e.Data) == 0:
		out.Kind, out.Data = EntryNoop, nil
	case e.Data[0] == dataLogStart:
		out.Kind, out.Data = EntryLogStart, e.Data[1:]
		_, err = journal.ParseLogStart(out.Data)
	default:
		out.Kind, out.Data = EntryData, nil
		d, err = ParseDescriptor(e.Data)
	}
	if err != nil {
		return Entry{}, Descriptor{}, fmt.Errorf("raft entry %d of term %d: %w", e.Index, e.Term, err)
	}
	return out, d, nil
}

// raftEntry is what raft sees of a side entry.
func raftEntry(s journal.Side) pb.Entry {
	e := pb.Entry{Index: s.Index, Term: s.Term, Type: pb.EntryNormal}
	switch s.Kind {
	case journal.SideNoop:
	case journal.SideConf:
		e.Type, e.Data = pb.EntryConfChange, s.Data
	case journal.SideConfV2:
		e.Type, e.Data = pb.EntryConfChangeV2, s.Data
	case journal.SideLogStart:
		e.Data = append([]byte{dataLogStart}, s.Data...)
	default:
		panic(fmt.Sprintf("store: side entry %d has kind %d", s.Index, s.Kind))
	}
	return e
}

// side is the journal's record of a side entry.
func (e *Entry) side(at kafkaproto.Offset) journal.Side {
	return journal.Side{Index: e.Index, Term: e.Term, Kind: sideKinds[e.Kind], AtOffset: at, Data: e.Data}
}

var sideKinds = map[EntryKind]journal.SideKind{
	EntryNoop: journal.SideNoop, EntryConf: journal.SideConf, EntryConfV2: journal.SideConfV2,
	EntryLogStart: journal.SideLogStart,
}

const (
	snapshotVersion = 1
	snapshotSize    = 1 + 8 + 8
)

// SnapshotRef is the data of a snapshot: what a follower must have as files before raft may hear of
// it. On the wire: version u8 = 1 | next offset i64 | log start i64.
type SnapshotRef struct {
	// Next is the offset behind the entries that the snapshot stands for, LogStart the log start.
	Next, LogStart kafkaproto.Offset
}

// Append encodes the reference.
func (r SnapshotRef) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, snapshotVersion), uint64(r.Next))
	return binary.BigEndian.AppendUint64(dst, uint64(r.LogStart))
}

// ParseSnapshotRef reads what Append wrote. Anything else is marked as corrupt.
func ParseSnapshotRef(data []byte) (SnapshotRef, error) {
	if len(data) != snapshotSize || data[0] != snapshotVersion {
		return SnapshotRef{}, kafkaproto.Corruptf("%d bytes are no reference to a snapshot", len(data))
	}
	r := SnapshotRef{Next: kafkaproto.Offset(binary.BigEndian.Uint64(data[1:])),
		LogStart: kafkaproto.Offset(binary.BigEndian.Uint64(data[9:]))}
	if r.LogStart < 0 || r.LogStart > r.Next {
		return SnapshotRef{}, kafkaproto.Corruptf("snapshot of offsets %d to %d", r.LogStart, r.Next)
	}
	return r, nil
}
