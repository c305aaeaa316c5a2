package engine

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/group"
)

// lagTicks is how long a replica may have less than everything before it counts as out of sync:
// replica.lag.time.max.ms, in ticks.
const lagTicks = 100

func (r *replicated) setLeadership(lead Leadership, after *after) {
	r.lead.Store(&lead)
	if told := r.e.onLeadership; told != nil {
		after.add(func() { told(r.p, lead) })
	}
}

// setVoters publishes whom raft counts. The caller holds mu, or is the only user.
func (r *replicated) setVoters() {
	conf := r.g.Conf()
	ids := slices.Concat(conf.Voters, conf.VotersOutgoing)
	voters := []kafkaproto.NodeID{}
	if slices.Contains(ids, r.self) {
		for _, m := range r.target { // in the order of preference
			if slices.Contains(ids, m.ID) {
				voters = append(voters, m.Node)
			}
		}
		for _, id := range ids {
			if node, ok := r.nodes[id]; ok && !slices.Contains(voters, node) {
				voters = append(voters, node)
			}
		}
	}
	r.voters.Store(&voters)
}

// lookAtLag notes which replicas have everything that there was a tick ago, and tells when the set of
// those in sync has changed. The caller holds mu and leads.
func (r *replicated) lookAtLag(after *after) {
	var inSync []kafkaproto.NodeID
	var last uint64
	in := make(map[kafkaproto.NodeID]bool, len(r.nodes))
	r.g.Progress(func(id uint64, p group.Progress) {
		last = p.LastIndexHere
		if id == r.self || p.Match >= r.lastAt && r.lastAt > 0 {
			r.caughtAt[id] = r.ticks
		}
		if at, ok := r.caughtAt[id]; ok && !p.Learner && r.ticks-at <= lagTicks {
			in[r.nodes[id]] = true
		}
	})
	r.lastAt = last
	for _, n := range *r.voters.Load() {
		if in[n] {
			inSync = append(inSync, n)
		}
	}
	if lead := *r.lead.Load(); lead.Leading && !slices.Equal(inSync, lead.InSync) {
		lead.InSync = inSync
		r.setLeadership(lead, after)
	}
}

// enough tells whether as many replicas are in sync as min.insync.replicas asks for: an append that
// waits for all of them would fail otherwise, and is refused before anything is written (ruling 14).
func (r *replicated) enough() error {
	lead := r.lead.Load()
	if !lead.Leading {
		return nil // refused for another reason
	}
	need, n := min(int(r.p.minInSync.Load()), len(*r.voters.Load())), 0
	for _, node := range lead.InSync {
		if !r.e.isDead(node) {
			n++
		}
	}
	if n < need {
		return kafkaproto.Faultf(kerr.NotEnoughReplicas, "%d replicas of %s are in sync, min.insync.replicas is %d",
			n, r.p.tp, need)
	}
	return nil
}
