package group

import (
	"fmt"
	"io"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// uuidLen is the length of a UUID's text, and one for the '-' before it.
const uuidLen = 36 + 1

// checkGroupID checks a group id of an API that needs one.
func checkGroupID(id string) *kerr.Error {
	if id == "" || len(id) > maxString {
		return kerr.InvalidGroupID
	}
	return nil
}

// newMemberID gives a newcomer its id: the client's id, or the instance's, and a random UUID.
func (s *Service) newMemberID(prefix string) (string, error) {
	var u [16]byte
	if _, err := io.ReadFull(s.o.Random, u[:]); err != nil {
		return "", fmt.Errorf("draw a member id: %w", err)
	}
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	prefix = prefix[:min(len(prefix), maxString-uuidLen)]
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, u[:4], u[4:6], u[6:8], u[8:10], u[10:]), nil
}

// Join answers JoinGroup.
func (s *Service) Join(c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) {
	fail := func(code int16, member string) {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.ErrorCode, resp.MemberID = code, member
		reply(resp)
	}
	if err := s.checkJoin(req); err != nil {
		fail(err.Code, req.MemberID)
		return
	}
	in := &joinInput{
		client: c, version: req.Version, group: req.Group, member: req.MemberID,
		instance: deref(req.InstanceID), protType: req.ProtocolType,
		session: req.SessionTimeoutMillis, timeout: req.RebalanceTimeoutMillis,
		offers: cloneProtocols(req.Protocols),
	}
	if in.timeout < 0 { // version 0 has none
		in.timeout = in.session
	}
	if in.member == "" {
		prefix := in.instance
		if prefix == "" {
			prefix = c.ID
		}
		id, err := s.newMemberID(prefix)
		if err != nil {
			s.log.Error("no member id", "err", err)
			fail(kerr.CoordinatorNotAvailable.Code, "")
			return
		}
		in.newID = id
	}
	s.tell(req.Group, in, func(out any, err error) {
		if err != nil {
			fail(kafkaproto.Code(err), req.MemberID)
			return
		}
		reply(out.(*kmsg.JoinGroupResponse))
	})
}

// checkJoin is what can be told without the group (row 49), and keeps out what no record can hold.
func (s *Service) checkJoin(req *kmsg.JoinGroupRequest) *kerr.Error {
	if err := checkGroupID(req.Group); err != nil {
		return err
	}
	if t := req.SessionTimeoutMillis; t < s.o.Config.MinSessionMs || t > s.o.Config.MaxSessionMs {
		return kerr.InvalidSessionTimeout
	}
	if len(req.ProtocolType) > maxString {
		return kerr.InconsistentGroupProtocol
	}
	if len(deref(req.InstanceID)) > maxString-uuidLen {
		return kerr.InvalidRequest
	}
	total := 0
	for i := range req.Protocols {
		p := &req.Protocols[i]
		if len(p.Name) > maxString {
			return kerr.InconsistentGroupProtocol
		}
		if len(p.Metadata) > s.o.Config.MaxGroupRecordBytes {
			return kerr.MessageTooLarge
		}
		total += len(p.Name) + len(p.Metadata)
	}
	if total > offersPerRecord*s.o.Config.MaxGroupRecordBytes {
		return kerr.MessageTooLarge
	}
	return nil
}

// offersPerRecord bounds what a member offers in all protocols together, in multiples of a group's
// record, which holds one of them.
const offersPerRecord = 8

// syncNamesProtocol is the version of SyncGroup from which on it must name the protocol (KIP-559).
const syncNamesProtocol = 5

// Sync answers SyncGroup.
func (s *Service) Sync(req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {
	fail := func(code int16) {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = code
		reply(resp)
	}
	if req.Version >= syncNamesProtocol && (req.ProtocolType == nil || req.Protocol == nil) {
		fail(kerr.InconsistentGroupProtocol.Code)
		return
	}
	if err := checkGroupID(req.Group); err != nil {
		fail(err.Code)
		return
	}
	in := &syncInput{
		version: req.Version, group: req.Group, member: req.MemberID,
		instance: deref(req.InstanceID), generation: req.Generation,
		protoType: req.ProtocolType, proto: req.Protocol,
		assignments: make(map[string][]byte, len(req.GroupAssignment)),
	}
	for i := range req.GroupAssignment {
		a := &req.GroupAssignment[i]
		in.assignments[a.MemberID] = slices.Clone(a.MemberAssignment)
	}
	s.ask(req.Group, in, func(out any, err error) {
		if err != nil {
			fail(kafkaproto.Code(err))
			return
		}
		reply(out.(*kmsg.SyncGroupResponse))
	})
}

// Heartbeat answers Heartbeat. While the shard is being loaded it is answered blindly, as in Kafka:
// the member is most likely still in, and its session begins anew after the load.
func (s *Service) Heartbeat(req *kmsg.HeartbeatRequest, reply func(*kmsg.HeartbeatResponse)) {
	answer := func(code int16) {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = code
		reply(resp)
	}
	if err := checkGroupID(req.Group); err != nil {
		answer(err.Code)
		return
	}
	in := &heartbeatInput{
		group: req.Group, member: req.MemberID, instance: deref(req.InstanceID),
		generation: req.Generation,
	}
	s.ask(req.Group, in, func(out any, err error) {
		switch code := kafkaproto.Code(err); code {
		case 0:
			reply(out.(*kmsg.HeartbeatResponse))
		case kerr.CoordinatorLoadInProgress.Code:
			answer(0)
		default:
			answer(code)
		}
	})
}

// leaveBatch is the version of LeaveGroup from which on it names several members (KIP-345).
const leaveBatch = 3

// Leave answers LeaveGroup.
func (s *Service) Leave(req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) {
	resp := kmsg.NewPtrLeaveGroupResponse()
	if err := checkGroupID(req.Group); err != nil {
		resp.ErrorCode = err.Code
		reply(resp)
		return
	}
	in := &leaveInput{group: req.Group}
	if req.Version < leaveBatch {
		in.leavers = []leaver{{member: req.MemberID}}
	} else {
		for i := range req.Members {
			m := &req.Members[i]
			in.leavers = append(in.leavers, leaver{m.MemberID, deref(m.InstanceID)})
		}
	}
	s.ask(req.Group, in, func(out any, err error) {
		if err != nil {
			resp.ErrorCode = kafkaproto.Code(err)
			reply(resp)
			return
		}
		codes := out.([]int16)
		if req.Version < leaveBatch {
			resp.ErrorCode = codes[0]
			reply(resp)
			return
		}
		resp.Members = make([]kmsg.LeaveGroupResponseMember, len(codes))
		for i, code := range codes {
			rm := &resp.Members[i]
			rm.MemberID, rm.InstanceID = req.Members[i].MemberID, req.Members[i].InstanceID
			rm.ErrorCode = code
		}
		reply(resp)
	})
}
