package api

import "github.com/twmb/franz-go/pkg/kmsg"

// offsetDelete answers key 47, version 0: it removes a group's offsets for topics that none of its
// members is subscribed to (KIP-496). ACL: Delete Group, Read Topic.
func (b *Broker) offsetDelete(r *Request) {
	b.Groups.OffsetDelete(r.Body.(*kmsg.OffsetDeleteRequest), func(resp *kmsg.OffsetDeleteResponse) {
		r.Respond(resp)
	})
}
