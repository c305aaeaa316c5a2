package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
)

// dead is the state of a group that is not there.
const dead = "Dead"

// classicType is the type of every group here (KIP-848).
const classicType = "classic"

// describeKnowsGroup is the version of DescribeGroups from which on a missing group is an error
// (KIP-1043).
const describeKnowsGroup = 6

// describeInput describes one group. The answer is a kmsg.DescribeGroupsResponseGroup.
type describeInput struct {
	version int16
	group   string
}

func (*describeInput) isInput() {}

func (m *Machine) describe(to coord.Ticket, in *describeInput) {
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group = in.group
	g := m.groups[in.group]
	if g == nil {
		out.State = dead
		if in.version >= describeKnowsGroup {
			out.ErrorCode = kerr.GroupIDNotFound.Code
			text := fmt.Sprintf("Group %s not found.", in.group)
			out.ErrorMessage = &text
		}
		m.out.Reply(to, out)
		return
	}
	out.State, out.ProtocolType = g.state.String(), g.protoType
	if g.state == Stable {
		out.Protocol = g.proto
	}
	out.Members = make([]kmsg.DescribeGroupsResponseGroupMember, len(g.members))
	for i, mb := range g.members {
		rm := &out.Members[i]
		rm.MemberID, rm.InstanceID = mb.id, nullable(mb.instance)
		rm.ClientID, rm.ClientHost = mb.clientID, mb.host
		rm.MemberAssignment = mb.assignment
		if g.state == Stable {
			rm.ProtocolMetadata = mb.metadata(g.proto)
		}
	}
	m.out.Reply(to, out)
}

// listInput lists groups. The answer is a []kmsg.ListGroupsResponseGroup sorted by id.
type listInput struct {
	states, types []string // empty for all
}

func (*listInput) isInput() {}

func (m *Machine) list(to coord.Ticket, in *listInput) {
	out := make([]kmsg.ListGroupsResponseGroup, 0, len(m.groups))
	for _, id := range m.sortedGroups() {
		g := m.groups[id]
		if !listed(in.states, g.state.String()) || !listed(in.types, classicType) {
			continue
		}
		e := kmsg.NewListGroupsResponseGroup()
		e.Group, e.ProtocolType = id, g.protoType
		e.GroupState, e.GroupType = g.state.String(), classicType
		out = append(out, e)
	}
	m.out.Reply(to, out)
}

// listed reports whether a filter lets a value through; case does not count.
func listed(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool {
		return strings.EqualFold(f, value)
	})
}

// deleteGroupInput deletes a group with its offsets. The answer is a *kerr.Error, nil when it is
// gone.
type deleteGroupInput struct{ group string }

func (*deleteGroupInput) isInput() {}

func (m *Machine) deleteGroup(to coord.Ticket, in *deleteGroupInput) {
	g := m.groups[in.group]
	var err *kerr.Error
	switch {
	case g == nil:
		err = kerr.GroupIDNotFound
	case g.state != Empty:
		err = kerr.NonEmptyGroup
	default:
		for _, k := range g.keys("") {
			m.writeOffset(k, nil, nil)
		}
		m.writeGroup(in.group, nil)
	}
	m.out.Reply(to, err)
}

// stats copies what the metrics show.
func (m *Machine) stats() []GroupStats {
	out := make([]GroupStats, 0, len(m.groups))
	for _, id := range m.sortedGroups() {
		g := m.groups[id]
		s := GroupStats{
			Group: id, State: g.state.String(), Protocol: g.protoType, Members: len(g.members),
		}
		for _, k := range g.keys("") {
			if o := g.offsets[k.Topic][k.Partition]; o != nil {
				s.Offsets = append(s.Offsets, OffsetStats{
					Topic: k.Topic, Partition: k.Partition,
					Offset: o.Offset, Committed: o.Committed,
				})
			}
		}
		out = append(out, s)
	}
	return out
}
