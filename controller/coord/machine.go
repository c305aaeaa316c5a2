package coord

import (
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// Now is the time of a step.
type Now struct {
	// Wall is the broker's clock, milliseconds since 1970: it goes into records and answers.
	Wall int64
	// Steady began equal to Wall and follows the monotonic clock since, so that a jump of the
	// wall clock neither expires a session nor an offset. Deadlines are in steady milliseconds.
	Steady int64
}

// Never is the deadline of a machine that waits for nothing.
const Never = int64(1<<63 - 1)

// Ticket names one submitted input; a machine keeps it as long as it owes the answer.
type Ticket uint64

// Record is one record of a coordinator's log; Key and Value are nil for null.
type Record struct {
	Key, Value []byte
	Headers    []batch.RecordHeader
	// Producer is set for a record that belongs to a transaction (KIP-98).
	Producer *Producer
}

// Producer names the transaction that a record belongs to.
type Producer struct {
	ID    kafkaproto.ProducerID
	Epoch kafkaproto.ProducerEpoch
}

// Marker ends the transaction of a producer on this partition.
type Marker struct {
	Producer         Producer
	Commit           bool
	CoordinatorEpoch int32
}

// Reply answers the input that came with a ticket.
type Reply[Out any] struct {
	To  Ticket
	Out Out
}

// Effects is what a step leads to. The machine fills it in; the runtime writes Entries in order
// and then sends Replies. It is reused: a machine must not keep it.
type Effects[Out any] struct {
	Entries []Entry
	Replies []Reply[Out]
}

// Entry is a record or a marker to write.
type Entry struct {
	Record Record
	Marker *Marker // nil for a record
}

// Write adds a record; the machine has applied it already.
func (e *Effects[Out]) Write(r Record) { e.Entries = append(e.Entries, Entry{Record: r}) }

// WriteMarker adds the end of a transaction; the machine has applied it already.
func (e *Effects[Out]) WriteMarker(m Marker) { e.Entries = append(e.Entries, Entry{Marker: &m}) }

// Reply answers a ticket.
func (e *Effects[Out]) Reply(to Ticket, out Out) {
	e.Replies = append(e.Replies, Reply[Out]{To: to, Out: out})
}

// Machine is the pure state of one shard: no clock, goroutine, disk or socket. Each call says what
// the time is; the same calls give the same effects. It is never used by two goroutines at once.
type Machine[In, Out any] interface {
	// Step handles one input. Records that it writes are applied when it returns, by the code
	// that Apply uses.
	Step(now Now, to Ticket, in In, e *Effects[Out])
	// Tick does what is due. It is called when Deadline has passed, perhaps later.
	Tick(now Now, e *Effects[Out])
	// Deadline is the steady time at which Tick has something to do, Never for none. It may be
	// early: then Tick does nothing and moves it.
	Deadline() int64

	// Apply replays a record of the log. An error is logged and the record is stepped over.
	Apply(r *Record) error
	// ApplyMarker replays the end of a transaction.
	ApplyMarker(m Marker)
	// Loaded is called once, when replay has ended and before the first Step.
	Loaded(now Now)
}
