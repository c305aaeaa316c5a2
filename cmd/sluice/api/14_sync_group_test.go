package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSyncGroup(t *testing.T) {
	c := newGroupRig(t).dial()
	id, generation := c.member("g")
	eachVersion(t, kmsg.SyncGroup, func(t *testing.T, v int16) {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.Generation = "g", id, generation
		resp := ask[*kmsg.SyncGroupResponse](c, req, v)
		if v >= 5 {
			wantCode(t, "without protocol", resp.ErrorCode, kerr.InconsistentGroupProtocol)
			typ, name := "consumer", "range"
			req.ProtocolType, req.Protocol = &typ, &name
			resp = ask[*kmsg.SyncGroupResponse](c, req, v)
			if resp.ProtocolType == nil || *resp.ProtocolType != typ || resp.Protocol == nil ||
				*resp.Protocol != name {
				t.Errorf("answer %+v", resp)
			}
		}
		wantCode(t, "sync", resp.ErrorCode, nil)
		if string(resp.MemberAssignment) != "all" {
			t.Errorf("assignment %q", resp.MemberAssignment)
		}
		req.Generation++
		wantCode(t, "other generation", ask[*kmsg.SyncGroupResponse](c, req, v).ErrorCode,
			kerr.IllegalGeneration)
	})
}

// TestRow51SyncAndHeartbeat answers both by the state of the group: while it waits for members, while
// it waits for its leader, stable, and without members.
func TestRow51SyncAndHeartbeat(t *testing.T) {
	r := newGroupRig(t)
	a, b := r.dial(), r.dial()
	check := func(state, member string, generation int32, beat, sync *kerr.Error, assigned string) {
		t.Helper()
		for v := int16(0); v <= 4; v++ {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = "g", member, generation
			wantCode(t, state+": heartbeat", ask[*kmsg.HeartbeatResponse](a, req, v).ErrorCode, beat)
			if sync == kerr.UnknownServerError {
				continue // would wait
			}
			q := syncRequest("g", member, generation)
			got := ask[*kmsg.SyncGroupResponse](a, q, v)
			wantCode(t, state+": sync", got.ErrorCode, sync)
			if string(got.MemberAssignment) != assigned {
				t.Errorf("%s: assignment %q", state, got.MemberAssignment)
			}
		}
	}
	check("no group", "m", 1, kerr.UnknownMemberID, kerr.UnknownMemberID, "")
	first, _ := a.member("g")
	check("stable", first, 1, nil, nil, "all")
	check("stable, old generation", first, 0, kerr.IllegalGeneration, kerr.IllegalGeneration, "")
	check("stable, stranger", "m", 1, kerr.UnknownMemberID, kerr.UnknownMemberID, "")
	parked := b.join(3, joinRequest("g"))
	for a.beat("g", first, 1) == 0 {
	}
	check("preparing", first, 1, kerr.RebalanceInProgress, kerr.RebalanceInProgress, "")
	rejoin := joinRequest("g")
	rejoin.MemberID = first
	a.joined(a.join(3, rejoin))
	second := b.joined(parked).MemberID
	check("completing", second, 2, nil, kerr.UnknownServerError, "")
	check("completing, old generation", second, 1, kerr.IllegalGeneration, kerr.IllegalGeneration, "")
	a.syncTo("g", first, 2, first, "everything")
	check("stable, not assigned", second, 2, nil, nil, "")
	for _, id := range []string{first, second} {
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = "g", id
		wantCode(t, "leave", ask[*kmsg.LeaveGroupResponse](a, leave, 1).ErrorCode, nil)
	}
	check("empty", first, 2, kerr.UnknownMemberID, kerr.UnknownMemberID, "")
}
