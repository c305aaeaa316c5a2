package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestListGroups(t *testing.T) {
	c := newGroupRig(t).dial()
	if got := ask[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(),
		0); len(got.Groups) != 0 || got.ErrorCode != 0 {
		t.Fatalf("without groups: %+v", got)
	}
	c.member("g")
	ask[*kmsg.OffsetCommitResponse](c, commitRequest("simple", 1), 8)
	eachVersion(t, kmsg.ListGroups, func(t *testing.T, v int16) {
		resp := ask[*kmsg.ListGroupsResponse](c, kmsg.NewPtrListGroupsRequest(), v)
		wantCode(t, "list", resp.ErrorCode, nil)
		if len(resp.Groups) != 2 || resp.Groups[0].Group != "g" ||
			resp.Groups[0].ProtocolType != "consumer" ||
			resp.Groups[1].Group != "simple" || resp.Groups[1].ProtocolType != "" {
			t.Fatalf("groups %+v", resp.Groups)
		}
		if v >= 4 && resp.Groups[0].GroupState != "Stable" || v >= 5 &&
			resp.Groups[0].GroupType != "classic" {
			t.Errorf("group %+v", resp.Groups[0])
		}
		if v < 4 {
			return
		}
		req := kmsg.NewPtrListGroupsRequest()
		req.StatesFilter = []string{"empty"}
		if v >= 5 {
			req.TypesFilter = []string{"classic"}
		}
		resp = ask[*kmsg.ListGroupsResponse](c, req, v)
		if len(resp.Groups) != 1 || resp.Groups[0].Group != "simple" {
			t.Errorf("filtered groups %+v", resp.Groups)
		}
	})
}
