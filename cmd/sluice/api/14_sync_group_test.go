package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSyncGroup(t *testing.T) {
	c := newGroupRig(t).dial()
	id, generation := c.member("g")
	eachGroupVersion(t, kmsg.SyncGroup, func(t *testing.T, v int16) {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.Generation = "g", id, generation
		resp := askGroup[*kmsg.SyncGroupResponse](c, req, v)
		if v >= 5 {
			wantGroupCode(t, "without protocol", resp.ErrorCode, kerr.InconsistentGroupProtocol)
			typ, name := "consumer", "range"
			req.ProtocolType, req.Protocol = &typ, &name
			resp = askGroup[*kmsg.SyncGroupResponse](c, req, v)
			if resp.ProtocolType == nil || *resp.ProtocolType != typ || resp.Protocol == nil ||
				*resp.Protocol != name {
				t.Errorf("answer %+v", resp)
			}
		}
		wantGroupCode(t, "sync", resp.ErrorCode, nil)
		if string(resp.MemberAssignment) != "all" {
			t.Errorf("assignment %q", resp.MemberAssignment)
		}
		req.Generation++
		wantGroupCode(t, "other generation", askGroup[*kmsg.SyncGroupResponse](c, req, v).ErrorCode,
			kerr.IllegalGeneration)
	})
}
