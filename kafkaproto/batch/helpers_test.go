package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

var allCodecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// foreign builds batches with franz-go's code alone, so that ours is checked against another's.
type foreign struct {
	kmsg.RecordBatch
	records []kmsg.Record
	codec   Codec
	raw     []byte // the payload as it is, if not nil
}

// newForeign is a valid batch as a client sends it: records at 1000, 1001 ... milliseconds.
func newForeign(codec Codec, records ...kmsg.Record) *foreign {
	f := &foreign{records: records, codec: codec}
	f.PartitionLeaderEpoch = -1
	f.Magic = 2
	f.Attributes = int16(codec)
	f.LastOffsetDelta = int32(len(records) - 1)
	f.FirstTimestamp = 1000
	f.MaxTimestamp = 1000 + int64(len(records)-1)
	f.ProducerID, f.ProducerEpoch, f.FirstSequence = -1, -1, -1
	f.NumRecords = int32(len(records))
	for i := range records {
		records[i].OffsetDelta = int32(i)
		records[i].TimestampDelta64 = int64(i)
	}
	return f
}

func record(key, value string, headers ...string) kmsg.Record {
	r := kmsg.Record{Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	for _, h := range headers {
		r.Headers = append(r.Headers, kmsg.Header{Key: h, Value: []byte("of " + h)})
	}
	return r
}

func kmsgRecord(r kmsg.Record) []byte {
	r.Length = 0
	body := r.AppendTo(nil)[1:] // without the one-byte length 0
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

var kgoCodecs = map[Codec]kgo.CompressionCodec{
	Gzip: kgo.GzipCompression(), Snappy: kgo.SnappyCompression(), LZ4: kgo.Lz4Compression(),
	Zstd: kgo.ZstdCompression(),
}

func kgoCompress(c Codec, src []byte) []byte {
	if c == None {
		return src
	}
	comp, err := kgo.DefaultCompressor(kgoCodecs[c])
	if err != nil {
		panic(err)
	}
	out, used := comp.Compress(new(bytes.Buffer), src)
	if used != kgo.CompressionCodecType(c) {
		panic(fmt.Sprintf("franz-go compressed with %d", used))
	}
	return bytes.Clone(out)
}

func (f *foreign) payload() []byte {
	if f.raw != nil {
		return f.raw
	}
	var p []byte
	for _, r := range f.records {
		p = append(p, kmsgRecord(r)...)
	}
	return kgoCompress(f.codec, p)
}

// bytes encodes the batch with its length and CRC computed here.
func (f *foreign) bytes() []byte {
	f.Records = f.payload()
	f.Length = int32(49 + len(f.Records))
	f.CRC = 0
	out := f.RecordBatch.AppendTo(nil)
	recrc(out)
	return out
}

// recrc writes the CRC of a batch that a test changed.
func recrc(b []byte) {
	crc := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(b[17:], crc)
}

func mustFirst(t testing.TB, b []byte) Batch {
	t.Helper()
	one, err := First(b)
	if err != nil {
		t.Fatalf("First: %v", err)
	}
	if err := one.VerifyCRC(); err != nil {
		t.Fatal(err)
	}
	return one
}

// collect copies what Each gives.
func collect(b Batch, limit int) ([]Record, error) {
	var got []Record
	err := b.Each(limit, func(r *Record) (bool, error) {
		c := *r
		c.Key, c.Value = clone(r.Key), clone(r.Value)
		c.Headers = nil
		for _, h := range r.Headers {
			c.Headers = append(c.Headers, RecordHeader{Key: h.Key, Value: clone(h.Value)})
		}
		got = append(got, c)
		return true, nil
	})
	return got, err
}

// clone copies b and keeps null null and empty empty.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func sameRecord(a, b Record) bool {
	if a.Offset != b.Offset || a.OffsetDelta != b.OffsetDelta || a.Timestamp != b.Timestamp ||
		!same(a.Key, b.Key) || !same(a.Value, b.Value) || len(a.Headers) != len(b.Headers) {
		return false
	}
	for i := range a.Headers {
		if a.Headers[i].Key != b.Headers[i].Key || !same(a.Headers[i].Value, b.Headers[i].Value) {
			return false
		}
	}
	return true
}

func compareRecords(t interface {
	Helper()
	Fatalf(string, ...any)
}, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		if !sameRecord(got[i], want[i]) {
			t.Fatalf("record %d is\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
}

// genBytes draws bytes that may be null, empty, small or compressible.
func genBytes() *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.Just([]byte(nil)),
		rapid.Just([]byte{}),
		rapid.SliceOfN(rapid.Byte(), 0, 100),
		rapid.Custom(func(t *rapid.T) []byte {
			return bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(0, 5000).Draw(t, "n"))
		}),
	)
}

func genRecords() *rapid.Generator[[]Record] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Record {
		r := Record{
			Timestamp: rapid.Int64Range(-1, 1<<42).Draw(t, "ts"),
			Key:       genBytes().Draw(t, "key"),
			Value:     genBytes().Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, RecordHeader{
				Key: rapid.StringN(0, 8, 20).Draw(t, "name"), Value: genBytes().Draw(t, "header"),
			})
		}
		return r
	}), 1, 20)
}

func wantCode(t *testing.T, err error, want *kerr.Error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %s", err, want.Message)
	}
}

// setLengthAndCount makes a header fit a payload that a test put behind it, with a right CRC.
func (b Batch) setLengthAndCount(size int, count int32) {
	binary.BigEndian.PutUint32(b[atLength:], uint32(size-lengthEnd))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(max(count, 1)-1))
	binary.BigEndian.PutUint32(b[atCount:], uint32(count))
	recrc(b)
}
