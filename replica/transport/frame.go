package transport

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/sluicelog/sluice/kafkaproto"
)

// A frame on a connection, after the handshake. Integers are big-endian.
//
//	0        1         4          8            12        16
//	| kind u8 | 0 0 0 | body u32 | payload u32 | CRC u32 | body … | payload … |
//
// The CRC (Castagnoli) covers bytes 0 to 11 and the body. The payload is batches, which have their own.
const headerSize = 16

// The kinds of frames, each with who may send it on which connection.
const (
	kindRaft     = iota + 1 // control and data, by who dialled: appendRaft; a payload only on data
	kindLiveness            // control, by who dialled: opaque
	kindCall                // control and join, by who dialled: id u64 | method u16 | body
	kindCancel              // control and join, by who dialled: id u64
	kindAnswer              // control and join, by who accepted: id u64 | status i16 | body or sentence
	kindOpen                // bulk, by who dialled: id u64 | method u16 | body
	kindCredit              // bulk, by who dialled: id u64 | bytes u32
	kindStop                // bulk, by who dialled: id u64
	kindChunk               // bulk, by who accepted: id u64 | bytes
	kindEnd                 // bulk, by who accepted: id u64 | status i16 | sentence
	kinds
)

const (
	// maxRaft is the most bytes of a raft message without payload, maxLiveness of a heartbeat with the
	// full table of leaders.
	maxRaft     = 1 << 20
	maxLiveness = 8 << 20
	// chunkSize is the most bytes of a stream in one frame.
	chunkSize = 64 << 10

	callHead   = 8 + 2
	idSize     = 8
	creditSize = 8 + 4
	endSize    = 8 + 2
	maxText    = 1 << 10 // bytes of an error's sentence
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bodyMax is the most bytes of a kind's body, bodyMin the least.
var bodyMax = [kinds]int{
	kindRaft: maxRaft, kindLiveness: maxLiveness, kindCall: callHead + MaxCall, kindCancel: idSize,
	kindAnswer: endSize + MaxCall, kindOpen: callHead + MaxCall, kindCredit: creditSize, kindStop: idSize,
	kindChunk: idSize + chunkSize, kindEnd: endSize + maxText,
}

var bodyMin = [kinds]int{
	kindRaft: raftFixed, kindCall: callHead, kindCancel: idSize, kindAnswer: endSize, kindOpen: callHead,
	kindCredit: creditSize, kindStop: idSize, kindChunk: idSize, kindEnd: endSize,
}

// frame is one frame without its payload. body is the reader's until the next frame.
type frame struct {
	kind    uint8
	body    []byte
	payload int
}

// putHeader fills the header of a frame in h for the body.
func putHeader(h []byte, kind uint8, body []byte, payload int) {
	binary.BigEndian.PutUint32(h, uint32(kind)<<24)
	binary.BigEndian.PutUint32(h[4:], uint32(len(body)))
	binary.BigEndian.PutUint32(h[8:], uint32(payload))
	sum := crc32.Update(crc32.Checksum(h[:12], castagnoli), castagnoli, body)
	binary.BigEndian.PutUint32(h[12:], sum)
}

// newFrame makes a frame without payload. fill appends the body.
func newFrame(kind uint8, size int, fill func([]byte) []byte) []byte {
	b := fill(make([]byte, headerSize, headerSize+size))
	putHeader(b, kind, b[headerSize:], 0)
	return b
}

// idFrame makes a frame whose body begins with an id.
func idFrame(kind uint8, id uint64, parts ...[]byte) []byte {
	size := idSize
	for _, p := range parts {
		size += len(p)
	}
	return newFrame(kind, size, func(b []byte) []byte {
		b = binary.BigEndian.AppendUint64(b, id)
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	})
}

// allowed says which kinds a connection takes, and up to which payload.
type allowed struct {
	kinds      uint16 // bit per kind
	maxPayload int    // of kindRaft
}

func allow(maxPayload int, kinds ...uint8) allowed {
	a := allowed{maxPayload: maxPayload}
	for _, k := range kinds {
		a.kinds |= 1 << k
	}
	return a
}

// header reads a frame's header, so far without its CRC.
func (a allowed) header(h []byte) (kind uint8, body, payload int, err error) {
	kind = h[0]
	if kind >= kinds || a.kinds&(1<<kind) == 0 || h[1]|h[2]|h[3] != 0 {
		return 0, 0, 0, kafkaproto.Corruptf("a frame begins with % x, which has no place on this connection", h[:4])
	}
	n, p := binary.BigEndian.Uint32(h[4:]), binary.BigEndian.Uint32(h[8:])
	if uint64(n) > uint64(bodyMax[kind]) || uint64(n) < uint64(bodyMin[kind]) {
		return 0, 0, 0, kafkaproto.Corruptf("a frame of kind %d has a body of %d bytes, not %d to %d", kind, n,
			bodyMin[kind], bodyMax[kind])
	}
	if p > 0 && (kind != kindRaft || uint64(p) > uint64(a.maxPayload)) {
		return 0, 0, 0, kafkaproto.Corruptf("a frame of kind %d has a payload of %d bytes, more than %d", kind, p,
			a.maxPayload)
	}
	return kind, int(n), int(p), nil
}

const (
	readBuffer = 64 << 10 // for what a peer sends
	fewBuffer  = 4 << 10  // for what a peer answers
	keepBody   = 64 << 10 // of a body's buffer that stays with the reader
)

// frameReader takes frames off a connection.
type frameReader struct {
	r    *bufio.Reader
	a    allowed
	body []byte
	// stall is armed while a frame is incomplete.
	stall *guard
}

// newFrameReader reads ahead by size bytes.
func newFrameReader(r io.Reader, size int, a allowed, stall *guard) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, size), a: a, stall: stall}
}

// ready reports whether next will return without waiting for the connection.
func (f *frameReader) ready() bool {
	if f.r.Buffered() < headerSize {
		return false
	}
	h, err := f.r.Peek(headerSize)
	return err != nil || f.r.Buffered()-headerSize >= int(min(binary.BigEndian.Uint32(h[4:]), maxLiveness+1))
}

// next reads one frame up to its payload, which must be read by payload before the next call.
func (f *frameReader) next() (frame, error) {
	if _, err := f.r.Peek(1); err != nil {
		return frame{}, err // between frames: the end
	}
	f.stall.arm()
	defer f.stall.disarm()
	var h [headerSize]byte
	if _, err := io.ReadFull(f.r, h[:]); err != nil {
		return frame{}, unexpected(err)
	}
	kind, n, payload, err := f.a.header(h[:])
	if err != nil {
		return frame{}, err
	}
	if cap(f.body) > keepBody {
		f.body = nil
	}
	if f.body, err = readGrowing(f.r, f.body[:0], n, f.stall); err != nil {
		return frame{}, err
	}
	want := binary.BigEndian.Uint32(h[12:])
	if got := crc32.Update(crc32.Checksum(h[:12], castagnoli), castagnoli, f.body); got != want {
		return frame{}, kafkaproto.Corruptf("a frame of kind %d with %d bytes has CRC %08x, its bytes have %08x", kind,
			n, want, got)
	}
	return frame{kind: kind, body: f.body, payload: payload}, nil
}

// stepSize is how much is allocated ahead of the bytes that arrive, and read under one guard.
const stepSize = 64 << 10

// readGrowing appends n bytes to b, whose memory at most doubles what has arrived.
func readGrowing(r io.Reader, b []byte, n int, stall *guard) ([]byte, error) {
	end := len(b) + n
	for len(b) < end {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(end, max(2*len(b), len(b)+stepSize)))
			copy(grown, b)
			b = grown
		}
		at := len(b)
		b = b[:min(end, cap(b))]
		if err := readSteps(r, b[at:], stall); err != nil {
			return b[:at], err
		}
	}
	return b, nil
}

// readSteps fills b. Each step has the guard's whole time: slow is not stalled.
func readSteps(r io.Reader, b []byte, stall *guard) error {
	for len(b) > 0 {
		stall.arm()
		n := min(len(b), stepSize)
		if _, err := io.ReadFull(r, b[:n]); err != nil {
			return unexpected(err)
		}
		b = b[n:]
	}
	return nil
}

// payload reads the payload of the frame before into b.
func (f *frameReader) payload(b []byte) error {
	defer f.stall.disarm()
	return readSteps(f.r, b, f.stall)
}

func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // io.ReadFull gives it unwrapped
		return io.ErrUnexpectedEOF
	}
	return err
}
