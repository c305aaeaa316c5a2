package store

import (
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// EventKind says what an Event tells.
type EventKind uint8

// The kinds of events.
const (
	// Synced: the synced offset moved to Event.Offset.
	Synced EventKind = iota + 1
	// StartMoved: the log start moved to Event.Offset.
	StartMoved
	// Rolled: a new segment begins at Event.Offset.
	Rolled
	// Failed: the log takes no more writes and may give no more reads; Event.Err says why.
	Failed
)

// Event is told to a log's observer.
type Event struct {
	Kind   EventKind
	Offset kafkaproto.Offset
	Err    error
}

// AppendOptions say how to append.
type AppendOptions struct {
	// NowMs is the broker's clock, in milliseconds since 1970.
	NowMs int64
	// TransactionV2 demands that an unknown producer's transactional batch begins at sequence 0.
	TransactionV2 bool
}

// Appended says where a batch went.
type Appended struct {
	BaseOffset, LastOffset kafkaproto.Offset
	// End is the log's end that must be committed before the batch may be acknowledged.
	End kafkaproto.Offset
	// Duplicate: the batch had been appended before, and the offsets are those of that time.
	Duplicate bool
	// AppendTime is the first copy's timestamp for a duplicate, else -1 or the LogAppendTime.
	AppendTime int64
}

// Range is whole batches in one segment file. Release must be called once.
type Range struct {
	File vfs.File
	Pos  int64
	Len  int
	// First is the base offset of the first batch; it may lie before the offset asked for.
	First kafkaproto.Offset
}

// Release lets the segment's file go.
func (r *Range) Release() {}

// AbortedTxn is an aborted transaction that a read_committed reader must skip.
type AbortedTxn struct {
	ProducerID  kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
}

// TimedOffset is the answer to a lookup by time.
type TimedOffset struct {
	Offset    kafkaproto.Offset
	Timestamp int64
	Epoch     kafkaproto.LeaderEpoch
	Found     bool
}

// Log is one partition's records.
type Log struct{}

// ID is the partition's identity.
func (l *Log) ID() kafkaproto.PartitionID { panic("todo") }

// TP is the partition's name.
func (l *Log) TP() kafkaproto.TopicPartition { panic("todo") }

// Dir is the partition's directory.
func (l *Log) Dir() string { panic("todo") }

// Config is the configuration in force.
func (l *Log) Config() Config { panic("todo") }

// SetConfig changes the configuration.
func (l *Log) SetConfig(c Config) { panic("todo") }

// Observe sets the observer, once, before the first append. It is called without locks.
func (l *Log) Observe(fn func(Event)) { panic("todo") }

// Offline is why the log cannot be used, or nil.
func (l *Log) Offline() error { panic("todo") }

// Term is the leader epoch that appended batches get.
func (l *Log) Term() kafkaproto.LeaderEpoch { panic("todo") }

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() kafkaproto.Offset { panic("todo") }

// EndOffset is the end of what was written, exclusive.
func (l *Log) EndOffset() kafkaproto.Offset { panic("todo") }

// SyncedOffset is the end of what a sync has covered, exclusive.
func (l *Log) SyncedOffset() kafkaproto.Offset { panic("todo") }

// Size is the bytes of all segments.
func (l *Log) Size() int64 { panic("todo") }

// Append writes a batch at the end. Base offset and leader epoch are patched in b.
func (l *Log) Append(b batch.Batch, o AppendOptions) (Appended, error) { panic("todo") }

// Commit tells that the high watermark moved to hw.
func (l *Log) Commit(hw kafkaproto.Offset) { panic("todo") }

// HighWatermarkBound is how far the high watermark of a log with one voter may go: the synced
// offset in strict mode, else the end.
func (l *Log) HighWatermarkBound() kafkaproto.Offset { panic("todo") }

// Read finds the bytes of whole batches from off on, at most maxBytes and never at or above limit.
// With minOne the first batch is given whole even when it is larger.
func (l *Log) Read(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset, minOne bool) (Range, error) {
	panic("todo")
}

// LastStable is the last stable offset below the high watermark hw.
func (l *Log) LastStable(hw kafkaproto.Offset) kafkaproto.Offset { panic("todo") }

// Aborted lists the aborted transactions that overlap [from, to).
func (l *Log) Aborted(from, to kafkaproto.Offset) []AbortedTxn { panic("todo") }

// OffsetForTime finds the first record below limit with a timestamp of at least ts.
func (l *Log) OffsetForTime(ts int64, limit kafkaproto.Offset) (TimedOffset, error) { panic("todo") }

// MaxTimestamp finds the first record below limit with the largest timestamp.
func (l *Log) MaxTimestamp(limit kafkaproto.Offset) (TimedOffset, error) { panic("todo") }

// EpochEnd answers OffsetForLeaderEpoch.
func (l *Log) EpochEnd(asked kafkaproto.LeaderEpoch) (kafkaproto.LeaderEpoch, kafkaproto.Offset) {
	panic("todo")
}

// EpochOf is the leader epoch of the record at off.
func (l *Log) EpochOf(off kafkaproto.Offset) kafkaproto.LeaderEpoch { panic("todo") }

// DeleteRecords moves the log start up to to, durably.
func (l *Log) DeleteRecords(to kafkaproto.Offset) error { panic("todo") }

// Roll begins a new segment if the active one holds anything.
func (l *Log) Roll() error { panic("todo") }

// Flush makes everything written durable before it returns.
func (l *Log) Flush() error { panic("todo") }
