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
