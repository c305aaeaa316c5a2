package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRow57DeleteGroups deletes groups without members, with their offsets.
func TestRow57DeleteGroups(t *testing.T) {
	c := newGroupRig(t).dial()
	c.member("busy")
	eachVersion(t, kmsg.DeleteGroups, func(t *testing.T, v int16) {
		ask[*kmsg.OffsetCommitResponse](c, commitRequest("idle", 1), 8)
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"idle", "busy", "nobody"}
		resp := ask[*kmsg.DeleteGroupsResponse](c, req, v)
		if len(resp.Groups) != 3 {
			t.Fatalf("groups %+v", resp.Groups)
		}
		for i, want := range []*kerr.Error{nil, kerr.NonEmptyGroup, kerr.GroupIDNotFound} {
			g := resp.Groups[i]
			if g.Group != req.Groups[i] {
				t.Errorf("group %q in place of %q", g.Group, req.Groups[i])
			}
			wantCode(t, g.Group, g.ErrorCode, want)
			if v >= 3 && (g.ErrorMessage != nil) != (want != nil) {
				t.Errorf("%s: message %v", g.Group, g.ErrorMessage)
			}
		}
		if got := fetchOne(c, "idle"); got != -1 {
			t.Errorf("a deleted group has offset %d", got)
		}
	})
}
