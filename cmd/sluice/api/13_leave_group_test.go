package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLeaveGroup(t *testing.T) {
	c := newGroupRig(t).dial()
	eachVersion(t, kmsg.LeaveGroup, func(t *testing.T, v int16) {
		id, _ := c.member("g")
		for _, want := range []*kerr.Error{nil, kerr.UnknownMemberID} {
			req := kmsg.NewPtrLeaveGroupRequest()
			req.Group, req.MemberID = "g", id
			req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: id}, {MemberID: "stranger"}}
			resp := ask[*kmsg.LeaveGroupResponse](c, req, v)
			if v < 3 {
				wantCode(t, "leave", resp.ErrorCode, want)
				continue
			}
			wantCode(t, "request", resp.ErrorCode, nil)
			if len(resp.Members) != 2 || resp.Members[0].MemberID != id {
				t.Fatalf("members %+v", resp.Members)
			}
			wantCode(t, "leave", resp.Members[0].ErrorCode, want)
			wantCode(t, "stranger", resp.Members[1].ErrorCode, kerr.UnknownMemberID)
		}
	})
}
