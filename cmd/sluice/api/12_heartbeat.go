package api

import "github.com/twmb/franz-go/pkg/kmsg"

// heartbeat answers key 12, versions 0 to 4: a member keeps its session up, and learns of a
// rebalance by REBALANCE_IN_PROGRESS. v3 brings the instance id. ACL: Read Group.
func (b *Broker) heartbeat(r *Request) {
	b.Groups.Heartbeat(r.Body.(*kmsg.HeartbeatRequest), func(resp *kmsg.HeartbeatResponse) {
		r.Respond(resp)
	})
}
