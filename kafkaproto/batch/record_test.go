package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TestEachReadsForeignBatches decodes what franz-go's encoder and compressors made.
func TestEachReadsForeignBatches(t *testing.T) {
	for _, codec := range allCodecs {
		t.Run(codec.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := genRecords().Draw(t, "records")
				records := make([]kmsg.Record, len(want))
				for i, r := range want {
					records[i] = kmsg.Record{Key: r.Key, Value: r.Value}
					for _, h := range r.Headers {
						records[i].Headers = append(records[i].Headers, kmsg.Header(h))
					}
				}
				f := newForeign(codec, records...)
				f.FirstTimestamp = want[0].Timestamp
				f.FirstOffset = rapid.Int64Range(0, 1<<40).Draw(t, "base")
				for i := range want {
					records[i].TimestampDelta64 = want[i].Timestamp - want[0].Timestamp
					want[i].OffsetDelta = int32(i)
					want[i].Offset = kafkaproto.Offset(f.FirstOffset) + kafkaproto.Offset(i)
				}
				b, err := First(f.bytes())
				if err != nil {
					t.Fatal(err)
				}
				got, err := collect(b, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				compareRecords(t, got, want)
			})
		})
	}
}

func TestEachLogAppendTime(t *testing.T) {
	f := newForeign(None, record("k", "v"), record("k", "w"))
	f.Attributes |= 0x08
	f.MaxTimestamp = 5000
	got, err := collect(mustFirst(t, f.bytes()), 0)
	if err != nil || got[0].Timestamp != 5000 || got[1].Timestamp != 5000 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestEachStops(t *testing.T) {
	f := newForeign(Gzip, record("k", "v"), record("k", "w"), record("k", "x"))
	b := mustFirst(t, f.bytes())
	n := 0
	err := b.Each(1<<20, func(*Record) (bool, error) { n++; return n < 2, nil })
	if err != nil || n != 2 {
		t.Fatalf("stopped after %d with %v", n, err)
	}
	stop := errors.New("stop")
	if err := b.Each(1<<20, func(*Record) (bool, error) { return true, stop }); !errors.Is(err, stop) {
		t.Fatalf("error is %v", err)
	}
}

// malformedRecords are payloads that a header of count records must not go with.
var malformedRecords = []struct {
	name    string
	count   int32
	payload []byte
}{
	{"nothing", 1, []byte{}},
	{"one of two", 2, kmsgRecord(record("k", "v"))},
	{"two of one", 1, append(kmsgRecord(record("k", "v")), kmsgRecord(record("k", "v"))...)},
	{"junk behind", 1, append(kmsgRecord(record("k", "v")), 0)},
	{"length varint cut", 1, []byte{0x80}},
	{"length varint overlong", 1, []byte{0x80, 0x80, 0x80, 0x80, 0x80, 0x00}},
	{"length varint of 33 bits", 1, []byte{0xff, 0xff, 0xff, 0xff, 0x1f}},
	{"length negative", 1, []byte{0x01}},
	{"length beyond", 1, []byte{14, 0, 0, 0, 1, 1, 0}},
	{"length below the smallest", 1, []byte{10, 0, 0, 0, 1, 1}},
	{"length one more than the fields", 1, []byte{14, 0, 0, 0, 1, 1, 0, 0}},
	{"timestamp varint overlong", 1, []byte{32, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		0x80, 0x80, 0x00, 0, 1, 1, 0}},
	{"timestamp varint of 65 bits", 1, []byte{30, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
		0x80, 0x02, 0, 1, 1, 0}},
	{"offset delta negative", 1, []byte{12, 0, 0, 1, 1, 1, 0}},
	{"key beyond the record", 1, []byte{12, 0, 0, 0, 4, 1, 0}},
	{"key far beyond", 1, []byte{20, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0}},
	{"value beyond the record", 1, []byte{12, 0, 0, 0, 1, 4, 0}},
	{"headers negative", 1, []byte{12, 0, 0, 0, 1, 1, 1}},
	{"headers missing", 1, []byte{12, 0, 0, 0, 1, 1, 2}},
	{"more headers than bytes", 1, []byte{16, 0, 0, 0, 1, 1, 8, 0, 1}},
	{"header key null", 1, []byte{16, 0, 0, 0, 1, 1, 2, 1, 1}},
	{"header key beyond", 1, []byte{16, 0, 0, 0, 1, 1, 2, 8, 1}},
	{"header value beyond", 1, []byte{16, 0, 0, 0, 1, 1, 2, 0, 8}},
	{"header value missing", 1, []byte{14, 0, 0, 0, 1, 1, 2, 0}},
}

func TestEachIsStrict(t *testing.T) {
	for _, c := range malformedRecords {
		t.Run(c.name, func(t *testing.T) {
			f := newForeign(None, make([]kmsg.Record, c.count)...)
			f.raw = c.payload
			b := Batch(f.bytes())
			if _, err := collect(b, 0); !errors.Is(err, ErrMalformed) || kafkaproto.IsCorrupt(err) {
				t.Fatalf("Each with a right CRC: %v", err)
			}
			if _, ok := walk(c.payload, c.count, 0); ok {
				t.Fatal("walk accepts it")
			}
			b[17]++
			if _, err := collect(b, 0); errors.Is(err, ErrMalformed) || !kafkaproto.IsCorrupt(err) {
				t.Fatalf("Each with a wrong CRC: %v", err)
			}
		})
	}
}

func TestEachOffsetOverflow(t *testing.T) {
	f := newForeign(None, record("k", "v"))
	f.FirstOffset = math.MaxInt64 - 1
	f.records[0].OffsetDelta = 2
	if _, err := collect(Batch(f.bytes()), 0); !errors.Is(err, ErrMalformed) {
		t.Fatalf("error is %v", err)
	}
}

// TestEachCutAnywhere cuts each codec's payload at every place: an error, no panic, no record that
// was not there.
func TestEachCutAnywhere(t *testing.T) {
	for _, codec := range allCodecs {
		f := newForeign(codec, record("k", strings.Repeat("value ", 20)), record("", "w", "h1", "h2"))
		whole := f.payload()
		for n := range whole {
			f.raw = whole[:n]
			if _, err := collect(Batch(f.bytes()), 1<<20); err == nil {
				// Only a checksum at the end may be missing unnoticed, and no codec lets it.
				t.Fatalf("%v cut to %d of %d bytes is accepted", codec, n, len(whole))
			}
		}
	}
}

// TestWalkAgreesWithEach changes valid payloads at random: walk must accept exactly what Each does,
// and find the same timestamps, keys and deltas.
func TestWalkAgreesWithEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBuilder(BuilderOptions{})
		for _, r := range genRecords().Draw(t, "records") {
			b.Add(r)
		}
		one, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		p := bytes.Clone(one.Payload())
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			i := rapid.IntRange(0, len(p)-1).Draw(t, "at")
			p[i] = rapid.Byte().Draw(t, "to")
		}
		count := one.Count() + rapid.Int32Range(-1, 1).Draw(t, "count")
		changed := append(bytes.Clone(one[:HeaderSize]), p...)
		binary.BigEndian.PutUint32(changed[atCount:], uint32(count))
		recrc(changed)

		w, ok := walk(p, count, one.BaseTimestamp())
		got, err := collect(Batch(changed), 0)
		if ok != (err == nil) {
			t.Fatalf("walk says %v, Each says %v", ok, err)
		}
		if !ok {
			return
		}
		want := walked{max: -1, min: math.MaxInt64}
		for i, r := range got {
			want.max = max(want.max, r.Timestamp)
			if r.Timestamp != -1 {
				want.min = min(want.min, r.Timestamp)
			}
			if r.Key == nil {
				want.nullKeys++
			}
			want.gaps = want.gaps || r.OffsetDelta != int32(i)
		}
		if w != want {
			t.Fatalf("walk finds %+v, want %+v", w, want)
		}
	})
}

func TestVarintsAgainstStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64().Draw(t, "v")
		p := appendVarlong(nil, v)
		if want := binary.AppendVarint(nil, v); !bytes.Equal(p, want) || sizeVarlong(v) != len(want) {
			t.Fatalf("%d is encoded as %x, want %x", v, p, want)
		}
		if got, at := varlong(p, 0); got != v || at != len(p) {
			t.Fatalf("%d comes back as %d in %d bytes", v, got, at)
		}
		w := int32(v)
		p = appendVarint(nil, w)
		if want := binary.AppendVarint(nil, int64(w)); !bytes.Equal(p, want) {
			t.Fatalf("%d is encoded as %x, want %x", w, p, want)
		}
		if got, at := varint(p, 0); got != w || at != len(p) {
			t.Fatalf("%d comes back as %d in %d bytes", w, got, at)
		}
		for n := range p {
			if got, at := varint(p[:n], 0); got != 0 || at != -1 {
				t.Fatalf("cut varint gives %d, %d", got, at)
			}
		}
	})
}

// TestEachKeepsNothing reads records with headers through one pooled decoder after another; with
// -tags invariants freed buffers are overwritten, which copies made in time must survive.
func TestEachKeepsNothing(t *testing.T) {
	a := mustFirst(t, newForeign(Zstd, record("a", "1", "x", "y"), record("b", "2", "z")).bytes())
	b := mustFirst(t, newForeign(Snappy, record("c", "3"), record("d", "4", "x", "q", "r")).bytes())
	for range 10 {
		ra, err := collect(a, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		rb, err := collect(b, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if string(ra[0].Key) != "a" || ra[0].Headers[1].Key != "y" || ra[1].Headers[0].Key != "z" ||
			rb[0].Headers != nil || rb[1].Headers[2].Key != "r" {
			t.Fatalf("%+v %+v", ra, rb)
		}
	}
}
