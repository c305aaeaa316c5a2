package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// verdict is one call of Admit and what must come of it.
type verdict struct {
	name  string
	raw   []byte
	check func(*Check)
	want  *kerr.Error // nil: admitted
}

// run checks the codes, that the texts name the partition, and that a refusal changes no byte.
func run(t *testing.T, cases []verdict) {
	t.Helper()
	for _, v := range cases {
		t.Run(v.name, func(t *testing.T) {
			c := producerCheck()
			c.Partition = kafkaproto.TopicPartition{Topic: "orders", Partition: 3}
			if v.check != nil {
				v.check(&c)
			}
			before := bytes.Clone(v.raw)
			a, failed, err := Admit(v.raw, c)
			if v.want == nil {
				if err != nil || failed != nil {
					t.Fatalf("refused: %v, %v", err, failed)
				}
				mustFirst(t, a.Batch)
				return
			}
			wantCode(t, err, v.want)
			if !strings.Contains(err.Error(), "orders-3") {
				t.Errorf("the text names no partition: %v", err)
			}
			if !bytes.Equal(before, v.raw) || a.Batch != nil {
				t.Error("a refused batch was changed or given back")
			}
		})
	}
}

func valid(codec Codec) []byte {
	return newForeign(codec, record("k", "v"), record("k2", "w", "h"), record("", "x")).bytes()
}

// with is a valid uncompressed batch of two records, changed before length and CRC are computed.
func with(change func(*foreign)) []byte {
	f := newForeign(None, record("k", "v"), record("k", "w"))
	change(f)
	return f.bytes()
}

// patched is a valid batch, changed afterwards; its CRC is wrong unless recrc is called.
func patched(change func([]byte)) []byte {
	b := valid(None)
	change(b)
	return b
}

// TestRow01KeepsTheBytes admits batches of every codec without touching or copying them.
func TestRow01KeepsTheBytes(t *testing.T) {
	for _, codec := range allCodecs {
		raw := valid(codec)
		before := bytes.Clone(raw)
		a, failed, err := Admit(raw, producerCheck())
		if err != nil || failed != nil {
			t.Fatalf("%v: %v, %v", codec, err, failed)
		}
		if a.Rewritten || a.AppendTime != -1 || &a.Batch[0] != &raw[0] || !bytes.Equal(raw, before) {
			t.Errorf("%v: %+v", codec, a)
		}
	}
}

func TestRow02BaseOffset(t *testing.T) {
	offset := func(v int64) []byte { return with(func(f *foreign) { f.FirstOffset = v }) }
	run(t, []verdict{
		{"base offset 1", offset(1), nil, kerr.InvalidRecord},
		{"base offset -1", offset(-1), nil, kerr.InvalidRecord},
		{"leader epoch is ignored", with(func(f *foreign) { f.PartitionLeaderEpoch = 99 }), nil, nil},
		{"before the size", offset(1), func(c *Check) { c.MaxBytes = 10 }, kerr.InvalidRecord},
	})
}

func TestRow03OneBatch(t *testing.T) {
	one := valid(None)
	transactional := with(func(f *foreign) {
		f.Attributes |= 0x10
		f.ProducerID, f.ProducerEpoch, f.FirstSequence = 1, 0, 0
	})
	twelve := func(length int32, rest ...byte) []byte {
		b := binary.BigEndian.AppendUint32(make([]byte, 8), uint32(length))
		return append(append(bytes.Clone(one), b...), rest...)
	}
	run(t, []verdict{
		{"null", nil, nil, kerr.InvalidRecord},
		{"empty", []byte{}, nil, kerr.InvalidRecord},
		{"eleven bytes", one[:11], nil, kerr.InvalidRecord},
		{"sixteen bytes", one[:16], nil, kerr.InvalidRecord},
		{"header only", one[:61], nil, kerr.InvalidRecord},
		{"two batches", append(bytes.Clone(one), one...), nil, kerr.InvalidRecord},
		{"junk of 11 bytes behind", append(bytes.Clone(one), "eleven byte"...), nil, nil},
		{"junk of 12 bytes behind, tiny length", twelve(13), nil, kerr.CorruptMessage},
		{"junk of 16 bytes behind", twelve(14, 0, 0, 0, 0), nil, nil},
		{"junk of 17 bytes behind, bad magic", twelve(99, 0, 0, 0, 0, 3), nil, kerr.CorruptMessage},
		{"cut batch behind", append(bytes.Clone(one), one[:len(one)-1]...), nil, nil},
		{"magic 0", patched(func(b []byte) { b[16] = 0 }), nil, kerr.InvalidRecord},
		{"magic 1", patched(func(b []byte) { b[16] = 1 }), nil, kerr.InvalidRecord},
		{"magic 3", patched(func(b []byte) { b[16] = 3 }), nil, kerr.CorruptMessage},
		{"magic -1", patched(func(b []byte) { b[16] = 0xff }), nil, kerr.CorruptMessage},
		{"zstd in version 6", valid(Zstd), func(c *Check) { c.Version = 6 },
			kerr.UnsupportedCompressionType},
		{"zstd in version 7", valid(Zstd), func(c *Check) { c.Version = 7 }, nil},
		{"lz4 in version 3", valid(LZ4), func(c *Check) { c.Version = 3 }, nil},
		{"transactional without id", transactional, nil, kerr.TransactionalIDAuthorizationFailed},
		{"transactional with id", transactional, func(c *Check) { c.TransactionalID = true }, nil},
	})
}

// TestRow03TrailingBytesAreLeftOff stores the batch alone.
func TestRow03TrailingBytesAreLeftOff(t *testing.T) {
	one := valid(None)
	a, _, err := Admit(append(bytes.Clone(one), "junk"...), producerCheck())
	if err != nil || !bytes.Equal(a.Batch, one) || cap(a.Batch) != len(one) {
		t.Fatalf("%d bytes of %d, cap %d: %v", len(a.Batch), len(one), cap(a.Batch), err)
	}
}

func TestRow04Header(t *testing.T) {
	run(t, []verdict{
		{"delta above count", with(func(f *foreign) { f.LastOffsetDelta = 2 }), nil, kerr.InvalidRecord},
		{"delta below count", with(func(f *foreign) { f.LastOffsetDelta = 0 }), nil, kerr.InvalidRecord},
		{"delta -1", with(func(f *foreign) { f.LastOffsetDelta = -1 }), nil, kerr.InvalidRecord},
		{"delta -1, count 0", with(func(f *foreign) { f.LastOffsetDelta, f.NumRecords = -1, 0 }), nil,
			kerr.InvalidRecord},
		{"delta MaxInt32, count MinInt32", with(func(f *foreign) {
			f.LastOffsetDelta, f.NumRecords = math.MaxInt32, math.MinInt32
		}), nil, kerr.InvalidRecord},
		{"count 0", with(func(f *foreign) { f.NumRecords = 0 }), nil, kerr.InvalidRecord},
		{"count -1", with(func(f *foreign) { f.NumRecords = -1 }), nil, kerr.InvalidRecord},
		{"count 3 of 2", with(func(f *foreign) { f.NumRecords, f.LastOffsetDelta = 3, 2 }), nil,
			kerr.InvalidRecord},
		{"count 1 of 2", with(func(f *foreign) { f.NumRecords, f.LastOffsetDelta = 1, 0 }), nil,
			kerr.InvalidRecord},
		{"control", with(func(f *foreign) { f.Attributes |= 0x20 }), nil, kerr.InvalidRecord},
		{"producer without sequence", with(func(f *foreign) { f.ProducerID = 0 }), nil,
			kerr.InvalidRecord},
		{"producer without epoch", with(func(f *foreign) { f.ProducerID, f.FirstSequence = 0, 0 }), nil,
			nil},
		{"sequence without producer", with(func(f *foreign) { f.FirstSequence = 9 }), nil, nil},
		{"codec 5", with(func(f *foreign) { f.Attributes = 5 }), nil, kerr.InvalidRecord},
		{"codec 6", with(func(f *foreign) { f.Attributes = 6 }), nil, kerr.InvalidRecord},
		{"codec 7", with(func(f *foreign) { f.Attributes = 7 }), nil, kerr.InvalidRecord},
	})
}

// TestRow04Malformed refuses every payload that Each would not read.
func TestRow04Malformed(t *testing.T) {
	var cases []verdict
	for _, m := range malformedRecords {
		raw := newForeign(None, make([]kmsg.Record, m.count)...)
		raw.raw = m.payload
		cases = append(cases, verdict{m.name, raw.bytes(), nil, kerr.InvalidRecord})
		for _, codec := range allCodecs[1:] {
			packed := newForeign(codec, make([]kmsg.Record, m.count)...)
			packed.raw = kgoCompress(codec, m.payload)
			if len(m.payload) == 0 {
				continue // not every codec writes a frame for nothing
			}
			cases = append(cases, verdict{m.name + " in " + codec.String(), packed.bytes(),
				func(c *Check) { c.Compacted = true }, kerr.InvalidRecord})
		}
	}
	run(t, cases)
}

func TestRow05SizeAndCRC(t *testing.T) {
	one := valid(None)
	length := func(n int32) []byte {
		return patched(func(b []byte) { binary.BigEndian.PutUint32(b[8:], uint32(n)) })
	}
	right := int32(len(one) - 12)
	run(t, []verdict{
		{"size at max.message.bytes", one, func(c *Check) { c.MaxBytes = len(one) }, nil},
		{"size above max.message.bytes", one, func(c *Check) { c.MaxBytes = len(one) - 1 },
			kerr.MessageTooLarge},
		{"no limit", one, func(c *Check) { c.MaxBytes, c.SegmentBytes = 0, 0 }, nil},
		{"size at segment.bytes", one, func(c *Check) { c.SegmentBytes = len(one) }, nil},
		{"size above segment.bytes", one, func(c *Check) { c.SegmentBytes = len(one) - 1 },
			kerr.RecordListTooLarge},
		{"size above both", one, func(c *Check) { c.MaxBytes, c.SegmentBytes = 70, 70 },
			kerr.MessageTooLarge},
		{"bad CRC", patched(func(b []byte) { b[17]++ }), nil, kerr.CorruptMessage},
		{"bad CRC above max.message.bytes", patched(func(b []byte) { b[17]++ }),
			func(c *Check) { c.MaxBytes = 70 }, kerr.MessageTooLarge},
		{"changed record", patched(func(b []byte) { b[len(b)-1]++ }), nil, kerr.CorruptMessage},
		{"length one too long", length(right + 1), nil, kerr.InvalidRecord},
		{"length far too long", length(math.MaxInt32), nil, kerr.InvalidRecord},
		{"length one too short", length(right - 1), nil, kerr.CorruptMessage},
		{"length 49", length(49), nil, kerr.CorruptMessage},
		{"length 48", length(48), nil, kerr.CorruptMessage},
		{"length 14", length(14), nil, kerr.CorruptMessage},
		{"length 13", length(13), nil, kerr.CorruptMessage},
		{"length 0", length(0), nil, kerr.CorruptMessage},
		{"length -1", length(-1), nil, kerr.CorruptMessage},
		{"length MinInt32", length(math.MinInt32), nil, kerr.CorruptMessage},
	})
}

// TestRow06Compacted wants a key in every record, in every codec, and names those without.
func TestRow06Compacted(t *testing.T) {
	for _, codec := range allCodecs {
		f := newForeign(codec, record("", "a"), record("k", "b"), record("", "c"), record("", "d"),
			record("", "e"))
		c := producerCheck()
		c.Compacted = true
		c.Partition = kafkaproto.TopicPartition{Topic: "t", Partition: 0}
		_, failed, err := Admit(f.bytes(), c)
		wantCode(t, err, kerr.InvalidRecord)
		const text = "Compacted topic cannot accept message without key in topic partition t-0."
		want := []RecordError{{0, text}, {2, text}, {3, text}, {4, text}}
		if fmt.Sprint(failed) != fmt.Sprint(want) {
			t.Errorf("%v: record errors are %v, want %v", codec, failed, want)
		}
		if !strings.Contains(err.Error(), "due to 4 record errors in total") ||
			strings.Count(err.Error(), text) != 3 {
			t.Errorf("%v: text is %v", codec, err)
		}
	}
	empty := newForeign(Zstd, kmsg.Record{Key: []byte{}, Value: nil})
	run(t, []verdict{
		{"empty key is a key", empty.bytes(), func(c *Check) { c.Compacted = true }, nil},
		{"null key elsewhere", valid(Zstd), nil, nil},
	})
}

// TestRow06RecordErrorsAreBounded answers a large batch of bad records with a bounded list.
func TestRow06RecordErrorsAreBounded(t *testing.T) {
	f := newForeign(None, make([]kmsg.Record, 5000)...)
	c := producerCheck()
	c.Compacted = true
	_, failed, err := Admit(f.bytes(), c)
	if len(failed) != maxRecordErrors || !strings.Contains(err.Error(), "due to 5000 record errors") {
		t.Fatalf("%d record errors: %v", len(failed), err)
	}
}

// TestRow06OffsetDeltas stores uncompressed deltas as sent and refuses compressed gaps when it
// looks.
func TestRow06OffsetDeltas(t *testing.T) {
	for _, deltas := range [][]int32{{0, 5, 9}, {0, 2, 1}, {0, 0, 2}, {1, 2, 3}} {
		build := func(codec Codec) []byte {
			f := newForeign(codec, record("k", "a"), record("k", "b"), record("k", "c"))
			for i, d := range deltas {
				f.records[i].OffsetDelta = d
			}
			return f.bytes()
		}
		raw := build(None)
		a, _, err := Admit(raw, producerCheck())
		if err != nil || !bytes.Equal(a.Batch, build(None)) {
			t.Fatalf("deltas %v: %v", deltas, err)
		}
		var got []int32
		err = a.Batch.Each(0, func(r *Record) (bool, error) {
			got = append(got, r.OffsetDelta)
			return true, nil
		})
		if err != nil || fmt.Sprint(got) != fmt.Sprint(deltas) {
			t.Fatalf("deltas %v are read as %v, %v", deltas, got, err)
		}
		name := fmt.Sprint(deltas)
		run(t, []verdict{
			{name + " compacted", build(None), func(c *Check) { c.Compacted = true }, nil},
			{name + " zstd compacted", build(Zstd), func(c *Check) { c.Compacted = true },
				kerr.InvalidRecord},
			{name + " to be compressed", build(None), func(c *Check) {
				c.Compression = CompressionPolicy{Codec: LZ4}
			}, kerr.InvalidRecord},
		})
	}
	negative := newForeign(None, record("k", "a"))
	negative.records[0].OffsetDelta = -1
	run(t, []verdict{{"negative delta", negative.bytes(), nil, kerr.InvalidRecord}})
}

// TestRow06GarbagePayload is refused where the payload is opened, and stored unread where not.
func TestRow06GarbagePayload(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		f := newForeign(codec, record("k", "v"))
		f.raw = []byte("this is not compressed at all")
		run(t, []verdict{
			{codec.String() + " compacted", f.bytes(), func(c *Check) { c.Compacted = true },
				kerr.InvalidRecord},
			{codec.String() + " to other codec", f.bytes(), func(c *Check) {
				c.Compression = CompressionPolicy{Codec: None}
			}, kerr.InvalidRecord},
			{codec.String() + " unread", f.bytes(), nil, nil},
		})
	}
}

func TestRow06Bomb(t *testing.T) {
	for _, codec := range allCodecs[1:] {
		f := newForeign(codec, record("k", strings.Repeat("a", 100_000)))
		run(t, []verdict{
			{codec.String(), f.bytes(), func(c *Check) { c.Compacted, c.MaxExpanded = true, 100_000 },
				kerr.MessageTooLarge},
			{codec.String() + " in bounds", f.bytes(), func(c *Check) {
				c.Compacted, c.MaxExpanded = true, 100_100
			}, nil},
		})
	}
}

const hour = int64(3_600_000)

// TestRow07TimestampRange checks the bounds record by record.
func TestRow07TimestampRange(t *testing.T) {
	const now = 10 * hour
	at := func(codec Codec, ts ...int64) []byte {
		f := newForeign(codec, make([]kmsg.Record, len(ts))...)
		f.FirstTimestamp, f.MaxTimestamp = ts[0], ts[0]
		for i, v := range ts {
			f.records[i].TimestampDelta64 = v - ts[0]
			f.MaxTimestamp = max(f.MaxTimestamp, v)
		}
		return f.bytes()
	}
	check := func(before, after int64) func(*Check) {
		return func(c *Check) { c.NowMs, c.BeforeMaxMs, c.AfterMaxMs = now, before, after }
	}
	var cases []verdict
	for _, codec := range []Codec{None, Gzip, Zstd} {
		name := codec.String() + " "
		cases = append(cases,
			verdict{name + "now", at(codec, now), check(0, 0), nil},
			verdict{name + "newest", at(codec, now, now+hour), check(math.MaxInt64, hour), nil},
			verdict{name + "too new", at(codec, now, now+hour+1), check(math.MaxInt64, hour),
				kerr.InvalidTimestamp},
			verdict{name + "any future", at(codec, math.MaxInt64), check(math.MaxInt64, math.MaxInt64),
				nil},
			verdict{name + "oldest", at(codec, now, now-hour), check(hour, hour), nil},
			verdict{name + "too old", at(codec, now, now-hour-1), check(hour, hour),
				kerr.InvalidTimestamp},
			verdict{name + "any past", at(codec, 0, now), check(math.MaxInt64, hour), nil},
			verdict{name + "before the epoch", at(codec, -2, now), check(math.MaxInt64, hour), nil},
			verdict{name + "none", at(codec, -1, -1), check(0, 0), nil},
			verdict{name + "one of many has none", at(codec, now, -1, now), check(0, 0), nil},
		)
	}
	run(t, cases)

	c := producerCheck()
	check(hour, hour)(&c)
	_, failed, err := Admit(at(Zstd, now, now+2*hour, now, now-2*hour), c)
	wantCode(t, err, kerr.InvalidTimestamp)
	if len(failed) != 2 || failed[0].Index != 1 || failed[1].Index != 3 ||
		!strings.Contains(failed[0].Message, fmt.Sprintf("Timestamp %d of message with offset 1 is out "+
			"of range. The timestamp should be within [%d, %d]", now+2*hour, now-hour, now+hour)) {
		t.Fatalf("record errors are %+v", failed)
	}
}

// TestRow07KeyBeforeTime gives one error per record, and INVALID_TIMESTAMP for the batch if any of
// them is one.
func TestRow07KeyBeforeTime(t *testing.T) {
	f := newForeign(None, record("", "a"), record("k", "b"), record("k", "c"))
	f.records[0].TimestampDelta64 = 100 * hour
	f.records[2].TimestampDelta64 = 100 * hour
	c := producerCheck()
	c.Compacted = true
	_, failed, err := Admit(f.bytes(), c)
	wantCode(t, err, kerr.InvalidTimestamp)
	if len(failed) != 2 || !strings.Contains(failed[0].Message, "without key") ||
		failed[1].Index != 2 || !strings.Contains(failed[1].Message, "out of range") {
		t.Fatalf("record errors are %+v", failed)
	}
}

// TestRow07MaxTimestamp computes it from the records where they are looked at.
func TestRow07MaxTimestamp(t *testing.T) {
	for _, c := range []struct {
		name     string
		codec    Codec
		change   func(*foreign)
		check    func(*Check)
		want     int64
		wantSame bool
	}{
		{"right", None, func(*foreign) {}, nil, 1001, true},
		{"too small", None, func(f *foreign) { f.MaxTimestamp = 3 }, nil, 1001, false},
		{"too large", None, func(f *foreign) { f.MaxTimestamp = 3000 }, nil, 1001, false},
		{"beyond the bound", None, func(f *foreign) { f.MaxTimestamp = math.MaxInt64 }, nil, 1001, false},
		{"compressed is trusted", Gzip, func(f *foreign) { f.MaxTimestamp = 3000 }, nil, 3000, true},
		{"compressed, not filled in", Gzip, func(f *foreign) { f.MaxTimestamp = -1 }, nil, 1001, false},
		{"compressed, zero", Gzip, func(f *foreign) { f.MaxTimestamp = 0 }, nil, 1001, false},
		{"compressed and compacted", Gzip, func(f *foreign) { f.MaxTimestamp = 3000 },
			func(c *Check) { c.Compacted = true }, 1001, false},
		{"compressed with a bound on the past", Gzip, func(f *foreign) { f.MaxTimestamp = 3000 },
			func(c *Check) { c.BeforeMaxMs = 1e9 }, 1001, false},
		{"no timestamps", None, func(f *foreign) {
			f.FirstTimestamp, f.MaxTimestamp = -1, 7
			f.records[1].TimestampDelta64 = 0
		}, nil, -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newForeign(c.codec, record("k", "v"), record("k", "w"))
			c.change(f)
			raw := f.bytes()
			before := bytes.Clone(raw)
			check := producerCheck()
			if c.check != nil {
				c.check(&check)
			}
			a, _, err := Admit(raw, check)
			if err != nil {
				t.Fatal(err)
			}
			b := mustFirst(t, a.Batch)
			if b.MaxTimestamp() != c.want || bytes.Equal(before, b) != c.wantSame || a.Rewritten {
				t.Fatalf("max timestamp %d, want %d; bytes kept %v", b.MaxTimestamp(), c.want,
					bytes.Equal(before, b))
			}
		})
	}
}

// TestRow07ClaimedAppendTime has a client set the LogAppendTime bit.
func TestRow07ClaimedAppendTime(t *testing.T) {
	claim := func(codec Codec, maxTimestamp int64) []byte {
		f := newForeign(codec, record("k", "v"), record("k", "w"))
		f.Attributes |= 0x08
		f.MaxTimestamp = maxTimestamp
		return f.bytes()
	}
	appendTime := func(c *Check) { c.TimestampType = LogAppendTime }
	for _, codec := range allCodecs {
		name := codec.String() + " "
		run(t, []verdict{
			{name + "on LogAppendTime", claim(codec, 1001), appendTime, kerr.InvalidTimestamp},
			{name + "in bounds", claim(codec, 1001), nil, nil},
			{name + "too new", claim(codec, 2000+hour+1), nil, kerr.InvalidTimestamp},
			{name + "without timestamp", claim(codec, -1), nil, kerr.InvalidTimestamp},
		})
		a, _, err := Admit(claim(codec, 1500), producerCheck())
		if err != nil || a.Batch.TimestampType() != CreateTime || a.Batch.MaxTimestamp() != 1500 {
			t.Fatalf("%v: %v %d, %v", codec, a.Batch.TimestampType(), a.Batch.MaxTimestamp(), err)
		}
		mustFirst(t, a.Batch)
		c := producerCheck()
		appendTime(&c)
		_, failed, _ := Admit(claim(codec, 1001), c)
		if len(failed) != 2 || failed[1].Index != 1 ||
			!strings.Contains(failed[1].Message, "Producer should not set timestamp type") {
			t.Fatalf("%v: record errors are %+v", codec, failed)
		}
	}
}

// TestRow08LogAppendTime stamps the broker's time without opening the payload.
func TestRow08LogAppendTime(t *testing.T) {
	for _, codec := range allCodecs {
		raw := valid(codec)
		payload := bytes.Clone(Batch(raw).Payload())
		c := producerCheck()
		c.TimestampType, c.NowMs, c.AfterMaxMs, c.BeforeMaxMs = LogAppendTime, 123456, 0, 0
		a, _, err := Admit(raw, c)
		if err != nil {
			t.Fatal(err)
		}
		b := mustFirst(t, a.Batch)
		if a.AppendTime != 123456 || b.MaxTimestamp() != 123456 || b.TimestampType() != LogAppendTime ||
			a.Rewritten || &b[0] != &raw[0] || !bytes.Equal(b.Payload(), payload) {
			t.Fatalf("%v: %+v", codec, b.Header())
		}
		for _, r := range readByFranzGo(t, b) {
			if r.Timestamp.UnixMilli() != 123456 {
				t.Fatalf("%v: franz-go reads timestamp %v", codec, r.Timestamp)
			}
		}
	}
}

// TestRow09CompressionType goes from every codec to every policy and compares the records.
func TestRow09CompressionType(t *testing.T) {
	for _, from := range allCodecs {
		for _, to := range allCodecs {
			for _, kind := range []TimestampType{CreateTime, LogAppendTime} {
				f := newForeign(from, record("k", strings.Repeat("value ", 100)), record("", "w", "h"))
				f.ProducerID, f.ProducerEpoch, f.FirstSequence, f.Attributes = 8, 1, 5, f.Attributes|0x10
				raw := f.bytes()
				want, err := collect(Batch(raw), 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				c := producerCheck()
				c.Compression = CompressionPolicy{Codec: to}
				c.TransactionalID, c.TimestampType, c.NowMs = true, kind, 1500
				a, _, err := Admit(raw, c)
				if err != nil {
					t.Fatalf("%v to %v: %v", from, to, err)
				}
				b := mustFirst(t, a.Batch)
				if a.Rewritten != (from != to) || b.Codec() != to || b.ProducerID() != 8 ||
					b.LastSequence() != 6 || !b.IsTransactional() || b.TimestampType() != kind {
					t.Fatalf("%v to %v: %+v", from, to, b.Header())
				}
				if kind == LogAppendTime {
					want[0].Timestamp, want[1].Timestamp = 1500, 1500
				}
				got, err := collect(b, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				compareRecords(t, got, want)
				if n := len(readByFranzGo(t, b)); n != 2 {
					t.Fatalf("%v to %v: franz-go reads %d records", from, to, n)
				}
			}
		}
	}
}

func TestRow09SizeIsCheckedAgain(t *testing.T) {
	packed := newForeign(Zstd, record("k", strings.Repeat("a", 10_000))).bytes()
	unpack := func(maxBytes, segment int) func(*Check) {
		return func(c *Check) {
			c.Compression = CompressionPolicy{Codec: None}
			c.MaxBytes, c.SegmentBytes = maxBytes, segment
		}
	}
	run(t, []verdict{
		{"fits", packed, unpack(11_000, 11_000), nil},
		{"above max.message.bytes", packed, unpack(10_000, 11_000), kerr.MessageTooLarge},
		{"above segment.bytes", packed, unpack(11_000, 10_000), kerr.RecordListTooLarge},
	})
}

// TestAdmitAcceptsOnlyWhatEachReads admits random changes of valid batches: whatever is admitted
// uncompressed, or on a compacted topic, must be readable, and as many records as announced.
func TestAdmitAcceptsOnlyWhatEachReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		codec := rapid.SampledFrom(allCodecs).Draw(t, "codec")
		raw := valid(codec)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			raw[rapid.IntRange(21, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "to")
		}
		recrc(raw)
		admitIsSound(t, raw, rapid.Bool().Draw(t, "compacted"))
	})
}

func admitIsSound(t interface {
	Helper()
	Fatalf(string, ...any)
}, raw []byte, compacted bool) {
	t.Helper()
	c := producerCheck()
	c.Compacted, c.TransactionalID, c.MaxExpanded = compacted, true, 1<<20
	a, failed, err := Admit(raw, c)
	if err != nil {
		if code := kafkaproto.Code(err); code == kerr.KafkaStorageError.Code || code == -1 {
			t.Fatalf("refused with code %d: %v", code, err)
		}
		if len(failed) > maxRecordErrors {
			t.Fatalf("%d record errors", len(failed))
		}
		return
	}
	b, err := First(a.Batch)
	if err != nil || b.VerifyCRC() != nil {
		t.Fatalf("admitted batch: %v, %v", err, b.VerifyCRC())
	}
	if b.Codec() != None && !compacted {
		return
	}
	n := int32(0)
	err = b.Each(1<<20, func(r *Record) (bool, error) {
		if compacted && r.Key == nil {
			t.Fatalf("record %d has no key", n)
		}
		n++
		return true, nil
	})
	if err != nil || n != b.Count() {
		t.Fatalf("admitted batch reads as %d records of %d: %v", n, b.Count(), err)
	}
}

// TestAdmitAllocatesNothing holds for uncompressed batches, and for compressed ones left closed.
func TestAdmitAllocatesNothing(t *testing.T) {
	for _, codec := range allCodecs {
		raw := valid(codec)
		for _, kind := range []TimestampType{CreateTime, LogAppendTime} {
			c := producerCheck()
			c.TimestampType = kind
			n := testing.AllocsPerRun(100, func() {
				Batch(raw).SetMaxTimestamp(CreateTime, 1002)
				if _, _, err := Admit(raw, c); err != nil {
					t.Fatal(err)
				}
			})
			if n != 0 {
				t.Errorf("%v %v: %v allocations", codec, kind, n)
			}
		}
	}
	raw := valid(None)
	if n := testing.AllocsPerRun(100, func() {
		b, err := First(raw)
		if err == nil {
			err = b.Each(0, func(*Record) (bool, error) { return true, nil })
		}
		if err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Each: %v allocations", n)
	}
}
