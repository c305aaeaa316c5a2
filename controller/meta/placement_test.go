package meta

import (
	"slices"
	"testing"

	"github.com/sluicelog/sluice/controller/placement"
	"github.com/sluicelog/sluice/kafkaproto"
)

// balance lets the balancer and the leaders work until nothing moves.
func (m *machine) balance(t tb) placement.Plan {
	t.Helper()
	for range 100 {
		c := m.image.Cluster()
		for n := range c.Partitions {
			c.Partitions[n].Leader, c.Partitions[n].Bytes = c.Partitions[n].Replicas[0], 100
		}
		plan := placement.Next(c, placement.Limits{Moves: 5, Bytes: 1 << 20, Reorders: 5, Tolerance: 0.1})
		if len(plan.Moves) == 0 {
			return plan
		}
		var cmd AlterPartitionReassignments
		cmd.Add(plan.Moves...)
		for _, row := range m.do(t, cmd).(PartitionsReassigned).Partitions {
			checkErr(t, row.Topic, row.Err, "")
		}
		m.reconcile(t)
	}
	t.Fatalf("the balancer does not end")
	return placement.Plan{}
}

// reconcile is what leaders do: each reaches what is wanted, and says so.
func (m *machine) reconcile(t tb) {
	t.Helper()
	for topic := range m.image.Topics() {
		for n, p := range topic.Partitions {
			var voters []uint64
			for _, r := range p.Replicas {
				if r.State.Wanted() {
					voters = append(voters, r.ID)
				}
			}
			m.do(t, CompleteReassignment{
				Partition: kafkaproto.PartitionID{Topic: topic.ID, Partition: int32(n)}, Version: p.Version, Leader: voters[0], Voters: voters,
			})
		}
	}
}

// TestBalance: brokers join, one is drained and leaves, and its number is free.
func TestBalance(t *testing.T) {
	m := newMachine(t, nil, 1)
	m.do(t, CreateTopics{Internal: true, Topics: []NewTopic{{Name: ConsumerOffsets, Partitions: 12, Replication: 3}}})
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: 20, Replication: 1}}})
	even := func(replicas, leaders int, nodes ...kafkaproto.NodeID) {
		t.Helper()
		plan := m.balance(t)
		if len(plan.Held) != 1 || plan.Held[0].Why != placement.WhyBalanced {
			t.Errorf("held %v", plan.Held)
		}
		for _, n := range nodes {
			r, l := m.image.ReplicasOn(n)
			if r < replicas-2 || r > replicas+2 || l < leaders-1 || l > leaders+1 {
				t.Errorf("%d replicas, %d leaders on %d, want about %d, %d", r, l, n, replicas, leaders)
			}
		}
	}
	m.do(t, RegisterBroker{ID: -1, Directory: "two"})
	even(16, 16, 1, 2)
	m.do(t, RegisterBroker{ID: -1, Directory: "three"})
	m.do(t, GrowInternalTopics{})
	m.reconcile(t)
	even(19, 11, 1, 2, 3)
	m.do(t, RegisterBroker{ID: -1, Directory: "four"})
	even(14, 8, 1, 2, 3, 4)
	m.do(t, ChangeBroker{ID: 1, Change: DrainBroker})
	m.fails(t, UnregisterBroker{ID: 1, IfEmpty: true}, "INELIGIBLE_REPLICA: broker 1 has replicas still: drain it first")
	even(19, 11, 2, 3, 4)
	m.do(t, UnregisterBroker{ID: 1, IfEmpty: true})
	for topic := range m.image.Topics() {
		for _, p := range topic.Partitions {
			if !p.Settled() || topic.Internal && len(p.Replicas) != 3 {
				t.Errorf("%s %+v", topic.Name, p)
			}
		}
	}
	checkReplay(t, m)

	// A move that was overtaken is refused.
	p := m.image.Topic("t").Partitions[0]
	var stale AlterPartitionReassignments
	stale.Add(placement.Move{Topic: "t", Version: p.Version - 1, To: []kafkaproto.NodeID{2}})
	row := m.do(t, stale).(PartitionsReassigned).Partitions[0]
	checkErr(t, "stale", row.Err, "INVALID_UPDATE_VERSION")
	if !slices.Equal(m.image.Topic("t").Partitions[0].Replicas, p.Replicas) {
		t.Error("it was made all the same")
	}
}
