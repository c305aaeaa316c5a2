package batch

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TestBuilderReadByFranzGo builds batches and has franz-go's consumer code read them.
func TestBuilderReadByFranzGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := BuilderOptions{
			Codec:       rapid.SampledFrom(allCodecs).Draw(t, "codec"),
			BaseOffset:  kafkaproto.Offset(rapid.Int64Range(0, 1<<40).Draw(t, "base")),
			LeaderEpoch: 7,
		}
		if rapid.Bool().Draw(t, "producer") {
			o.Producer = &Producer{ID: 5, Epoch: 3, BaseSequence: 11}
			o.Transactional = rapid.Bool().Draw(t, "transactional")
		}
		if rapid.Bool().Draw(t, "append time") {
			o.TimestampType, o.AppendTime = LogAppendTime, 123456
		}
		records := genRecords().Draw(t, "records")
		b := NewBuilder(o)
		for _, r := range records {
			b.Add(r)
		}
		one, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := First(one); err != nil || one.VerifyCRC() != nil {
			t.Fatalf("%v, %v", err, one.VerifyCRC())
		}
		if o.Codec == None && one.Size() != b.Size() {
			t.Fatalf("%d bytes, Size said %d", one.Size(), b.Size())
		}
		got := readByFranzGo(t, one)
		if len(got) != len(records) {
			t.Fatalf("franz-go reads %d of %d records", len(got), len(records))
		}
		for i, g := range got {
			want := records[i]
			if o.TimestampType == LogAppendTime {
				want.Timestamp = o.AppendTime
			}
			if g.Offset != int64(o.BaseOffset)+int64(i) || g.Timestamp.UnixMilli() != want.Timestamp ||
				!same(g.Key, want.Key) || !same(g.Value, want.Value) || g.LeaderEpoch != 7 ||
				len(g.Headers) != len(want.Headers) {
				t.Fatalf("franz-go reads record %d as %+v, want %+v", i, g, want)
			}
			for j, h := range g.Headers {
				if h.Key != want.Headers[j].Key || !same(h.Value, want.Headers[j].Value) {
					t.Fatalf("header %d of record %d: %+v, want %+v", j, i, h, want.Headers[j])
				}
			}
			if o.Producer != nil && (g.ProducerID != 5 || g.ProducerEpoch != 3) {
				t.Fatalf("producer %d epoch %d", g.ProducerID, g.ProducerEpoch)
			}
		}
	})
}

func readByFranzGo(t interface{ Fatal(...any) }, batches ...Batch) []*kgo.Record {
	p := kmsg.NewFetchResponseTopicPartition()
	p.RecordBatches = bytes.Join(func() (all [][]byte) {
		for _, b := range batches {
			all = append(all, b)
		}
		return all
	}(), nil)
	got, _ := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{KeepControlRecords: true}, &p,
		kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		t.Fatal(got.Err)
	}
	return got.Records
}

// TestBuilderBytesAgainstKmsg compares uncompressed batches byte by byte.
func TestBuilderBytesAgainstKmsg(t *testing.T) {
	f := newForeign(None, record("k", "v", "h"), record("", "w"), record("key", ""))
	f.records[2].Value = nil
	f.Attributes = 0x10
	f.ProducerID, f.ProducerEpoch, f.FirstSequence = 1<<40, 9, 77
	b := NewBuilder(BuilderOptions{
		LeaderEpoch: -1, Transactional: true,
		Producer: &Producer{ID: 1 << 40, Epoch: 9, BaseSequence: 77},
	})
	for i, r := range f.records {
		ours := Record{Timestamp: 1000 + int64(i), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			ours.Headers = append(ours.Headers, RecordHeader(h))
		}
		b.Add(ours)
	}
	got, err := b.Build()
	if err != nil || !bytes.Equal(got, f.bytes()) {
		t.Fatalf("%v\n%x, want\n%x", err, got, f.bytes())
	}
}

func TestBuilderKeepsOffsetsOfCompactedBatch(t *testing.T) {
	horizon := int64(50_000)
	b := NewBuilder(BuilderOptions{BaseOffset: 100, KeepOffsets: true, DeleteHorizon: &horizon})
	b.Add(Record{OffsetDelta: 2, Timestamp: 10, Key: []byte("a")})
	b.Add(Record{OffsetDelta: 5, Timestamp: 30, Key: []byte("b")})
	b.SetLastOffsetDelta(9)
	b.SetLastOffsetDelta(3)
	one, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	mustFirst(t, one)
	got, err := collect(one, 0)
	if err != nil {
		t.Fatal(err)
	}
	compareRecords(t, got, []Record{
		{Offset: 102, OffsetDelta: 2, Timestamp: 10, Key: []byte("a")},
		{Offset: 105, OffsetDelta: 5, Timestamp: 30, Key: []byte("b")},
	})
	if at, ok := one.DeleteHorizon(); !ok || at != horizon {
		t.Fatalf("delete horizon %d %v", at, ok)
	}
	if one.LastOffset() != 109 || one.Count() != 2 || one.MaxTimestamp() != 30 {
		t.Fatalf("header is %+v", one.Header())
	}
}

func TestBuilderReuse(t *testing.T) {
	b := NewBuilder(BuilderOptions{Codec: Gzip})
	if _, err := b.Build(); err == nil {
		t.Fatal("a batch without records was built")
	}
	b.Add(Record{Timestamp: 9, Value: []byte("first")})
	first, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	keep := first.Clone()
	b.Reset(BuilderOptions{})
	if b.Len() != 0 || b.Size() != HeaderSize {
		t.Fatalf("%d records, %d bytes after Reset", b.Len(), b.Size())
	}
	b.Add(Record{Timestamp: 3, Value: []byte("second")})
	both, err := b.AppendTo(first)
	if err != nil || !bytes.Equal(both[:len(keep)], keep) {
		t.Fatalf("AppendTo changed what was before it: %v", err)
	}
	got, err := collect(mustFirst(t, both[len(keep):]), 0)
	if err != nil {
		t.Fatal(err)
	}
	compareRecords(t, got, []Record{{Timestamp: 3, Value: []byte("second")}})
	b.Reset(BuilderOptions{Codec: 6})
	b.Add(Record{})
	if out, err := b.AppendTo(keep); err == nil || len(out) != len(keep) {
		t.Fatalf("codec 6: %d bytes, %v", len(out), err)
	}
}

// TestRow22ControlBatch checks markers against franz-go's reading of them and against the bytes.
func TestRow22ControlBatch(t *testing.T) {
	for _, kind := range []ControlKind{Abort, Commit} {
		b := mustFirst(t, Control(kind, 0x01020304, 77, 5, 9000))
		if b.Attributes() != 0x30 || b.Count() != 1 || b.NextOffset() != 1 || b.ProducerID() != 77 ||
			b.ProducerEpoch() != 5 || b.BaseSequence() != -1 || b.MaxTimestamp() != 9000 ||
			b.BaseTimestamp() != 9000 {
			t.Fatalf("header is %+v", b.Header())
		}
		m, err := b.Marker()
		if err != nil || m != (Marker{Kind: kind, CoordinatorEpoch: 0x01020304}) {
			t.Fatalf("marker is %+v, %v", m, err)
		}
		read := readByFranzGo(t, b)
		if len(read) != 1 || !read[0].Attrs.IsControl() || !read[0].Attrs.IsTransactional() {
			t.Fatalf("franz-go reads %+v", read)
		}
		var key kmsg.ControlRecordKey
		var value kmsg.EndTxnMarker
		if err := key.ReadFrom(read[0].Key); err != nil || key.Version != 0 ||
			int16(key.Type) != int16(kind) {
			t.Fatalf("key %+v, %v", key, err)
		}
		if err := value.ReadFrom(read[0].Value); err != nil || value.Version != 0 ||
			value.CoordinatorEpoch != 0x01020304 {
			t.Fatalf("value %+v, %v", value, err)
		}
	}
}

func TestMarkerRefuses(t *testing.T) {
	control := func(key, value []byte) Batch {
		b := NewBuilder(BuilderOptions{Control: true, Transactional: true})
		b.Add(Record{Key: key, Value: value})
		one, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		return one
	}
	for name, b := range map[string]Batch{
		"data batch":  mustFirst(t, newForeign(None, record("k", "v")).bytes()),
		"key short":   control([]byte{0, 0, 0}, make([]byte, 6)),
		"key null":    control(nil, make([]byte, 6)),
		"value short": control(make([]byte, 4), make([]byte, 5)),
		"no record":   Control(Commit, 1, 2, 3, 4).Emptied(),
	} {
		if m, err := b.Marker(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
	m, err := control([]byte{0, 0, 0, 2}, nil).Marker()
	if err != nil || m.Kind != 2 || m.Kind.String() != "CONTROL 2" {
		t.Errorf("leader change: %+v, %v", m, err)
	}
}
