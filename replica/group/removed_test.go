package group

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestLeaderIsRemoved: a leader that has applied its own removal has written more, which is not durable yet:
// when it is, that is no news to anybody.
func TestLeaderIsRemoved(t *testing.T) {
	w := newWorld(t, 1, 3)
	defer w.close()
	run := func(steps func(*member) bool) {
		for range 50 {
			for _, m := range w.members {
				if steps(m) {
					m.store.Step()
				}
				w.flush(m)
			}
			for len(w.net) > 0 {
				w.deliver(0, false)
			}
		}
	}
	all := func(*member) bool { return true }
	lead := w.member(1)
	if err := lead.group.Campaign(); err != nil {
		t.Fatal(err)
	}
	run(all)
	if !lead.group.Role().Ready {
		t.Fatalf("%+v", lead.group.Role())
	}
	err := lead.group.ProposeConf(pb.ConfChangeV2{Changes: []pb.ConfChangeSingle{{Type: pb.ConfChangeRemoveNode, NodeID: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	w.flush(lead)
	lead.store.Step() // the change is durable here, and what follows is not
	w.flush(lead)
	w.propose(lead)
	run(func(m *member) bool { return m != lead })
	if n := len(lead.group.Conf().Voters); n != 2 {
		t.Fatalf("%d voters", n)
	}
	run(all)
}
