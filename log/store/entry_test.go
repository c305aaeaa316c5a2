package store

import (
	"bytes"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
)

func TestDescriptor(t *testing.T) {
	b := values(5, "a", "bc", "")
	b.SetBaseOffset(1 << 40)
	d := DescribeBatch(b)
	if want := (Descriptor{Base: 1 << 40, Span: 3, Size: uint32(len(b))}); d != want || d.Next() != 1<<40+3 {
		t.Fatalf("descriptor %+v, next %d; want %+v", d, d.Next(), want)
	}
	data := d.Append(nil)
	if len(data) != descriptorSize {
		t.Fatalf("%d bytes, want %d", len(data), descriptorSize)
	}
	if got, err := ParseDescriptor(data); err != nil || got != d {
		t.Fatalf("parsed %+v, %v; want %+v", got, err, d)
	}
	for n := range data {
		if _, err := ParseDescriptor(data[:n]); !kafkaproto.IsCorrupt(err) {
			t.Fatalf("%d bytes of a descriptor: %v", n, err)
		}
	}
	for i, bad := range []Descriptor{
		{Base: -1, Span: 1, Size: 100}, {Base: 1, Span: 0, Size: 100}, {Base: 1, Span: 1<<31 + 1, Size: 100},
		{Base: 1<<63 - 1, Span: 1, Size: 100}, {Base: 1, Span: 1, Size: 60}, {Base: 1, Span: 1, Size: 1 << 31},
	} {
		if got, err := ParseDescriptor(bad.Append(nil)); !kafkaproto.IsCorrupt(err) {
			t.Errorf("bad descriptor %d parsed to %+v, %v", i, got, err)
		}
	}
}

// TestEntryKinds takes each kind of side entry to raft's form and back.
func TestEntryKinds(t *testing.T) {
	for _, e := range []Entry{
		{Kind: EntryNoop},
		{Kind: EntryConf, Data: []byte{1, 2}},
		{Kind: EntryConfV2}, // leaving a joint configuration has no data
		{Kind: EntryConfV2, Data: []byte{3}},
		{Kind: EntryLogStart, Data: journal.LogStartData(77)},
	} {
		e.Index, e.Term = 9, 4
		got, _, err := EntryOf(raftEntry(e.side(50)))
		if err != nil || got.Index != 9 || got.Term != 4 || got.Kind != e.Kind || !bytes.Equal(got.Data, e.Data) {
			t.Errorf("%+v came back as %+v, %v", e, got, err)
		}
	}
	got, _, err := EntryOf(pb.Entry{Index: 1, Term: 1, Data: LogStartProposal(5)})
	if err != nil || got.Kind != EntryLogStart {
		t.Errorf("proposal of a log start read as %+v, %v", got, err)
	}
	for _, bad := range []pb.Entry{
		{Data: []byte{0}}, {Data: []byte{dataLogStart, 1}}, {Data: []byte{dataDescriptor}}, {Type: 7},
	} {
		if got, _, err := EntryOf(bad); !kafkaproto.IsCorrupt(err) {
			t.Errorf("%+v read as %+v, %v", bad, got, err)
		}
	}
}

func FuzzDescriptor(f *testing.F) {
	f.Add(Descriptor{Base: 7, Span: 3, Size: 99}.Append(nil), int32(0))
	f.Add(LogStartProposal(9), int32(0))
	f.Add([]byte(nil), int32(pb.EntryConfChangeV2))
	f.Fuzz(func(t *testing.T, data []byte, kind int32) {
		e, d, err := EntryOf(pb.Entry{Index: 3, Term: 2, Type: pb.EntryType(kind), Data: data})
		if err != nil {
			if !kafkaproto.IsCorrupt(err) {
				t.Fatalf("error is not marked corrupt: %v", err)
			}
			return
		}
		again := pb.Entry{}
		if e.Kind == EntryData {
			again.Data = d.Append(nil)
		} else {
			again = raftEntry(e.side(10))
		}
		if again.Type != pb.EntryType(kind) || !bytes.Equal(again.Data, data) {
			t.Fatalf("%d %x came back as %d %x", kind, data, again.Type, again.Data)
		}
	})
}
