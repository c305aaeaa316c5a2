package coord

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
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
	// CommitTimeout bounds how long an answer waits for the commit of what it shows; then its
	// client is told COORDINATOR_NOT_AVAILABLE, and what was written stays. 0 is 5 s.
	CommitTimeout time.Duration
	// LoadBytes is what is replayed before other shards have their turn; 0 is 1 MiB.
	LoadBytes int
}

func (o *Options[In, Out]) setDefaults() {
	if o.QueueLimit == 0 {
		o.QueueLimit = 10_000
	}
	if o.BatchBytes == 0 {
		o.BatchBytes = 512 << 10
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = 5 * time.Second
	}
	if o.LoadBytes == 0 {
		o.LoadBytes = 1 << 20
	}
}

// Counters is what a runtime counts since it was made.
type Counters struct {
	Steps   atomic.Int64 // inputs handled
	Records atomic.Int64 // records and markers appended
	Batches atomic.Int64 // batches appended
	Loads   atomic.Int64 // replays that ended well
	LoadMs  atomic.Int64 // time of the longest replay, milliseconds
	Drops   atomic.Int64 // appends dropped, each with an unload
	Skipped atomic.Int64 // records stepped over in replays
	Refused atomic.Int64 // inputs refused by a full queue
	Late    atomic.Int64 // answers given up, as the commit did not come
	Loaded  atomic.Int64 // shards active now
	Waiting atomic.Int64 // inputs without an answer now
}

// Runtime drives the shards of one coordinator.
type Runtime[In, Out any] struct {
	o     Options[In, Out]
	log   *slog.Logger
	began time.Time
	pool  *pool

	// Counters may be read at any time.
	Counters Counters

	mu struct {
		sync.Mutex
		shards map[int32]*shard[In, Out]
		closed bool
	}
}

// New starts the workers; Close stops them.
func New[In, Out any](o Options[In, Out]) *Runtime[In, Out] {
	o.setDefaults()
	r := &Runtime[In, Out]{
		o: o, log: o.Logger.With("coordinator", o.Name),
		began: o.Clock.Now(), pool: newPool(o.Workers),
	}
	r.mu.shards = make(map[int32]*shard[In, Out])
	return r
}

// now reads the clock for a step.
func (r *Runtime[In, Out]) now() Now {
	t := r.o.Clock.Now()
	return Now{
		Wall:   clock.Millis(t),
		Steady: clock.Millis(r.began) + t.Sub(r.began).Milliseconds(),
	}
}

// shard finds a partition's shard or makes it; nil when the runtime is closed.
func (r *Runtime[In, Out]) shard(partition int32) *shard[In, Out] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return nil
	}
	s := r.mu.shards[partition]
	if s == nil {
		s = newShard(r, partition)
		r.mu.shards[partition] = s
	}
	return s
}

func (r *Runtime[In, Out]) closing() error {
	return kafkaproto.Faultf(kerr.NotCoordinator,
		"the %s coordinator is shutting down", r.o.Name)
}

// Submit hands an input to the partition's shard, loading it if need be. done is called exactly
// once, without locks held: with the machine's answer, or with an error that carries a Kafka code.
func (r *Runtime[In, Out]) Submit(partition int32, in In, done func(Out, error)) {
	var none Out
	s := r.shard(partition)
	if s == nil {
		done(none, r.closing())
		return
	}
	if err := s.submit(in, done); err != nil {
		done(none, err)
	}
}

// Load begins to load a shard that is not loaded yet.
func (r *Runtime[In, Out]) Load(partition int32) {
	if s := r.shard(partition); s != nil {
		s.control(func() { s.want() })
	}
}

// Unload drops a shard's state and answers everyone who waits with err. A later Submit or Load
// replays the log again.
func (r *Runtime[In, Out]) Unload(partition int32, err error) {
	if s := r.shard(partition); s != nil {
		s.control(func() {
			s.wanted = false
			s.drop(err)
		})
	}
}

// Inspect calls fn with the machine of a loaded shard, while nothing else uses it, and then done
// with true; it calls done with false when the shard is not loaded. What fn sees may not be
// committed yet.
func (r *Runtime[In, Out]) Inspect(partition int32, fn func(Machine[In, Out]), done func(bool)) {
	s := r.shard(partition)
	if s == nil || !s.control(func() {
		if s.state != active {
			done(false)
			return
		}
		fn(s.machine)
		done(true)
	}) {
		done(false)
	}
}

// Shards lists the partitions that were ever asked for, in no particular order.
func (r *Runtime[In, Out]) Shards() []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	ns := make([]int32, 0, len(r.mu.shards))
	for n := range r.mu.shards {
		ns = append(ns, n)
	}
	return ns
}

// Close answers everyone who waits with NOT_COORDINATOR and stops the workers.
func (r *Runtime[In, Out]) Close() {
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		return
	}
	r.mu.closed = true
	shards := r.mu.shards
	r.mu.Unlock()
	r.pool.close()
	for _, s := range shards { // nobody runs them any more
		s.close(r.closing())
	}
}
