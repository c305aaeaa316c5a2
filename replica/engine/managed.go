package engine

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/group"
)

// A managed group (Spec.Managed) is told by its leader's broker where it is to be, term by term. So it
// is with the metadata: who its replicas are to be stands in its own log, and a leader that has not
// applied all of it would go by what was so before.

// Members is a group's configuration in force, by replica ids.
type Members struct{ Voters, Learners []uint64 }

// Members is the configuration in force, as this replica has applied it. The slices are not to be
// changed.
func (p *Partition) Members() Members {
	r := p.rep.Load()
	if r == nil {
		return Members{}
	}
	return *r.members.Load()
}

// setMembers publishes the configuration. The caller holds mu, or is the only user.
func (r *replicated) setMembers() {
	conf := r.g.Conf()
	learners := slices.Concat(conf.Learners, conf.LearnersNext)
	r.members.Store(&Members{Voters: slices.Clone(conf.Voters), Learners: learners})
	r.setVoters()
}

// Know tells a managed group on which brokers its replicas are.
func (p *Partition) Know(replicas []Replica) {
	p.place(0, slices.Clone(replicas))
}

// Place has a managed group go to these replicas, those with Learner staying learners, while this broker
// leads it in the given term. In a later term nothing happens until Place is called again.
func (p *Partition) Place(epoch kafkaproto.LeaderEpoch, replicas []Replica) {
	p.place(epoch, slices.Clone(replicas))
}

func (p *Partition) place(epoch kafkaproto.LeaderEpoch, replicas []Replica) {
	r := p.rep.Load()
	if r == nil || !r.managed {
		return
	}
	r.do(func(*group.Group) {
		for _, m := range replicas {
			r.nodes[m.ID] = m.Node
		}
		if epoch > 0 && (epoch != r.placeEpoch || !slices.Equal(replicas, r.target)) {
			r.target, r.placeEpoch, r.reported = replicas, epoch, false
		}
		r.setVoters()
	})
}

// awaitsPlace tells whether a managed group was not told yet where this term is to bring it.
func (r *replicated) awaitsPlace() bool {
	return r.managed && uint64(r.placeEpoch) != r.g.Role().Term
}

// Confirm calls fn once it is sure that this broker leads the partition in the given term, after the
// call of Confirm: with nil, or with NOT_LEADER when it does not. Nothing is written; a majority is
// asked. A follower, or a leader that is not Ready, is refused. A partition that goes out of service
// meanwhile may not answer.
func (p *Partition) Confirm(epoch kafkaproto.LeaderEpoch, fn func(error)) {
	r := p.rep.Load()
	if r == nil {
		if gone := p.gone.Load(); gone != nil {
			fn(*gone)
			return
		}
		fn(nil) // alone
		return
	}
	r.do(func(g *group.Group) {
		role := g.Role()
		if !role.Ready || role.Term != uint64(epoch) {
			r.refused = append(r.refused, fn)
			return
		}
		r.confirmed++
		r.confirms = append(r.confirms, confirm{id: r.confirmed, fn: fn})
		g.ReadIndex(binary.BigEndian.AppendUint64(nil, r.confirmed))
	})
}

// confirm is a question whether this replica leads, on its way to the others.
type confirm struct {
	id uint64
	fn func(error)
}

// answerConfirms hands on what a flush came to. Who leads no more gets no answers: all are refused.
func (r *replicated) answerConfirms(out *group.Output, after *after) {
	for _, ctx := range out.Reads {
		if len(ctx) != 8 {
			continue
		}
		id, n := binary.BigEndian.Uint64(ctx), 0
		for n < len(r.confirms) && r.confirms[n].id <= id { // a later answer serves earlier questions
			fn := r.confirms[n].fn
			after.add(func() { fn(nil) })
			n++
		}
		r.confirms = slices.Delete(r.confirms, 0, n)
	}
	if out.RoleChanged && !out.Role.Ready {
		r.refuseConfirms()
	}
	for _, fn := range r.refused {
		after.add(func() {
			fn(kafkaproto.Faultf(kerr.NotLeaderForPartition, "this broker does not lead %s", r.p.tp))
		})
	}
	r.refused = nil
}

func (r *replicated) refuseConfirms() {
	for _, c := range r.confirms {
		r.refused = append(r.refused, c.fn)
	}
	r.confirms = nil
}
