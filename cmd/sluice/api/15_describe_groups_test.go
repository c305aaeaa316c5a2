package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeGroups(t *testing.T) {
	c := newGroupRig(t).dial()
	id, _ := c.member("g")
	eachVersion(t, kmsg.DescribeGroups, func(t *testing.T, v int16) {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{"g", "nobody"}
		req.IncludeAuthorizedOperations = true
		resp := ask[*kmsg.DescribeGroupsResponse](c, req, v)
		if len(resp.Groups) != 2 {
			t.Fatalf("%d groups", len(resp.Groups))
		}
		g, nobody := resp.Groups[0], resp.Groups[1]
		wantCode(t, "g", g.ErrorCode, nil)
		if g.Group != "g" || g.State != "Stable" || g.ProtocolType != "consumer" ||
			g.Protocol != "range" || len(g.Members) != 1 {
			t.Fatalf("group %+v", g)
		}
		m := g.Members[0]
		if m.MemberID != id || m.ClientID != "tester" || m.ClientHost != "/127.0.0.1" ||
			string(m.ProtocolMetadata) != "meta" || string(m.MemberAssignment) != "all" {
			t.Errorf("member %+v", m)
		}
		want, operations := (*kerr.Error)(nil), int32(groupOperations)
		if v < 3 {
			operations = notAsked
		}
		if g.AuthorizedOperations != operations {
			t.Errorf("operations %x, want %x", g.AuthorizedOperations, operations)
		}
		if v >= 6 {
			want = kerr.GroupIDNotFound
		}
		wantCode(t, "nobody", nobody.ErrorCode, want)
		if nobody.State != "Dead" {
			t.Errorf("state of nobody: %q", nobody.State)
		}
		req.IncludeAuthorizedOperations = false
		resp = ask[*kmsg.DescribeGroupsResponse](c, req, v)
		if resp.Groups[0].AuthorizedOperations != notAsked {
			t.Errorf("operations without being asked: %x", resp.Groups[0].AuthorizedOperations)
		}
	})
}
