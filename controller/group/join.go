package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
)

// Versions of JoinGroup from which on it behaves differently.
const (
	joinKnownID = 4 // a dynamic member must come with an id it was given (KIP-394)
	joinSkip    = 9 // the leader is told to skip the assignment (KIP-814)
)

// joinInput is a JoinGroup request that has passed the checks that need no group.
type joinInput struct {
	client   Client
	version  int16
	group    string
	member   string // "" for a newcomer
	instance string // "" for a dynamic member
	newID    string // the id to give to a newcomer
	session  int32  // milliseconds
	timeout  int32  // of a rebalance, milliseconds
	protType string
	offers   []protocol
}

func (*joinInput) isInput() {}

// joinFailed answers a JoinGroup with an error.
func (m *Machine) joinFailed(to coord.Ticket, member string, code *kerr.Error) {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID = code.Code, member
	m.out.Reply(to, resp)
}

// join handles a JoinGroup.
func (m *Machine) join(to coord.Ticket, in *joinInput) {
	g := m.groups[in.group]
	if g == nil {
		switch {
		case in.member != "":
			m.joinFailed(to, in.member, kerr.UnknownMemberID)
			return
		case in.protType == "" || len(in.offers) == 0:
			m.joinFailed(to, "", kerr.InconsistentGroupProtocol)
			return
		}
		m.writeGroup(in.group, &groupValue{Since: m.now.Wall})
		g = m.groups[in.group]
	}
	if !m.accepts(g, in.member) {
		m.turnAway(g, in.member)
		m.joinFailed(to, "", kerr.GroupMaxSizeReached)
		return
	}
	if !g.supports(in.protType, in.offers) {
		m.joinFailed(to, in.member, kerr.InconsistentGroupProtocol)
		return
	}
	switch {
	case in.member == "" && in.instance != "":
		m.joinStatic(g, to, in)
	case in.member == "" && in.version >= joinKnownID:
		m.giveID(g, to, in)
	case in.member == "":
		m.joinNew(g, to, in, in.newID)
	case g.joiners[in.member] != nil && in.instance == "":
		m.joinNew(g, to, in, in.member)
	default:
		m.rejoin(g, to, in)
	}
}

// accepts reports whether group.max.size leaves room. While members rejoin those that are there
// count, so that the last ones are kept out when the limit was lowered.
func (m *Machine) accepts(g *group, id string) bool {
	mb := g.byID[id]
	switch g.state {
	case Empty:
		return true
	case PreparingRebalance:
		return mb != nil && mb.join != 0 || g.awaiting < m.cfg.MaxSize
	default:
		return mb != nil || len(g.members) < m.cfg.MaxSize
	}
}

// turnAway takes out who found no room.
func (m *Machine) turnAway(g *group, id string) {
	if mb := g.byID[id]; mb != nil {
		m.removeMember(g, mb)
	}
	m.removeJoiner(g, id)
	m.maybeCompleteJoin(g)
}

// giveID answers a newcomer with an id to come again with, and expects it within a session.
func (m *Machine) giveID(g *group, to coord.Ticket, in *joinInput) {
	if len(g.joiners) >= m.cfg.MaxPendingPerGroup {
		m.removeJoiner(g, g.oldestJoiner())
	}
	m.seq++
	j := &joiner{group: g, id: in.newID, seq: m.seq}
	j.session.fire = func(m *Machine) {
		m.removeJoiner(j.group, j.id)
		m.maybeFinishWaiting(j.group)
		m.forget(j.group)
	}
	g.joiners[j.id] = j
	m.timers.set(&j.session, m.now.Steady+int64(in.session))
	m.joinFailed(to, j.id, kerr.MemberIDRequired)
}

func (g *group) oldestJoiner() string {
	var oldest *joiner
	for _, j := range g.joiners {
		if oldest == nil || j.seq < oldest.seq {
			oldest = j
		}
	}
	return oldest.id
}

func (m *Machine) removeJoiner(g *group, id string) {
	if j := g.joiners[id]; j != nil {
		m.timers.cancel(&j.session)
		delete(g.joiners, id)
	}
}

// joinNew adds a member and begins a rebalance.
func (m *Machine) joinNew(g *group, to coord.Ticket, in *joinInput, id string) {
	m.removeJoiner(g, id)
	mb := newMember(id, in.instance)
	mb.clientID, mb.host = in.client.ID, in.client.Host
	mb.rebalanceTimeout, mb.sessionTimeout = in.timeout, in.session
	mb.protocols = in.offers
	mb.isNew = true
	if len(g.members) == 0 {
		g.protoType = in.protType
	}
	if g.state == PreparingRebalance && g.initial {
		g.joined = true
	}
	g.add(mb)
	m.park(g, mb, to, in.version)
	// The member has no id to send heartbeats with, and a client that gave up and came again
	// leaves it behind: its join runs out.
	m.timers.set(&mb.session, m.now.Steady+int64(m.cfg.NewMemberJoinMs))
	m.rebalance(g)
}

// park keeps a JoinGroup until the join phase ends. A request of the same member that is parked
// already has lost its client, which came again.
func (m *Machine) park(g *group, mb *member, to coord.Ticket, version int16) {
	if mb.join != 0 {
		m.joinFailed(mb.join, mb.id, kerr.RebalanceInProgress)
		g.awaiting--
	}
	mb.join, mb.version = to, version
	g.awaiting++
}

// answerJoin ends a parked JoinGroup.
func (m *Machine) answerJoin(g *group, mb *member, resp *kmsg.JoinGroupResponse) {
	if mb.join == 0 {
		return
	}
	m.out.Reply(mb.join, resp)
	mb.join = 0
	g.awaiting--
}

// joinStatic lets a static member in: a new one, or a known one under a new id, which fences the
// old (KIP-345).
func (m *Machine) joinStatic(g *group, to coord.Ticket, in *joinInput) {
	mb := g.static[in.instance]
	if mb == nil {
		m.joinNew(g, to, in, in.newID)
		return
	}
	oldLeader := g.leader
	m.fence(g, mb)
	g.rename(mb, in.newID)
	mb.isNew = false
	m.armSession(mb)
	m.update(g, mb, to, in)
	switch g.state {
	case Stable:
		if g.vote() == g.proto && g.value(0).size() <= m.cfg.MaxGroupRecordBytes {
			m.keepAssignment(g, mb, oldLeader)
			return
		}
		m.rebalance(g)
	case CompletingRebalance:
		// The leader may have the old id in hand for its assignment: begin anew.
		m.prepareRebalance(g)
	default:
		m.maybeCompleteJoin(g)
	}
}

// fence ends what is parked under an id that is about to be replaced.
func (m *Machine) fence(g *group, mb *member) {
	if mb.join != 0 {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode, resp.MemberID = kerr.FencedInstanceID.Code, mb.id
		m.answerJoin(g, mb, resp)
	}
	m.answerSync(mb, nil, kerr.FencedInstanceID)
	if mb.pending {
		mb.pending = false
		g.syncing--
	}
}

// keepAssignment answers a static member that came back to a Stable group: the generation goes on,
// and the new id is written. From v9 on the leader learns that it leads and need not assign; an
// older one is shown the old leader, so that it does not assign.
func (m *Machine) keepAssignment(g *group, mb *member, oldLeader string) {
	m.writeGroup(g.id, g.value(m.now.Wall))
	resp := m.joined(g, mb)
	if mb.version >= joinSkip {
		resp.SkipAssignment = g.leader == mb.id
	} else {
		resp.LeaderID, resp.Members = oldLeader, nil
	}
	m.answerJoin(g, mb, resp)
}

// update takes over what a member says of itself in a new JoinGroup.
func (m *Machine) update(g *group, mb *member, to coord.Ticket, in *joinInput) {
	mb.protocols = in.offers
	mb.rebalanceTimeout, mb.sessionTimeout = in.timeout, in.session
	m.park(g, mb, to, in.version)
}

// rejoin handles a JoinGroup with a member id.
func (m *Machine) rejoin(g *group, to coord.Ticket, in *joinInput) {
	if err := g.validate(in.member, in.instance); err != nil {
		m.joinFailed(to, in.member, err)
		return
	}
	mb := g.byID[in.member]
	same := mb.matches(in.offers)
	switch g.state {
	case PreparingRebalance:
		m.update(g, mb, to, in)
		m.maybeCompleteJoin(g)
	case CompletingRebalance:
		if same { // it did not get the answer of this generation
			m.out.Reply(to, m.joined(g, mb))
			return
		}
		m.update(g, mb, to, in)
		m.rebalance(g)
	case Stable:
		if same && g.leader != mb.id {
			m.out.Reply(to, m.joined(g, mb))
			return
		}
		// The leader asks for a rebalance by joining again: topics have changed.
		m.update(g, mb, to, in)
		m.rebalance(g)
	default:
		m.joinFailed(to, in.member, kerr.UnknownMemberID)
	}
}

// validate checks a member id, and the instance it says it is.
func (g *group) validate(id, instance string) *kerr.Error {
	if instance != "" {
		mb := g.static[instance]
		if mb == nil {
			return kerr.UnknownMemberID
		}
		if mb.id != id {
			return kerr.FencedInstanceID
		}
	}
	if g.byID[id] == nil {
		return kerr.UnknownMemberID
	}
	return nil
}

// joined is the answer to a member of the present generation; the leader gets everyone's metadata.
func (m *Machine) joined(g *group, mb *member) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Generation, resp.LeaderID, resp.MemberID = g.generation, g.leader, mb.id
	resp.ProtocolType, resp.Protocol = nullable(g.protoType), nullable(g.proto)
	if g.leader != mb.id {
		return resp
	}
	resp.Members = make([]kmsg.JoinGroupResponseMember, len(g.members))
	for i, other := range g.members {
		rm := &resp.Members[i]
		rm.MemberID, rm.InstanceID = other.id, nullable(other.instance)
		rm.ProtocolMetadata = other.metadata(g.proto)
	}
	return resp
}

func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// cloneProtocols copies what a request offers, without what it repeats.
func cloneProtocols(ps []kmsg.JoinGroupRequestProtocol) []protocol {
	out := make([]protocol, 0, len(ps))
	for i := range ps {
		if slices.ContainsFunc(out, func(p protocol) bool { return p.name == ps[i].Name }) {
			continue
		}
		out = append(out, protocol{name: ps[i].Name, metadata: slices.Clone(ps[i].Metadata)})
	}
	return out
}
