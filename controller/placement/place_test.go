package placement

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

type ids = []kafkaproto.NodeID

// brokersIn makes brokers 1, 2, ... in the racks given.
func brokersIn(racks ...string) []Broker {
	var all []Broker
	for n, r := range racks {
		all = append(all, Broker{ID: kafkaproto.NodeID(n + 1), Rack: r})
	}
	return all
}

// TestPlaceSpreads: replicas and leaders of a topic differ by one at most, and racks hold as few
// replicas of a partition as they can.
func TestPlaceSpreads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		perRack := rapid.IntRange(1, 3).Draw(t, "brokers in a rack")
		racks := rapid.IntRange(1, 4).Draw(t, "racks")
		var names []string
		for n := range perRack * racks {
			names = append(names, fmt.Sprint("r", n%racks))
		}
		brokers := brokersIn(names...)
		rf := rapid.IntRange(1, len(brokers)).Draw(t, "replication")
		count := rapid.IntRange(1, 40).Draw(t, "partitions")
		made := Place(brokers, Request{Topic: rapid.String().Draw(t, "topic"), Count: count, Replication: rf})
		replicas, leaders := make([]int, len(brokers)), make([]int, len(brokers))
		for _, p := range made {
			inRack := map[string]int{}
			leaders[p[0]-1]++
			for n, id := range p {
				replicas[id-1]++
				inRack[names[id-1]]++
				if slices.Contains(p[:n], id) {
					t.Fatalf("replicas %v", p)
				}
			}
			for r, n := range inRack {
				if n > (rf+racks-1)/racks {
					t.Fatalf("%v: %d in rack %s", p, n, r)
				}
			}
		}
		if slices.Max(replicas)-slices.Min(replicas) > 1 {
			t.Fatalf("replicas %v of %v", replicas, made)
		}
		if slices.Max(leaders)-slices.Min(leaders) > 2 {
			t.Fatalf("leaders %v of %v", leaders, made)
		}
	})
}

// TestPlacePrefers: available brokers before others, then those with less.
func TestPlacePrefers(t *testing.T) {
	place := func(brokers []Broker, rf int) ids {
		return Place(brokers, Request{Topic: "t", Count: 1, Replication: rf})[0]
	}
	four := func(change func(b []Broker)) []Broker {
		b := brokersIn("", "", "", "")
		change(b)
		return b
	}
	for _, c := range []struct {
		name    string
		brokers []Broker
		rf      int
		want    ids
	}{
		{"fenced last", four(func(b []Broker) { b[0].Fenced, b[1].Draining, b[2].Stopping = true, true, true }), 4, ids{4, 3, 2, 1}},
		{"fewest replicas", four(func(b []Broker) { b[0].Replicas, b[1].Replicas, b[2].Replicas = 3, 2, 1 }), 3, ids{4, 3, 2}},
		{"fewest bytes", four(func(b []Broker) { b[0].Bytes, b[1].Bytes, b[3].Bytes = 3, 1, 2 }), 2, ids{3, 2}},
		{"fewest leaders lead", four(func(b []Broker) { b[0].Leaders, b[1].Leaders, b[2].Leaders, b[3].Leaders = 1, 1, 0, 1; b[2].Bytes = 9 }), 4, ids{3, 4, 1, 2}},
		{"racks before load", []Broker{{ID: 1, Rack: "a"}, {ID: 2, Rack: "a", Bytes: 1}, {ID: 3, Rack: "b", Bytes: 9}}, 2, ids{1, 3}},
		{"no leader on a fenced one", []Broker{{ID: 1, Fenced: true}, {ID: 2, Leaders: 8}}, 2, ids{2, 1}},
	} {
		got := place(c.brokers, c.rf)
		if c.name == "fewest leaders lead" {
			slices.Sort(got[1:])
			slices.Sort(c.want[1:])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		reversed := slices.Clone(c.brokers)
		slices.Reverse(reversed)
		if again := place(reversed, c.rf); again[0] != got[0] {
			t.Errorf("%s: %v, in another order %v", c.name, got, again)
		}
	}
}

// TestPlaceGrowth: new partitions even out what the topic has.
func TestPlaceGrowth(t *testing.T) {
	have := []ids{{1, 2}, {1, 2}, {2, 1}}
	made := Place(brokersIn("", "", ""), Request{Topic: "t", Have: have, Count: 3, Replication: 2})
	count := map[kafkaproto.NodeID]int{}
	for _, p := range slices.Concat(have, made) {
		for _, id := range p {
			count[id]++
		}
	}
	if count[3] != 3 || made[0][0] != 3 || made[2][0] != 3 {
		t.Errorf("%v", made)
	}
}

// TestExtend keeps what is there, in its order, and spreads over racks.
func TestExtend(t *testing.T) {
	brokers := brokersIn("a", "a", "b", "c")
	got := Extend(brokers, ids{2}, Request{Topic: "t", Replication: 3})
	if got[0] != 2 || !slices.Contains(got, 3) || !slices.Contains(got, 4) {
		t.Errorf("%v", got)
	}
	if got := Extend(brokers, ids{2, 1, 3}, Request{Replication: 2}); !slices.Equal(got, ids{2, 1, 3}) {
		t.Errorf("%v", got)
	}
}
