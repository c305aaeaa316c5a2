package diff

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The batches of this test are made and read here, independently of the broker's own code, so that a
// mistake there can't hide itself.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	attributeCodec       = 0x07
	attributeAppendTime  = 0x08
	attributeTransaction = 0x10
	attributeControl     = 0x20
	batchHeaderBytes     = 61
	batchCRCStart        = 21
)

// buildBatch encodes batch{…}. Every header field can be forced to a wrong value: base, le (leader
// epoch), magic, crc, attrs, lod (last offset delta), ts, maxts, pid, epoch, seq, count, length.
// Records come from n (n records v0, v1 …), recs ([{k v h ts d}]), deltas (one record for each offset
// delta), or payload (bytes as they are).
func buildBatch(env *environment, o object) ([]byte, error) {
	now := env.started.UnixMilli()
	records, count, maxTimestamp, err := buildRecords(o, o.int("ts", now))
	if err != nil {
		return nil, err
	}
	attributes, codec := o.int("attrs", 0), fmt.Sprint(o.mustGet("codec"))
	if o.mustGet("codec") != nil {
		number, compressed, err := compress(codec, records)
		if err != nil {
			return nil, err
		}
		attributes, records = attributes|number, compressed
	}
	for flag, bit := range map[string]int64{"logappend": attributeAppendTime, "txn": attributeTransaction, "control": attributeControl} {
		if o.bool(flag) {
			attributes |= bit
		}
	}
	b := kmsg.RecordBatch{
		FirstOffset:          o.int("base", 0),
		Length:               int32(o.int("length", int64(batchHeaderBytes-12+len(records)))),
		PartitionLeaderEpoch: int32(o.int("le", -1)),
		Magic:                int8(o.int("magic", 2)),
		Attributes:           int16(attributes),
		LastOffsetDelta:      int32(o.int("lod", int64(count-1))),
		FirstTimestamp:       o.int("ts", now),
		MaxTimestamp:         o.int("maxts", maxTimestamp),
		ProducerID:           o.int("pid", -1),
		ProducerEpoch:        int16(o.int("epoch", -1)),
		FirstSequence:        int32(o.int("seq", -1)),
		NumRecords:           int32(o.int("count", int64(count))),
		Records:              records,
	}
	raw := b.AppendTo(nil)
	crc := crc32.Checksum(raw[batchCRCStart:], castagnoli)
	if o.bool("badcrc") {
		crc++
	}
	binary.BigEndian.PutUint32(raw[17:], crc)
	return raw, nil
}

// buildRecords encodes the records of a batch and returns their number and greatest timestamp.
func buildRecords(o object, base int64) (records []byte, count int, maxTimestamp int64, err error) {
	if payload, ok := o.get("payload"); ok {
		records, err = toBytes(payload)
		return records, int(o.int("count", 1)), base, err
	}
	list, _ := o.mustGet("recs").([]any)
	for i := range o.int("n", 0) {
		list = append(list, object{keys: []string{"v"}, values: []any{fmt.Sprintf("v%d", i)}})
	}
	if deltas, ok := o.mustGet("deltas").([]any); ok {
		for _, d := range deltas {
			list = append(list, object{keys: []string{"v", "d"}, values: []any{"v", d}})
		}
	}
	if len(list) == 0 {
		return nil, 0, base, nil
	}
	maxTimestamp = base
	for i, item := range list {
		r, ok := item.(object)
		if !ok {
			return nil, 0, 0, fmt.Errorf("record %v is not an object", item)
		}
		timestamp := r.int("ts", base)
		maxTimestamp = max(maxTimestamp, timestamp)
		if records, err = appendRecord(records, r, timestamp-base, r.int("d", int64(i))); err != nil {
			return nil, 0, 0, err
		}
	}
	return records, len(list), maxTimestamp, nil
}

func appendRecord(dst []byte, r object, timestampDelta, offsetDelta int64) ([]byte, error) {
	body := []byte{byte(r.int("attrs", 0))}
	body = binary.AppendVarint(body, timestampDelta)
	body = binary.AppendVarint(body, offsetDelta)
	for _, field := range []string{"k", "v"} {
		b, err := toBytes(r.mustGet(field))
		if err != nil {
			return nil, err
		}
		body = appendVarintBytes(body, b)
	}
	headers, _ := r.mustGet("h").(object)
	body = binary.AppendVarint(body, r.int("hcount", int64(len(headers.keys))))
	for i, key := range headers.keys {
		value, err := toBytes(headers.values[i])
		if err != nil {
			return nil, err
		}
		body = appendVarintBytes(appendVarintBytes(body, []byte(key)), value)
	}
	dst = binary.AppendVarint(dst, r.int("len", int64(len(body))))
	return append(dst, body...), nil
}

// appendVarintBytes writes a length and the bytes; nil is null.
func appendVarintBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// compress packs records and returns the codec's number.
func compress(codec string, records []byte) (int64, []byte, error) {
	var out bytes.Buffer
	switch codec {
	case "none":
		return 0, records, nil
	case "gzip":
		w := gzip.NewWriter(&out)
		_, err := w.Write(records)
		err = errors.Join(err, w.Close())
		return 1, out.Bytes(), err
	case "snappy":
		return 2, snappy.Encode(nil, records), nil
	case "lz4":
		w := lz4.NewWriter(&out)
		_, err := w.Write(records)
		err = errors.Join(err, w.Close())
		return 3, out.Bytes(), err
	case "zstd":
		w, err := zstd.NewWriter(nil)
		if err != nil {
			return 0, nil, err
		}
		packed := w.EncodeAll(records, nil)
		return 4, packed, w.Close()
	}
	return 0, nil, fmt.Errorf("no codec %s", codec)
}

// decompress unpacks what a broker sent, which is trusted no further than the test's memory.
func decompress(codec int16, data []byte) ([]byte, error) {
	switch codec {
	case 0:
		return data, nil
	case 1:
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case 2:
		return decompressSnappy(data)
	case 3:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(data)))
	case 4:
		r, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(data, nil)
	}
	return nil, fmt.Errorf("codec %d", codec)
}

var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// decompressSnappy reads a plain block or the chunked framing of snappy-java, which Kafka writes.
func decompressSnappy(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, xerialMagic) || len(data) < 16 {
		return s2.Decode(nil, data)
	}
	var out []byte
	for data = data[16:]; len(data) > 0; {
		if len(data) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int(binary.BigEndian.Uint32(data))
		if data = data[4:]; n > len(data) {
			return nil, io.ErrUnexpectedEOF
		}
		chunk, err := s2.Decode(nil, data[:n])
		if err != nil {
			return nil, err
		}
		out, data = append(out, chunk...), data[n:]
	}
	return out, nil
}
