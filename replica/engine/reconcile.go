package engine

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/replica/group"
)

// reconcile is the leader's way from the configuration in force to the target (replication.md §4):
//
//	add what is missing, as learners
//	      | caught up
//	one joint change: learners become voters, voters that are to be learners do so, who is not in the
//	target goes
//	      | applied
//	OnPlaced
//
// A leader that is to go itself stays in that change, hands over to one of the target, and is removed
// by it. One change at a time; each call proposes at most one.
func (r *replicated) reconcile() {
	conf := r.g.Conf()
	if len(conf.VotersOutgoing) > 0 || len(r.target) == 0 || r.awaitsPlace() {
		return // a joint change is on its way
	}
	want := func(id uint64) bool {
		return slices.ContainsFunc(r.target, func(m Replica) bool { return m.ID == id })
	}
	var promote, demote []uint64
	for _, m := range r.target {
		switch {
		case slices.Contains(conf.Voters, m.ID):
			if m.Learner {
				demote = append(demote, m.ID)
			}
		case slices.Contains(conf.Learners, m.ID):
			if !m.Learner {
				promote = append(promote, m.ID)
			}
		default:
			r.change(pb.ConfChangeSingle{Type: pb.ConfChangeAddLearnerNode, NodeID: m.ID})
			return
		}
	}
	if !r.caughtUp(promote) {
		return
	}
	mayVote := want(r.self) && !slices.Contains(demote, r.self)
	if next := r.successor(); !mayVote && len(promote) == 0 && next != 0 {
		// Who is to stay leads before anybody goes: the leader's broker may stop any moment.
		r.g.TransferLeader(next)
		return
	}
	var changes []pb.ConfChangeSingle
	for _, id := range promote {
		changes = append(changes, pb.ConfChangeSingle{Type: pb.ConfChangeAddNode, NodeID: id})
	}
	for _, id := range demote {
		if id != r.self {
			changes = append(changes, pb.ConfChangeSingle{Type: pb.ConfChangeAddLearnerNode, NodeID: id})
		}
	}
	for _, id := range slices.Concat(conf.Voters, conf.Learners) {
		if !want(id) && id != r.self {
			changes = append(changes, pb.ConfChangeSingle{Type: pb.ConfChangeRemoveNode, NodeID: id})
		}
	}
	switch {
	case len(changes) > 0:
		r.change(changes...)
	case !mayVote:
		r.g.TransferLeader(r.successor())
	case !r.reported && r.g.ConfDurable(): // who is not in the target may throw away what it has
		r.reported = true
		if r.e.onPlaced != nil {
			r.e.onPlaced(r.p, slices.Clone(r.target))
		}
	}
}

func (r *replicated) change(changes ...pb.ConfChangeSingle) {
	cc := pb.ConfChangeV2{Changes: changes}
	if len(changes) > 1 {
		cc.Transition = pb.ConfChangeTransitionJointImplicit
	}
	if err := r.g.ProposeConf(cc); err != nil {
		r.e.log.Debug("configuration not changed", "partition", r.p.tp.String(), "error", err)
	}
}

// behindBound is how many entries a learner may lack when it becomes a voter: it gets them in the time
// that the change itself takes.
const behindBound = 64

// caughtUp tells whether all of ids have nearly everything.
func (r *replicated) caughtUp(ids []uint64) bool {
	n := 0
	r.g.Progress(func(id uint64, p group.Progress) {
		if slices.Contains(ids, id) && p.Replicating && p.Match+behindBound >= p.LastIndexHere {
			n++
		}
	})
	return n == len(ids)
}

// successor is the voter of the target that has most.
func (r *replicated) successor() uint64 {
	best, most := uint64(0), uint64(0)
	r.g.Progress(func(id uint64, p group.Progress) {
		inTarget := slices.ContainsFunc(r.target, func(m Replica) bool { return m.ID == id && !m.Learner })
		if id != r.self && inTarget && !p.Learner && p.Active && !r.e.isDead(r.nodes[id]) && p.Match >= most {
			best, most = id, p.Match
		}
	})
	return best
}

// HandOver asks others to lead the groups that this broker leads, and tells how many it leads still that
// another broker could. Groups of one replica stay.
func (e *Engine) HandOver() int {
	n := 0
	for _, p := range e.All() {
		r := p.rep.Load()
		if r == nil || !r.lead.Load().Leading || len(*r.voters.Load()) < 2 {
			continue
		}
		n++
		r.do(func(g *group.Group) {
			if to := r.successor(); to != 0 {
				g.TransferLeader(to)
			}
		})
	}
	return n
}

// TellAgain has OnPlaced called again: what was told could not be made use of.
func (p *Partition) TellAgain() {
	if r := p.rep.Load(); r != nil {
		r.do(func(*group.Group) { r.reported = false })
	}
}
