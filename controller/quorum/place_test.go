package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/engine"
)

// TestPlaceReplicas: brokers are written as their number and marks: v votes, f is fenced, d drains.
func TestPlaceReplicas(t *testing.T) {
	for _, c := range []struct {
		brokers string
		self    kafkaproto.NodeID
		want    string
	}{
		{"1v", 1, "1"},
		{"1v 2", 1, "1 | 2"},
		{"1v 2 3", 1, "1 2 3"},
		{"1v 2v 3v 4", 1, "1 2 3 | 4"},
		{"1 2v 3v 4v", 2, "2 3 4 | 1"},
		{"1v 2v 3v 4 5", 1, "1 2 3 4 5"},
		{"1v 2v 3v 4v 5v 6", 1, "1 2 3 4 5 | 6"},
		{"1v 2vf 3v 4", 1, "1 3 4 | 2"}, // somebody else is there
		{"1v 2vf 3v", 1, "1 2 3"},       // nobody else is
		{"1v 2f 3", 1, "1 | 2 3"},       // two are no better than one
		{"1vd 2v 3v 4", 2, "2 3 4 | 1"}, // drained
		{"1vf 2f", 1, "1 | 2"},          // whoever is left
		{"1v 2v 3v 4v", 4, "1 2 4 | 3"}, // the leader stays
		{"2v 3v", 3, "3 | 2"},           // after an unregistration
		{"1 2 3", 9, "1 2 3"},           // nobody votes that is registered
		{"1f 2f 3f", 9, ""},             // nothing can be said
		{"1v 2v 3v 4v 5v", 2, "1 2 3 4 5"},
	} {
		var nodes []*meta.Node
		var m engine.Members
		for _, b := range strings.Fields(c.brokers) {
			n := &meta.Node{Directory: "directory " + b[:1], Fenced: strings.Contains(b, "f"), Draining: strings.Contains(b, "d")}
			fmt.Sscan(b[:1], &n.ID)
			nodes = append(nodes, n)
			if strings.Contains(b, "v") {
				m.Voters = append(m.Voters, ReplicaID(n.Directory))
			}
		}
		var voters, learners []string
		for _, r := range placeReplicas(nodes, m, c.self) {
			if r.Learner {
				learners = append(learners, fmt.Sprint(r.Node))
			} else {
				voters = append(voters, fmt.Sprint(r.Node))
			}
		}
		got := strings.Join(voters, " ")
		if len(learners) > 0 {
			got += " | " + strings.Join(learners, " ")
		}
		if got != c.want {
			t.Errorf("%s, leader %d: %s, want %s", c.brokers, c.self, got, c.want)
		}
	}
}

func TestReplicaID(t *testing.T) {
	a, b := ReplicaID(uuid(1)), ReplicaID(uuid(2))
	if a == b || a == 0 || a>>63 != 0 || a != ReplicaID(uuid(1)) {
		t.Errorf("%d and %d", a, b)
	}
	var all []uint64
	for i := range 200 {
		all = append(all, ReplicaID(uuid(byte(i))))
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 200 {
		t.Errorf("%d ids of 200 directories", n)
	}
}
