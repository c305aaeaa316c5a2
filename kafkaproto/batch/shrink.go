package batch

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// appender is an io.Writer at the end of a slice.
type appender struct{ b []byte }

func (a *appender) Write(p []byte) (int, error) {
	a.b = append(a.b, p...)
	return len(p), nil
}

// Encoders are pooled by level, since a level is fixed when an encoder is made.

type gzipEncoder struct {
	zw  *gzip.Writer
	out appender
}

type lz4Encoder struct {
	zw  *lz4.Writer
	out appender
}

const (
	maxGzipLevel = 9
	maxLZ4Level  = 9 // of the library; Kafka's go to 17

	// kafkaLZ4Default is Kafka's default lz4 level, which means the fast compressor there.
	kafkaLZ4Default = 9

	zstdLevels = int(zstd.SpeedBestCompression) + 1
)

var (
	gzipEncoders [maxGzipLevel + 1]sync.Pool
	lz4Encoders  [maxLZ4Level + 1]sync.Pool
	zstdEncoders [zstdLevels]sync.Pool
)

func shrinkGzip(dst, src []byte, level int) ([]byte, error) {
	if level < 1 || level > maxGzipLevel {
		level = 0
	}
	e, ok := gzipEncoders[level].Get().(*gzipEncoder)
	if !ok {
		wanted := level
		if wanted == 0 {
			wanted = gzip.DefaultCompression
		}
		zw, err := gzip.NewWriterLevel(nil, wanted)
		if err != nil {
			return dst, fmt.Errorf("gzip level %d: %w", wanted, err)
		}
		e = &gzipEncoder{zw: zw}
	}
	e.out.b = dst
	e.zw.Reset(&e.out)
	if _, err := e.zw.Write(src); err != nil {
		return dst, err
	}
	if err := e.zw.Close(); err != nil {
		return dst, err
	}
	dst, e.out.b = e.out.b, nil
	gzipEncoders[level].Put(e)
	return dst, nil
}

// xerialBlock is the chunk size of snappy-java's framing.
const xerialBlock = 32 << 10

// shrinkSnappy writes snappy-java's framing, as Kafka does, since every client reads it.
func shrinkSnappy(dst, src []byte) []byte {
	dst = append(dst, xerial...)
	dst = binary.BigEndian.AppendUint32(dst, 1) // version
	dst = binary.BigEndian.AppendUint32(dst, 1) // oldest version that reads it
	scratch := newBuffer(snappy.MaxEncodedLen(min(len(src), xerialBlock)))
	defer scratch.free()
	for len(src) > 0 {
		n := min(len(src), xerialBlock)
		block := snappy.Encode(scratch.b[:cap(scratch.b)], src[:n])
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
		dst = append(dst, block...)
		src = src[n:]
	}
	return dst
}

// shrinkLZ4 writes one frame of independent 64 KiB blocks without content checksum, which is what
// Kafka writes and all its clients read.
func shrinkLZ4(dst, src []byte, level int) ([]byte, error) {
	if level < 1 || level == kafkaLZ4Default {
		level = 0
	}
	level = min(level, maxLZ4Level)
	e, ok := lz4Encoders[level].Get().(*lz4Encoder)
	if !ok {
		e = &lz4Encoder{zw: lz4.NewWriter(nil)}
		speed := lz4.Fast
		if level > 0 {
			speed = lz4.CompressionLevel(1 << (8 + level)) // lz4.Level1 is 1<<9
		}
		err := e.zw.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(speed), lz4.ConcurrencyOption(1))
		if err != nil {
			return dst, fmt.Errorf("lz4 level %d: %w", level, err)
		}
	}
	e.out.b = dst
	e.zw.Reset(&e.out)
	if _, err := e.zw.Write(src); err != nil {
		return dst, err
	}
	if err := e.zw.Close(); err != nil {
		return dst, err
	}
	dst, e.out.b = e.out.b, nil
	lz4Encoders[level].Put(e)
	return dst, nil
}

// shrinkZstd writes one frame that says its content size, so that a reader can size its output.
func shrinkZstd(dst, src []byte, level int) ([]byte, error) {
	speed := zstd.SpeedDefault
	if level != 0 {
		speed = zstd.EncoderLevelFromZstd(level)
	}
	e, ok := zstdEncoders[speed].Get().(*zstd.Encoder)
	if !ok {
		var err error
		e, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return dst, fmt.Errorf("zstd level %d: %w", level, err)
		}
	}
	dst = e.EncodeAll(src, dst)
	zstdEncoders[speed].Put(e)
	return dst, nil
}
