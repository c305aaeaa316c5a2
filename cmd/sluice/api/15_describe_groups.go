package api

import "github.com/twmb/franz-go/pkg/kmsg"

// groupOperations is what is allowed on a group when no authorizer is configured, as bits (row 41).
const groupOperations = 0x0d48

// describeGroups answers key 15, versions 0 to 6: state and members of groups.
//
// v3 brings the authorized operations, v4 instance ids, v6 GROUP_ID_NOT_FOUND for a missing group,
// which is in state Dead without an error before (KIP-1043). ACL: Describe Group.
func (b *Broker) describeGroups(r *Request) {
	req := r.Body.(*kmsg.DescribeGroupsRequest)
	req.Groups = withoutRepeats(req.Groups, func(id *string) string { return *id })
	b.Groups.Describe(req, func(resp *kmsg.DescribeGroupsResponse) {
		for i := range resp.Groups {
			g := &resp.Groups[i]
			if req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
				g.AuthorizedOperations = groupOperations
			}
		}
		r.Respond(resp)
	})
}
