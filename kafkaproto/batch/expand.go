package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Decoders are pooled with the reader they read from. One goes back only after a success: after an
// error or a panic its state is not trusted.

type gzipDecoder struct {
	zr  gzip.Reader
	src bytes.Reader
}

type lz4Decoder struct {
	zr  *lz4.Reader
	src bytes.Reader
}

var (
	gzipDecoders = sync.Pool{New: func() any { return new(gzipDecoder) }}
	lz4Decoders  = sync.Pool{New: func() any { return &lz4Decoder{zr: lz4.NewReader(nil)} }}
	zstdDecoders = sync.Pool{New: func() any { return newZstdDecoder() }}
)

func expandGzip(out *buffer, src []byte, limit int) error {
	d := gzipDecoders.Get().(*gzipDecoder)
	d.src.Reset(src)
	if err := d.zr.Reset(&d.src); err != nil {
		return err
	}
	if err := drain(out, &d.zr, limit); err != nil {
		return err
	}
	d.src.Reset(nil)
	gzipDecoders.Put(d)
	return nil
}

func expandLZ4(out *buffer, src []byte, limit int) error {
	d := lz4Decoders.Get().(*lz4Decoder)
	d.src.Reset(src)
	d.zr.Reset(&d.src)
	if err := drain(out, d.zr, limit); err != nil {
		return err
	}
	if d.src.Len() > 0 {
		return fmt.Errorf("%d bytes behind the lz4 frame", d.src.Len())
	}
	d.src.Reset(nil)
	lz4Decoders.Put(d)
	return nil
}

// maxEmptyReads bounds how often a decoder may give neither a byte nor an error.
const maxEmptyReads = 100

// drain reads r to its end into out, at most limit bytes. The buffer grows only when it is full,
// and at the limit one byte more is asked for to tell an exact fit from too much.
func drain(out *buffer, r io.Reader, limit int) error {
	var probe [1]byte
	for empty := 0; empty < maxEmptyReads; {
		room := out.room()
		switch {
		case len(out.b) >= limit:
			room = probe[:]
		case len(room) == 0:
			out.grow(1)
			continue
		}
		n, err := r.Read(room[:min(len(room), max(limit-len(out.b), 1))])
		if n > 0 {
			if len(out.b) >= limit {
				return tooLarge(limit)
			}
			out.take(n)
			empty = 0
		} else {
			empty++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// xerial is the magic of snappy-java's framing, which Kafka's own clients write: behind the magic
// two int32 versions, then chunks of an int32 length and a raw snappy block each. Other clients
// send one raw snappy block; both are read.
const (
	xerial       = "\x82SNAPPY\x00"
	xerialHeader = len(xerial) + 8
)

// maxSnappyRatio is how many bytes one byte of a snappy block can stand for: a copy of 64 in 3
// bytes.
const maxSnappyRatio = 64 / 3

func expandSnappy(out *buffer, src []byte, limit int) error {
	if !bytes.HasPrefix(src, []byte(xerial)) {
		return expandSnappyBlock(out, src, limit)
	}
	for len(src) > 0 {
		// Streams may stand one behind the other, each with its own header.
		if bytes.HasPrefix(src, []byte(xerial)) {
			if len(src) < xerialHeader {
				return errSnappy
			}
			src = src[xerialHeader:]
			continue
		}
		if len(src) < 4 {
			return errSnappy
		}
		n := int64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if n > int64(len(src)) {
			return errSnappy
		}
		if err := expandSnappyBlock(out, src[:n], limit); err != nil {
			return err
		}
		src = src[n:]
	}
	return nil
}

// expandSnappyBlock decodes one raw block. Its announced length is believed only as far as the
// block could hold it.
func expandSnappyBlock(out *buffer, block []byte, limit int) error {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return err
	}
	if n > (maxSnappyRatio+1)*len(block) {
		return fmt.Errorf("snappy block of %d bytes announces %d", len(block), n)
	}
	if n > limit-len(out.b) {
		return tooLarge(limit)
	}
	out.grow(n)
	room := out.room()
	if _, err := snappy.Decode(room[:n:n], block); err != nil {
		return err
	}
	out.take(n)
	return nil
}

// maxZstdWindow is the largest window a zstd frame may ask for, the one Kafka's clients accept: 128
// MiB.
const maxZstdWindow = 128 << 20

func newZstdDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow),
		zstd.WithDecodeAllCapLimit(true),
	)
	if err != nil {
		panic(fmt.Sprintf("zstd decoder options: %v", err))
	}
	return d
}

// A zstd block takes 4 bytes at least and stands for 128 KiB at most.
const (
	minZstdBlock = 4
	maxZstdBlock = 128 << 10
)

// zstdStep is the factor by which the output of a zstd payload is tried larger.
const zstdStep = 4

// expandZstd decodes whole frames at once, which needs no window beside the output: a window is as
// large as a stranger says. The output's capacity is the bound; while it is too small the payload
// is decoded again with more room, which costs a third of the work at most.
//
// The library does not always say whether room or the input is at fault. It is the room if less
// than a block of it was left; so one block more than the limit is allowed for, which makes "too
// large" and "malformed" exact, and room grows only by what was decoded. An announced content size
// counts for no more than the input could hold.
func expandZstd(out *buffer, src []byte, limit int) error {
	most := (len(src)/minZstdBlock + 1) * maxZstdBlock
	ceiling := min(limit+maxZstdBlock, most)
	d := zstdDecoders.Get().(*zstd.Decoder)
	for {
		room := out.room()
		room = room[:0:min(len(room), ceiling)]
		got, err := d.DecodeAll(src, room)
		if len(got) > limit {
			return tooLarge(limit)
		}
		if err == nil {
			out.b = append(out.b[:0], got...) // no move: got lies in room
			zstdDecoders.Put(d)
			return nil
		}
		full := errors.Is(err, zstd.ErrDecoderSizeExceeded)
		switch {
		case full && cap(room) == ceiling && ceiling < most:
			return tooLarge(limit)
		case cap(room) == ceiling || !full && cap(room)-len(got) >= maxZstdBlock:
			return err
		}
		out.grow(min(max(zstdStep*cap(room), maxZstdBlock), ceiling))
	}
}
