package api

import "github.com/twmb/franz-go/pkg/kmsg"

// offsetCommit answers key 8, versions 2 to 10: it keeps the offsets that a group has read up to.
//
// v2 to v4 may bring a retention time, v6 leader epochs, v7 the instance id (KIP-345), v9 an error
// of its own for an unknown group (KIP-848), v10 topic ids. The answer waits until the offsets are
// committed to __consumer_offsets, which is made when it is not there. ACL: Read Group, Read Topic.
func (b *Broker) offsetCommit(r *Request) {
	b.Groups.OffsetCommit(r.Body.(*kmsg.OffsetCommitRequest), func(resp *kmsg.OffsetCommitResponse) {
		r.Respond(resp)
	})
}
