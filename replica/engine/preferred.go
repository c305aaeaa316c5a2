package engine

import "github.com/sluicelog/sluice/replica/group"

// returnTicks is how long a broker leads in the place of the preferred one at least: who has just handed
// over because he stops is not given the lead back, and a broker that comes and goes takes nothing along.
const returnTicks = 100

// preferred is the replica that is to lead, when it is another one and could: 0 else. The caller holds mu
// and leads.
func (r *replicated) preferred() uint64 {
	if r.managed || len(r.target) == 0 {
		return 0
	}
	first := r.target[0]
	if first.ID == r.self || first.Learner || !r.e.lives(first.Node) {
		return 0
	}
	return first.ID
}

// giveBack hands the lead back to the preferred replica, once that has everything (auto.leader.rebalance).
func (r *replicated) giveBack() {
	to := r.preferred()
	if to == 0 || !r.reported || r.ticks-r.ledSince < returnTicks {
		return
	}
	r.g.Progress(func(id uint64, p group.Progress) {
		if id == to && p.Replicating && !p.Learner && p.Match+behindBound >= p.LastIndexHere {
			r.ledSince = r.ticks // asked for once; raft gives it up after an election timeout
			r.g.TransferLeader(to)
		}
	})
}
