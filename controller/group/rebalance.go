package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
)

// A generation is made in two phases.
//
//	Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
//	            │   ▲  members join    │   the leader assigns    │
//	            ▼   └──────────────────┴─────────────────────────┘
//	          Empty                 somebody comes, goes or changes
//
// The join phase ends when everybody is there, or with the rebalance timeout. From Empty it waits
// group.initial.rebalance.delay.ms instead, once more as long as somebody came meanwhile, up to the
// rebalance timeout, so that a fleet that starts together makes one generation.

// armSession gives a member a whole session from now.
func (m *Machine) armSession(mb *member) {
	m.timers.set(&mb.session, m.now.Steady+int64(mb.sessionTimeout))
}

// transition moves the group to a state that its log does not tell.
func (m *Machine) transition(g *group, s State) {
	g.state, g.since = s, m.now.Wall
}

// rebalance begins a rebalance, or moves the one that runs on.
func (m *Machine) rebalance(g *group) {
	if g.state == PreparingRebalance {
		m.maybeCompleteJoin(g)
		return
	}
	m.prepareRebalance(g)
}

// prepareRebalance opens the join phase.
func (m *Machine) prepareRebalance(g *group) {
	if g.state == CompletingRebalance {
		for _, mb := range g.members {
			mb.assignment = nil
			if m.answerSync(mb, nil, kerr.RebalanceInProgress) {
				m.armSession(mb)
			}
		}
	}
	g.initial = g.state == Empty
	m.clearSyncing(g)
	m.transition(g, PreparingRebalance)
	if g.initial {
		g.joined = false
		g.delay = m.cfg.InitialDelayMs
		g.left = max(g.rebalanceTimeout()-g.delay, 0)
		m.timers.set(&g.phase, m.now.Steady+int64(g.delay))
		return
	}
	m.maybeFinishWaiting(g)
	if g.state == PreparingRebalance {
		m.timers.set(&g.phase, m.now.Steady+int64(g.rebalanceTimeout()))
	}
}

// clearSyncing ends the wait for SyncGroups.
func (m *Machine) clearSyncing(g *group) {
	for _, mb := range g.members {
		mb.pending = false
	}
	g.syncing = 0
	m.timers.cancel(&g.phase)
}

// maybeCompleteJoin ends the join phase when everybody is there, except for the first generation,
// which waits out its delay.
func (m *Machine) maybeCompleteJoin(g *group) {
	if !g.initial {
		m.maybeFinishWaiting(g)
	}
}

// maybeFinishWaiting ends the join phase when everybody is there.
func (m *Machine) maybeFinishWaiting(g *group) {
	if g.state == PreparingRebalance && g.allJoined() {
		m.completeJoin(g)
	}
}

// phaseEnded is called when the join phase, the initial delay, or the wait for SyncGroups is over.
func (m *Machine) phaseEnded(g *group) {
	switch {
	case g.state == PreparingRebalance && g.initial && g.joined && g.left > 0:
		g.joined = false
		next := min(m.cfg.InitialDelayMs, g.left)
		g.left = max(g.left-g.delay, 0)
		g.delay = next
		m.timers.set(&g.phase, m.now.Steady+int64(next))
	case g.state == PreparingRebalance:
		m.completeJoin(g)
	case g.syncing > 0: // who does not fetch its assignment is gone
		for _, mb := range slices.Clone(g.members) {
			if mb.pending {
				m.removeMember(g, mb)
			}
		}
		m.prepareRebalance(g)
	}
}

// completeJoin ends the join phase: dynamic members that have not come are out, one of those that
// are there leads, and everyone learns of the new generation.
func (m *Machine) completeJoin(g *group) {
	m.timers.cancel(&g.phase)
	for _, mb := range slices.Clone(g.members) {
		if mb.join == 0 && mb.instance == "" {
			m.removeMember(g, mb)
		}
	}
	if len(g.members) > 0 && !g.electLeader() {
		// Only static members are left, and none has come: wait until sessions run out.
		m.timers.set(&g.phase, m.now.Steady+int64(g.rebalanceTimeout()))
		return
	}
	g.initial = false
	g.generation++
	if len(g.members) == 0 {
		g.proto, g.leader = "", ""
		m.writeGroup(g.id, g.value(m.now.Wall))
		return
	}
	g.proto = g.vote()
	g.computeSubscribed()
	m.transition(g, CompletingRebalance)
	for _, mb := range g.members {
		m.answerJoin(g, mb, m.joined(g, mb))
		m.armSession(mb)
		mb.isNew = false
		mb.pending = true
	}
	g.syncing = len(g.members)
	m.timers.set(&g.phase, m.now.Steady+int64(g.rebalanceTimeout()))
}

// electLeader keeps the leader if it has joined, or takes the oldest member that has; false when
// nobody has.
func (g *group) electLeader() bool {
	if mb := g.byID[g.leader]; mb != nil && mb.join != 0 {
		return true
	}
	for _, mb := range g.members {
		if mb.join != 0 {
			g.leader = mb.id
			return true
		}
	}
	return false
}

// sessionEnded is called when a member was not heard of for its session.
func (m *Machine) sessionEnded(mb *member) {
	if !mb.isNew && (mb.join != 0 || mb.sync != 0) {
		return // it waits for us; the answer begins a new session
	}
	g := mb.group
	m.removeMember(g, mb)
	m.memberLeft(g)
}

// memberLeft goes on with a group that somebody has left.
func (m *Machine) memberLeft(g *group) {
	switch g.state {
	case Stable, CompletingRebalance:
		m.prepareRebalance(g)
	case PreparingRebalance:
		m.maybeFinishWaiting(g)
	}
}

// removeMember takes a member out. A new member may still be waiting for its first answer: it is
// told to join again, if it is there at all.
func (m *Machine) removeMember(g *group, mb *member) {
	if mb.join != 0 {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode = kerr.UnknownMemberID.Code
		m.answerJoin(g, mb, resp)
	}
	m.answerSync(mb, nil, kerr.UnknownMemberID)
	m.timers.cancel(&mb.session)
	g.remove(mb)
}

// syncInput is a SyncGroup request.
type syncInput struct {
	version          int16
	group            string
	member, instance string
	generation       int32
	protoType, proto *string           // nil below v5
	assignments      map[string][]byte // by member id, copied
}

func (*syncInput) isInput() {}

// answerSync ends a parked SyncGroup; false when there is none.
func (m *Machine) answerSync(mb *member, g *group, code *kerr.Error) bool {
	if mb.sync == 0 {
		return false
	}
	m.replySync(mb.sync, g, mb.assignment, code)
	mb.sync = 0
	return true
}

// replySync answers a SyncGroup: with the assignment when code is nil, which needs g.
func (m *Machine) replySync(to coord.Ticket, g *group, assignment []byte, code *kerr.Error) {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ErrorCode = codeOf(code)
	if code == nil {
		resp.ProtocolType, resp.Protocol = nullable(g.protoType), nullable(g.proto)
		resp.MemberAssignment = assignment
	}
	m.out.Reply(to, resp)
}

// sync handles a SyncGroup.
func (m *Machine) sync(to coord.Ticket, in *syncInput) {
	g := m.groups[in.group]
	if g == nil || g.state == Empty {
		m.replySync(to, nil, nil, kerr.UnknownMemberID)
		return
	}
	if err := g.validateSync(in); err != nil {
		m.replySync(to, nil, nil, err)
		return
	}
	mb := g.byID[in.member]
	switch g.state {
	case PreparingRebalance:
		m.replySync(to, nil, nil, kerr.RebalanceInProgress)
	case CompletingRebalance:
		m.answerSync(mb, nil, kerr.RebalanceInProgress) // its client came again
		mb.sync = to
		m.synced(g, mb)
		if g.leader == mb.id {
			m.assign(g, in.assignments)
		}
	default:
		m.synced(g, mb)
		m.replySync(to, g, mb.assignment, nil)
	}
}

func (g *group) validateSync(in *syncInput) *kerr.Error {
	if err := g.validate(in.member, in.instance); err != nil {
		return err
	}
	switch {
	case in.generation != g.generation:
		return kerr.IllegalGeneration
	case in.protoType != nil && *in.protoType != g.protoType,
		in.proto != nil && *in.proto != g.proto:
		return kerr.InconsistentGroupProtocol
	}
	return nil
}

// synced notes that a member has fetched its assignment.
func (m *Machine) synced(g *group, mb *member) {
	if mb.pending {
		mb.pending = false
		g.syncing--
	}
	m.timersOff(g)
}

// assign writes the leader's assignment and hands it out. One that is too large to be written
// fails for everyone, and the members join again.
func (m *Machine) assign(g *group, assignments map[string][]byte) {
	v := g.value(m.now.Wall)
	for i := range v.Members {
		v.Members[i].Assignment = assignments[v.Members[i].ID]
	}
	if size := v.size(); size > m.cfg.MaxGroupRecordBytes {
		for _, mb := range g.members {
			if m.answerSync(mb, nil, kerr.MessageTooLarge) {
				m.armSession(mb)
			}
		}
		m.prepareRebalance(g)
		return
	}
	m.writeGroup(g.id, v)
	for _, mb := range g.members {
		if m.answerSync(mb, g, nil) {
			m.armSession(mb)
		}
	}
}

// heartbeatInput is a Heartbeat request.
type heartbeatInput struct {
	group, member, instance string
	generation              int32
}

func (*heartbeatInput) isInput() {}

func (m *Machine) heartbeat(to coord.Ticket, in *heartbeatInput) {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.ErrorCode = codeOf(m.beat(in))
	m.out.Reply(to, resp)
}

// beat keeps a member's session up and tells it of a rebalance.
func (m *Machine) beat(in *heartbeatInput) *kerr.Error {
	g := m.groups[in.group]
	if g == nil {
		return kerr.UnknownMemberID
	}
	if err := g.validate(in.member, in.instance); err != nil {
		return err
	}
	if in.generation != g.generation {
		return kerr.IllegalGeneration
	}
	m.armSession(g.byID[in.member])
	if g.state == PreparingRebalance {
		return kerr.RebalanceInProgress
	}
	return nil
}

// leaver is one member of a LeaveGroup.
type leaver struct{ member, instance string }

// leaveInput is a LeaveGroup request. The answer is a []int16 with one code for each member, or a
// *kerr.Error for the request.
type leaveInput struct {
	group   string
	leavers []leaver
}

func (*leaveInput) isInput() {}

func (m *Machine) leave(to coord.Ticket, in *leaveInput) {
	codes := make([]int16, len(in.leavers))
	g := m.groups[in.group]
	left := false
	for i, l := range in.leavers {
		err := kerr.UnknownMemberID
		if g != nil {
			err = m.leaveOne(g, l)
		}
		codes[i] = codeOf(err)
		left = left || err == nil
	}
	if left {
		switch g.state {
		case Stable, CompletingRebalance:
			m.prepareRebalance(g)
		case PreparingRebalance:
			m.maybeCompleteJoin(g)
		}
		m.forget(g)
	}
	m.out.Reply(to, codes)
}

// leaveOne takes out one member: by its id, or by its instance alone, as an operator does
// (KIP-345).
func (m *Machine) leaveOne(g *group, l leaver) *kerr.Error {
	var mb *member
	switch {
	case l.member == "":
		if mb = g.static[l.instance]; mb == nil || l.instance == "" {
			return kerr.UnknownMemberID
		}
	case g.joiners[l.member] != nil:
		m.removeJoiner(g, l.member)
		return nil
	default:
		if err := g.validate(l.member, l.instance); err != nil {
			return err
		}
		mb = g.byID[l.member]
	}
	m.removeMember(g, mb)
	return nil
}
