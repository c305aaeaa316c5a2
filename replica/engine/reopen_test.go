package engine

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// restart ends a broker and starts it on the same files, as its controller finds it.
func (b *testBroker) restart() {
	b.engine.Close()
	if err := b.store.Close(); err != nil {
		b.f.t.Fatal(err)
	}
	b.start()
}

// TestOpenSoloInReplicatedForm: a broker that stops when it has the only replica left, and before the
// partition is back in its solo form, finds the replicated form on disk, and leads.
func TestOpenSoloInReplicatedForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.open(Spec{Replicas: on(1, 2, 3)})
		mustCommit(t, f.leader(), "on three")
		f.open(Spec{Replicas: on(1, 2, 3), Removing: on(2, 3)})
		wantPlaced(t, f, 1, on(1))
		f.brokers[0].restart()
		f.open(Spec{Replicas: on(1)})
		mustCommit(t, f.leader(2, 3), "on one")
		f.open(Spec{Replicas: on(1)})
		mustCommit(t, f.leader(2, 3), "still")
	})
}

// TestReplicaGivenAgain: a broker that hears at once that its replica was taken away and that it is given
// another one throws the first one away.
func TestReplicaGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.open(Spec{Replicas: on(1, 2, 3)})
		mustCommit(t, f.leader(), "one")
		f.open(Spec{Replicas: on(1, 2, 3), Removing: on(3)})
		wantPlaced(t, f, 1, on(1, 2))
		next := append(on(1, 2), Replica{ID: 31, Node: 3})
		f.open(Spec{Replicas: next, Adding: next[2:]})
		wantPlaced(t, f, 1, next)
		mustCommit(t, f.leader(), "two")
		f.same(1, 2, 3)
	})
}

// leaders is a leader table in which a test notes what brokers would tell.
type leaders struct {
	mu    sync.Mutex
	node  kafkaproto.NodeID
	epoch kafkaproto.LeaderEpoch
	live  bool
}

func (l *leaders) LeaderOf(kafkaproto.PartitionID) (kafkaproto.NodeID, kafkaproto.LeaderEpoch, bool, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.node, l.epoch, l.live, l.epoch > 0
}

func (l *leaders) note(n kafkaproto.NodeID, epoch kafkaproto.LeaderEpoch, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.node, l.epoch, l.live = n, epoch, live
}

// TestLeaderThatResigned: followers sleep only while their leader is known to lead. When it has resigned,
// and its broker lives, they elect another one as soon as they are told to.
func TestLeaderThatResigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		table := &leaders{}
		for _, b := range f.brokers {
			b.engine.SetLeaderTable(table)
			for _, other := range f.brokers {
				b.engine.BrokerUp(other.node)
			}
		}
		f.open(Spec{Replicas: on(1, 2, 3)})
		p := f.leader()
		mustCommit(t, p, "one")
		table.note(1, p.LeaderEpoch(), true)
		time.Sleep(10 * time.Second)
		for _, b := range f.brokers {
			if n := b.engine.Active(); n != 0 {
				t.Errorf("broker %d has %d active groups", b.node, n)
			}
		}
		f.isolate(1, true) // what it resigned for is not known here
		f.brokers[1].engine.Campaign(partitionID(1))
		synctest.Wait()
		if f.at(2).Leadership().Leading {
			t.Error("a living leader was put aside")
		}
		table.note(1, p.LeaderEpoch(), false)
		began := time.Now()
		f.brokers[1].engine.Campaign(partitionID(1))
		if q := f.leader(1); q != f.at(2) || time.Since(began) > 150*time.Millisecond {
			t.Errorf("who was told to campaign does not lead at once, but after %s", time.Since(began))
		}
		mustCommit(t, f.at(2), "two")
	})
}

// TestRoomAgain: writes go on once the leader's disk has room again, also when clients never stop trying.
func TestRoomAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		disk := vfs.Inject(f.brokers[0].fs)
		f.brokers[0].fs = disk
		f.brokers[0].restart()
		f.open(Spec{Replicas: on(1, 2, 3)})
		p := f.leader()
		mustCommit(t, p, "one")
		disk.SetBudget(0)
		for i := range 100 {
			if _, err := p.Append(oneRecord("full"), AppendOptions{}); err == nil && i > 1 {
				t.Fatal("a full disk takes writes")
			}
			time.Sleep(10 * time.Millisecond)
		}
		disk.SetBudget(1 << 30)
		for range 500 {
			time.Sleep(10 * time.Millisecond)
			if _, err := p.Append(oneRecord("room"), AppendOptions{}); err == nil {
				mustCommit(t, p, "again")
				return
			}
		}
		t.Fatal("writes wait although there is room")
	})
}

// TestPlacedIsDurable: a move is told as done only when a restart of the leader finds it so: those who leave
// throw away what they have.
func TestPlacedIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		disk := vfs.Inject(f.brokers[0].fs)
		f.brokers[0].fs = disk
		f.brokers[0].restart()
		f.open(Spec{Replicas: on(1, 2, 3)})
		p := f.leader()
		wantPlaced(t, f, 1, on(1, 2, 3))
		free := make(chan struct{})
		disk.Hook(func(op vfs.Op, _ string) error {
			if op&(vfs.OpSync|vfs.OpSyncFS) != 0 && len(p.Members().Voters) == 2 {
				<-free
			}
			return nil
		})
		f.open(Spec{Replicas: on(1, 2, 3), Removing: on(3)})
		time.Sleep(3 * time.Second)
		if n := len(p.Members().Voters); n != 2 {
			t.Errorf("%d voters", n)
		}
		f.mu.Lock()
		if n := len(f.brokers[0].placed); n != 1 {
			t.Errorf("placed was told %d times", n)
		}
		f.mu.Unlock()
		close(free)
		wantPlaced(t, f, 1, on(1, 2))
	})
}
