package meta

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/placement"
	"github.com/sluicelog/sluice/kafkaproto"
)

// alterReassignments follows the checks of Kafka 4.4.0, their order and sentences. It differs where
// Kafka forgets: a reassignment that replaces another keeps in mind which replicas were being added,
// so that taking it back gives the replicas of the beginning.
func (e *execution) alterReassignments(c AlterPartitionReassignments) Result {
	var res PartitionsReassigned
	changes := e.newChanges()
	for _, r := range c.Partitions {
		version, err := e.reassign(changes, r, c.KeepFactor)
		res.Partitions = append(res.Partitions, ReassignedPartition{
			Topic: r.Topic, Partition: r.Partition, Version: version, Err: err,
		})
	}
	changes.emit()
	return res
}

// changes collects changes of partitions, one record for each topic: a record copies the topic's
// list of partitions. A partition can be changed once.
type changes struct {
	e       *execution
	topics  []*Topic
	changed map[kafkaproto.TopicID]*partitionChangeRecord
	seen    map[kafkaproto.PartitionID]bool
}

func (e *execution) newChanges() *changes {
	return &changes{
		e: e, changed: make(map[kafkaproto.TopicID]*partitionChangeRecord),
		seen: make(map[kafkaproto.PartitionID]bool),
	}
}

func (c *changes) add(t *Topic, n int32, next Partition) {
	r := c.changed[t.ID]
	if r == nil {
		r = &partitionChangeRecord{ID: id(t.ID)}
		c.changed[t.ID] = r
		c.topics = append(c.topics, t)
	}
	r.Partitions = append(r.Partitions, partitionChange{Number: n, State: next})
}

func (c *changes) emit() {
	for _, t := range c.topics {
		c.e.emit(*c.changed[t.ID])
	}
}

func (e *execution) reassign(
	changes *changes, r ReassignPartition, keepFactor bool,
) (version int64, err error) {
	topic := r.Topic
	t := e.image.Topic(topic)
	if t == nil {
		return 0, kafkaproto.Faultf(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", topic)
	}
	if r.Partition < 0 || int(r.Partition) >= len(t.Partitions) {
		return 0, kafkaproto.Faultf(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.",
			topic, r.Partition)
	}
	p := t.Partitions[r.Partition]
	pid := kafkaproto.PartitionID{Topic: t.ID, Partition: r.Partition}
	switch {
	case changes.seen[pid]:
		return p.Version, kafkaproto.Faultf(kerr.InvalidRequest, "Duplicate partition %s:%d.", topic, r.Partition)
	case r.IfVersion > 0 && r.IfVersion != p.Version:
		return p.Version, kafkaproto.Faultf(kerr.InvalidUpdateVersion, "partition %s:%d is at version "+
			"%d, the change was made for %d", topic, r.Partition, p.Version, r.IfVersion)
	}
	target := r.Replicas
	if target == nil {
		if !p.Reassigning() {
			return p.Version, kerr.NoReassignmentInProgress
		}
		target = p.reverted()
	} else {
		if err := e.checkReplicas(target, 0); err != nil {
			return p.Version, err
		}
		if have := len(p.Target()); keepFactor && have != len(target) {
			return p.Version, kafkaproto.Faultf(kerr.InvalidReplicationFactor,
				"The replication factor is changed from %d to %d", have, len(target))
		}
	}
	changes.seen[pid] = true
	next, ok := p.retarget(target)
	if !ok {
		return p.Version, nil
	}
	changes.add(t, r.Partition, next)
	return next.Version, nil
}

// completeReassignment takes over what a leader reached: what became a voter is active, and what is
// no member any more is gone. It may be less than all that is wanted.
func (e *execution) completeReassignment(c CompleteReassignment) (Result, error) {
	t := e.image.TopicByID(c.Partition.Topic)
	if t == nil {
		return nil, kafkaproto.Faultf(kerr.UnknownTopicID, "This server does not host this topic ID.")
	}
	n := c.Partition.Partition
	if n < 0 || int(n) >= len(t.Partitions) {
		return nil, kafkaproto.Faultf(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", t.Name, n)
	}
	p := t.Partitions[n]
	if c.Version != p.Version {
		return nil, kafkaproto.Faultf(kerr.InvalidUpdateVersion, "partition %s:%d is at version %d, the "+
			"leader worked on %d", t.Name, n, p.Version, c.Version)
	}
	if err := c.check(p); err != nil {
		return nil, err
	}
	next, ok := p.reached(c.Voters, c.Learners)
	if !ok {
		return ReassignmentCompleted{Version: p.Version}, nil
	}
	changes := e.newChanges()
	changes.add(t, n, next)
	changes.emit()
	return ReassignmentCompleted{Version: next.Version}, nil
}

// check refuses members that the partition has not, and a leader who is not one of its voters.
func (c CompleteReassignment) check(p Partition) error {
	if !slices.Contains(c.Voters, c.Leader) {
		return kafkaproto.Faultf(kerr.InvalidRequest, "replica %d reports voters %v without itself",
			c.Leader, c.Voters)
	}
	for _, id := range slices.Concat(c.Voters, c.Learners) {
		if !slices.ContainsFunc(p.Replicas, func(r Replica) bool { return r.ID == id }) {
			return kafkaproto.Faultf(kerr.InvalidRequest, "replica %d is none of this partition", id)
		}
	}
	return nil
}

// reached gives the partition when its raft group has these members; ok is false when that is no news.
// A wanted replica stays whatever the report says: the leader has to bring it in.
func (p Partition) reached(voters, learners []uint64) (next Partition, ok bool) {
	next = Partition{NextReplica: p.NextReplica, First: p.First, Version: p.Version + 1}
	for _, r := range p.Replicas {
		votes := slices.Contains(voters, r.ID)
		switch {
		case r.State == ReplicaAdding && votes:
			r.State = ReplicaActive
		case !r.State.Wanted() && !votes && !slices.Contains(learners, r.ID):
			continue
		}
		next.Replicas = append(next.Replicas, r)
	}
	return next, !slices.Equal(next.Replicas, p.Replicas) && next.check() == nil
}

// growInternalTopics is ruling 14: internal topics have one replica or three.
func (e *execution) growInternalTopics(c GrowInternalTopics) Result {
	var res PartitionsReassigned
	changes := e.newChanges()
	left := c.Max
	if left == 0 {
		left = math.MaxInt
	}
	if usable := e.usable(); len(usable) >= internalReplicas {
		for _, topic := range [...]struct{ name, key string }{
			{ConsumerOffsets, "offsets.topic.replication.factor"},
			{TransactionState, "transaction.state.log.replication.factor"},
		} {
			if t := e.image.Topic(topic.name); t != nil && e.number(topic.key) >= internalReplicas {
				res.Partitions = append(res.Partitions, e.growInternal(changes, t, usable, left-len(res.Partitions))...)
			}
		}
	}
	changes.emit()
	return res
}

// internalReplicas is how many replicas an internal topic has that has more than one.
const internalReplicas = 3

func (e *execution) growInternal(
	changes *changes, t *Topic, usable []placement.Broker, atMost int,
) (rows []ReassignedPartition) {
	have := targets(t)
	for n, p := range t.Partitions {
		if !p.Settled() || len(p.Replicas) >= internalReplicas || len(rows) >= atMost {
			continue
		}
		have[n] = placement.Extend(usable, p.Target(), placement.Request{
			Topic: t.Name, Have: have, Replication: internalReplicas,
		})
		next, _ := p.retarget(have[n])
		changes.add(t, int32(n), next)
		rows = append(rows, ReassignedPartition{Topic: t.Name, Partition: int32(n), Version: next.Version})
	}
	return rows
}
