package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// CompressionPolicy is a topic's compression.type and the level that goes with it.
type CompressionPolicy struct {
	Producer bool // keep what the producer chose; Codec and Level do not matter then
	Codec    Codec
	Level    int // 0 is the codec's default
}

// DefaultMaxExpanded is the bound of a decompressed payload in bytes where Check has none.
const DefaultMaxExpanded = 64 << 20

// Check is what a produce request and its topic demand of a batch. Except where a field says so,
// the zero value is a real demand, not "none".
type Check struct {
	Partition       kafkaproto.TopicPartition // for the texts of errors
	MaxBytes        int                       // max.message.bytes; 0 is no limit
	SegmentBytes    int                       // segment.bytes; 0 is no limit
	Compacted       bool                      // by cleanup.policy: every record needs a key
	TimestampType   TimestampType             // message.timestamp.type
	NowMs           int64
	BeforeMaxMs     int64 // message.timestamp.before.max.ms; MaxInt64 is no limit
	AfterMaxMs      int64 // message.timestamp.after.max.ms; MaxInt64 is no limit
	Compression     CompressionPolicy
	Version         int16 // of the Produce request
	TransactionalID bool  // the request carries a transactional id
	MaxExpanded     int   // bound of a decompressed payload in bytes; 0 is DefaultMaxExpanded
}

// Admitted is a batch that may be appended. Base offset and leader epoch are still the client's:
// the leader stamps them when it takes the offset.
type Admitted struct {
	Batch      Batch
	AppendTime int64 // milliseconds, for the answer's log_append_time; -1 under CreateTime
	Rewritten  bool  // Batch is new memory; otherwise it is a part of the records given
}

// RecordError names one record that made a batch fail (KIP-467).
type RecordError struct {
	Index   int32
	Message string
}

// maxRecordErrors bounds the list of failed records: the whole batch fails anyway, and an answer
// must not become many times the size of its request.
const maxRecordErrors = 1000

// Admit decides whether the records of one partition in a Produce request may be appended, and
// brings them into the form in which they are stored: rows 1 to 10 of the protocol notes. Its error
// is a Fault with Kafka's code; record errors come with INVALID_RECORD and INVALID_TIMESTAMP only.
//
// records is patched in place where a timestamp type or a largest timestamp has to change. A
// payload is decompressed only if a rule demands it (see the package comment); at most one per
// processor at a time is, so that memory stays bounded whatever is sent.
func Admit(records []byte, c Check) (Admitted, []RecordError, error) {
	b, err := c.frame(records)
	if err == nil {
		err = c.header(b)
	}
	if err != nil {
		return Admitted{}, nil, err
	}
	a := Admitted{Batch: b, AppendTime: NoTimestamp}
	maxTimestamp, failed, err := c.records(&a)
	if err != nil {
		return Admitted{}, failed, err
	}
	if c.SegmentBytes > 0 && len(a.Batch) > c.SegmentBytes {
		return Admitted{}, nil, kafkaproto.Faultf(kerr.RecordListTooLarge,
			"batch of %d bytes in %v is larger than segment.bytes %d", len(a.Batch), c.Partition,
			c.SegmentBytes)
	}
	if c.TimestampType == LogAppendTime {
		a.AppendTime, maxTimestamp = c.NowMs, c.NowMs
	}
	a.Batch.SetMaxTimestamp(c.TimestampType, maxTimestamp)
	return a, nil, nil
}

// legacyOverhead is the smallest length of a format 0 message, below which Kafka calls a length
// corrupt rather than cut off.
const legacyOverhead = 14

// next frames what stands at the start of p the way Kafka's reader of request bytes does: ok is
// false where it sees the end of the input, which includes a batch cut off by it.
func (c *Check) next(p []byte) (size int, ok bool, err error) {
	if len(p) < lengthEnd {
		return 0, false, nil
	}
	length := int32(binary.BigEndian.Uint32(p[atLength:]))
	if length < legacyOverhead {
		return 0, false, kafkaproto.Faultf(kerr.CorruptMessage,
			"batch length %d in %v is less than the smallest, %d", length, c.Partition,
			legacyOverhead)
	}
	if len(p) <= atMagic {
		return 0, false, nil
	}
	if magic := int8(p[atMagic]); magic < 0 || magic > magic2 {
		return 0, false, kafkaproto.Faultf(kerr.CorruptMessage,
			"batch format %d in %v is not known", magic, c.Partition)
	}
	size = lengthEnd + int(length)
	return size, size <= len(p), nil
}

// frame finds the one batch that records must hold. Bytes behind it that are no whole batch are
// left off, as Kafka does.
func (c *Check) frame(records []byte) (Batch, error) {
	size, ok, err := c.next(records)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, kafkaproto.Faultf(kerr.InvalidRecord,
			"%d bytes for %v hold no whole record batch", len(records), c.Partition)
	}
	if magic := records[atMagic]; magic != magic2 {
		return nil, kafkaproto.Faultf(kerr.InvalidRecord,
			"batch format %d in %v: only format 2 is accepted", magic, c.Partition)
	}
	if size < HeaderSize {
		return nil, kafkaproto.Faultf(kerr.CorruptMessage,
			"batch of %d bytes in %v is shorter than its header of %d", size, c.Partition,
			HeaderSize)
	}
	b := Batch(records[:size:size])
	if b.IsTransactional() && !c.TransactionalID {
		return nil, kafkaproto.Faultf(kerr.TransactionalIDAuthorizationFailed,
			"transactional batch for %v in a request without transactional id", c.Partition)
	}
	if b.Codec() == Zstd && c.Version < 7 {
		return nil, kafkaproto.Faultf(kerr.UnsupportedCompressionType,
			"zstd needs Produce version 7, the request for %v has %d", c.Partition, c.Version)
	}
	_, more, err := c.next(records[size:])
	if err != nil {
		return nil, err
	}
	if more {
		return nil, kafkaproto.Faultf(kerr.InvalidRecord,
			"more than one record batch for %v in one request", c.Partition)
	}
	return b, nil
}

// header checks everything that can be told without looking at the records.
func (c *Check) header(b Batch) error {
	if b.BaseOffset() != 0 {
		return kafkaproto.Faultf(kerr.InvalidRecord,
			"base offset of a batch sent to %v is %d, not 0", c.Partition, b.BaseOffset())
	}
	if err := c.size(b); err != nil {
		return err
	}
	if b.VerifyCRC() != nil {
		return kafkaproto.Faultf(kerr.CorruptMessage,
			"batch of %d bytes in %v: CRC is %08x, header says %08x", len(b), c.Partition,
			checksum(b), b.CRC())
	}
	count, delta := b.Count(), b.LastOffsetDelta()
	switch {
	case !b.Codec().known():
		return kafkaproto.Faultf(kerr.InvalidRecord, "compression codec %d in %v is not known",
			int(b.Codec()), c.Partition)
	case delta < 0:
		return kafkaproto.Faultf(kerr.InvalidRecord,
			"last offset delta %d in %v is negative", delta, c.Partition)
	case count <= 0:
		return kafkaproto.Faultf(kerr.InvalidRecord, "record count %d in %v is not positive", count,
			c.Partition)
	case int64(count) != int64(delta)+1:
		return kafkaproto.Faultf(kerr.InvalidRecord,
			"batch in %v has %d records but a last offset delta of %d", c.Partition, count, delta)
	case b.IsControl():
		return kafkaproto.Faultf(kerr.InvalidRecord, "clients may not write control records to %v",
			c.Partition)
	case b.HasProducer() && b.BaseSequence() < 0:
		return kafkaproto.Faultf(kerr.InvalidRecord,
			"base sequence %d of producer %d in %v is negative", b.BaseSequence(),
			b.ProducerID(), c.Partition)
	}
	return nil
}

func (c *Check) size(b Batch) error {
	if c.MaxBytes > 0 && len(b) > c.MaxBytes {
		return kafkaproto.Faultf(kerr.MessageTooLarge,
			"batch of %d bytes in %v is larger than max.message.bytes %d", len(b), c.Partition,
			c.MaxBytes)
	}
	return nil
}

// records checks the records and compresses them as the topic wants. It gives the largest timestamp
// to store under CreateTime.
func (c *Check) records(a *Admitted) (int64, []RecordError, error) {
	b, target := a.Batch, a.Batch.Codec()
	if !c.Compression.Producer {
		target = c.Compression.Codec
	}
	payload := b.Payload()
	if b.Codec() != None {
		if !c.mustExpand(b, target) {
			return c.trusted(b)
		}
		expanding <- struct{}{}
		defer func() { <-expanding }()
		out, err := c.expand(b)
		if err != nil {
			return 0, nil, err
		}
		defer out.free()
		payload = out.b
	}
	w, ok := walk(payload, b.Count(), b.BaseTimestamp())
	if !ok {
		return 0, nil, c.malformed(b, payload)
	}
	if w.gaps && (b.Codec() != None || target != None) {
		return 0, nil, kafkaproto.Faultf(kerr.InvalidRecord,
			"offset deltas of a compressed batch in %v are not 0, 1, 2 ...", c.Partition)
	}
	if b.TimestampType() == LogAppendTime {
		w.min, w.max = b.MaxTimestamp(), b.MaxTimestamp()
	}
	if c.Compacted && w.nullKeys > 0 || !c.timely(b, w.min, w.max) {
		failed, err := c.blame(b, payload)
		return 0, failed, err
	}
	if target == b.Codec() {
		return w.max, nil, nil
	}
	return w.max, nil, c.recompress(a, payload, target)
}

// expanding holds one place per processor for the decompressed payloads in memory: more at a time
// would cost memory and gain nothing.
var expanding = make(chan struct{}, runtime.GOMAXPROCS(0))

// mustExpand tells whether a rule needs the records of a compressed batch: a key for each, another
// codec, a bound on old timestamps that the header can not prove, or a largest timestamp that some
// clients do not fill in.
func (c *Check) mustExpand(b Batch, target Codec) bool {
	if c.Compacted || target != b.Codec() {
		return true
	}
	if c.TimestampType == LogAppendTime || b.TimestampType() == LogAppendTime {
		return false
	}
	return c.BeforeMaxMs != math.MaxInt64 || b.MaxTimestamp() < b.BaseTimestamp()
}

// trusted checks a compressed batch by its header alone.
func (c *Check) trusted(b Batch) (int64, []RecordError, error) {
	ts := b.MaxTimestamp()
	if c.timely(b, ts, ts) {
		return ts, nil, nil
	}
	failed := make([]RecordError, 0, min(b.Count(), maxRecordErrors))
	for i := range min(b.Count(), maxRecordErrors) {
		failed = append(failed, RecordError{Index: i, Message: c.timestampText(b, i, ts)})
	}
	return 0, failed, c.untimely()
}

func (c *Check) expand(b Batch) (*buffer, error) {
	limit := c.MaxExpanded
	if limit <= 0 {
		limit = DefaultMaxExpanded
	}
	out, err := b.Codec().expand(b.Payload(), limit)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, kafkaproto.Faultf(kerr.MessageTooLarge,
			"batch of %d bytes in %v decompresses to more than %d bytes", len(b), c.Partition,
			limit)
	case err != nil:
		return nil, kafkaproto.Faultf(kerr.InvalidRecord,
			"payload in %v is not %v: %v", c.Partition, b.Codec(), err)
	}
	return out, nil
}

// malformed says what walk found wrong, by decoding again.
func (c *Check) malformed(b Batch, payload []byte) error {
	d := decoders.Get().(*decoder)
	defer d.free()
	d.reset(b, payload)
	for i := range b.Count() {
		if err := d.next(); err != nil {
			return kafkaproto.Faultf(kerr.InvalidRecord, "record %d of %d in %v: %v", i, b.Count(),
				c.Partition, err)
		}
	}
	return kafkaproto.Faultf(kerr.InvalidRecord, "%d bytes behind the last of %d records in %v",
		len(payload)-d.at, b.Count(), c.Partition)
}

// recompress makes a new batch with the same records in another codec. Their encoding does not
// depend on the codec, so only the payload's compression and the header change.
func (c *Check) recompress(a *Admitted, payload []byte, target Codec) error {
	b := a.Batch
	out := make([]byte, HeaderSize, HeaderSize+len(payload)/2)
	out, err := target.shrink(out, payload, c.Compression.Level)
	if err == nil && len(out) > MaxSize {
		err = fmt.Errorf("%d bytes are more than a batch can be", len(out))
	}
	if err != nil {
		return kafkaproto.Faultf(kerr.InvalidRecord, "compress batch in %v as %v: %v", c.Partition,
			target, err)
	}
	copy(out, b[:HeaderSize])
	n := Batch(out)
	binary.BigEndian.PutUint32(n[atLength:], uint32(len(n)-lengthEnd))
	binary.BigEndian.PutUint16(n[atAttributes:], uint16(b.Attributes()&^codecMask|int16(target)))
	n.seal()
	a.Batch, a.Rewritten = n, true
	return c.size(n)
}
