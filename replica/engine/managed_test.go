package engine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// openManaged opens the group on all brokers; it began on voters.
func (f *fabric) openManaged(voters ...kafkaproto.NodeID) {
	f.t.Helper()
	for _, b := range f.brokers {
		s := Spec{ID: partitionID(1), TP: partitionName(1), Managed: true}
		s.Config.Strict = true
		s.Replicas = on(voters...)
		if !slices.Contains(voters, b.node) {
			s.Adding = on(b.node)
			s.Replicas = append(s.Replicas, s.Adding...)
		}
		if err := b.engine.Open(s); err != nil {
			f.t.Fatal(err)
		}
	}
}

// place tells the leader where to, and waits until all brokers of it are there.
func (f *fabric) place(target []Replica) *Partition {
	f.t.Helper()
	var want Members
	for _, m := range target {
		if m.Learner {
			want.Learners = append(want.Learners, m.ID)
		} else {
			want.Voters = append(want.Voters, m.ID)
		}
	}
	for range 100 {
		p := f.leader()
		for _, b := range f.brokers {
			b.engine.ByID(partitionID(1)).Know(target)
		}
		p.Place(p.LeaderEpoch(), target)
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		if got := p.Members(); fmt.Sprint(got) == fmt.Sprint(want) && p.Leadership().Ready {
			return p
		}
	}
	f.t.Fatalf("members %+v, want %+v", f.leader().Members(), want)
	return nil
}

// learning gives replicas that are to be learners.
func learning(nodes ...kafkaproto.NodeID) []Replica {
	rs := on(nodes...)
	for i := range rs {
		rs[i].Learner = true
	}
	return rs
}

// TestManagedLearners: replicas stay learners, become voters, and become learners again, the leader too.
func TestManagedLearners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 4)
		defer f.close()
		f.openManaged(1)
		p := f.leader()
		mustCommit(t, p, "alone")
		if got := p.Members(); fmt.Sprint(got) != "{[10] []}" {
			t.Errorf("members %+v", got)
		}
		f.place(append(on(1), learning(2, 3, 4)...))
		mustCommit(t, f.leader(), "with learners")
		f.same(1, 2, 3, 4)
		f.place(append(on(1, 2, 3), learning(4)...))
		f.isolate(1, true)
		mustCommit(t, f.leader(1), "two of three")
		f.isolate(1, false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		lead := f.leader().Leadership().Leader
		last := kafkaproto.NodeID(5) - lead // any other that votes, or the learner
		if last == 4 {
			last = 2
		}
		others := slices.DeleteFunc([]kafkaproto.NodeID{1, 2, 3, 4}, func(n kafkaproto.NodeID) bool { return n == last })
		p = f.place(append(on(last), learning(others...)...))
		if p.Leadership().Leader != last {
			t.Errorf("%+v, and %d is the only voter", p.Leadership(), last)
		}
		mustCommit(t, p, "alone again")
		f.same(1, 2, 3, 4)
		// A replica that is not in the target any more goes.
		f.place(append(on(last), learning(others[:2]...)...))
	})
}

// TestManagedTerm: where to go is said for one term: a leader of the next one waits to be told, and an
// append worked out in an earlier one is refused.
func TestManagedTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 4)
		defer f.close()
		f.openManaged(1, 2, 3)
		p := f.leader()
		p.Place(p.LeaderEpoch()-1, append(on(1, 2, 3), learning(4)...))
		time.Sleep(time.Second)
		if got := p.Members(); len(got.Learners) != 0 {
			t.Errorf("members %+v by a word of an earlier term", got)
		}
		old := p.LeaderEpoch()
		if _, err := p.Append(oneRecord("x"), AppendOptions{Epoch: old}); err != nil {
			t.Error(err)
		}
		lead := p.Leadership().Leader
		f.isolate(lead, true)
		refused := make(chan error, 1)
		p.Confirm(old, func(err error) { refused <- err })
		f.leader(lead)
		f.isolate(lead, false)
		time.Sleep(3 * time.Second)
		if err := fateOf(refused); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("leadership confirmed without a majority: %v", err)
		}
		q := f.leader()
		if _, err := q.Append(oneRecord("y"), AppendOptions{Epoch: old}); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("an append of epoch %d in epoch %d: %v", old, q.LeaderEpoch(), err)
		}
		fates := make([]chan error, 3)
		for i := range fates {
			fates[i] = make(chan error, 1)
			q.Confirm(q.LeaderEpoch(), func(err error) { fates[i] <- err })
		}
		q.Confirm(old, func(err error) { refused <- err })
		time.Sleep(time.Second)
		for _, fate := range fates {
			if err := fateOf(fate); err != nil {
				t.Errorf("leadership is not confirmed: %v", err)
			}
		}
		if err := fateOf(refused); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("leadership of an earlier term: %v", err)
		}
	})
}
