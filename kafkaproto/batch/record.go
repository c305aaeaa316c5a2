package batch

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Errors of Each beside corruption.
var (
	// ErrMalformed marks a payload that can not be decoded although the CRC is right: the bytes are
	// what a client sent, so this is no fault of the disk.
	ErrMalformed = errors.New("malformed records")
	// ErrTooLarge marks a payload that decompresses to more than the bound it was given.
	ErrTooLarge = errors.New("decompressed records exceed the bound")
)

// Record is one record. What Each hands out aliases the batch or its decompressed bytes, headers'
// keys excepted, and is valid until the callback returns.
type Record struct {
	Offset      kafkaproto.Offset
	OffsetDelta int32
	Timestamp   int64  // milliseconds; the batch's maximum under LogAppendTime
	Key, Value  []byte // nil is null
	Headers     []RecordHeader
}

// RecordHeader is one header of a record (KIP-82). Keys may repeat.
type RecordHeader struct {
	Key   string
	Value []byte // nil is null
}

// minBody is the smallest body of a record: attributes, two deltas, null key, null value, no
// header.
const minBody = 6

// walked is what a walk over uncompressed records finds beside their being well formed.
type walked struct {
	max      int64 // largest timestamp, -1 at least, as Kafka computes it
	min      int64 // smallest timestamp that is not NoTimestamp; MaxInt64 for none
	nullKeys int
	gaps     bool // offset deltas are not 0, 1, 2 ...
}

// walk checks that p holds exactly count whole records and nothing else. It allocates nothing, and
// says only that something is wrong: decoding again says what.
//
//	length | attributes 1 | timestamp delta | offset delta | key | value | headers
//
// The quick way through a record takes numbers of one and two bytes and no headers, which is nearly
// all there are; any other record goes through outline.read.
func walk(p []byte, count int32, base int64) (walked, bool) {
	w := walked{max: NoTimestamp, min: math.MaxInt64}
	var at int
	var order, sign int32
	for i := range count {
		o := outline{end: -1}
		if size, n := short(p, at); n > 0 {
			q := at + n
			end := q + int(size)
			ts, n1 := short(p, q+1)
			delta, n2 := short(p, q+1+n1)
			key, n3 := short(p, q+1+n1+n2)
			q += 1 + n1 + n2 + n3 + int(max(key, 0))
			value, n4 := short(p, q)
			q += n4 + int(max(value, 0))
			whole := n1 != 0 && n2 != 0 && n3 != 0 && n4 != 0
			if whole && q == end-1 && end <= len(p) && p[q] == 0 {
				o = outline{ts: int64(ts), delta: delta, key: key, end: end}
			}
		}
		if o.end < 0 && !o.read(p, at) {
			return w, false
		}
		at = o.end
		order |= o.delta ^ i
		sign |= o.delta
		w.nullKeys += int(uint32(o.key) >> 31)
		ts := base + o.ts
		w.max = max(w.max, ts)
		if ts < w.min && ts != NoTimestamp {
			w.min = ts
		}
	}
	w.gaps = order != 0
	return w, sign >= 0 && at == len(p)
}

// outline is what a walk wants of one record.
type outline struct {
	ts    int64 // timestamp delta
	delta int32
	key   int32 // length, negative for null
	end   int   // position of the next record
}

// read outlines the record at position at and reports whether it is well formed. The position is
// checked once: every number read moves it forward and a bad one makes it -1, so it can only be the
// record's end if all of them stayed inside.
func (o *outline) read(p []byte, at int) bool {
	size, q := varint(p, at)
	end := q + int(size)
	if q < 0 || size < minBody || end > len(p) {
		return false
	}
	o.end = end
	o.ts, q = varlong(p, q+1)
	o.delta, q = varint(p, q)
	o.key, q = varint(p, q)
	value, q := varint(p, q+int(max(o.key, 0)))
	headers, q := varint(p, q+int(max(value, 0)))
	if headers != 0 {
		q = walkHeaders(p, q, end, headers)
	}
	return q == end
}

// walkHeaders gives the position behind n headers, or -1.
func walkHeaders(p []byte, at, end int, n int32) int {
	if at < 0 || n < 0 || int(n) > end-at {
		return -1
	}
	for range n {
		key, q := varint(p, at)
		if key < 0 {
			return -1
		}
		value, q := varint(p, q+int(key))
		if value > 0 {
			q += int(value)
		}
		if q < 0 || q > end {
			return -1
		}
		at = q
	}
	return at
}

// decoder turns a payload into records, one at a time.
type decoder struct {
	p             []byte
	at            int
	base          int64
	baseOffset    kafkaproto.Offset
	appendTime    int64
	hasAppendTime bool
	rec           Record
	names         []string // keys of earlier headers by place: the same name is copied once
}

func (d *decoder) reset(b Batch, payload []byte) {
	d.p, d.at = payload, 0
	d.base, d.baseOffset = b.BaseTimestamp(), b.BaseOffset()
	d.hasAppendTime, d.appendTime = b.TimestampType() == LogAppendTime, b.MaxTimestamp()
}

// next decodes the record at the decoder's position. Its error says what is wrong with the bytes.
func (d *decoder) next() error {
	size, q := varint(d.p, d.at)
	switch {
	case q < 0:
		return fmt.Errorf("a record is missing at byte %d of %d", d.at, len(d.p))
	case size < minBody:
		return fmt.Errorf("record length %d at byte %d is less than %d", size, d.at, minBody)
	case int(size) > len(d.p)-q:
		return fmt.Errorf("record of %d bytes at byte %d goes beyond the %d there are", size, d.at,
			len(d.p))
	}
	body, start := d.p[q:q+int(size):q+int(size)], d.at
	d.at = q + int(size)
	ts, q := varlong(body, 1)
	delta, q := varint(body, q)
	if q < 0 || delta < 0 {
		return fmt.Errorf("record at byte %d: bad timestamp or offset delta", start)
	}
	r := &d.rec
	r.OffsetDelta, r.Offset = delta, d.baseOffset+kafkaproto.Offset(delta)
	if r.Offset < 0 {
		return fmt.Errorf("record at byte %d: offset delta %d overflows", start, delta)
	}
	r.Timestamp = d.base + ts
	if d.hasAppendTime {
		r.Timestamp = d.appendTime
	}
	r.Key, q = field(body, q)
	r.Value, q = field(body, q)
	if q < 0 {
		return fmt.Errorf("record at byte %d: key or value goes beyond the record", start)
	}
	if q = d.headers(body, q); q != len(body) {
		return fmt.Errorf("record at byte %d: headers and length %d disagree", start, size)
	}
	return nil
}

// field reads length-prefixed bytes; a negative length is null, as Kafka takes it.
func field(p []byte, at int) ([]byte, int) {
	n, at := varint(p, at)
	switch {
	case at < 0 || int(n) > len(p)-at:
		return nil, -1
	case n < 0:
		return nil, at
	}
	return p[at : at+int(n) : at+int(n)], at + int(n)
}

// headers reads the record's headers and gives the position behind them, or -1. The slice grows
// with the headers that are really there.
func (d *decoder) headers(p []byte, at int) int {
	n, at := varint(p, at)
	d.rec.Headers = d.rec.Headers[:0]
	if at < 0 || n < 0 || int(n) > len(p)-at {
		return -1
	}
	for i := range int(n) {
		key, q := field(p, at)
		if key == nil {
			return -1
		}
		value, q := field(p, q)
		if q < 0 {
			return -1
		}
		if i == len(d.names) {
			d.names = append(d.names, string(key))
		} else if d.names[i] != string(key) {
			d.names[i] = string(key)
		}
		d.rec.Headers = append(d.rec.Headers, RecordHeader{Key: d.names[i], Value: value})
		at = q
	}
	return at
}

// maxKeptHeaders bounds what a pooled decoder keeps of an extreme record.
const maxKeptHeaders = 64

var decoders = sync.Pool{New: func() any { return new(decoder) }}

func (d *decoder) free() {
	if cap(d.rec.Headers) > maxKeptHeaders || cap(d.names) > maxKeptHeaders {
		d.rec.Headers, d.names = nil, nil
	}
	clear(d.rec.Headers[:cap(d.rec.Headers)])
	*d = decoder{rec: Record{Headers: d.rec.Headers[:0]}, names: d.names}
	decoders.Put(d)
}

// Each decodes the batch's records in order and gives them to fn until it answers false or fails;
// the record is valid until fn returns. A compressed payload is decompressed into a pooled buffer,
// at most maxBytes of it: beyond that Each fails with ErrTooLarge.
//
// Decoding is strict: as many records as the header says, each of exactly its length, nothing
// behind the last. When it fails the CRC decides who is to blame: the error is corrupt-marked if
// the CRC is wrong, and ErrMalformed if the bytes are what a client sent. Offset deltas may have
// gaps (compaction) and any order, since Kafka stores what uncompressed batches say.
func (b Batch) Each(maxBytes int, fn func(r *Record) (bool, error)) error {
	payload := b.Payload()
	if c := b.Codec(); c != None && len(payload) > 0 {
		out, err := c.expand(payload, maxBytes)
		if err != nil {
			return b.blame(err)
		}
		defer out.free()
		payload = out.b
	}
	d := decoders.Get().(*decoder)
	defer d.free()
	d.reset(b, payload)
	for range b.Count() {
		if err := d.next(); err != nil {
			return b.blame(err)
		}
		if more, err := fn(&d.rec); err != nil || !more {
			return err
		}
	}
	if d.at != len(payload) {
		return b.blame(fmt.Errorf("%d bytes behind the last of %d records", len(payload)-d.at,
			b.Count()))
	}
	return nil
}

// blame turns a decoding error into corruption if the CRC is wrong too, else into ErrMalformed.
func (b Batch) blame(err error) error {
	if crcErr := b.VerifyCRC(); crcErr != nil {
		return crcErr
	}
	if errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	return fmt.Errorf("%w: batch at offset %d, codec %v: %w", ErrMalformed, b.BaseOffset(),
		b.Codec(), err)
}
