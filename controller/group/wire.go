package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// errShort is what the decoders give for bytes that end early or announce more than there is.
var errShort = errors.New("bytes end early")

// reader decodes the primitive types of Kafka's records: big endian, strings and bytes with a
// length before them, which is an unsigned varint of length+1 in a flexible version (KIP-482). The
// first error sticks, and then everything reads as zero.
type reader struct {
	b        []byte
	flexible bool
	err      error
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		if r.err == nil {
			r.err = errShort
		}
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) uvarint() int {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > math.MaxInt32 {
		r.err = errShort
		return 0
	}
	r.b = r.b[n:]
	return int(v)
}

// length reads the length before a string (wide false), or before bytes or an array; -1 is null.
func (r *reader) length(wide bool) int {
	switch {
	case r.flexible:
		return r.uvarint() - 1
	case wide:
		return int(r.int32())
	default:
		return int(r.int16())
	}
}

// nullableString gives ok = false for null.
func (r *reader) nullableString() (s string, ok bool) {
	n := r.length(false)
	if n == -1 {
		return "", false
	}
	return string(r.take(n)), true
}

// string reads a string; null is an error, as it is to Kafka.
func (r *reader) string() string {
	s, ok := r.nullableString()
	if !ok && r.err == nil {
		r.err = errors.New("a string that may not be null is null")
	}
	return s
}

// bytes copies a byte field; null reads as empty.
func (r *reader) bytes() []byte {
	n := r.length(true)
	if n <= 0 {
		return nil
	}
	b := r.take(n)
	if b == nil {
		return nil
	}
	return append([]byte(nil), b...)
}

// array reads the length of an array whose elements take at least minSize bytes each, so that
// nothing is allocated that the bytes do not prove.
func (r *reader) array(minSize int) int {
	n := r.length(true)
	if r.err != nil || n <= 0 {
		return 0
	}
	if n > len(r.b)/minSize {
		r.err = errShort
		return 0
	}
	return n
}

// tags steps over a tag section; fn gets each known or unknown tag.
func (r *reader) tags(fn func(tag int, value []byte)) {
	if !r.flexible {
		return
	}
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		tag := r.uvarint()
		value := r.take(r.uvarint())
		if r.err == nil && fn != nil {
			fn(tag, value)
		}
	}
}

// end gives the error of the reading, or one for bytes left over.
func (r *reader) end(what string) error {
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes behind the end", len(r.b))
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w", what, r.err)
	}
	return nil
}

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendString writes a string. A longer one than the length field can say is a broken invariant:
// requests that hold such are refused at the door.
func appendString(b []byte, s string) []byte {
	if len(s) > maxString {
		panic(fmt.Sprintf("string of %d bytes in a record, the limit is %d", len(s), maxString))
	}
	return append(appendInt16(b, int16(len(s))), s...)
}

func appendNullableString(b []byte, s string) []byte {
	if s == "" {
		return appendInt16(b, -1)
	}
	return appendString(b, s)
}

func appendBytes(b, v []byte) []byte { return append(appendInt32(b, int32(len(v))), v...) }

// maxString is the longest string of Kafka's records, in bytes.
const maxString = math.MaxInt16
