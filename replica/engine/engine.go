package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/group"
	"github.com/sluicelog/sluice/replica/transport"
)

// Options is what an engine runs on.
type Options struct {
	Store  *store.Store
	Clock  clock.Clock
	Logger *slog.Logger

	// What partitions with several replicas need; none of it without them.

	// Self is this broker.
	Self kafkaproto.NodeID
	// Transport sends to the other brokers. Engine.Raft takes what comes from them.
	Transport Sender
	// Files fetches segments from them; Engine.Stream gives those of this broker.
	Files Opener
	// OnLeadership is told each change of a partition's leadership, without locks held; calls for one
	// partition may overtake each other: the higher epoch is the newer one.
	OnLeadership func(*Partition, Leadership)
	// OnPlaced is told, on the leader, that a partition is on the replicas that Open asked for. It must
	// not block; a new leader says it again.
	OnPlaced func(*Partition, []Replica)
	// Manual: no goroutine, no ticks; Tick and Run are the caller's.
	Manual bool
}

// Sender is the part of a transport that the engine uses. Send does not block.
type Sender interface {
	Send(to kafkaproto.NodeID, m transport.Message)
}

// Opener is the part of a transport that brings files.
type Opener interface {
	OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error)
}

// Engine holds this broker's partitions.
type Engine struct {
	store *store.Store
	clock clock.Clock
	log   *slog.Logger

	self         kafkaproto.NodeID
	transport    Sender
	files        Opener
	tasks        tasks // fetches of files
	onLeadership func(*Partition, Leadership)
	onPlaced     func(*Partition, []Replica)
	sched        schedule
	quiet        quiet

	mu struct {
		sync.RWMutex
		byTP map[kafkaproto.TopicPartition]*Partition
		byID map[kafkaproto.PartitionID]*Partition
		shut bool
	}
}

// New makes an engine without partitions; the caller opens them from its metadata.
func New(o Options) *Engine {
	e := &Engine{store: o.Store, clock: o.Clock, log: o.Logger.With("component", "replica"),
		self: o.Self, transport: o.Transport, files: o.Files, onLeadership: o.OnLeadership, onPlaced: o.OnPlaced}
	e.mu.byTP = make(map[kafkaproto.TopicPartition]*Partition)
	e.mu.byID = make(map[kafkaproto.PartitionID]*Partition)
	e.tasks.ctx, e.tasks.cancel = context.WithCancel(context.Background())
	e.startWorkers(o.Manual || o.Transport == nil)
	return e
}

// Spec names one partition to open.
type Spec struct {
	ID     kafkaproto.PartitionID
	TP     kafkaproto.TopicPartition
	Config store.Config
	// Replicas are all of them, those that come and those that go included, the preferred leader first.
	// None, or one: the partition is in its solo form.
	Replicas []Replica
	// Adding are not voters yet, Removing are to be none (KIP-455).
	Adding, Removing []Replica
	// Managed: a group whatever the number of its replicas, that stays where it is until Place is called.
	// Replicas are who is known, Adding those of them that were none when the log began.
	Managed bool
	// First are the ids of the replicas that the partition was made with: the group's configuration before
	// its first entry, whatever has become of it since. None: those that are not being added.
	First []uint64
	// MinInSync is min.insync.replicas; it is capped at the number of voters (ruling 14).
	MinInSync int32
}

func (s *Spec) solo() bool { return len(s.Replicas) <= 1 && !s.Managed }

// Open opens or makes the partitions, with one journal commit for those in solo form, which are led
// from then on. A partition whose log is damaged is opened offline: it answers errors, and the others go
// on. So do they when one cannot be opened at all; the error names it. A partition that is open is
// told of its new replicas.
func (e *Engine) Open(specs ...Spec) error {
	opened := make([]*Partition, 0, len(specs))
	logs := make([]*store.Log, 0, len(specs))
	var failed []error
	for i := range specs {
		s := &specs[i]
		if p := e.ByID(s.ID); p != nil && p.isReplica(s.replicaOn(e.self)) {
			if err := e.assign(p, s); err != nil {
				failed = append(failed, err)
			}
			continue
		} else if p != nil { // it was taken away and given again, and this broker heard of both at once
			if err := e.Delete(s.ID); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		l, err := e.openLog(s)
		if err != nil {
			failed = append(failed, fmt.Errorf("open %s: %w", s.TP, err))
			continue
		}
		p := newPartition(l, e.self)
		p.SetMinInSync(s.MinInSync)
		p.replica.Store(s.replicaOn(e.self))
		switch {
		case l.Offline() != nil:
		case s.solo() && !l.Replicated(): // else it stopped on its way back to the solo form
			logs = append(logs, l)
		default:
			if err := e.replicate(p, s); err != nil {
				failed = append(failed, fmt.Errorf("open %s: %w", s.TP, err))
				continue
			}
		}
		opened = append(opened, p)
	}
	if err := e.store.StartSolo(logs...); err != nil {
		return errors.Join(append(failed, fmt.Errorf("lead %d partitions: %w", len(logs), err))...)
	}
	for _, p := range opened {
		if p.rep.Load() == nil {
			p.log.Observe(p.observe)
			p.advance()
		}
	}
	if !e.add(opened) {
		return errShut
	}
	for _, p := range opened {
		if p.rep.Load() == nil && p.log.Offline() == nil {
			e.tellLeadership(p)
		}
	}
	return errors.Join(failed...)
}

// openLog opens the log of this broker's replica. A directory of an earlier replica is taken away: what
// was removed from the partition is no part of it any more, whatever it holds.
func (e *Engine) openLog(s *Spec) (*store.Log, error) {
	l, err := e.store.OpenLog(s.ID, s.TP, s.Config)
	if err != nil || len(s.Replicas) == 0 {
		return l, err
	}
	self := s.replicaOn(e.self)
	was, err := l.Replica()
	if err != nil || self == 0 || was == self {
		return l, err
	}
	if was != 0 {
		e.log.Info("data of an earlier replica is removed", "partition", s.TP.String(), "replica", was, "now", self)
		if err := e.store.DeleteLog(s.ID); err != nil {
			return nil, err
		}
		if l, err = e.store.OpenLog(s.ID, s.TP, s.Config); err != nil {
			return nil, err
		}
	}
	return l, l.SetReplica(self)
}

// replicaOn is the id of the replica on a broker; 0: it has none.
func (s *Spec) replicaOn(n kafkaproto.NodeID) uint64 {
	for _, m := range s.Replicas {
		if m.Node == n {
			return m.ID
		}
	}
	return 0
}

// tellLeadership tells that this broker leads a partition in its solo form.
func (e *Engine) tellLeadership(p *Partition) {
	if e.onLeadership != nil {
		e.onLeadership(p, p.Leadership())
	}
}

// add puts partitions into service; false when the engine is closed.
func (e *Engine) add(opened []*Partition) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.shut {
		return false
	}
	for _, p := range opened {
		e.mu.byTP[p.tp] = p
		e.mu.byID[p.id] = p
	}
	return true
}

// assign tells an open partition of its replicas. One in solo form that gets more goes into its
// replicated form, with clients running.
func (e *Engine) assign(p *Partition, s *Spec) error {
	r := p.rep.Load()
	if r == nil {
		if s.solo() || p.log.Offline() != nil {
			return nil
		}
		p.form.Lock() // appends wait, as the log must be synced to its end
		defer p.form.Unlock()
		if err := e.replicate(p, s); err != nil {
			return fmt.Errorf("replicate %s: %w", p.tp, err)
		}
		e.settle(p)
		return nil
	}
	if s.solo() {
		err := e.toSolo(p, r)
		if p.rep.Load() == nil && err == nil {
			e.tellLeadership(p)
		}
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.assign(s)
	return nil
}

// settle waits until the only voter of a group that has just left its solo form leads it, so that
// writers find no gap: its vote, its own acknowledgement, each durable.
func (e *Engine) settle(p *Partition) {
	r := p.rep.Load()
	for range 5 {
		if r.run(); r.lead.Load().Leading || p.log.Flush() != nil {
			return
		}
	}
}

// errSolo is why a group is out of use whose partition has gone back to its solo form.
var errSolo = errors.New("partition is in its solo form")

// toSolo takes a partition of which this broker has the only replica left back to its solo form, with
// clients running. A group that is not at rest stays as it is: one voter commits by itself as well.
func (e *Engine) toSolo(p *Partition, r *replicated) error {
	p.form.Lock() // appends find the new form behind it
	defer p.form.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	conf := r.g.Conf()
	if r.dead != nil || len(conf.Voters) != 1 || conf.Voters[0] != r.self ||
		len(conf.VotersOutgoing)+len(conf.Learners)+len(conf.LearnersNext) > 0 {
		return nil
	}
	if err := p.log.StopReplica(); err != nil {
		e.log.Info("partition keeps its replicated form", "partition", p.tp.String(), "error", err)
		return nil
	}
	r.dead = errSolo
	e.rest(r)
	if err := e.store.StartSolo(p.log); err != nil {
		return fmt.Errorf("lead %s: %w", p.tp, err)
	}
	p.log.Observe(p.observe)
	p.rep.Store(nil)
	p.advance()
	return nil
}

// replicate makes the partition's group. The preferred leader asks to be elected at once, and so does
// the only voter.
func (e *Engine) replicate(p *Partition, s *Spec) error {
	r, err := e.newReplicated(p, s)
	if err != nil {
		return err
	}
	p.log.Observe(r.observe)
	p.rep.Store(r)
	e.activate(r)
	if conf := r.g.Conf(); s.Replicas[0].ID == r.self || len(conf.Voters) == 1 && conf.Voters[0] == r.self {
		r.do(func(g *group.Group) { _ = g.Campaign() })
	}
	return nil
}

var errShut = fmt.Errorf("engine is closed: %w", kerr.NotLeaderForPartition)

// Get finds a partition by its topic's name; nil when this broker does not lead it.
func (e *Engine) Get(topic string, partition int32) *Partition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	p := e.mu.byTP[kafkaproto.TopicPartition{Topic: topic, Partition: partition}]
	if p == nil || !p.Leadership().Leading {
		return nil
	}
	return p
}

// ByID finds a partition by its topic's id; nil when this broker has no replica of it.
func (e *Engine) ByID(id kafkaproto.PartitionID) *Partition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.mu.byID[id]
}

// All lists the partitions in no particular order.
func (e *Engine) All() []*Partition {
	e.mu.RLock()
	defer e.mu.RUnlock()
	all := make([]*Partition, 0, len(e.mu.byTP))
	for _, p := range e.mu.byTP {
		all = append(all, p)
	}
	if e.sched.manual { // a simulation repeats itself, and maps have no order
		slices.SortFunc(all, func(a, b *Partition) int { return byName(a.tp, b.tp) })
	}
	return all
}

// Delete takes the partition out of service, fails who waits on it, and gives its files to the
// store to remove. The caller has the committed delete that names the topic id.
func (e *Engine) Delete(id kafkaproto.PartitionID) error {
	e.mu.Lock()
	p := e.mu.byID[id]
	if p != nil {
		delete(e.mu.byID, id)
		delete(e.mu.byTP, p.tp)
	}
	e.mu.Unlock()
	if p == nil {
		return nil
	}
	p.shut(kafkaproto.Faultf(kerr.UnknownTopicOrPartition, "partition %s was deleted", p.tp))
	if e.onLeadership != nil {
		e.onLeadership(p, Leadership{Leader: noNode, Epoch: p.LeaderEpoch()})
	}
	if err := e.store.DeleteLog(id); err != nil {
		return fmt.Errorf("delete %s: %w", p.tp, err)
	}
	return nil
}

// Close ends the engine's goroutines and fails every wait; the store is closed by who opened it.
func (e *Engine) Close() {
	e.mu.Lock()
	e.mu.shut = true
	e.mu.Unlock()
	e.stopWorkers()
	for _, p := range e.All() {
		p.shut(kafkaproto.Faultf(kerr.NotLeaderForPartition, "the broker is shutting down"))
	}
}

// errOffline turns a log's failure into what a client is told: retriable, and never
// UNKNOWN_SERVER_ERROR.
func errOffline(tp kafkaproto.TopicPartition, cause error) error {
	var k *kerr.Error
	if errors.As(cause, &k) {
		return cause
	}
	return fmt.Errorf("partition %s is offline: %w", tp, errors.Join(cause, kerr.KafkaStorageError))
}
