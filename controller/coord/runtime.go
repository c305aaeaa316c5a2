package coord

import (
	"log/slog"

	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// Options is what a runtime is made of.
type Options[In, Out any] struct {
	Clock  clock.Clock
	Logger *slog.Logger
	// Name stands in logs and errors, such as "group".
	Name string
	// NewMachine makes the empty machine of a partition.
	NewMachine func(partition int32) Machine[In, Out]
	// Open finds the log of a partition; its error goes to the clients that asked for the shard
	// (NOT_COORDINATOR where another broker leads).
	Open func(partition int32) (Log, error)
	// Workers is the number of goroutines that run shards; 0 runs them on the caller.
	Workers int
	// QueueLimit bounds the inputs waiting for one shard; 0 is 10000.
	QueueLimit int
	// BatchBytes bounds a batch that holds several records; 0 is 512 KiB.
	BatchBytes int
	// LoadBytes is what is replayed before other shards have their turn; 0 is 1 MiB.
	LoadBytes int
}

// Runtime drives the shards of one coordinator.
type Runtime[In, Out any] struct{}

// New starts the workers; Close stops them.
func New[In, Out any](o Options[In, Out]) *Runtime[In, Out] { panic("todo") }

// Submit hands an input to the partition's shard, loading it if need be. done is called exactly
// once, from a worker, without locks held: with the machine's answer, or with an error that
// carries a Kafka code.
func (r *Runtime[In, Out]) Submit(partition int32, in In, done func(Out, error)) { panic("todo") }

// Load begins to load a shard that is not loaded yet.
func (r *Runtime[In, Out]) Load(partition int32) { panic("todo") }

// Unload drops a shard's state and answers everyone who waits with err. A later Submit or Load
// replays the log again.
func (r *Runtime[In, Out]) Unload(partition int32, err error) { panic("todo") }

// Inspect calls fn with the machine of a loaded shard, while nothing else uses it, and then done
// with true; false when the shard is not loaded. What fn sees may not be committed yet.
func (r *Runtime[In, Out]) Inspect(partition int32, fn func(Machine[In, Out]), done func(bool)) {
	panic("todo")
}

// Close answers everyone who waits with NOT_COORDINATOR and stops the workers.
func (r *Runtime[In, Out]) Close() { panic("todo") }
