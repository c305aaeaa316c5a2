package api

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestJoinGroup(t *testing.T) {
	c := newGroupRig(t).dial()
	eachVersion(t, kmsg.JoinGroup, func(t *testing.T, v int16) {
		req := joinRequest(fmt.Sprint("g", v))
		if v >= 4 {
			resp := ask[*kmsg.JoinGroupResponse](c, req, v)
			wantCode(t, "newcomer", resp.ErrorCode, kerr.MemberIDRequired)
			req.MemberID = resp.MemberID
		}
		resp := ask[*kmsg.JoinGroupResponse](c, req, v)
		wantCode(t, "join", resp.ErrorCode, nil)
		if resp.Generation != 1 || resp.LeaderID != resp.MemberID || resp.Protocol == nil ||
			*resp.Protocol != "range" || len(resp.Members) != 1 ||
			string(resp.Members[0].ProtocolMetadata) != "meta" {
			t.Errorf("answer %+v", resp)
		}
		if v >= 7 && (resp.ProtocolType == nil || *resp.ProtocolType != "consumer") {
			t.Errorf("protocol type %v", resp.ProtocolType)
		}
		if want := "tester-"; len(resp.MemberID) != len(want)+36 || resp.MemberID[:len(want)] != want {
			t.Errorf("member id %q", resp.MemberID)
		}
		req = joinRequest("g")
		req.SessionTimeoutMillis = 1
		resp = ask[*kmsg.JoinGroupResponse](c, req, v)
		wantCode(t, "short session", resp.ErrorCode, kerr.InvalidSessionTimeout)
		if resp.Generation != -1 {
			t.Errorf("generation %d beside an error", resp.Generation)
		}
	})
}

// TestJoinGroupAnswersInOrder parks a join, and sends a heartbeat behind it on the connection.
func TestJoinGroupAnswersInOrder(t *testing.T) {
	r := newGroupRig(t)
	first, second := r.dial(), r.dial()
	id, generation := first.member("g")
	join := joinRequest("g")
	join.SetVersion(3)
	second.send(join) // waits for the first member to rejoin
	beat := kmsg.NewPtrHeartbeatRequest()
	beat.Group = "nobody"
	second.send(beat)
	poll := kmsg.NewPtrHeartbeatRequest()
	poll.Group, poll.MemberID, poll.Generation = "g", id, generation
	for ask[*kmsg.HeartbeatResponse](first, poll, 4).ErrorCode != kerr.RebalanceInProgress.Code {
	}
	again := joinRequest("g")
	again.MemberID = id
	resp := ask[*kmsg.JoinGroupResponse](first, again, 3)
	wantCode(t, "rejoin", resp.ErrorCode, nil)
	if len(resp.Members) != 2 {
		t.Errorf("members %+v", resp.Members)
	}
	joined := second.receive(join).(*kmsg.JoinGroupResponse)
	wantCode(t, "parked join", joined.ErrorCode, nil)
	wantCode(t, "heartbeat", second.receive(beat).(*kmsg.HeartbeatResponse).ErrorCode,
		kerr.UnknownMemberID)
}
