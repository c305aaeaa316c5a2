package meta

import (
	"slices"

	"github.com/sluicelog/sluice/controller/placement"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Cluster gives what the balancer looks at, as far as the metadata knows it: whoever asks adds what
// brokers tell (bytes, rates, leaders, replicas in sync, how long a broker is away).
func (i *Image) Cluster() placement.Cluster {
	c := placement.Cluster{Brokers: i.candidates(nil)}
	for t := range i.Topics() {
		for n, p := range t.Partitions {
			c.Partitions = append(c.Partitions, placement.Partition{
				ID:    kafkaproto.PartitionID{Topic: t.ID, Partition: int32(n)},
				Topic: t.Name, Version: p.Version, Replicas: p.Target(), Moving: !p.Settled(), Leader: -1,
			})
		}
	}
	return c
}

// candidates are all registered brokers, with what is on them.
func (i *Image) candidates(bytes map[kafkaproto.NodeID]int64) []placement.Broker {
	all := make([]placement.Broker, 0, len(i.nodes))
	for _, n := range i.nodes {
		b := placement.Broker{
			ID: n.ID, Rack: n.Rack, Fenced: n.Fenced, Stopping: n.Stopping, Draining: n.Draining,
			Bytes: bytes[n.ID],
		}
		b.Replicas, b.Leaders = i.ReplicasOn(n.ID)
		all = append(all, b)
	}
	return all
}

// usable are the brokers that are there and shall stay.
func (e *execution) usable() []placement.Broker {
	return slices.DeleteFunc(e.image.candidates(e.env.Bytes), func(b placement.Broker) bool {
		return b.Fenced || b.Draining || b.Stopping
	})
}

func targets(t *Topic) [][]kafkaproto.NodeID {
	all := make([][]kafkaproto.NodeID, len(t.Partitions))
	for n, p := range t.Partitions {
		all[n] = p.Target()
	}
	return all
}

// Add has the command carry out moves. It compares versions, so that a move that was overtaken is
// refused.
func (c *AlterPartitionReassignments) Add(moves ...placement.Move) {
	for _, m := range moves {
		c.Partitions = append(c.Partitions, ReassignPartition{
			Topic: m.Topic, Partition: m.Partition.Partition, Replicas: m.To, IfVersion: m.Version,
		})
	}
}
