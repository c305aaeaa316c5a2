package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/group"
	"github.com/sluicelog/sluice/replica/transport"
)

// Replica is one incarnation of a partition on a broker. Its id is raft's, and never used again.
type Replica struct {
	ID   uint64
	Node kafkaproto.NodeID
	// Learner: it has everything and does not vote, for good.
	Learner bool
}

// Leadership is who leads a partition, as this broker knows it.
type Leadership struct {
	Leader kafkaproto.NodeID // -1: not known
	Epoch  kafkaproto.LeaderEpoch
	// Leading: it is this broker; Ready: and what it shows is up to date (KIP-207).
	Leading, Ready bool
	// InSync, of a leader: the brokers whose replicas had everything a short while ago, in the order of
	// preference. It is not to be changed. A broker that has died since is still in it.
	InSync []kafkaproto.NodeID
}

const noNode kafkaproto.NodeID = -1

// replicated is what a partition with several replicas has beside the log: the group, and what waits
// to be done in it. Whoever has work puts it into the inbox; who holds mu does all of it.
type replicated struct {
	p    *Partition
	e    *Engine
	self uint64

	queued  atomic.Bool // in the engine's run queue
	lead    atomic.Pointer[Leadership]
	voters  atomic.Pointer[[]kafkaproto.NodeID] // preferred first; empty when this replica is none
	members atomic.Pointer[Members]
	managed bool

	in struct {
		sync.Mutex
		msgs      []transport.Message
		proposals []*proposal
		calls     []func(*group.Group)
		synced    store.Ticket
		ticks     int
	}

	mu       sync.Mutex
	g        *group.Group
	nodes    map[uint64]kafkaproto.NodeID // of all replicas, the leaving ones too
	target   []Replica                    // whom the partition is to be on
	reported bool                         // OnPlaced was told of target
	dead     error                        // the group is out of use
	idle     int                          // ticks since anything happened
	ticks    int                          // since the start
	ledSince int                          // the tick at which this replica began to lead
	caughtAt map[uint64]int               // of a leader: when each replica was seen to have everything
	lastAt   uint64                       // the last index at the tick before
	shipped  map[uint64]int               // of a leader: when each replica was last sent files, or told of them
	fetching bool                         // files are on their way here
	spare    inbox

	placeEpoch kafkaproto.LeaderEpoch // of a managed group: the term that target is for
	confirms   []confirm
	confirmed  uint64 // the id of the last one
	refused    []func(error)
}

// inbox is what one round takes.
type inbox struct {
	msgs      []transport.Message
	proposals []*proposal
	calls     []func(*group.Group)
	synced    store.Ticket
	ticks     int
}

type proposal struct {
	b    batch.Batch
	o    AppendOptions
	a    store.Appended
	err  error
	done bool
	cuts uint64 // of the log, when it was proposed
}

// newReplicated puts the log into its replicated form and makes the group.
func (e *Engine) newReplicated(p *Partition, s *Spec) (*replicated, error) {
	r := &replicated{p: p, e: e, managed: s.Managed, nodes: make(map[uint64]kafkaproto.NodeID),
		shipped: make(map[uint64]int)}
	r.self = s.replicaOn(e.self)
	if r.self == 0 {
		return nil, fmt.Errorf("open %s: broker %d has no replica of it", p.tp, e.self)
	}
	if err := p.log.StartReplica(r.firstConf(s)); err != nil {
		return nil, err
	}
	g, err := group.New(group.Config{Log: p.log, Self: r.self, Logger: e.log})
	if err != nil {
		return nil, err
	}
	r.g = g
	r.assign(s)
	r.setMembers()
	r.lead.Store(&Leadership{Leader: noNode, Epoch: kafkaproto.LeaderEpoch(g.Role().Term)})
	p.hw.Store(int64(g.HighWatermark()))
	return r, nil
}

// firstConf is the configuration that the log's entries begin with: that of a partition in its solo form is
// this replica alone, at the log's end; an empty log begins as the partition was made. A log that knows its
// configuration keeps that.
func (r *replicated) firstConf(s *Spec) pb.ConfState {
	switch {
	case r.p.log.Term() > 0:
		return pb.ConfState{Voters: []uint64{r.self}}
	case len(s.First) > 0:
		return pb.ConfState{Voters: slices.Clone(s.First)}
	}
	var conf pb.ConfState
	for _, m := range s.Replicas {
		if !m.isIn(s.Adding) {
			conf.Voters = append(conf.Voters, m.ID)
		}
	}
	return conf
}

func (m Replica) isIn(list []Replica) bool { return slices.Contains(list, m) }

// assign takes over who the replicas are. The caller holds mu, or is the only user.
func (r *replicated) assign(s *Spec) {
	for _, m := range s.Replicas {
		r.nodes[m.ID] = m.Node
	}
	if r.managed {
		return
	}
	target := slices.DeleteFunc(slices.Clone(s.Replicas), func(m Replica) bool { return m.isIn(s.Removing) })
	if !slices.Equal(target, r.target) {
		r.target, r.reported = target, false
	}
}

// append proposes one batch and writes it. Many callers at once are done by the first of them.
func (r *replicated) append(b batch.Batch, o AppendOptions) (store.Appended, uint64, error) {
	w := &proposal{b: b, o: o}
	r.in.Lock()
	r.in.proposals = append(r.in.proposals, w)
	r.in.Unlock()
	r.mu.Lock()
	var after after
	if !w.done {
		r.round(&after)
	}
	r.mu.Unlock()
	after.run()
	r.wake() // what came in while the lock was held
	return w.a, w.cuts, w.err
}

// wake has the engine run the group when something waits in its inbox.
func (r *replicated) wake() {
	r.in.Lock()
	waits := len(r.in.msgs)+len(r.in.proposals)+len(r.in.calls)+r.in.ticks > 0 || r.in.synced > 0
	r.in.Unlock()
	if waits {
		r.e.enqueue(r)
	}
}

// do has f called with the group, soon.
func (r *replicated) do(f func(*group.Group)) {
	r.in.Lock()
	r.in.calls = append(r.in.calls, f)
	r.in.Unlock()
	r.e.enqueue(r)
}

// step takes messages of peers.
func (r *replicated) step(m transport.Message) {
	r.in.Lock()
	r.in.msgs = append(r.in.msgs, m)
	r.in.Unlock()
	r.e.enqueue(r)
}

// tick tells that time has passed.
func (r *replicated) tick() {
	r.in.Lock()
	r.in.ticks++
	r.in.Unlock()
	r.e.enqueue(r)
}

// observe is called by the log. Truncated comes in the midst of a round, Synced at any time.
func (r *replicated) observe(ev store.Event) {
	switch ev.Kind {
	case store.Truncated:
		r.g.Observe(ev)
	case store.Synced:
		r.in.Lock()
		r.in.synced = max(r.in.synced, ev.Ticket)
		r.in.Unlock()
		r.e.enqueue(r)
	case store.Failed:
		r.p.fail(errOffline(r.p.tp, ev.Err))
	case store.StartMoved:
		r.p.wake()
	case store.StartDue:
		if r.lead.Load().Ready {
			r.p.MoveLogStart(min(ev.Offset, r.p.HighWatermark()))
		}
	}
}

// run is the engine's worker: one round.
func (r *replicated) run() {
	r.queued.Store(false)
	r.mu.Lock()
	var after after
	r.round(&after)
	r.mu.Unlock()
	after.run()
}

// after is what is told once the group's lock is free (E3).
type after []func()

func (a *after) add(f func()) { *a = append(*a, f) }

func (a *after) run() {
	for _, f := range *a {
		f()
	}
}

// take empties the inbox into spare.
func (r *replicated) take() bool {
	r.in.Lock()
	defer r.in.Unlock()
	in := &r.in
	if len(in.msgs)+len(in.proposals)+len(in.calls)+in.ticks == 0 && in.synced == 0 {
		return false
	}
	s := &r.spare
	s.msgs, in.msgs = in.msgs, s.msgs[:0]
	s.proposals, in.proposals = in.proposals, s.proposals[:0]
	s.calls, in.calls = in.calls, s.calls[:0]
	s.synced, in.synced = in.synced, 0
	s.ticks, in.ticks = in.ticks, 0
	return true
}

// round does everything in the inbox. The caller holds mu.
func (r *replicated) round(after *after) {
	for r.take() {
		if r.dead == nil {
			r.stepAll(after)
		}
		r.drop()
	}
}

// drop lets go of what a round took, done or not.
func (r *replicated) drop() {
	s := &r.spare
	for i := range s.msgs {
		s.msgs[i].Release()
		s.msgs[i] = transport.Message{}
	}
	for i, w := range s.proposals {
		if !w.done {
			w.err, w.done = r.dead, true
		}
		s.proposals[i] = nil
	}
	clear(s.calls)
}

// stepAll gives the group what came in, in the order that answers soonest: what is durable first.
func (r *replicated) stepAll(after *after) {
	defer r.rescue(after)
	s := &r.spare
	if s.synced > 0 {
		r.g.Observe(store.Event{Kind: store.Synced, Ticket: s.synced})
	}
	if len(s.proposals)+len(s.calls) > 0 || slices.ContainsFunc(s.msgs, isNews) {
		if r.idle >= quietAfter {
			r.e.activate(r)
		}
		r.idle = 0
	}
	for i := range s.msgs {
		r.hearVote(&s.msgs[i])
		if s.msgs[i].Raft.Type == pb.MsgSnap {
			r.fetch(s.msgs[i].Raft)
			continue
		}
		if err := r.g.Step(&s.msgs[i]); err != nil {
			r.e.log.Warn("message refused", "partition", r.p.tp.String(), "replica", s.msgs[i].Raft.From, "error", err)
		}
	}
	for _, f := range s.calls {
		f(r.g)
	}
	for range s.ticks {
		r.ticked(after)
	}
	for _, w := range s.proposals {
		w.a, w.err = r.propose(w)
	}
	out := r.g.Flush()
	for _, w := range s.proposals {
		w.done = true
	}
	r.publish(&out, after)
}

func (r *replicated) propose(w *proposal) (store.Appended, error) {
	if e := w.o.Epoch; e > 0 && uint64(e) != r.g.Role().Term {
		return store.Appended{}, kafkaproto.Faultf(kerr.NotLeaderForPartition,
			"this broker does not lead %s in epoch %d any more", r.p.tp, e)
	}
	w.cuts = r.p.cuts.Load()
	return r.g.Propose(w.b, store.AppendOptions{NowMs: w.o.NowMs})
}

// isNews tells whether a message says more than that its sender lives.
func isNews(m transport.Message) bool {
	return m.Raft.Type != pb.MsgHeartbeat && m.Raft.Type != pb.MsgHeartbeatResp
}

// rescue turns raft's panic over a log that cannot be read into a partition that is offline. Any other
// panic is a broken invariant.
func (r *replicated) rescue(after *after) {
	cause := r.p.log.Offline()
	if cause == nil {
		return
	}
	if v := recover(); v != nil {
		r.dead = errOffline(r.p.tp, errors.Join(cause, fmt.Errorf("group stopped: %v", v)))
		r.lead.Store(&Leadership{Leader: noNode, Epoch: r.lead.Load().Epoch})
		after.add(func() { r.p.fail(r.dead) })
	}
}

// publish hands on what a flush came to.
func (r *replicated) publish(out *group.Output, after *after) {
	for i := range out.Messages {
		m := &out.Messages[i]
		if node, ok := r.nodes[m.To]; ok {
			r.e.transport.Send(node, m.Message)
		}
	}
	for _, m := range out.Snapshots {
		r.ship(m)
	}
	if out.Truncated >= 0 {
		r.p.truncated(out.Truncated, after)
	}
	if out.Conf != nil {
		r.reported = false
		r.setMembers()
		after.add(r.p.wake)
	}
	if out.RoleChanged {
		lead := Leadership{Leader: noNode, Epoch: kafkaproto.LeaderEpoch(out.Role.Term),
			Leading: out.Role.Leading, Ready: out.Role.Ready}
		if node, ok := r.nodes[out.Role.Leader]; ok {
			lead.Leader = node
		}
		if lead.Leading {
			r.caughtAt, r.lastAt, r.ledSince = make(map[uint64]int), 0, r.ticks
			lead.InSync = *r.voters.Load() // each gets the time of lagTicks to prove it
			r.g.Progress(func(id uint64, _ group.Progress) { r.caughtAt[id] = r.ticks })
		}
		r.setLeadership(lead, after)
		after.add(r.p.wake)
	}
	r.answerConfirms(out, after)
	if out.Committed {
		r.p.committed(out.HighWatermark, after)
	}
}

// blockedRetry is how many ticks lie between two tries of a write that failed.
const blockedRetry = 5

// ticked is one tick of the group, with what the leader looks after.
func (r *replicated) ticked(after *after) {
	r.idle++
	r.ticks++
	r.g.Tick()
	// The preferred leader does not wait for the election timeout: the others may have opened the
	// partition after it asked them first.
	if r.g.Role().Leader == 0 && !r.managed && r.target[0].ID == r.self && r.idle%2 == 0 {
		_ = r.g.Campaign()
	}
	if r.g.Blocked() != nil && r.ticks%blockedRetry == 0 {
		r.g.RetryBlocked()
	}
	if r.g.Role().Ready {
		r.reconcile()
		r.lookAtLag(after)
		r.giveUpShipping()
		r.giveBack()
	}
	if r.mayRest() {
		r.e.rest(r)
	}
}

// committed shows a new high watermark and answers who waited for it.
func (p *Partition) committed(hw kafkaproto.Offset, after *after) {
	if int64(hw) <= p.hw.Load() {
		return
	}
	p.hw.Store(int64(hw))
	for _, w := range p.takeDue(hw, nil) {
		after.add(func() { w.fn(nil) })
	}
	after.add(p.wake)
}

// end takes the group out of use.
func (r *replicated) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = err
	r.e.rest(r)
	r.lead.Store(&Leadership{Leader: noNode, Epoch: r.lead.Load().Epoch})
}

// unreachable has the group probe the replicas on a broker to which messages were lost.
func (r *replicated) unreachable(to kafkaproto.NodeID) {
	r.do(func(g *group.Group) {
		for id, node := range r.nodes {
			if node == to {
				g.ReportUnreachable(id)
			}
		}
	})
}
