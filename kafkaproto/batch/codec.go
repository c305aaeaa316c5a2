package batch

import (
	"errors"
	"fmt"
	"strconv"
)

// Codec is the compression of a batch's payload.
type Codec int8

// The codecs of format 2, by their number in the attributes.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// String gives the spelling of compression.type for the codec.
func (c Codec) String() string {
	switch c {
	case None:
		return "uncompressed"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return "codec " + strconv.Itoa(int(c))
}

// known reports whether format 2 defines the codec.
func (c Codec) known() bool { return c >= None && c <= Zstd }

// firstGuess is how much more than the compressed bytes an output buffer holds at first. It grows
// by what is really decompressed, so a small bomb does not get a large buffer by announcing one.
const firstGuess = 4

// expand decompresses src into a pooled buffer, which the caller frees. It never writes more than
// limit bytes (ErrTooLarge); any other error means that src is not what the codec makes.
//
// The decoders are other people's code run on strangers' bytes, so a panic in one of them is taken
// as malformed input; the decoder it happened in is dropped.
func (c Codec) expand(src []byte, limit int) (out *buffer, err error) {
	limit = max(limit, 0)
	out = newBuffer(min(firstGuess*len(src), limit))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v decoder: %v", c, r)
		}
		if err != nil {
			out.free()
			out = nil
		}
	}()
	switch c {
	case Gzip:
		err = expandGzip(out, src, limit)
	case Snappy:
		err = expandSnappy(out, src, limit)
	case LZ4:
		err = expandLZ4(out, src, limit)
	case Zstd:
		err = expandZstd(out, src, limit)
	default:
		err = fmt.Errorf("unknown codec %d", int(c))
	}
	return out, err
}

// shrink appends the compressed form of src to dst. Level 0 is the codec's default; other levels
// are those of compression.gzip.level, compression.lz4.level and compression.zstd.level.
func (c Codec) shrink(dst, src []byte, level int) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return shrinkGzip(dst, src, level)
	case Snappy:
		return shrinkSnappy(dst, src), nil
	case LZ4:
		return shrinkLZ4(dst, src, level)
	case Zstd:
		return shrinkZstd(dst, src, level)
	}
	return dst, fmt.Errorf("unknown codec %d", int(c))
}

func tooLarge(limit int) error { return fmt.Errorf("%w of %d bytes", ErrTooLarge, limit) }

// errSnappy says that the bytes are neither of Kafka's two snappy forms.
var errSnappy = errors.New("bad snappy framing")
