package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TestGettersAgainstKmsg reads random headers with ours and with franz-go's code.
func TestGettersAgainstKmsg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Byte(), HeaderSize, HeaderSize+40).Draw(t, "batch")
		binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
		raw[16] = 2
		var k kmsg.RecordBatch
		if err := k.ReadFrom(raw); err != nil {
			t.Fatal(err)
		}
		b, h := Batch(raw), Batch(raw).Header()
		want := Header{
			BaseOffset: kafkaproto.Offset(k.FirstOffset), Length: k.Length,
			LeaderEpoch: kafkaproto.LeaderEpoch(k.PartitionLeaderEpoch), Magic: k.Magic,
			CRC: uint32(k.CRC), Attributes: k.Attributes, LastOffsetDelta: k.LastOffsetDelta,
			BaseTimestamp: k.FirstTimestamp, MaxTimestamp: k.MaxTimestamp,
			ProducerID:    kafkaproto.ProducerID(k.ProducerID),
			ProducerEpoch: kafkaproto.ProducerEpoch(k.ProducerEpoch), BaseSequence: k.FirstSequence,
			Count: k.NumRecords,
		}
		if h != want {
			t.Fatalf("Header is %+v, want %+v", h, want)
		}
		got := Header{
			BaseOffset: b.BaseOffset(), Length: int32(b.Size() - 12), LeaderEpoch: b.LeaderEpoch(),
			Magic: b.Magic(), CRC: b.CRC(), Attributes: b.Attributes(),
			LastOffsetDelta: b.LastOffsetDelta(), BaseTimestamp: b.BaseTimestamp(),
			MaxTimestamp: b.MaxTimestamp(), ProducerID: b.ProducerID(),
			ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(), Count: b.Count(),
		}
		if got != want {
			t.Fatalf("getters give %+v, want %+v", got, want)
		}
		a := k.Attributes
		bits := []bool{b.IsTransactional(), b.IsControl(), b.TimestampType() == LogAppendTime}
		if bits[0] != (a>>4&1 == 1) || bits[1] != (a>>5&1 == 1) || bits[2] != (a>>3&1 == 1) {
			t.Fatalf("bits %v of attributes %#x", bits, a)
		}
		if h.IsTransactional() != bits[0] || h.IsControl() != bits[1] ||
			h.TimestampType() != b.TimestampType() || h.Codec() != b.Codec() ||
			h.LastSequence() != b.LastSequence() || h.HasProducer() != b.HasProducer() ||
			h.LastOffset() != b.LastOffset() || h.NextOffset() != b.NextOffset() {
			t.Fatalf("Header and Batch disagree about %x", raw)
		}
		if b.Codec() != Codec(a&7) {
			t.Fatalf("codec %v of attributes %#x", b.Codec(), a)
		}
		if ts, ok := b.DeleteHorizon(); ok != (a>>6&1 == 1) || ts != k.FirstTimestamp {
			t.Fatalf("delete horizon %d %v of attributes %#x", ts, ok, a)
		}
		if !bytes.Equal(b.Payload(), k.Records) {
			t.Fatal("payloads differ")
		}
	})
}

func TestFirst(t *testing.T) {
	good := newForeign(None, record("k", "v"), record("k", "w")).bytes()
	set32 := func(at int, v int32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
	}
	base := func(v int64) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint64(b, uint64(v)) }
	}
	for _, c := range []struct {
		name    string
		change  func([]byte)
		corrupt bool
	}{
		{"whole", func([]byte) {}, false},
		{"offset set", base(1 << 40), false},
		{"last possible offset", base(math.MaxInt64 - 2), false},
		{"count after compaction", set32(57, 1), false},
		{"no record left", set32(57, 0), false},
		{"magic 0", func(b []byte) { b[16] = 0 }, true},
		{"magic 1", func(b []byte) { b[16] = 1 }, true},
		{"magic 3", func(b []byte) { b[16] = 3 }, true},
		{"length 48", set32(8, 48), true},
		{"length 0", set32(8, 0), true},
		{"length negative", set32(8, -1), true},
		{"base offset negative", base(-1), true},
		{"next offset overflows", base(math.MaxInt64 - 1), true},
		{"delta negative", set32(23, -1), true},
		{"count negative", set32(57, -1), true},
		{"count above delta", set32(57, 3), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Clone(good)
			c.change(b)
			behind := append(bytes.Clone(b), "behind"...)
			got, err := First(behind)
			if kafkaproto.IsCorrupt(err) != c.corrupt || (err != nil) != c.corrupt {
				t.Fatalf("First: %v, want corrupt %v", err, c.corrupt)
			}
			if err == nil && (!bytes.Equal(got, b) || cap(got) != len(got)) {
				t.Fatalf("First gives %d bytes, cap %d, of %d", len(got), cap(got), len(b))
			}
			if _, err := PeekHeader(b[:HeaderSize]); (err != nil) != c.corrupt {
				t.Fatalf("PeekHeader: %v, want corrupt %v", err, c.corrupt)
			}
		})
	}
	for n := range good {
		if _, err := First(good[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("First of %d bytes: %v", n, err)
		}
	}
	far := bytes.Clone(good)
	binary.BigEndian.PutUint32(far[8:], math.MaxInt32)
	if _, err := First(far); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("First of a batch longer than its bytes: %v", err)
	}
}

func TestVerifyCRCSeesEveryBit(t *testing.T) {
	b := newForeign(None, record("key", "value")).bytes()
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			err := Batch(b).VerifyCRC()
			if covered := i >= 17; (err != nil) != covered || kafkaproto.IsCorrupt(err) != covered {
				t.Fatalf("byte %d bit %d flipped: %v", i, bit, err)
			}
			b[i] ^= 1 << bit
		}
	}
}

func TestPatchOutsideCRC(t *testing.T) {
	raw := newForeign(None, record("k", "v"), record("k", "w")).bytes()
	b := mustFirst(t, raw)
	b.SetBaseOffset(1 << 33)
	b.SetLeaderEpoch(77)
	mustFirst(t, raw)
	if b.BaseOffset() != 1<<33 || b.LeaderEpoch() != 77 || b.NextOffset() != 1<<33+2 {
		t.Fatalf("base %d, epoch %d, next %d", b.BaseOffset(), b.LeaderEpoch(), b.NextOffset())
	}
}

func TestSetMaxTimestamp(t *testing.T) {
	f := newForeign(None, record("k", "v"))
	f.Attributes |= 0x10
	b := mustFirst(t, f.bytes())
	before := bytes.Clone(b)
	b.SetMaxTimestamp(CreateTime, 1000)
	if !bytes.Equal(before, b) {
		t.Fatal("a batch that says so already was changed")
	}
	b.SetMaxTimestamp(LogAppendTime, 5)
	mustFirst(t, b)
	if b.TimestampType() != LogAppendTime || b.MaxTimestamp() != 5 || !b.IsTransactional() {
		t.Fatalf("%v %d, attributes %#x", b.TimestampType(), b.MaxTimestamp(), b.Attributes())
	}
	b.SetMaxTimestamp(CreateTime, 1000)
	if !bytes.Equal(before, b) {
		t.Fatal("setting type and time back gives another batch")
	}
}

func TestEmptied(t *testing.T) {
	f := newForeign(Zstd, record("k", "v"), record("k", "w"), record("k", "x"))
	f.Attributes |= 0x10
	f.ProducerID, f.ProducerEpoch, f.FirstSequence = 9, 2, 40
	b := mustFirst(t, f.bytes())
	b.SetBaseOffset(100)
	b.SetLeaderEpoch(3)
	e := mustFirst(t, b.Emptied())
	if e.Size() != HeaderSize || e.Count() != 0 || e.BaseOffset() != 100 || e.LastOffset() != 102 ||
		e.ProducerID() != 9 || e.ProducerEpoch() != 2 || e.LastSequence() != 42 || e.Codec() != None ||
		!e.IsTransactional() || e.MaxTimestamp() != b.MaxTimestamp() || e.LeaderEpoch() != 3 {
		t.Fatalf("emptied batch is %+v", e.Header())
	}
	if got, err := collect(e, 0); err != nil || len(got) != 0 {
		t.Fatalf("records %v, error %v", got, err)
	}
}

func TestAddSequence(t *testing.T) {
	for _, c := range []struct{ from, n, want int32 }{
		{0, 0, 0}, {0, 9, 9}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0},
		{math.MaxInt32 - 3, 5, 1}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		if got := AddSequence(c.from, c.n); got != c.want {
			t.Errorf("AddSequence(%d, %d) = %d, want %d", c.from, c.n, got, c.want)
		}
	}
	if got := lastSequence(-1, 5); got != NoSequence {
		t.Errorf("last sequence without a first is %d", got)
	}
}

func TestScan(t *testing.T) {
	var all []byte
	var starts []int
	for i, codec := range allCodecs {
		starts = append(starts, len(all))
		b := mustFirst(t, newForeign(codec, record("k", "v")).bytes())
		b.SetBaseOffset(kafkaproto.Offset(i))
		all = append(all, b...)
	}
	ends := append(starts[1:len(starts):len(starts)], len(all))
	var seen []int
	visit := func(pos int, b Batch) (bool, error) {
		if int(b.BaseOffset()) != len(seen) || pos+len(b) != ends[len(seen)] {
			t.Fatalf("batch %d at %d of %d bytes", b.BaseOffset(), pos, len(b))
		}
		seen = append(seen, pos)
		return true, nil
	}
	if n, err := Scan(all, visit); err != nil || n != len(all) || len(seen) != len(starts) {
		t.Fatalf("Scan: %d, %v after %d batches", n, err, len(seen))
	}
	seen = nil
	n, err := Scan(all[:len(all)-1], visit)
	if !errors.Is(err, io.ErrUnexpectedEOF) || n != starts[4] {
		t.Fatalf("Scan of a cut tail: %d, %v", n, err)
	}
	seen = nil
	bad := bytes.Clone(all)
	bad[starts[2]+16] = 9
	if n, err := Scan(bad, visit); !kafkaproto.IsCorrupt(err) || n != starts[2] {
		t.Fatalf("Scan into a bad header: %d, %v", n, err)
	}
	n, err = Scan(all, func(pos int, _ Batch) (bool, error) { return pos < starts[1], nil })
	if err != nil || n != starts[2] {
		t.Fatalf("Scan stopped at the second batch: %d, %v", n, err)
	}
	stop := errors.New("stop")
	n, err = Scan(all, func(pos int, _ Batch) (bool, error) {
		if pos == starts[1] {
			return true, stop
		}
		return true, nil
	})
	if !errors.Is(err, stop) || n != starts[1] {
		t.Fatalf("Scan failed at the second batch: %d, %v", n, err)
	}
	if n, err := Scan(nil, visit); n != 0 || err != nil {
		t.Fatalf("Scan of nothing: %d, %v", n, err)
	}
}
