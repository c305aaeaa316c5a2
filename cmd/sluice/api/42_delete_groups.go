package api

import "github.com/twmb/franz-go/pkg/kmsg"

// deleteGroups answers key 42, versions 0 to 3: it removes groups without members, with their
// offsets. v3 brings a message beside the error. ACL: Delete Group.
func (b *Broker) deleteGroups(r *Request) {
	b.Groups.Delete(r.Body.(*kmsg.DeleteGroupsRequest), func(resp *kmsg.DeleteGroupsResponse) {
		r.Respond(resp)
	})
}
