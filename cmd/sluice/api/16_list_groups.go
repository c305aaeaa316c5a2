package api

import "github.com/twmb/franz-go/pkg/kmsg"

// listGroups answers key 16, versions 0 to 5: the groups that this broker coordinates. v4 brings a
// filter by state and the state in the answer (KIP-518), v5 the same for types (KIP-848).
// ACL: Describe Cluster, or Describe on each Group.
func (b *Broker) listGroups(r *Request) {
	b.Groups.List(r.Body.(*kmsg.ListGroupsRequest), func(resp *kmsg.ListGroupsResponse) {
		r.Respond(resp)
	})
}
