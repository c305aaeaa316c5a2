package engine

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/replica/transport"
)

// tickEvery is one tick of raft: elections begin after ten to twenty without a leader.
const tickEvery = 100 * time.Millisecond

// schedule runs groups that have something to do. No group has a goroutine of its own.
type schedule struct {
	mu      sync.Mutex
	wake    sync.Cond
	queue   []*replicated
	stopped bool
	manual  bool
	workers sync.WaitGroup
	ticker  clock.Timer
}

// startWorkers starts the goroutines that run groups, and the ticks; with manual neither: Run and Tick
// are the caller's then.
func (e *Engine) startWorkers(manual bool) {
	e.sched.wake.L, e.sched.manual = &e.sched.mu, manual
	if manual {
		return
	}
	for range runtime.GOMAXPROCS(0) {
		e.sched.workers.Go(e.work)
	}
	e.sched.mu.Lock()
	e.sched.ticker = e.clock.AfterFunc(tickEvery, e.ticked)
	e.sched.mu.Unlock()
}

func (e *Engine) ticked() {
	e.Tick()
	e.sched.mu.Lock()
	defer e.sched.mu.Unlock()
	if !e.sched.stopped {
		e.sched.ticker.Reset(tickEvery)
	}
}

// Tick lets one tick pass in every group that is not quiet.
func (e *Engine) Tick() {
	e.quiet.mu.Lock()
	active := make([]*replicated, 0, len(e.quiet.active))
	for r := range e.quiet.active {
		active = append(active, r)
	}
	e.quiet.mu.Unlock()
	if e.sched.manual {
		slices.SortFunc(active, func(a, b *replicated) int { return byName(a.p.tp, b.p.tp) })
	}
	for _, r := range active {
		r.tick()
	}
}

func byName(a, b kafkaproto.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// enqueue has a worker run the group, once for however many calls.
func (e *Engine) enqueue(r *replicated) {
	if !r.queued.CompareAndSwap(false, true) {
		return
	}
	e.sched.mu.Lock()
	e.sched.queue = append(e.sched.queue, r)
	e.sched.mu.Unlock()
	e.sched.wake.Signal()
}

// next takes a group off the queue; nil when there is none and wait is false, or the engine stops.
func (e *Engine) next(wait bool) *replicated {
	s := &e.sched
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && wait && !s.stopped {
		s.wake.Wait()
	}
	if len(s.queue) == 0 || s.stopped && wait {
		return nil
	}
	r := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	return r
}

func (e *Engine) work() {
	for r := e.next(true); r != nil; r = e.next(true) {
		r.run()
	}
}

// Run runs the groups that have something to do, on the caller's goroutine, until none has. It is for
// an engine that was made with Options.Manual.
func (e *Engine) Run() {
	for r := e.next(false); r != nil; r = e.next(false) {
		r.run()
	}
}

// tasks are what takes longer than a step of a group: they run on goroutines of their own.
type tasks struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.RWMutex // a task begins, or the last one has begun
	wg     sync.WaitGroup
}

// spawn runs f beside the groups; with Options.Manual at once.
func (e *Engine) spawn(f func(context.Context)) {
	if e.sched.manual {
		f(e.tasks.ctx)
		return
	}
	e.tasks.mu.RLock()
	defer e.tasks.mu.RUnlock()
	if e.tasks.ctx.Err() == nil {
		e.tasks.wg.Go(func() { f(e.tasks.ctx) })
	}
}

func (e *Engine) stopWorkers() {
	e.tasks.mu.Lock()
	e.tasks.cancel()
	e.tasks.mu.Unlock()
	s := &e.sched
	s.mu.Lock()
	s.stopped = true
	ticker := s.ticker
	s.mu.Unlock()
	if ticker != nil {
		ticker.Stop()
	}
	s.wake.Broadcast()
	s.workers.Wait()
	e.tasks.wg.Wait()
}

// Raft takes messages of a peer (transport.Handler).
func (e *Engine) Raft(_ kafkaproto.NodeID, msgs []transport.Message) {
	for i := range msgs {
		p := e.ByID(msgs[i].Group)
		if p == nil || p.rep.Load() == nil {
			msgs[i].Release() // not here yet, or no longer: raft sends again
			continue
		}
		p.rep.Load().step(msgs[i])
	}
}

// Unreachable takes the news that messages to a peer were dropped (transport.Handler).
func (e *Engine) Unreachable(to kafkaproto.NodeID, id kafkaproto.PartitionID) {
	if p := e.ByID(id); p != nil {
		if r := p.rep.Load(); r != nil {
			r.unreachable(to)
		}
	}
}
