package api

import "github.com/twmb/franz-go/pkg/kmsg"

// syncGroup answers key 14, versions 0 to 5: the leader hands in the assignment, and every member
// gets its own once that is committed. v3 brings the instance id, v5 demands the protocol's type
// and name (KIP-559). ACL: Read Group.
func (b *Broker) syncGroup(r *Request) {
	b.Groups.Sync(r.Body.(*kmsg.SyncGroupRequest), func(resp *kmsg.SyncGroupResponse) {
		r.Respond(resp)
	})
}
