package api

import (
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/group"
)

// joinGroup answers key 11, versions 0 to 9: a member enters the next generation of its group. The
// answer waits for the others, up to the rebalance timeout.
//
// v1 brings the rebalance timeout, v4 MEMBER_ID_REQUIRED (KIP-394), v5 static members (KIP-345),
// v7 the protocol type in the answer (KIP-559), v8 a reason, v9 skip_assignment (KIP-814).
// ACL: Read Group.
func (b *Broker) joinGroup(r *Request) {
	b.Groups.Join(r.groupClient(), r.Body.(*kmsg.JoinGroupRequest),
		func(resp *kmsg.JoinGroupResponse) { r.Respond(resp) })
}

// groupClient is who joins, as DescribeGroups will show it.
func (r *Request) groupClient() group.Client {
	addr := r.Conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		addr = host
	}
	return group.Client{ID: r.ClientID, Host: "/" + addr}
}
