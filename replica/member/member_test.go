package member

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var theID = kafkaproto.PartitionID{Topic: kafkaproto.TopicID{3, 1}}

// broker is store, engine, member and a transport over TCP on loopback.
type broker struct {
	t      *testing.T
	node   kafkaproto.NodeID
	store  *store.Store
	tcp    *transport.TCP
	member *Member
	engine *engine.Engine
	dead   bool
}

var logger = slog.New(slog.DiscardHandler)

func startBroker(t *testing.T, node kafkaproto.NodeID) *broker {
	t.Helper()
	b := &broker{t: t, node: node}
	fsys, incarnation := vfs.Memory(), uint64(time.Now().UnixNano())
	var err error
	if b.store, err = store.Open(store.Options{FS: fsys, Dir: "/data", Logger: logger, BootID: "boot"}); err != nil {
		t.Fatal(err)
	}
	b.tcp, err = transport.NewTCP(transport.Options{
		ClusterID: "cluster", Node: node, Incarnation: incarnation, Listen: "127.0.0.1:0",
		Secret: []byte("0123456789abcdef"), Clock: clock.System, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.member = New(Options{
		Self: node, Incarnation: incarnation, Clock: clock.System, Logger: logger, Random: rand.New(rand.NewPCG(uint64(node), 1)),
		FS: fsys, Dir: "/data", Transport: b.tcp,
	})
	b.engine = engine.New(engine.Options{
		Store: b.store, Clock: clock.System, Logger: logger, Self: node, Transport: b.tcp, Files: b.tcp,
		OnLeadership: b.member.Leadership,
	})
	b.member.Attach(b.engine)
	b.tcp.Start(b.member)
	b.member.Start()
	t.Cleanup(b.kill)
	return b
}

// kill ends the broker; to the others it looks like a process that is gone.
func (b *broker) kill() {
	if b.dead {
		return
	}
	b.dead = true
	if err := b.tcp.Close(); err != nil {
		b.t.Error(err)
	}
	b.member.Close()
	b.engine.Close()
	if err := b.store.Close(); err != nil {
		b.t.Error(err)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func commit(t *testing.T, p *engine.Partition, value string) {
	t.Helper()
	bb := batch.NewBuilder(batch.BuilderOptions{})
	bb.Add(batch.Record{Timestamp: 1, Value: []byte(value)})
	b, err := bb.Build()
	if err != nil {
		t.Fatal(err)
	}
	a, err := p.Append(b, engine.AppendOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	p.WhenCommitted(a.End, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestThreeBrokers: a partition on three brokers over real connections. All know who leads; when that
// broker dies the others agree on the next one, and what was acknowledged is there.
func TestThreeBrokers(t *testing.T) {
	brokers := []*broker{startBroker(t, 1), startBroker(t, 2), startBroker(t, 3)}
	peers := map[kafkaproto.NodeID]transport.Peer{}
	var replicas []engine.Replica
	for _, b := range brokers {
		peers[b.node] = transport.Peer{Addr: b.tcp.Addr().String()}
		replicas = append(replicas, engine.Replica{ID: uint64(b.node), Node: b.node})
	}
	for _, b := range brokers {
		others := map[kafkaproto.NodeID]transport.Peer{}
		for n, p := range peers {
			if n != b.node {
				others[n] = p
			}
		}
		b.member.SetPeers(others)
	}
	for _, b := range brokers {
		if err := b.engine.Open(engine.Spec{ID: theID, TP: kafkaproto.TopicPartition{Topic: "orders"},
			Config: store.Config{Strict: true}, Replicas: replicas}); err != nil {
			t.Fatal(err)
		}
	}
	leaderIs := func(want kafkaproto.NodeID, among ...*broker) bool {
		for _, b := range among {
			if lead, ok := b.member.Leader(theID); !ok || lead.Node != want {
				return false
			}
		}
		return true
	}
	eventually(t, "all know that 1 leads, and admit clients", func() bool {
		return leaderIs(1, brokers...) && brokers[0].member.Admitted() && brokers[1].member.Admitted() && brokers[2].member.Admitted()
	})
	for i := range 50 {
		commit(t, brokers[0].engine.Get("orders", 0), fmt.Sprint("value ", i))
	}
	eventually(t, "the group is quiet", func() bool {
		return brokers[0].engine.Active()+brokers[1].engine.Active()+brokers[2].engine.Active() == 0
	})
	began := time.Now()
	brokers[0].kill()
	var next *engine.Partition
	eventually(t, "another one leads", func() bool {
		for _, b := range brokers[1:] {
			if p := b.engine.Get("orders", 0); p != nil && p.Leadership().Ready {
				next = p
			}
		}
		return next != nil
	})
	t.Logf("led again after %s", time.Since(began))
	if next.HighWatermark() != 50 {
		t.Errorf("the next leader shows %d records", next.HighWatermark())
	}
	commit(t, next, "after the failover")
	lead := next.Leadership().Leader
	eventually(t, "both know", func() bool { return leaderIs(lead, brokers[1:]...) })
	if brokers[1].member.Up(1) || !brokers[1].member.Quorum() {
		t.Error("the dead broker is up, or the majority is not known")
	}
}
