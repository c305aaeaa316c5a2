package producer

import (
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// Retained is how many batches of a producer are known, so that a retry of any of them is found
// (kafka-protocol.md row 13).
const Retained = 5

// Options of a State. The zero value gives the defaults.
type Options struct {
	ExpirationMs int64 // producer.id.expiration.ms; 86,400,000
	MaxProducers int   // above it the longest idle ones are forgotten; 50,000
}

// Marker tells a transaction marker from data.
type Marker int8

// What a batch is.
const (
	Data   Marker = iota // not a marker
	Abort                // control batch, type 0
	Commit               // control batch, type 1
)

// Batch is what the state needs to know of one record batch.
type Batch struct {
	Producer         kafkaproto.ProducerID
	Epoch            kafkaproto.ProducerEpoch
	BaseSequence     int32
	BaseOffset       kafkaproto.Offset // not looked at by Check
	LastOffsetDelta  int32
	MaxTimestamp     int64
	Transactional    bool
	Marker           Marker
	CoordinatorEpoch int32 // of a marker
}

// Describe reads a batch's header, and the key and value of a control batch. The error is marked
// corrupt.
func Describe(b batch.Batch) (Batch, error) { panic("todo") }

// Origin tells how strictly Check looks.
type Origin int8

// Where a batch comes from.
const (
	Client      Origin = iota // sequence, epoch, duplicates, verification
	Coordinator               // a coordinator's own transactional write or marker: no sequence check
)

// CheckOptions are the facts of a request beside the batch.
type CheckOptions struct {
	Origin Origin
	// Verify demands that a transactional batch outside an open transaction comes with the Guard
	// of a verification that succeeded (row 19).
	Verify bool
	Guard  Guard
	// MarkerVersion is the transaction version of a marker; from 2 on its epoch must be above the
	// stored one (KIP-1228).
	MarkerVersion int16
}

// Guard names one verification of a transaction with its coordinator; 0 is none.
type Guard uint64

// Kind of a verdict.
type Kind int8

// What to do with a checked batch.
const (
	Append    Kind = iota // write it, then call State.Append
	Duplicate             // write nothing, answer with the verdict's numbers
)

// Verdict is Check's answer.
type Verdict struct {
	Kind       Kind
	BaseOffset kafkaproto.Offset // of the original of a duplicate
	LastOffset kafkaproto.Offset
	Timestamp  int64 // the original's max timestamp, Kafka's log_append_time of a duplicate
	Pending    bool  // the original is not committed: wait until the high watermark reaches LastOffset+1
}

// Completed is a transaction whose marker has committed.
type Completed struct {
	Producer    kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
	LastOffset  kafkaproto.Offset // the marker's
	Aborted     bool
	LastStable  kafkaproto.Offset // the last stable offset once this one is out of the way, as .txnindex stores it
}

// OpenTxn is a transaction without a committed marker.
type OpenTxn struct {
	Producer    kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
	Marker      kafkaproto.Offset // of the marker that waits for commit, -1 for none
}

// Info is one producer as DescribeProducers shows it.
type Info struct {
	Producer         kafkaproto.ProducerID
	Epoch            kafkaproto.ProducerEpoch
	LastSequence     int32 // -1 when none
	LastTimestamp    int64
	CoordinatorEpoch int32             // -1 when none
	TxnFirstOffset   kafkaproto.Offset // -1 when none
}

// State is the producer state of one partition: a committed part and the pending batches behind it
// (ruling 17). It is not safe for concurrent use: the log's lock guards it.
type State struct{}

// New makes an empty state.
func New(o Options) *State { panic("todo") }

// Check judges a batch before it gets its offset and changes nothing. Errors are Kafka's codes.
func (s *State) Check(b Batch, o CheckOptions) (Verdict, error) { panic("todo") }

// Append adds a batch that has its offsets, live or at replay, as pending. It never refuses:
// what stands in the log is the truth. nowMs is the broker's clock and only serves Expire.
func (s *State) Append(b Batch, nowMs int64) { panic("todo") }

// Commit moves the high watermark: batches below hw become committed and their markers close
// transactions, given in marker order. The aborted ones belong into .txnindex.
func (s *State) Commit(hw kafkaproto.Offset) []Completed { panic("todo") }

// Committed is the highest high watermark that Commit saw.
func (s *State) Committed() kafkaproto.Offset { panic("todo") }

// Truncate forgets the pending batches at or above off, as if they had never been appended. It
// panics below the committed part.
func (s *State) Truncate(off kafkaproto.Offset) { panic("todo") }

// LastStable is the last stable offset (exclusive): the first offset of the first transaction
// without a committed marker, or hw.
func (s *State) LastStable(hw kafkaproto.Offset) kafkaproto.Offset { panic("todo") }

// FirstOpenTxn is the first transaction without a committed marker.
func (s *State) FirstOpenTxn() (OpenTxn, bool) { panic("todo") }

// OpenTxns gives all transactions without a committed marker, by first offset.
func (s *State) OpenTxns() []OpenTxn { panic("todo") }

// HasOpenTxn reports whether the producer has a transaction open in this epoch: then a batch needs
// no verification.
func (s *State) HasOpenTxn(p kafkaproto.ProducerID, e kafkaproto.ProducerEpoch) bool { panic("todo") }

// BeginVerification notes that the coordinator is being asked about the batch; 0 when none is
// needed. epochBumps is true for transaction version 2 (row 20).
func (s *State) BeginVerification(b Batch, epochBumps bool, nowMs int64) Guard { panic("todo") }

// Expire forgets producers idle for longer than the expiration, unless a transaction is open or a
// batch is pending; it gives how many went.
func (s *State) Expire(nowMs int64) int { panic("todo") }

// Len is the number of producers known.
func (s *State) Len() int { panic("todo") }

// Producers lists all producers by id.
func (s *State) Producers() []Info { panic("todo") }

// Snapshot gives our sidecar: everything known at log end offset end, all five batches of each
// producer, committed part and pending batches apart.
func (s *State) Snapshot(end kafkaproto.Offset) []byte { panic("todo") }

// Load reads what Snapshot wrote, and the end offset it was taken at: replay goes on there. Errors
// are marked corrupt, except for a newer format (ErrNewerFormat).
func Load(b []byte, o Options) (*State, kafkaproto.Offset, error) { panic("todo") }

// WriteKafkaSnapshot gives Kafka's .snapshot file, version 1: the newest batch of each producer.
func (s *State) WriteKafkaSnapshot() []byte { panic("todo") }

// ReadKafkaSnapshot reads Kafka's .snapshot file. Everything in it counts as committed.
func ReadKafkaSnapshot(b []byte, o Options) (*State, error) { panic("todo") }

// Diff says in one line how two states differ in what clients can see, or nothing. For tests.
func Diff(a, b *State) string { panic("todo") }
