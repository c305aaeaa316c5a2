package batch

import (
	"github.com/sluicelog/sluice/kafkaproto"
)

// HeaderSize is the size of a batch's header, from the base offset to the record count.
const HeaderSize = 61

// Batch is exactly one whole batch, header included, as First proved it. Getters read in place.
type Batch []byte

// TimestampType says whose clock a batch's timestamps come from.
type TimestampType int8

// The two timestamp types of message.timestamp.type.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
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

func (c Codec) String() string { panic("todo") }

func First(b []byte) (Batch, error)                                       { panic("todo") }
func (b Batch) Size() int                                                 { panic("todo") }
func (b Batch) BaseOffset() kafkaproto.Offset                             { panic("todo") }
func (b Batch) LastOffset() kafkaproto.Offset                             { panic("todo") }
func (b Batch) NextOffset() kafkaproto.Offset                             { panic("todo") }
func (b Batch) LeaderEpoch() kafkaproto.LeaderEpoch                       { panic("todo") }
func (b Batch) Magic() int8                                               { panic("todo") }
func (b Batch) CRC() uint32                                               { panic("todo") }
func (b Batch) Attributes() int16                                         { panic("todo") }
func (b Batch) Codec() Codec                                              { panic("todo") }
func (b Batch) IsTransactional() bool                                     { panic("todo") }
func (b Batch) IsControl() bool                                           { panic("todo") }
func (b Batch) TimestampType() TimestampType                              { panic("todo") }
func (b Batch) LastOffsetDelta() int32                                    { panic("todo") }
func (b Batch) BaseTimestamp() int64                                      { panic("todo") }
func (b Batch) MaxTimestamp() int64                                       { panic("todo") }
func (b Batch) HasProducer() bool                                         { panic("todo") }
func (b Batch) ProducerID() kafkaproto.ProducerID                         { panic("todo") }
func (b Batch) ProducerEpoch() kafkaproto.ProducerEpoch                   { panic("todo") }
func (b Batch) BaseSequence() int32                                       { panic("todo") }
func (b Batch) LastSequence() int32                                       { panic("todo") }
func (b Batch) Count() int32                                              { panic("todo") }
func (b Batch) Payload() []byte                                           { panic("todo") }
func (b Batch) DeleteHorizon() (int64, bool)                              { panic("todo") }
func (b Batch) SetBaseOffset(o kafkaproto.Offset)                         { panic("todo") }
func (b Batch) SetLeaderEpoch(e kafkaproto.LeaderEpoch)                   { panic("todo") }
func (b Batch) SetMaxTimestamp(t TimestampType, maxTimestamp int64)       { panic("todo") }
func (b Batch) VerifyCRC() error                                          { panic("todo") }
func (b Batch) Header() Header                                            { panic("todo") }
func (b Batch) Emptied() Batch                                            { panic("todo") }
func AddSequence(sequence, n int32) int32                                 { panic("todo") }
func Scan(b []byte, fn func(pos int, b Batch) (bool, error)) (int, error) { panic("todo") }

// Header is a batch's header in parsed form.
type Header struct {
	BaseOffset      kafkaproto.Offset
	Length          int32 // bytes behind the length field
	LeaderEpoch     kafkaproto.LeaderEpoch
	Magic           int8
	CRC             uint32
	Attributes      int16
	LastOffsetDelta int32
	BaseTimestamp   int64
	MaxTimestamp    int64
	ProducerID      kafkaproto.ProducerID
	ProducerEpoch   kafkaproto.ProducerEpoch
	BaseSequence    int32
	Count           int32
}

func PeekHeader(h []byte) (Header, error)      { panic("todo") }
func (h Header) Size() int                     { panic("todo") }
func (h Header) Codec() Codec                  { panic("todo") }
func (h Header) IsTransactional() bool         { panic("todo") }
func (h Header) IsControl() bool               { panic("todo") }
func (h Header) TimestampType() TimestampType  { panic("todo") }
func (h Header) HasProducer() bool             { panic("todo") }
func (h Header) LastOffset() kafkaproto.Offset { panic("todo") }
func (h Header) NextOffset() kafkaproto.Offset { panic("todo") }
func (h Header) LastSequence() int32           { panic("todo") }
func (h Header) DeleteHorizon() (int64, bool)  { panic("todo") }

// Record is one record; key and value are nil for null. It aliases the batch or its decompressed
// bytes, and is valid until the callback that got it returns.
type Record struct {
	Offset      kafkaproto.Offset
	OffsetDelta int32
	Timestamp   int64 // milliseconds; the batch's maximum under LogAppendTime
	Key, Value  []byte
	Headers     []RecordHeader
}

// RecordHeader is one header of a record.
type RecordHeader struct {
	Key   string
	Value []byte // nil is null
}

func (b Batch) Each(maxBytes int, fn func(r *Record) (bool, error)) error { panic("todo") }

// Producer is what an idempotent batch carries of its writer.
type Producer struct {
	ID           kafkaproto.ProducerID
	Epoch        kafkaproto.ProducerEpoch
	BaseSequence int32
}

// BuilderOptions is what a new batch's header says. The zero value builds an uncompressed,
// CreateTime batch at offset 0 without producer.
type BuilderOptions struct {
	Codec         Codec
	Level         int // 0 is the codec's default
	BaseOffset    kafkaproto.Offset
	LeaderEpoch   kafkaproto.LeaderEpoch
	Producer      *Producer // nil: none (-1, -1, -1)
	Transactional bool
	Control       bool
	TimestampType TimestampType
	AppendTime    int64  // milliseconds; the maximum timestamp under LogAppendTime
	DeleteHorizon *int64 // milliseconds; nil: none
	KeepOffsets   bool   // Add takes Record.OffsetDelta instead of the next delta
}

// Builder makes one batch out of records.
type Builder struct{}

func NewBuilder(o BuilderOptions) *Builder    { panic("todo") }
func (b *Builder) Add(r Record)               { panic("todo") }
func (b *Builder) Len() int                   { panic("todo") }
func (b *Builder) Size() int                  { panic("todo") }
func (b *Builder) SetLastOffsetDelta(d int32) { panic("todo") }
func (b *Builder) Build() (Batch, error)      { panic("todo") }

// ControlKind is the kind of a transaction marker.
type ControlKind int16

// The transaction markers, by their number in the control record's key.
const (
	Abort  ControlKind = 0
	Commit ControlKind = 1
)

// Marker is a control batch's content.
type Marker struct {
	Kind             ControlKind
	CoordinatorEpoch int32
}

func Control(kind ControlKind, coordinatorEpoch int32, pid kafkaproto.ProducerID,
	epoch kafkaproto.ProducerEpoch, ts int64) Batch {
	panic("todo")
}
func (b Batch) Marker() (Marker, error) { panic("todo") }

// CompressionPolicy is a topic's compression.type.
type CompressionPolicy struct {
	Producer bool // keep what the producer chose
	Codec    Codec
	Level    int // 0 is the codec's default
}

// Check is what a produce request and its topic demand of a batch.
type Check struct {
	Partition       kafkaproto.TopicPartition // for error texts only
	MaxBytes        int                       // max.message.bytes; 0 is no limit
	SegmentBytes    int                       // segment.bytes; 0 is no limit
	Compacted       bool
	TimestampType   TimestampType
	NowMs           int64
	BeforeMaxMs     int64 // message.timestamp.before.max.ms
	AfterMaxMs      int64 // message.timestamp.after.max.ms
	Compression     CompressionPolicy
	Version         int16 // of the Produce request
	TransactionalID bool  // the request carries a transactional id
	MaxExpanded     int   // bound of a decompressed payload in bytes; 0 is DefaultMaxExpanded
}

// Admitted is a batch that may be appended.
type Admitted struct {
	Batch      Batch
	AppendTime int64 // milliseconds; -1 under CreateTime
	Rewritten  bool  // Batch is new memory; otherwise it aliases the records given
}

// RecordError names one record that made a batch fail (KIP-467).
type RecordError struct {
	Index   int32
	Message string
}

func Admit(records []byte, c Check) (Admitted, []RecordError, error) { panic("todo") }
