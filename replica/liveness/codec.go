package liveness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
)

// A frame's body, version 1, numbers big-endian:
//
//	 0  u8   version
//	 1  u8   kind: 1 beat, 2 digest part
//	 2  u16  header length H: where the items begin. A later sender may lengthen the header; what is
//	         beyond the fields below is skipped
//	 4  u64  incarnation of the sender
//	12  u32  number of items
//	16  beat:    u32 age of the last ended sync, ms | u8 flags: 1 = send a digest | u64 from | u64 to
//	    digest:  u32 digest id | u32 part | u8 flags: 1 = last part | u64 seq
//	 H  items
//
//	item: u8 flags: 1 = topic of the item before, 2 = resigned | [16]byte topic, without flag 1 |
//	      uvarint partition | uvarint term | uvarint change number | uvarint n | n times uvarint node
//
// Versions are raised only by what an older reader would get wrong.
const (
	version      = 1
	commonHeader = 16
	beatHeader   = commonHeader + 4 + 1 + 8 + 8
	digestHeader = commonHeader + 4 + 4 + 1 + 8

	kindBeat   = 1
	kindDigest = 2

	flagWants = 1 // of a beat
	flagLast  = 1 // of a digest part

	itemSameTopic = 1
	itemResigned  = 2

	leastItem = 5 // bytes
	minFrame  = 8 << 10
	flagsAt   = commonHeader + 4 // of a beat
)

// MaxBody is the largest frame that is read; MaxInSync the longest in-sync set that is told.
const (
	MaxBody   = 1 << 20
	MaxInSync = 1024
)

var (
	// ErrMalformed marks bytes that are no frame: the connection they came on is to be closed.
	ErrMalformed = errors.New("malformed liveness frame")
	// ErrVersion marks a frame of a version that is not known here.
	ErrVersion = errors.New("unknown version of a liveness frame")
)

// frame is a decoded header and the bytes of the items.
type frame struct {
	kind        byte
	incarnation uint64
	count       uint32

	diskAge  uint32 // ms
	wants    bool
	from, to uint64

	digest, part uint32
	last         bool

	items []byte
}

// item is one group in a frame. inSync is valid until the next item is read.
type item struct {
	group    kafkaproto.PartitionID
	term     kafkaproto.LeaderEpoch
	seq      uint64
	resigned bool
	inSync   []kafkaproto.NodeID
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}

// decode reads the header and checks all items. scratch holds an in-sync set and is given back, perhaps
// longer; it grows by no more than a number per byte of b.
func decode(b []byte, scratch []kafkaproto.NodeID) (frame, []kafkaproto.NodeID, error) {
	var f frame
	if len(b) > MaxBody {
		return f, scratch, malformed("%d bytes, more than %d", len(b), MaxBody)
	}
	if len(b) == 0 {
		return f, scratch, malformed("empty")
	}
	if b[0] != version {
		return f, scratch, fmt.Errorf("%w: %d, known is %d", ErrVersion, b[0], version)
	}
	if err := f.header(b); err != nil {
		return f, scratch, err
	}
	r := f.reader(scratch)
	for range f.count {
		it, err := r.next()
		if err != nil {
			return f, r.scratch, err
		}
		if it.seq > f.to || it.seq == 0 || f.kind == kindDigest && it.resigned {
			return f, r.scratch, malformed("item of change %d, flag resigned %t, up to %d", it.seq, it.resigned, f.to)
		}
	}
	if len(r.rest) > 0 {
		return f, r.scratch, malformed("%d bytes behind the items", len(r.rest))
	}
	return f, r.scratch, nil
}

func (f *frame) header(b []byte) error {
	if len(b) < commonHeader {
		return malformed("%d bytes", len(b))
	}
	f.kind = b[1]
	least := beatHeader
	switch f.kind {
	case kindBeat:
	case kindDigest:
		least = digestHeader
	default:
		return malformed("kind %d", f.kind)
	}
	h := int(binary.BigEndian.Uint16(b[2:]))
	if h < least || h > len(b) {
		return malformed("header of %d bytes in %d", h, len(b))
	}
	f.incarnation = binary.BigEndian.Uint64(b[4:])
	f.count = binary.BigEndian.Uint32(b[12:])
	f.items = b[h:]
	if uint64(f.count)*leastItem > uint64(len(f.items)) {
		return malformed("%d items in %d bytes", f.count, len(f.items))
	}
	rest := b[commonHeader:]
	if f.kind == kindDigest {
		f.digest, f.part = binary.BigEndian.Uint32(rest), binary.BigEndian.Uint32(rest[4:])
		f.last = rest[8]&flagLast != 0
		f.to = binary.BigEndian.Uint64(rest[9:])
		return nil
	}
	f.diskAge = binary.BigEndian.Uint32(rest)
	f.wants = rest[4]&flagWants != 0
	f.from, f.to = binary.BigEndian.Uint64(rest[5:]), binary.BigEndian.Uint64(rest[13:])
	if f.from > f.to {
		return malformed("changes from %d to %d", f.from, f.to)
	}
	return nil
}

// itemReader goes through the items of a frame.
type itemReader struct {
	rest    []byte
	topic   kafkaproto.TopicID
	begun   bool
	scratch []kafkaproto.NodeID
}

func (f *frame) reader(scratch []kafkaproto.NodeID) itemReader {
	return itemReader{rest: f.items, scratch: scratch}
}

func (r *itemReader) next() (item, error) {
	var it item
	if len(r.rest) == 0 {
		return it, malformed("items end early")
	}
	flags := r.rest[0]
	r.rest = r.rest[1:]
	switch {
	case flags&^(itemSameTopic|itemResigned) != 0:
		return it, malformed("item flags %#x", flags)
	case flags&itemSameTopic != 0 && !r.begun:
		return it, malformed("first item without topic")
	case flags&itemSameTopic == 0:
		if len(r.rest) < len(r.topic) {
			return it, malformed("topic cut short")
		}
		r.topic, r.begun = kafkaproto.TopicID(r.rest[:len(r.topic)]), true
		r.rest = r.rest[len(r.topic):]
	}
	it.resigned = flags&itemResigned != 0
	partition, ok1 := r.number(math.MaxInt32)
	term, ok2 := r.number(math.MaxInt32)
	seq, ok3 := r.number(math.MaxUint64)
	n, ok4 := r.number(MaxInSync)
	if !ok1 || !ok2 || !ok3 || !ok4 || n > uint64(len(r.rest)) {
		return it, malformed("item's numbers")
	}
	it.group = kafkaproto.PartitionID{Topic: r.topic, Partition: int32(partition)}
	it.term, it.seq = kafkaproto.LeaderEpoch(term), seq
	r.scratch = r.scratch[:0]
	for range n {
		node, ok := r.number(math.MaxInt32)
		if !ok {
			return it, malformed("in-sync set")
		}
		r.scratch = append(r.scratch, kafkaproto.NodeID(node))
	}
	it.inSync = r.scratch
	return it, nil
}

// number reads a uvarint of at most most.
func (r *itemReader) number(most uint64) (uint64, bool) {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > most {
		return 0, false
	}
	r.rest = r.rest[n:]
	return v, true
}

// writer builds one frame. An item that no longer fits begins the next frame.
type writer struct {
	buf   []byte
	topic kafkaproto.TopicID
	count uint32
}

func newWriter(kind byte, incarnation uint64, size int) *writer {
	h := beatHeader
	if kind == kindDigest {
		h = digestHeader
	}
	w := &writer{buf: make([]byte, h, h+size)}
	w.buf[0], w.buf[1] = version, kind
	binary.BigEndian.PutUint16(w.buf[2:], uint16(h))
	binary.BigEndian.PutUint64(w.buf[4:], incarnation)
	return w
}

// add appends an item, unless the frame would become longer than most.
func (w *writer) add(it item, most int) bool {
	before := len(w.buf)
	var flags byte
	if it.resigned {
		flags |= itemResigned
	}
	if w.count > 0 && it.group.Topic == w.topic {
		w.buf = append(w.buf, flags|itemSameTopic)
	} else {
		w.buf = append(append(w.buf, flags), it.group.Topic[:]...)
	}
	w.buf = binary.AppendUvarint(w.buf, uint64(it.group.Partition))
	w.buf = binary.AppendUvarint(w.buf, uint64(it.term))
	w.buf = binary.AppendUvarint(w.buf, it.seq)
	w.buf = binary.AppendUvarint(w.buf, uint64(len(it.inSync)))
	for _, n := range it.inSync {
		w.buf = binary.AppendUvarint(w.buf, uint64(n))
	}
	if len(w.buf) > most {
		w.buf = w.buf[:before]
		return false
	}
	w.topic = it.group.Topic
	w.count++
	return true
}

func (w *writer) beat(diskAge uint32, from, to uint64) []byte {
	binary.BigEndian.PutUint32(w.buf[12:], w.count)
	binary.BigEndian.PutUint32(w.buf[commonHeader:], diskAge)
	binary.BigEndian.PutUint64(w.buf[commonHeader+5:], from)
	binary.BigEndian.PutUint64(w.buf[commonHeader+13:], to)
	return w.buf
}

func (w *writer) digest(id, part uint32, last bool, seq uint64) []byte {
	binary.BigEndian.PutUint32(w.buf[12:], w.count)
	binary.BigEndian.PutUint32(w.buf[commonHeader:], id)
	binary.BigEndian.PutUint32(w.buf[commonHeader+4:], part)
	if last {
		w.buf[commonHeader+8] = flagLast
	}
	binary.BigEndian.PutUint64(w.buf[commonHeader+9:], seq)
	return w.buf
}
