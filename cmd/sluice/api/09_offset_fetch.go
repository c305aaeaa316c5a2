package api

import "github.com/twmb/franz-go/pkg/kmsg"

// offsetFetch answers key 9, versions 1 to 10: the offsets that groups have committed.
//
// v2 takes null topics for all and has an error for the group, v5 leader epochs, v7 require_stable
// (KIP-447), v8 many groups at once (KIP-709), v9 member id and epoch, v10 topic ids. What is not
// committed yet is not shown: the answer waits. ACL: Describe Group, Describe Topic.
func (b *Broker) offsetFetch(r *Request) {
	req := r.Body.(*kmsg.OffsetFetchRequest)
	req.Groups = withoutRepeats(req.Groups, func(g *kmsg.OffsetFetchRequestGroup) allOffsets {
		if g.Topics != nil {
			return allOffsets{ask: g} // a part of the group's offsets: each is answered
		}
		return allOffsets{group: g.Group}
	})
	b.Groups.OffsetFetch(req, func(resp *kmsg.OffsetFetchResponse) {
		r.Respond(resp)
	})
}

// allOffsets tells requests for all offsets of a group from one another, those for some by
// themselves.
type allOffsets struct {
	group string
	ask   *kmsg.OffsetFetchRequestGroup
}
