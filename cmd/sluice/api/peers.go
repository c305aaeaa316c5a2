package api

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/replica/liveness"
)

// Peers is what the handlers ask about the other brokers. A broker that is alone has none.
type Peers interface {
	// Leader is who leads a partition that this broker does not lead; false when nobody is known to.
	Leader(id kafkaproto.PartitionID) (liveness.Leader, bool)
	// Up tells whether a broker lives.
	Up(n kafkaproto.NodeID) bool
}

// up tells whether a broker lives.
func (b *Broker) up(n kafkaproto.NodeID) bool {
	return n == b.NodeID || b.Peers != nil && b.Peers.Up(n)
}

// knownLeader is who leads a partition, as far as this broker knows.
func (b *Broker) knownLeader(id kafkaproto.PartitionID) (liveness.Leader, bool) {
	if p := b.Engine.ByID(id); p != nil {
		if lead := p.Leadership(); lead.Leading {
			return liveness.Leader{Node: b.NodeID, Term: lead.Epoch, Live: true, InSync: lead.InSync}, true
		}
	}
	if b.Peers == nil {
		return liveness.Leader{}, false
	}
	return b.Peers.Leader(id)
}

// currentLeader is what an answer tells a client whose idea of the leader is old (KIP-951); nil when
// err is not about that, or nobody is known to lead.
func (b *Broker) currentLeader(t *Topic, partition int32, err error) *leaderHint {
	if t == nil || !errors.Is(err, kerr.NotLeaderForPartition) && !errors.Is(err, kerr.FencedLeaderEpoch) {
		return nil
	}
	lead, ok := b.knownLeader(kafkaproto.PartitionID{Topic: t.ID, Partition: partition})
	if !ok {
		return nil
	}
	return &leaderHint{node: lead.Node, epoch: lead.Term}
}

// leaderHint is the leader in an error's answer.
type leaderHint struct {
	node  kafkaproto.NodeID
	epoch kafkaproto.LeaderEpoch
}

// brokerAddress is one broker as a client on a given connection reaches it.
type brokerAddress struct {
	id   int32
	host string
	port int32
	rack *string
}

// nodes lists the brokers that live, for Metadata and DescribeCluster: every leader id is among them.
// A client is shown the addresses of the listener that it came by.
func (b *Broker) nodes(c *server.Conn) []brokerAddress {
	host, port := b.Advertise(c)
	self := brokerAddress{id: int32(b.NodeID), host: host, port: port}
	if rack := b.Config.Broker().Rack; rack != "" {
		self.rack = &rack
	}
	all := []brokerAddress{self}
	if b.Peers == nil {
		return all
	}
	for _, n := range b.Controller.Image().Nodes() {
		if n.ID == b.NodeID || n.Fenced || !b.Peers.Up(n.ID) {
			continue
		}
		at := slices.IndexFunc(n.Endpoints, func(e meta.Endpoint) bool { return e.Listener == c.Listener().Name })
		if at < 0 {
			continue // it cannot be reached from there
		}
		a := brokerAddress{id: int32(n.ID), host: n.Endpoints[at].Host, port: n.Endpoints[at].Port}
		if n.Rack != "" {
			a.rack = &n.Rack
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b brokerAddress) int { return int(a.id - b.id) })
	return all
}

// partitionState is what Metadata and DescribeTopicPartitions tell of a partition.
type partitionState struct {
	code                   int16
	leader, epoch          int32
	replicas, isr, offline []int32
}

func (b *Broker) partitionState(t *meta.Topic, n int32) partitionState {
	st := partitionState{leader: -1, epoch: -1, isr: []int32{}, offline: []int32{}}
	id := kafkaproto.PartitionID{Topic: t.ID, Partition: n}
	here := b.Engine.ByID(id)
	for _, node := range t.Partitions[n].Nodes() {
		st.replicas = append(st.replicas, int32(node))
		if !b.up(node) || node == b.NodeID && (here == nil || here.Offline() != nil) {
			st.offline = append(st.offline, int32(node))
		}
	}
	lead, ok := b.knownLeader(id)
	if !ok || slices.Contains(st.offline, int32(lead.Node)) {
		st.code = kerr.LeaderNotAvailable.Code
		return st
	}
	st.leader, st.epoch = int32(lead.Node), int32(lead.Term)
	if here != nil && here.Alone() {
		st.isr = st.replicas
		return st
	}
	for _, node := range lead.InSync {
		if b.up(node) {
			st.isr = append(st.isr, int32(node))
		}
	}
	return st
}

// nodeEndpoints are the addresses of the leaders that an answer to Produce names (KIP-951).
func (b *Broker) nodeEndpoints(c *server.Conn, named []int32) []kmsg.ProduceResponseBroker {
	var all []kmsg.ProduceResponseBroker
	for _, n := range b.nodes(c) {
		if slices.Contains(named, n.id) {
			e := kmsg.NewProduceResponseBroker()
			e.NodeID, e.Host, e.Port, e.Rack = n.id, n.host, n.port, n.rack
			all = append(all, e)
		}
	}
	return all
}
