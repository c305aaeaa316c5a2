package api

import "github.com/twmb/franz-go/pkg/kmsg"

// leaveGroup answers key 13, versions 0 to 5: members leave, and their partitions go to others.
//
// v3 brings several members at once, and static ones by their instance id alone, as an operator
// removes them (KIP-345); v5 a reason. ACL: Read Group.
func (b *Broker) leaveGroup(r *Request) {
	b.Groups.Leave(r.Body.(*kmsg.LeaveGroupRequest), func(resp *kmsg.LeaveGroupResponse) {
		r.Respond(resp)
	})
}
