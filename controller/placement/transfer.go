package placement

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Transfer is a leader to be moved: nothing is copied.
type Transfer struct {
	Partition kafkaproto.PartitionID
	Topic     string
	From, To  kafkaproto.NodeID
	// Away: the leader's broker stops or is drained; else the preferred replica gets its place back.
	Away bool
}

// Transfers gives the next leaders to move, at most so many: first those on brokers that stop or are
// drained, to the preferred replica that is left or else to the broker with the fewest leaders; then
// those whose preferred replica could lead and does not. Only replicas in sync are given leaders, on
// brokers that are there and shall stay.
func Transfers(c Cluster, limit int) []Transfer {
	brokers := make(map[kafkaproto.NodeID]Broker, len(c.Brokers))
	for _, b := range c.Brokers {
		brokers[b.ID] = b
	}
	leads := make(map[kafkaproto.NodeID]int)
	for _, p := range c.Partitions {
		leads[p.Leader]++
	}
	able := func(p *Partition, id kafkaproto.NodeID) bool {
		b, ok := brokers[id]
		return ok && b.tier() == 0 && slices.Contains(p.InSync, id) && slices.Contains(p.Replicas, id)
	}
	var away, back []Transfer
	for _, p := range inOrder(c.Partitions) {
		leader, ok := brokers[p.Leader]
		if !ok {
			continue // nobody could hand over
		}
		t := Transfer{Partition: p.ID, Topic: p.Topic, From: p.Leader, To: -1, Away: leader.tier() != 0}
		switch {
		case len(p.Replicas) == 0 || p.Leader == p.Replicas[0] && !t.Away:
			continue
		case able(p, p.Replicas[0]):
			t.To = p.Replicas[0]
		case t.Away:
			for _, id := range p.Replicas {
				if able(p, id) && (t.To < 0 || leads[id] < leads[t.To]) {
					t.To = id
				}
			}
		}
		if t.To < 0 {
			continue
		}
		leads[t.From]--
		leads[t.To]++
		if t.Away {
			away = append(away, t)
		} else {
			back = append(back, t)
		}
	}
	all := slices.Concat(away, back)
	return all[:min(len(all), max(limit, 0))]
}

// inOrder gives the partitions by topic and number.
func inOrder(partitions []Partition) []*Partition {
	all := make([]*Partition, len(partitions))
	for n := range partitions {
		all[n] = &partitions[n]
	}
	slices.SortFunc(all, func(a, b *Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	return all
}

// Elect answers ElectLeaders for one partition: the broker that is to lead. ELECTION_NOT_NEEDED: it
// leads already, or with unclean some broker does. PREFERRED_LEADER_NOT_AVAILABLE: the preferred
// replica is away or not in sync. ELIGIBLE_LEADERS_NOT_AVAILABLE: no replica is there. The texts are
// Kafka 4.4.0's. An unclean choice may lose records: the group's membership has to be rewritten.
func Elect(p Partition, brokers []Broker, unclean bool) (kafkaproto.NodeID, error) {
	there := func(id kafkaproto.NodeID) bool {
		return slices.ContainsFunc(brokers, func(b Broker) bool {
			return b.ID == id && !b.Fenced && !b.Stopping
		})
	}
	switch {
	case unclean && p.Leader >= 0, p.Leader == p.Replicas[0]:
		return -1, kafkaproto.Faultf(kerr.ElectionNotNeeded,
			"Leader election not needed for topic partition.")
	case !unclean && there(p.Replicas[0]) && slices.Contains(p.InSync, p.Replicas[0]):
		return p.Replicas[0], nil
	case !unclean:
		return -1, kafkaproto.Faultf(kerr.PreferredLeaderNotAvailable,
			"The preferred leader was not available.")
	}
	for _, inSync := range []bool{true, false} {
		for _, id := range p.Replicas {
			if there(id) && slices.Contains(p.InSync, id) == inSync {
				return id, nil
			}
		}
	}
	return -1, kafkaproto.Faultf(kerr.EligibleLeadersNotAvailable,
		"Eligible topic partition leaders are not available.")
}
