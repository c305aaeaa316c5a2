package api

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The states and timers of groups are tested by the scenarios of controller/group (row49_join.txt and
// on); here are the codes and fields on the wire. Row 58 (KIP-848) has no test: it is not served.

// join sends a JoinGroup and does not wait for its answer.
func (c *client) join(v int16, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupRequest {
	c.t.Helper()
	req.SetVersion(v)
	c.send(req)
	return req
}

func (c *client) joined(req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	c.t.Helper()
	return c.receive(req).(*kmsg.JoinGroupResponse)
}

// withProtocols is a join that offers protocols, name and metadata in turn.
func withProtocols(groupID, member string, pairs ...string) *kmsg.JoinGroupRequest {
	req := joinRequest(groupID)
	req.MemberID, req.Protocols = member, nil
	for i := 0; i < len(pairs); i += 2 {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = pairs[i], []byte(pairs[i+1])
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

// syncTo sends a member's SyncGroup; assignments are member, bytes in turn.
func (c *client) syncTo(groupID, member string, generation int32, pairs ...string) *kmsg.SyncGroupResponse {
	c.t.Helper()
	return ask[*kmsg.SyncGroupResponse](c, syncRequest(groupID, member, generation, pairs...), 3)
}

func syncRequest(groupID, member string, generation int32, pairs ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = groupID, member, generation
	for i := 0; i < len(pairs); i += 2 {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = pairs[i], []byte(pairs[i+1])
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

func (c *client) beat(groupID, member string, generation int32) int16 {
	c.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = groupID, member, generation
	return ask[*kmsg.HeartbeatResponse](c, req, 3).ErrorCode
}

// TestRow49JoinRefusals gives each bad join its code and names no generation.
func TestRow49JoinRefusals(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	r.dial().member("live")
	eachVersion(t, kmsg.JoinGroup, func(t *testing.T, v int16) {
		for _, x := range []struct {
			name string
			edit func(*kmsg.JoinGroupRequest)
			want *kerr.Error
		}{
			{"no group id", func(q *kmsg.JoinGroupRequest) { q.Group = "" }, kerr.InvalidGroupID},
			{"short session", func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 5999 }, kerr.InvalidSessionTimeout},
			{"long session", func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 1_800_001 }, kerr.InvalidSessionTimeout},
			{"no protocols", func(q *kmsg.JoinGroupRequest) { q.Protocols = nil }, kerr.InconsistentGroupProtocol},
			{"no protocol type", func(q *kmsg.JoinGroupRequest) { q.ProtocolType = "" }, kerr.InconsistentGroupProtocol},
			{"another type", func(q *kmsg.JoinGroupRequest) { q.Group, q.ProtocolType = "live", "connect" }, kerr.InconsistentGroupProtocol},
			{"no common protocol", func(q *kmsg.JoinGroupRequest) { q.Group, q.Protocols[0].Name = "live", "sticky" }, kerr.InconsistentGroupProtocol},
			{"unknown member of no group", func(q *kmsg.JoinGroupRequest) { q.MemberID = "stranger" }, kerr.UnknownMemberID},
			{"unknown member", func(q *kmsg.JoinGroupRequest) { q.Group, q.MemberID = "live", "stranger" }, kerr.UnknownMemberID},
		} {
			req := joinRequest("g")
			x.edit(req)
			resp := ask[*kmsg.JoinGroupResponse](c, req, v)
			wantCode(t, x.name, resp.ErrorCode, x.want)
			if resp.Generation != -1 || len(resp.Members) != 0 || resp.LeaderID != "" || resp.MemberID != req.MemberID {
				t.Errorf("%s: %+v", x.name, resp)
			}
		}
	})
}

// TestRow49MemberIDRequired makes a new dynamic member come back with an id of its client's name
// (KIP-394); until then it does not count.
func TestRow49MemberIDRequired(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	c.id = "reader"
	for v := int16(4); v <= 9; v++ {
		first := ask[*kmsg.JoinGroupResponse](c, joinRequest("g"), v)
		wantCode(t, "newcomer", first.ErrorCode, kerr.MemberIDRequired)
		if !strings.HasPrefix(first.MemberID, "reader-") || len(first.MemberID) != len("reader-")+36 || first.Generation != -1 {
			t.Errorf("version %d: %+v", v, first)
		}
		wantCode(t, "heartbeat of a pending member", c.beat("g", first.MemberID, -1), kerr.UnknownMemberID)
		again := joinRequest("g")
		again.MemberID = first.MemberID
		resp := ask[*kmsg.JoinGroupResponse](c, again, v)
		wantCode(t, "with its id", resp.ErrorCode, nil)
		if resp.MemberID != first.MemberID || len(resp.Members) != 1 {
			t.Errorf("version %d: %+v", v, resp)
		}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = "g", first.MemberID
		wantCode(t, "leave", ask[*kmsg.LeaveGroupResponse](c, leave, 1).ErrorCode, nil)
	}
}

// TestRow50Rebalance brings a second member in: the leader alone is told of the members and what they
// said of the protocol that most prefer.
func TestRow50Rebalance(t *testing.T) {
	r := newGroupRig(t)
	a, b := r.dial(), r.dial()
	first := a.joined(a.join(3, withProtocols("g", "", "x", "ax", "y", "ay")))
	wantCode(t, "first", first.ErrorCode, nil)
	a.syncTo("g", first.MemberID, 1, first.MemberID, "all")
	parked := b.join(3, withProtocols("g", "", "y", "by", "x", "bx"))
	for a.beat("g", first.MemberID, 1) != kerr.RebalanceInProgress.Code {
	}
	wantCode(t, "sync of the old generation", a.syncTo("g", first.MemberID, 1).ErrorCode, kerr.RebalanceInProgress)
	lead := a.joined(a.join(3, withProtocols("g", first.MemberID, "y", "ay", "x", "ax")))
	follow := b.joined(parked)
	for _, resp := range []*kmsg.JoinGroupResponse{lead, follow} {
		if resp.ErrorCode != 0 || resp.Generation != 2 || unnull(resp.Protocol) != "y" || resp.LeaderID != first.MemberID {
			t.Errorf("joined: %+v", resp)
		}
	}
	if len(follow.Members) != 0 || len(lead.Members) != 2 {
		t.Fatalf("the leader is told of %d members, the follower of %d", len(lead.Members), len(follow.Members))
	}
	said := map[string]string{first.MemberID: "ay", follow.MemberID: "by"}
	for _, m := range lead.Members {
		if string(m.ProtocolMetadata) != said[m.MemberID] {
			t.Errorf("member %+v", m)
		}
	}
	wait := syncRequest("g", follow.MemberID, 2)
	wait.SetVersion(3)
	b.send(wait) // until the leader has decided
	if got := a.syncTo("g", first.MemberID, 2, first.MemberID, "one", follow.MemberID, "two"); string(got.MemberAssignment) != "one" {
		t.Errorf("the leader has %q", got.MemberAssignment)
	}
	if got := b.receive(wait).(*kmsg.SyncGroupResponse); string(got.MemberAssignment) != "two" {
		t.Errorf("the follower has %q", got.MemberAssignment)
	}
	same := b.joined(b.join(3, withProtocols("g", follow.MemberID, "y", "by", "x", "bx")))
	if same.ErrorCode != 0 || same.Generation != 2 || len(same.Members) != 0 {
		t.Errorf("a follower that joins again: %+v", same)
	}
	again := a.join(3, withProtocols("g", first.MemberID, "y", "ay", "x", "ax"))
	for b.beat("g", follow.MemberID, 2) != kerr.RebalanceInProgress.Code {
	}
	b.joined(b.join(3, withProtocols("g", follow.MemberID, "y", "by", "x", "bx")))
	if resp := a.joined(again); resp.Generation != 3 {
		t.Errorf("a leader that joins again: %+v", resp)
	}
}

// TestRow50InitialDelay lets the first round of a group wait for more members.
func TestRow50InitialDelay(t *testing.T) {
	pollRig(t, map[string]string{"group.initial.rebalance.delay.ms": "3000"}, func(t *testing.T, r *rig) {
		r.create("t", 1)
		if err := r.makeInternal("__consumer_offsets"); err != nil {
			t.Fatal(err)
		}
		a, b := r.dial(), r.dial()
		began := time.Now()
		first := a.join(3, joinRequest("g"))
		time.Sleep(2 * time.Second)
		second := b.join(3, joinRequest("g"))
		lead, follow := a.joined(first), b.joined(second)
		if took := time.Since(began); took != 6*time.Second { // begun anew, as another came
			t.Errorf("answered after %v", took)
		}
		if lead.Generation != 1 || follow.Generation != 1 || len(lead.Members)+len(follow.Members) != 2 {
			t.Errorf("joined: %+v and %+v", lead, follow)
		}
	})
}

// TestRow52StaticMembers swaps the id of a member that comes back under its instance id, without a
// rebalance, and fences the old one (KIP-345, KIP-814).
func TestRow52StaticMembers(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	for v := int16(5); v <= 9; v++ {
		id := string('a' + rune(v))
		static := func() *kmsg.JoinGroupRequest {
			req := joinRequest(id)
			req.InstanceID = kmsg.StringPtr("i1")
			return req
		}
		first := c.joined(c.join(v, static()))
		wantCode(t, "first", first.ErrorCode, nil)
		if !strings.HasPrefix(first.MemberID, "i1-") || first.SkipAssignment {
			t.Errorf("version %d: %+v", v, first)
		}
		c.syncTo(id, first.MemberID, 1, first.MemberID, "mine")
		again := c.joined(c.join(v, static()))
		wantCode(t, "again", again.ErrorCode, nil)
		if again.MemberID == first.MemberID || again.Generation != 1 || again.SkipAssignment != (v >= 9) {
			t.Errorf("version %d: %+v", v, again)
		}
		if got := c.syncTo(id, again.MemberID, 1); got.ErrorCode != 0 || string(got.MemberAssignment) != "mine" {
			t.Errorf("version %d: %+v", v, got)
		}
		old := kmsg.NewPtrHeartbeatRequest()
		old.Group, old.MemberID, old.Generation, old.InstanceID = id, first.MemberID, 1, kmsg.StringPtr("i1")
		wantCode(t, "old id", ask[*kmsg.HeartbeatResponse](c, old, 3).ErrorCode, kerr.FencedInstanceID)
		old.InstanceID = kmsg.StringPtr("i2")
		wantCode(t, "unknown instance", ask[*kmsg.HeartbeatResponse](c, old, 3).ErrorCode, kerr.UnknownMemberID)
	}
}

// TestRow53Opaque passes through what members say, whatever it is and of whatever protocol type.
func TestRow53Opaque(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	for _, typ := range []string{"consumer", "connect", "sr", "stream", "my-own"} {
		const meta = "\x00\x01\xff owned partitions"
		req := withProtocols("g-"+typ, "", "cooperative-sticky", meta)
		req.ProtocolType = typ
		resp := c.joined(c.join(3, req))
		wantCode(t, typ, resp.ErrorCode, nil)
		if len(resp.Members) != 1 || string(resp.Members[0].ProtocolMetadata) != meta || unnull(resp.Protocol) != "cooperative-sticky" {
			t.Errorf("%s: %+v", typ, resp)
		}
		got := c.syncTo("g-"+typ, resp.MemberID, 1, resp.MemberID, "\xff\x00")
		if got.ErrorCode != 0 || string(got.MemberAssignment) != "\xff\x00" {
			t.Errorf("%s: %+v", typ, got)
		}
	}
}
