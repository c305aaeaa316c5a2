package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Kinds of coordinators in FindCoordinator.
const (
	groupCoordinator = 0
	txnCoordinator   = 1
)

// findCoordinatorBatch is the version from which on many keys are asked for at once (KIP-699).
const findCoordinatorBatch = 4

// findCoordinator answers key 10, versions 0 to 6: the broker that coordinates a group. On one node
// it is this one, once __consumer_offsets exists; the first caller makes it.
//
// v1 brings the kind of coordinator and an error message, v4 many keys (KIP-699), v6 share groups
// (KIP-932). Transactions and share groups are not served, and the message says so; the code for a
// transactional id is one that no producer retries. ACL: Describe Group.
func (b *Broker) findCoordinator(r *Request) {
	req := r.Body.(*kmsg.FindCoordinatorRequest)
	if err := coordinated(req.CoordinatorType); err != nil {
		b.coordinatorAnswer(r, req, err)
		return
	}
	b.Groups.Ready(func(err error) { b.coordinatorAnswer(r, req, err) })
}

// coordinated tells whether coordinators of a kind are to be found here.
func coordinated(kind int8) error {
	switch kind {
	case groupCoordinator:
		return nil
	case txnCoordinator:
		return kafkaproto.Faultf(kerr.TransactionalIDAuthorizationFailed,
			"transactions are not served yet: configure the producer without transactional.id")
	default:
		return kafkaproto.Faultf(kerr.InvalidRequest,
			"coordinators of type %d are not served", kind)
	}
}

func (b *Broker) coordinatorAnswer(r *Request, req *kmsg.FindCoordinatorRequest, err error) {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.NodeID, c.Port = -1, -1
	c.ErrorCode, c.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
	if err == nil {
		c.ErrorMessage = kmsg.StringPtr("")
		if r.Version < findCoordinatorBatch {
			c.ErrorMessage = kmsg.StringPtr("NONE") // as Kafka says it
		}
	}
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if r.Version < findCoordinatorBatch {
		if err == nil {
			b.locate(r, &c, req.CoordinatorKey)
		}
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		r.Respond(resp)
		return
	}
	for _, key := range req.CoordinatorKeys {
		c.Key = key
		if err == nil {
			b.locate(r, &c, key)
		}
		resp.Coordinators = append(resp.Coordinators, c)
	}
	r.Respond(resp)
}

// locate fills in who coordinates a group: the leader of its partition of __consumer_offsets.
func (b *Broker) locate(r *Request, c *kmsg.FindCoordinatorResponseCoordinator, groupID string) {
	if b.Peers == nil {
		c.NodeID = int32(b.NodeID)
		c.Host, c.Port = b.Advertise(r.Conn)
		return
	}
	c.NodeID, c.Host, c.Port = -1, "", -1
	t := b.Controller.Image().Topic(group.OffsetsTopic)
	if t == nil || len(t.Partitions) == 0 {
		b.noCoordinator(r, c)
		return
	}
	n := group.PartitionOf(groupID, int32(len(t.Partitions)))
	lead, ok := b.knownLeader(kafkaproto.PartitionID{Topic: t.ID, Partition: n})
	if !ok {
		b.noCoordinator(r, c)
		return
	}
	for _, at := range b.nodes(r.Conn) {
		if at.id == int32(lead.Node) {
			c.NodeID, c.Host, c.Port = at.id, at.host, at.port
			return
		}
	}
	b.noCoordinator(r, c)
}

func (b *Broker) noCoordinator(r *Request, c *kmsg.FindCoordinatorResponseCoordinator) {
	err := kafkaproto.Faultf(kerr.CoordinatorNotAvailable, "the coordinator is being elected")
	c.ErrorCode, c.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
}
