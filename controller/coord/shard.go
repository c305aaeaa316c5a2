package coord

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// state is how far a shard is.
type state int8

const (
	unloaded state = iota
	loading        // the log is open and being replayed
	active
)

// stepsPerTurn bounds what a shard does before other shards have their turn on the worker.
const stepsPerTurn = 256

// The wait before a log that failed is loaded again, doubled with each failure in a row.
const (
	minRetry = 100 * time.Millisecond
	maxRetry = 5 * time.Second
)

// input is one submitted input in the queue.
type input[In, Out any] struct {
	in   In
	done func(Out, error)
}

// held is an answer that waits for its position to be committed.
type held[Out any] struct {
	end   kafkaproto.Offset
	until int64 // steady time at which its client is told that it takes too long
	out   Out
	done  func(Out, error)
}

// shard is one partition of a coordinator. The fields above mu belong to whoever runs the shard;
// running, under mu, sees to it that this is one goroutine (O1).
type shard[In, Out any] struct {
	r *Runtime[In, Out]
	n int32

	state   state
	wanted  bool // load again by itself after a failure
	machine Machine[In, Out]
	log     Log
	load    load

	tickets    map[Ticket]func(Out, error) // inputs the machine owes an answer
	nextTicket Ticket
	effects    Effects[Out]
	weighed    int // of effects.Entries, those counted in size
	size       int // of these, about, in bytes

	end      kafkaproto.Offset // of what is appended
	held     []held[Out]       // ascending by end and until
	watching bool              // one WhenCommitted is pending

	failures int   // loads failed and appends dropped in a row
	retryAt  int64 // steady time before which no load is tried
	timer    clock.Timer
	armed    int64 // steady time of the timer, Never for none

	mu struct {
		sync.Mutex
		running  bool
		closed   bool
		queue    []input[In, Out]
		controls []func()
		due      bool   // the timer fired
		epoch    uint64 // grows with each drop: callbacks of older ones are void
		moved    bool   // a WhenCommitted fired
		lost     error  // and with this error
	}
}

func newShard[In, Out any](r *Runtime[In, Out], n int32) *shard[In, Out] {
	return &shard[In, Out]{
		r: r, n: n, armed: Never, tickets: make(map[Ticket]func(Out, error)),
	}
}

// String names the shard in logs and errors.
func (s *shard[In, Out]) String() string { return fmt.Sprintf("%s shard %d", s.r.o.Name, s.n) }

// submit queues an input; an error means that it was not.
func (s *shard[In, Out]) submit(in In, done func(Out, error)) error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return s.r.closing()
	}
	if len(s.mu.queue) >= s.r.o.QueueLimit {
		s.mu.Unlock()
		s.r.Counters.Refused.Add(1)
		return kafkaproto.Faultf(kerr.CoordinatorLoadInProgress,
			"%s has %d requests waiting; come again", s, s.r.o.QueueLimit)
	}
	s.mu.queue = append(s.mu.queue, input[In, Out]{in, done})
	s.wakeLocked()
	return nil
}

// control runs fn on the shard, before inputs that are queued; false when the shard is closed.
func (s *shard[In, Out]) control(fn func()) bool {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return false
	}
	s.mu.controls = append(s.mu.controls, fn)
	s.wakeLocked()
	return true
}

// wakeLocked sees to it that the shard runs; it unlocks mu.
func (s *shard[In, Out]) wakeLocked() {
	idle := !s.mu.running && !s.mu.closed
	s.mu.running = s.mu.running || idle
	s.mu.Unlock()
	if idle {
		s.r.pool.add(s.run)
	}
}

// work is what a turn of a shard begins with.
type work[In, Out any] struct {
	inputs   []input[In, Out]
	controls []func()
	due      bool
	moved    bool
	lost     error
}

// take gets what there is to do; false when there is nothing, and then the shard is idle.
func (s *shard[In, Out]) take() (work[In, Out], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := work[In, Out]{
		controls: s.mu.controls, due: s.mu.due, moved: s.mu.moved, lost: s.mu.lost,
	}
	n := min(len(s.mu.queue), stepsPerTurn)
	w.inputs = s.mu.queue[:n:n]
	s.mu.queue = s.mu.queue[n:]
	if len(s.mu.queue) == 0 {
		s.mu.queue = nil
	}
	s.mu.controls, s.mu.due, s.mu.moved, s.mu.lost = nil, false, false, nil
	if n == 0 && len(w.controls) == 0 && !w.due && !w.moved && s.state != loading {
		s.mu.running = false
		return w, false
	}
	if n == 0 && len(w.controls) == 0 && !w.due && !w.moved && !s.load.ready {
		s.mu.running = false // the commit of the load's target will wake it
		return w, false
	}
	return w, true
}

// run is one turn on a worker. When there is more to do the shard queues up behind the others.
func (s *shard[In, Out]) run() {
	w, ok := s.take()
	if !ok {
		return
	}
	if w.moved {
		s.commitMoved(w.lost)
	}
	for _, fn := range w.controls {
		fn()
	}
	if len(w.inputs) > 0 {
		s.want()
	}
	if w.due {
		s.armed = Never
		s.tick()
	}
	if s.state == loading {
		s.loadSlice()
	}
	for i := range w.inputs {
		s.step(&w.inputs[i])
	}
	s.flush()
	s.arm()
	s.r.pool.add(s.run)
}

// step hands one input to the machine, or refuses it while there is none.
func (s *shard[In, Out]) step(in *input[In, Out]) {
	var none Out
	if s.state != active {
		in.done(none, s.refusal())
		return
	}
	s.nextTicket++
	s.tickets[s.nextTicket] = in.done
	s.r.Counters.Steps.Add(1)
	s.r.Counters.Waiting.Add(1)
	s.machine.Step(s.r.now(), s.nextTicket, in.in, &s.effects)
	if s.weigh() >= s.r.o.BatchBytes {
		s.flush()
	}
}

// tick lets the machine do what is due, or loads again what is wanted.
func (s *shard[In, Out]) tick() {
	now := s.r.now()
	s.giveUp(now.Steady)
	switch {
	case s.state == active && s.machine.Deadline() <= now.Steady:
		s.machine.Tick(now, &s.effects)
	case s.state == unloaded && s.wanted:
		s.want()
	}
}

// giveUp answers those who have waited too long for a commit. Their outcome is open: what they
// wrote may be committed later.
func (s *shard[In, Out]) giveUp(now int64) {
	n := 0
	for n < len(s.held) && s.held[n].until <= now {
		n++
	}
	if n == 0 {
		return
	}
	due := s.held[:n:n]
	s.held = s.held[n:]
	s.r.Counters.Waiting.Add(-int64(n))
	s.r.Counters.Late.Add(int64(n))
	var none Out
	err := kafkaproto.Faultf(kerr.CoordinatorNotAvailable,
		"%s: offset %d was not committed in %v", s, due[0].end, s.r.o.CommitTimeout)
	for i := range due {
		due[i].done(none, err)
	}
}

// arm sets the timer to the next deadline. A timer that is early is left alone: it costs one empty
// turn, which is less than setting it anew with every step.
func (s *shard[In, Out]) arm() {
	at := Never
	switch {
	case s.state == active:
		at = s.machine.Deadline()
	case s.state == unloaded && s.wanted:
		at = s.retryAt
	}
	if len(s.held) > 0 {
		at = min(at, s.held[0].until)
	}
	if at >= s.armed {
		return
	}
	s.armed = at
	d := time.Duration(max(at-s.r.now().Steady, 0)) * time.Millisecond
	if s.timer == nil {
		s.timer = s.r.o.Clock.AfterFunc(d, s.fire)
	} else {
		s.timer.Reset(d)
	}
}

// fire is called by the clock.
func (s *shard[In, Out]) fire() {
	s.mu.Lock()
	s.mu.due = true
	s.wakeLocked()
}

// drop forgets the machine and answers everyone who waits with err (O2).
func (s *shard[In, Out]) drop(err error) {
	if s.state == unloaded {
		return
	}
	if s.state == active {
		s.r.Counters.Loaded.Add(-1)
	}
	s.mu.Lock()
	s.mu.epoch++
	s.mu.moved, s.mu.lost = false, nil
	s.mu.Unlock()
	s.state, s.machine, s.log, s.load = unloaded, nil, nil, load{}
	s.watching, s.weighed, s.size, s.effects = false, 0, 0, Effects[Out]{}
	var none Out
	for _, h := range s.held {
		h.done(none, err)
	}
	owed := make([]Ticket, 0, len(s.tickets))
	for t := range s.tickets {
		owed = append(owed, t)
	}
	slices.Sort(owed)
	for _, t := range owed {
		done := s.tickets[t]
		delete(s.tickets, t)
		done(none, err)
	}
	s.r.Counters.Waiting.Add(-int64(len(s.held) + len(owed)))
	s.held = nil
}

// backOff puts the next load off after a failure.
func (s *shard[In, Out]) backOff() {
	wait := maxRetry
	if s.failures < 6 {
		wait = min(minRetry<<s.failures, maxRetry)
	}
	s.failures++
	s.retryAt = s.r.now().Steady + wait.Milliseconds()
}

// loud tells whether a failure is worth a line: the first in a row is, and then ever fewer.
func (s *shard[In, Out]) loud() bool { return s.failures&(s.failures-1) == 0 }

// close ends the shard when no worker runs it any more.
func (s *shard[In, Out]) close(err error) {
	s.mu.Lock()
	s.mu.closed = true
	queue, controls := s.mu.queue, s.mu.controls
	s.mu.queue, s.mu.controls = nil, nil
	s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.drop(err)
	for _, fn := range controls {
		fn() // finds an unloaded shard
	}
	var none Out
	for _, in := range queue {
		in.done(none, err)
	}
}
