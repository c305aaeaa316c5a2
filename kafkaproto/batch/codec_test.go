package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

func expanded(t interface {
	Helper()
	Fatalf(string, ...any)
}, c Codec, src []byte, limit int) []byte {
	t.Helper()
	out, err := c.expand(src, limit)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	defer out.free()
	return bytes.Clone(out.b)
}

func genPayload() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		var p []byte
		for range rapid.IntRange(1, 5).Draw(t, "pieces") {
			piece := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "piece")
			p = append(p, bytes.Repeat(piece, rapid.IntRange(1, 500).Draw(t, "times"))...)
		}
		return p
	})
}

// TestCodecsAgainstFranzGo compresses with one side and decompresses with the other.
func TestCodecsAgainstFranzGo(t *testing.T) {
	theirs := kgo.DefaultDecompressor()
	for _, codec := range allCodecs[1:] {
		t.Run(codec.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				src := genPayload().Draw(t, "src")
				if got := expanded(t, codec, kgoCompress(codec, src), 1<<20); !bytes.Equal(got, src) {
					t.Fatalf("ours reads theirs as %d bytes of %d", len(got), len(src))
				}
				level := rapid.SampledFrom([]int{0, -1, 1, 3, 6, 9, 12, 17, 22}).Draw(t, "level")
				ours, err := codec.shrink([]byte("before"), src, level)
				if err != nil || !bytes.HasPrefix(ours, []byte("before")) {
					t.Fatalf("level %d: %v", level, err)
				}
				ours = ours[len("before"):]
				got, err := theirs.Decompress(ours, kgo.CompressionCodecType(codec))
				if err != nil || !bytes.Equal(got, src) {
					t.Fatalf("theirs reads ours as %d bytes of %d: %v", len(got), len(src), err)
				}
				if got := expanded(t, codec, ours, 1<<20); !bytes.Equal(got, src) {
					t.Fatalf("ours reads ours as %d bytes of %d", len(got), len(src))
				}
			})
		})
	}
}

// TestZstdStreams reads frames that do not say how much they hold, as Java's and C's streaming
// encoders write them, in many sizes and in several frames.
func TestZstdStreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var packed bytes.Buffer
	enc, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 3<<20; n = n*3 + 1 {
		for _, letters := range []int{1, 2, 200} { // RLE, compressed and nearly raw blocks
			packed.Reset()
			var src []byte
			for range 1 + n%3 {
				frame := make([]byte, n)
				for i := range frame {
					frame[i] = byte(rng.IntN(letters))
				}
				enc.Reset(&packed)
				if _, err := enc.Write(frame[:n/2]); err != nil {
					t.Fatal(err)
				}
				if err := enc.Flush(); err != nil {
					t.Fatal(err)
				}
				if _, err := enc.Write(frame[n/2:]); err != nil {
					t.Fatal(err)
				}
				if err := enc.Close(); err != nil {
					t.Fatal(err)
				}
				src = append(src, frame...)
			}
			if got := expanded(t, Zstd, packed.Bytes(), len(src)); !bytes.Equal(got, src) {
				t.Fatalf("%d bytes of %d letters come back as %d", len(src), letters, len(got))
			}
			if _, err := Zstd.expand(packed.Bytes(), len(src)-1); !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%d bytes of %d letters with a byte less allowed: %v", len(src), letters, err)
			}
			cut := packed.Bytes()[:packed.Len()-1]
			if _, err := Zstd.expand(cut, len(src)); err == nil || errors.Is(err, ErrTooLarge) {
				t.Fatalf("%d bytes of %d letters cut by one: %v", len(src), letters, err)
			}
		}
	}
}

// TestExpandBound decompresses to exactly the bound, and to one byte more.
func TestExpandBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, codec := range allCodecs[1:] {
		for _, n := range []int{1, 100, 16 << 10, 64<<10 + 1, 200_000, 1 << 20} {
			src := make([]byte, n)
			for i := range src {
				src[i] = byte(rng.IntN(4))
			}
			packed := kgoCompress(codec, src)
			if got := expanded(t, codec, packed, n); !bytes.Equal(got, src) {
				t.Fatalf("%v: %d bytes at the bound give %d", codec, n, len(got))
			}
			for _, limit := range []int{n - 1, n / 2, 0} {
				if out, err := codec.expand(packed, limit); !errors.Is(err, ErrTooLarge) || out != nil {
					t.Fatalf("%v: %d bytes with bound %d: %v", codec, n, limit, err)
				}
			}
		}
	}
}

// bombs are small inputs that stand for a lot.
func bombs(t testing.TB) map[string]struct {
	codec Codec
	bytes []byte
} {
	const n = 64 << 20
	zeros := make([]byte, 1<<20)
	var gz, lz, zs bytes.Buffer
	gw, lw := gzip.NewWriter(&gz), lz4.NewWriter(&lz)
	zw, err := zstd.NewWriter(&zs) // streaming: no content size
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{gw, lw, zw} {
		for range n / len(zeros) {
			if _, err := w.Write(zeros); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw := snappy.Encode(nil, make([]byte, n))
	chunk := snappy.Encode(nil, zeros)
	framed := append([]byte(xerial), make([]byte, 8)...)
	for range n / len(zeros) {
		framed = binary.BigEndian.AppendUint32(framed, uint32(len(chunk)))
		framed = append(framed, chunk...)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]struct {
		codec Codec
		bytes []byte
	}{
		"gzip": {Gzip, gz.Bytes()}, "lz4": {LZ4, lz.Bytes()}, "zstd stream": {Zstd, zs.Bytes()},
		"zstd frame": {Zstd, enc.EncodeAll(make([]byte, n), nil)},
		"snappy raw": {Snappy, raw}, "snappy framed": {Snappy, framed},
	}
}

// TestBombs bounds output and memory: an input of at most 4 MiB stands for 64 MiB, of which 1 MiB
// is allowed.
func TestBombs(t *testing.T) {
	const limit = 1 << 20
	for name, bomb := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := bomb.codec.expand(bomb.bytes, limit); !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%d bytes: %v", len(bomb.bytes), err)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 {
				t.Fatalf("%d bytes allocated to reject it", used)
			}
		})
	}
}

// TestAnnouncedSizeIsNotBelieved gives a large size and no data.
func TestAnnouncedSizeIsNotBelieved(t *testing.T) {
	huge := map[string]struct {
		codec Codec
		bytes []byte
	}{
		"snappy": {Snappy, binary.AppendUvarint(nil, 1<<30)},
		"snappy framed": {Snappy, append(append([]byte(xerial), make([]byte, 8)...),
			0, 0, 0, 5, 0x80, 0x80, 0x80, 0x80, 0x04)},
		"snappy chunk":     {Snappy, append(append([]byte(xerial), make([]byte, 8)...), 0x7f, 0, 0, 0)},
		"snappy no header": {Snappy, []byte(xerial + "\x00")},
		"zstd": {Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40, // one GiB
			0x01, 0, 0}},
	}
	for name, c := range huge {
		t.Run(name, func(t *testing.T) {
			out, err := c.codec.expand(c.bytes, 2<<30)
			if err == nil || errors.Is(err, ErrTooLarge) {
				t.Fatalf("%v, %v", out, err)
			}
		})
	}
}

func TestSnappyFramings(t *testing.T) {
	chunk := func(p []byte, s string) []byte {
		block := snappy.Encode(nil, []byte(s))
		p = binary.BigEndian.AppendUint32(p, uint32(len(block)))
		return append(p, block...)
	}
	head := append([]byte(xerial), 0, 0, 0, 1, 0, 0, 0, 1)
	twice := chunk(chunk(bytes.Clone(head), "one "), "two ")
	twice = append(twice, head...) // as when two streams are written one behind the other
	twice = chunk(twice, "three")
	if got := expanded(t, Snappy, twice, 100); string(got) != "one two three" {
		t.Fatalf("framed: %q", got)
	}
	if got := expanded(t, Snappy, snappy.Encode(nil, []byte("raw")), 100); string(got) != "raw" {
		t.Fatalf("raw: %q", got)
	}
	if got := expanded(t, Snappy, head, 100); len(got) != 0 {
		t.Fatalf("no chunk: %q", got)
	}
	for n := len(head) + 1; n < len(twice); n++ {
		whole := n == len(head)+10 || n == len(head)+20 || n == len(head)+20+len(head)
		out, err := Snappy.expand(twice[:n], 100)
		if whole != (err == nil) {
			t.Fatalf("cut to %d of %d: %v", n, len(twice), err)
		}
		if err == nil {
			out.free()
		}
	}
}

func TestUnknownCodec(t *testing.T) {
	for _, c := range []Codec{5, 6, 7, -1} {
		if _, err := c.expand([]byte{1}, 10); err == nil {
			t.Errorf("expand with codec %d", c)
		}
		if _, err := c.shrink(nil, []byte{1}, 0); err == nil {
			t.Errorf("shrink with codec %d", c)
		}
		if c.known() || !strings.HasPrefix(c.String(), "codec") {
			t.Errorf("codec %d is %v", c, c)
		}
	}
}

func TestBufferClasses(t *testing.T) {
	for _, c := range []struct{ n, class int }{
		{-1, 0}, {0, 0}, {1 << 14, 0}, {1<<14 + 1, 1}, {1 << 16, 1}, {1<<16 + 1, 2}, {1 << 20, 3},
		{1 << 22, 4}, {1<<22 + 1, 5},
	} {
		if got := classOf(c.n); got != c.class {
			t.Errorf("classOf(%d) = %d, want %d", c.n, got, c.class)
		}
		b := newBuffer(c.n)
		if cap(b.b) < c.n || len(b.b) != 0 {
			t.Errorf("newBuffer(%d) has %d of %d", c.n, len(b.b), cap(b.b))
		}
		b.free()
	}
	b := newBuffer(1)
	for i := range 6 << 20 {
		b.grow(1)
		b.room()[0] = byte(i % 251)
		b.take(1)
	}
	for i, v := range b.b {
		if v != byte(i%251) {
			t.Fatalf("byte %d is %d after growing", i, v)
		}
	}
	b.free()
}

// TestCodecsInParallel has goroutines share the pools.
func TestCodecsInParallel(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			src := bytes.Repeat([]byte{byte(g), 1, byte(2 * g)}, 10_000+g)
			for i := range 40 {
				codec := allCodecs[1+i%4]
				packed, err := codec.shrink(nil, src, 0)
				if err != nil {
					t.Error(err)
					return
				}
				out, err := codec.expand(packed, len(src))
				if err != nil || !bytes.Equal(out.b, src) {
					t.Errorf("%v: %v", codec, err)
					return
				}
				out.free()
			}
		})
	}
	wg.Wait()
}
