package group

import (
	"errors"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/log/vfs"
)

// TestConfDurable: a configuration counts as durable when a restart finds it, and one that could not be
// written is written later.
func TestConfDurable(t *testing.T) {
	w := newWorld(t, 2, 1)
	defer w.close()
	m := w.member(1)
	step := func() {
		w.flush(m)
		m.store.Step()
		w.flush(m)
	}
	if err := m.group.Campaign(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		step()
	}
	learn := func(id uint64) {
		t.Helper()
		cc := pb.ConfChangeV2{Changes: []pb.ConfChangeSingle{{Type: pb.ConfChangeAddLearnerNode, NodeID: id}}}
		if err := m.group.ProposeConf(cc); err != nil {
			t.Fatal(err)
		}
		w.flush(m)
		m.store.Step() // the entry
	}
	learn(2)
	w.flush(m)
	if n := len(m.group.Conf().Learners); n != 1 || m.group.ConfDurable() {
		t.Fatalf("%d learners, durable: %t", n, m.group.ConfDurable())
	}
	step()
	if !m.group.ConfDurable() {
		t.Error("it is durable, and nobody is told")
	}
	learn(3)
	m.full.Hook(func(op vfs.Op, _ string) error {
		if op&vfs.OpWrite != 0 {
			return errors.New("no room")
		}
		return nil
	})
	w.flush(m)
	m.full.Hook(func(vfs.Op, string) error { return nil })
	step()
	if m.group.ConfDurable() {
		t.Error("durable, and was never written")
	}
	m.group.Tick()
	step()
	if !m.group.ConfDurable() {
		t.Error("it was not tried again")
	}
	w.crash(m, vfs.PowerCrash)
	if n := len(m.group.Conf().Learners); n != 2 {
		t.Errorf("%d learners after a restart", n)
	}
}
