package engine

import (
	"slices"
	"sync"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/group"
	"github.com/sluicelog/sluice/replica/transport"
)

// quietAfter is how many ticks nothing happens in a group before it may go quiet.
const quietAfter = 10

// quiet is which groups get ticks, and which brokers are known to live. A group in which nothing
// happens gets neither ticks nor heartbeats: the liveness of whole brokers stands in for them
// (replication.md §3.5).
//
//	active ── idle, all replicas have all, their brokers live ──► quiet
//	   ▲                                                            │
//	   └── proposal, message, a broker dies, comes back, restarts ──┘
type quiet struct {
	mu     sync.Mutex
	active map[*replicated]struct{}
	up     map[kafkaproto.NodeID]bool
	table  LeaderTable
}

// LeaderTable is what brokers have told each other of who leads (replica/liveness).
type LeaderTable interface {
	// LeaderOf is who has led a group last, and in which epoch; live is false when that broker has
	// resigned since, or died. Without known nobody was heard of. It is called under a group's lock.
	LeaderOf(kafkaproto.PartitionID) (node kafkaproto.NodeID, epoch kafkaproto.LeaderEpoch, live, known bool)
}

// SetLeaderTable gives the engine the table, before anything comes over the transport. Without one the
// life of a leader's broker stands for its leadership.
func (e *Engine) SetLeaderTable(t LeaderTable) {
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	e.quiet.table = t
}

func (e *Engine) leaderTable() LeaderTable {
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	return e.quiet.table
}

// leadsStill tells whether a leader is known to lead: its broker lives and has said so, of this epoch.
func (e *Engine) leadsStill(id kafkaproto.PartitionID, n kafkaproto.NodeID, epoch kafkaproto.LeaderEpoch) bool {
	t := e.leaderTable()
	if t == nil {
		return e.lives(n)
	}
	node, term, live, known := t.LeaderOf(id)
	return known && live && node == n && term == epoch
}

// isOver tells whether a leadership is known to be over, which is more than not known to last: one that
// has only just begun was not told yet.
func (e *Engine) isOver(id kafkaproto.PartitionID, n kafkaproto.NodeID, epoch kafkaproto.LeaderEpoch) bool {
	if e.isDead(n) {
		return true
	}
	t := e.leaderTable()
	if t == nil {
		return false
	}
	node, term, live, known := t.LeaderOf(id)
	return known && term == epoch && node == n && !live
}

// activate gives the group ticks again.
func (e *Engine) activate(r *replicated) {
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	if e.quiet.active == nil {
		e.quiet.active = make(map[*replicated]struct{})
	}
	e.quiet.active[r] = struct{}{}
}

// rest takes the group's ticks away.
func (e *Engine) rest(r *replicated) {
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	delete(e.quiet.active, r)
}

// Active is how many groups get ticks.
func (e *Engine) Active() int {
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	return len(e.quiet.active)
}

// lives tells whether the broker is known to live.
func (e *Engine) lives(n kafkaproto.NodeID) bool {
	if n == e.self {
		return true
	}
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	return e.quiet.up[n]
}

// isDead tells whether the broker is known to be dead, which is more than not known to live.
func (e *Engine) isDead(n kafkaproto.NodeID) bool {
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	up, known := e.quiet.up[n]
	return known && !up
}

// BrokerUp tells that a broker lives.
func (e *Engine) BrokerUp(n kafkaproto.NodeID) { e.setUp(n, true) }

// BrokerDown tells that a broker is dead, or cannot be reached. What is to be done about it, and how
// fast, is said by Campaign and Wake.
func (e *Engine) BrokerDown(n kafkaproto.NodeID) { e.setUp(n, false) }

// Wake gives a quiet group ticks again: a replica may lag, or the leader must find out whether it still
// has a majority.
func (e *Engine) Wake(id kafkaproto.PartitionID) {
	if r := e.group(id); r != nil {
		r.do(func(*group.Group) {})
	}
}

func (e *Engine) group(id kafkaproto.PartitionID) *replicated {
	p := e.ByID(id)
	if p == nil {
		return nil
	}
	return p.rep.Load()
}

func (e *Engine) setUp(n kafkaproto.NodeID, up bool) {
	e.quiet.mu.Lock()
	defer e.quiet.mu.Unlock()
	if e.quiet.up == nil {
		e.quiet.up = make(map[kafkaproto.NodeID]bool)
	}
	e.quiet.up[n] = up
}

// Voters gives the brokers of a group's voters, the preferred leader first; nil when this broker holds
// no voter of it (liveness.Replicas).
func (e *Engine) Voters(id kafkaproto.PartitionID) (voters []kafkaproto.NodeID, urgent bool) {
	r := e.group(id)
	if r == nil {
		return nil, false
	}
	return *r.voters.Load(), r.p.log.Config().Internal
}

// Lags tells whether a replica on the broker may lack something of a group that this one leads
// (liveness.Replicas). One that was started anew lacks at least the leader's name.
func (e *Engine) Lags(id kafkaproto.PartitionID, node kafkaproto.NodeID) bool {
	voters, _ := e.Voters(id)
	return slices.Contains(voters, node)
}

// Campaign has this broker's replica stand for election now: its leader's broker is dead, or it has
// resigned. Without the leader being forgotten first the others would still hold to its lease.
func (e *Engine) Campaign(id kafkaproto.PartitionID) {
	r := e.group(id)
	if r == nil {
		return
	}
	r.do(func(g *group.Group) {
		if lead := r.lead.Load(); !lead.Leading && (lead.Leader == noNode || e.isOver(id, lead.Leader, lead.Epoch)) {
			_ = g.ForgetLeader()
			_ = g.Campaign() // refused when this replica is no voter
		}
	})
}

// mayRest tells whether the group needs no ticks. The caller holds mu.
func (r *replicated) mayRest() bool {
	if r.idle < quietAfter || r.g.Blocked() != nil || r.g.HasWork() {
		return false
	}
	role := r.g.Role()
	if !role.Leading {
		node, ok := r.nodes[role.Leader]
		return ok && r.e.leadsStill(r.p.id, node, kafkaproto.LeaderEpoch(role.Term))
	}
	if !role.Ready || !r.reported || r.preferred() != 0 {
		return false
	}
	all := true
	r.g.Progress(func(id uint64, p group.Progress) {
		if node := r.nodes[id]; !p.Replicating && id != r.self || p.Match != p.LastIndexHere ||
			p.Commit != p.LastIndexHere || !r.e.lives(node) {
			all = false
		}
	})
	return all
}

// hearVote ends the lease of a leader whose broker is dead, or that has resigned, before a vote is asked for: a group without
// ticks would refuse every candidate for good.
func (r *replicated) hearVote(m *transport.Message) {
	if m.Raft.Type != pb.MsgPreVote && m.Raft.Type != pb.MsgVote {
		return
	}
	if lead := r.lead.Load(); !lead.Leading && lead.Leader != noNode && r.e.isOver(r.p.id, lead.Leader, lead.Epoch) {
		_ = r.g.ForgetLeader()
	}
}
