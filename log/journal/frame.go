package journal

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
)

// The file header, 32 bytes, big-endian:
//
//	0       8        12       16        24         32
//	| magic | version | crc    | sequence | zero     |
//	| 8 B   | u32     | u32    | u64      | 8 B      |
//
// The CRC (CRC32C) covers the header with its own field zero.
const (
	fileMagic     = "SLUICEWJ"
	formatVersion = 1
	headerBytes   = 32
)

// A frame, big-endian:
//
//	0        4     8      9       29
//	| length | crc | kind | group  | body            |
//	| u32    | u32 | u8   | 20 B   | length-21 bytes |
//
// length counts what follows the crc. The CRC (CRC32C) covers sequence u64 | position u64 (not
// stored: the file's and the frame's own), then kind, group and body: a frame that was written
// elsewhere, or in an earlier life of the file, is not taken for one that belongs here.
const (
	frameHead  = 8
	frameFixed = 21 // kind and group
	minFrame   = frameHead + frameFixed
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const walSuffix = ".wal"

func walName(seq uint64) string { return fmt.Sprintf("%016x%s", seq, walSuffix) }

func parseWalName(name string) (uint64, bool) {
	stem, ok := strings.CutSuffix(path.Base(name), walSuffix)
	if !ok || len(stem) != 16 {
		return 0, false
	}
	seq, err := strconv.ParseUint(stem, 16, 64)
	if err != nil || walName(seq) != path.Base(name) {
		return 0, false
	}
	return seq, true
}

func appendHeader(b []byte, seq uint64) []byte {
	at := len(b)
	b = append(b, fileMagic...)
	b = be.AppendUint32(b, formatVersion)
	b = be.AppendUint32(b, 0)
	b = appendU64s(b, seq, 0)
	be.PutUint32(b[at+12:], crc32.Checksum(b[at:], castagnoli))
	return b
}

var errNoHeader = errors.New("no file header")

// checkHeader tells apart: a header of ours (nil), one of a newer release (ErrNewerFormat), and
// bytes that are none (errNoHeader).
func checkHeader(h []byte, seq uint64) error {
	if len(h) < headerBytes || string(h[:8]) != fileMagic {
		return errNoHeader
	}
	if v := be.Uint32(h[8:]); v > formatVersion {
		return fmt.Errorf("%s has format version %d, this release reads up to %d: start the newer "+
			"release, or restore a backup: %w", walName(seq), v, formatVersion, ErrNewerFormat)
	}
	var want [headerBytes]byte
	copy(want[:], h)
	be.PutUint32(want[12:], 0)
	if crc32.Checksum(want[:], castagnoli) != be.Uint32(h[12:]) || be.Uint64(h[16:]) != seq {
		return errNoHeader
	}
	return nil
}

// appendFrame adds a frame whose CRC sealFrames fills in.
func appendFrame(b []byte, k Kind, g Group, body func([]byte) []byte) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, byte(k))
	b = append(b, g.Topic[:]...)
	b = be.AppendUint32(b, uint32(g.Partition))
	b = body(b)
	be.PutUint32(b[at:], uint32(len(b)-at-frameHead))
	return b
}

// sealFrames gives every frame in b, which goes to position pos of file seq, its CRC.
func sealFrames(b []byte, seq uint64, pos int64) {
	for len(b) > 0 {
		n := frameHead + int(be.Uint32(b))
		be.PutUint32(b[4:], frameCRC(seq, pos, b[frameHead:n]))
		b, pos = b[n:], pos+int64(n)
	}
}

func frameCRC(seq uint64, pos int64, covered []byte) uint32 {
	var salt [16]byte
	be.PutUint64(salt[:], seq)
	be.PutUint64(salt[8:], uint64(pos))
	return crc32.Update(crc32.Checksum(salt[:], castagnoli), castagnoli, covered)
}

// frame is one frame read back; body is valid until the next read.
type frame struct {
	pos   int64
	kind  Kind
	group Group
	body  []byte
}

// frameReader reads the frames of one file in order, a chunk of the file at a time.
type frameReader struct {
	r     io.ReaderAt
	seq   uint64
	size  int64
	pos   int64 // of the next frame
	buf   []byte
	at    int64 // file position of buf[0]
	chunk int
}

func newFrameReader(r io.ReaderAt, seq uint64, size int64) *frameReader {
	return &frameReader{r: r, seq: seq, size: size, pos: headerBytes, chunk: 256 << 10}
}

// peek gives n bytes at pos, or fewer at the end of the file.
func (fr *frameReader) peek(pos int64, n int) ([]byte, error) {
	n = int(min(int64(n), fr.size-pos))
	if n <= 0 {
		return nil, nil
	}
	if pos < fr.at || pos+int64(n) > fr.at+int64(len(fr.buf)) {
		want := int(min(int64(max(n, fr.chunk)), fr.size-pos))
		if cap(fr.buf) < want {
			fr.buf = make([]byte, want)
		}
		fr.buf, fr.at = fr.buf[:want], pos
		if got, err := fr.r.ReadAt(fr.buf, pos); got < want {
			fr.buf = nil
			return nil, fmt.Errorf("read %s at %d: %w", walName(fr.seq), pos, err)
		}
	}
	return fr.buf[pos-fr.at:][:n:n], nil
}

// stop says why the frames end.
type stop int8

const (
	stopNot stop = iota // they do not
	stopEnd             // the file ends here, or holds only zeros from here on
	stopBad             // the bytes here are no frame
)

// next gives the frame at fr.pos and moves on, or why there is none.
func (fr *frameReader) next() (frame, stop, error) {
	f, st, err := fr.frameAt(fr.pos)
	if st == stopNot {
		fr.pos += int64(frameHead + frameFixed + len(f.body))
	}
	return f, st, err
}

func (fr *frameReader) frameAt(pos int64) (frame, stop, error) {
	head, err := fr.peek(pos, frameHead)
	if err != nil {
		return frame{}, stopBad, err
	}
	var n uint32
	if len(head) == frameHead {
		n = be.Uint32(head)
	}
	if n == 0 {
		zero, err := fr.zeroFrom(pos)
		if err != nil || !zero {
			return frame{}, stopBad, err
		}
		return frame{}, stopEnd, nil
	}
	if n < frameFixed || n > maxFrame || int64(n) > fr.size-pos-frameHead {
		return frame{}, stopBad, nil
	}
	all, err := fr.peek(pos, frameHead+int(n))
	if err != nil {
		return frame{}, stopBad, err
	}
	if frameCRC(fr.seq, pos, all[frameHead:]) != be.Uint32(all[4:]) {
		return frame{}, stopBad, nil
	}
	f := frame{pos: pos, kind: Kind(all[8]), body: all[minFrame:]}
	copy(f.group.Topic[:], all[9:25])
	f.group.Partition = int32(be.Uint32(all[25:]))
	return f, stopNot, nil
}

// zeros is never written to.
var zeros [64 << 10]byte

// zeroFrom reports whether the file holds nothing but zeros from pos on.
func (fr *frameReader) zeroFrom(pos int64) (bool, error) {
	for pos < fr.size {
		b, err := fr.peek(pos, len(zeros))
		if err != nil {
			return false, err
		}
		if !bytes.Equal(b, zeros[:len(b)]) {
			return false, nil
		}
		pos += int64(len(b))
	}
	return true, nil
}

// markAbove looks behind damage at pos for a mark that says "synced" of a position above pos. Marks
// are found by their fixed length, kind and CRC, byte by byte.
func (fr *frameReader) markAbove(pos int64) (bool, error) {
	const whole = minFrame + 8
	for p := pos + 1; p+whole <= fr.size; p++ {
		b, err := fr.peek(p, whole)
		if err != nil {
			return false, err
		}
		if be.Uint32(b) != whole-frameHead || Kind(b[8]) != kindMark {
			continue
		}
		mark := int64(be.Uint64(b[minFrame:]))
		if mark > pos && mark <= p && frameCRC(fr.seq, p, b[frameHead:]) == be.Uint32(b[4:]) {
			return true, nil
		}
	}
	return false, nil
}

// resync gives the next position behind pos at which a whole frame stands.
func (fr *frameReader) resync(pos int64) (int64, bool) {
	for p := pos + 1; p+minFrame <= fr.size; p++ {
		b, err := fr.peek(p, minFrame)
		if err != nil {
			return 0, false
		}
		if n := be.Uint32(b); n < frameFixed || n > maxFrame || Kind(b[8]) > maxKind {
			continue
		}
		if _, st, err := fr.frameAt(p); err == nil && st == stopNot {
			return p, true
		}
	}
	return 0, false
}

// DamageError says where a journal does not hold what was written. It is marked corrupt.
type DamageError struct {
	File string // base name
	Pos  int64
	What string
}

// Error gives the sentence.
func (e *DamageError) Error() string {
	return fmt.Sprintf("journal file %s is damaged at byte %d: %s", e.File, e.Pos, e.What)
}

func damagef(seq uint64, pos int64, format string, args ...any) error {
	return kafkaproto.MarkCorrupt(&DamageError{walName(seq), pos, fmt.Sprintf(format, args...)})
}
