package group

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
)

// node is a service on the real log, on a file system that loses power.
type node struct {
	t     *testing.T
	fs    *vfs.PowerFS
	boot  int
	store *store.Store
	eng   *engine.Engine
	svc   *Service
}

func (n *node) start() {
	n.t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	st, err := store.Open(store.Options{
		FS: n.fs, Dir: "/data", Clock: clock.System, Logger: quiet, BootID: fmt.Sprint("boot", n.boot),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	eng := engine.New(engine.Options{Store: st, Clock: clock.System, Logger: quiet})
	topics := image{"t": {kafkaproto.TopicID{1}, 1}, OffsetsTopic: {kafkaproto.TopicID{2}, testShards}}
	var specs []engine.Spec
	for p := range int32(testShards) {
		specs = append(specs, engine.Spec{
			ID:     kafkaproto.PartitionID{Topic: kafkaproto.TopicID{2}, Partition: p},
			TP:     kafkaproto.TopicPartition{Topic: OffsetsTopic, Partition: p},
			Config: store.Config{SegmentBytes: 4096, Compact: true, Strict: true, Internal: true},
		})
	}
	if err := eng.Open(specs...); err != nil {
		n.t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.InitialDelayMs = 0
	n.store, n.eng = st, eng
	n.svc = New(Options{
		Clock: clock.System, Logger: quiet, Config: cfg, Workers: 2,
		Topics: func() Topics { return topics },
		Open: func(p int32) (coord.Log, error) {
			return coord.OnPartition(eng.Get(OffsetsTopic, p))
		},
		EnsureTopic: func() error { return nil },
	})
	n.svc.Start()
}

// stop ends the process; after a crash the errors of a close mean nothing.
func (n *node) stop() error {
	n.svc.Close()
	n.eng.Close()
	return n.store.Close()
}

// wait gives an asynchronous answer.
func wait[Req, Resp any](call func(Req, func(Resp)), req Req) Resp {
	got := make(chan Resp, 1)
	call(req, func(r Resp) { got <- r })
	return <-got
}

// settle repeats a call until the shard is loaded.
func settle[Resp any](call func() (Resp, int16)) Resp {
	for {
		resp, c := call()
		if code(c) != "COORDINATOR_LOAD_IN_PROGRESS" && code(c) != "NOT_COORDINATOR" {
			return resp
		}
		runtime.Gosched()
	}
}

func (n *node) fetch(group string) int64 {
	resp := settle(func() (*kmsg.OffsetFetchResponse, int16) {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = 7, group
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		r := wait(n.svc.OffsetFetch, req)
		return r, r.ErrorCode
	})
	return resp.Topics[0].Partitions[0].Offset
}

// member makes a generation of one and gives its id.
func (n *node) member(group string) (string, int32) {
	n.t.Helper()
	joined := settle(func() (*kmsg.JoinGroupResponse, int16) {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.ProtocolType = 3, group, "consumer"
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 60_000, 60_000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscribe("t")}}
		got := make(chan *kmsg.JoinGroupResponse, 1)
		n.svc.Join(Client{ID: "c"}, req, func(r *kmsg.JoinGroupResponse) { got <- r })
		r := <-got
		return r, r.ErrorCode
	})
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, joined.MemberID, joined.Generation
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{
		MemberID: joined.MemberID, MemberAssignment: []byte("all"),
	}}
	synced := wait(n.svc.Sync, req)
	if synced.ErrorCode != 0 {
		n.t.Fatalf("sync: %s", code(synced.ErrorCode))
	}
	return joined.MemberID, joined.Generation
}

func (n *node) heartbeat(group, member string, generation int32) string {
	return code(settle(func() (*kmsg.HeartbeatResponse, int16) {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = group, member, generation
		r := wait(n.svc.Heartbeat, req)
		return r, r.ErrorCode
	}).ErrorCode)
}

// committer commits growing offsets in one group until the test has enough.
// acked is the last one that was answered without an error.
type committer struct {
	group        string
	acked, tried int64
}

func (c *committer) run(n *node, enough *countdown) {
	for !enough.over.Load() {
		c.tried++
		r := wait(n.svc.OffsetCommit, commitOf(c.group, c.tried))
		if r.Topics[0].Partitions[0].ErrorCode == 0 {
			c.acked = c.tried
			enough.one()
		}
	}
}

// countdown closes zero when it was counted down.
type countdown struct {
	left atomic.Int64
	zero chan struct{}
	over atomic.Bool // the committers are to end
}

func (c *countdown) one() {
	if c.left.Add(-1) == 0 {
		close(c.zero)
	}
}

// TestPowerLoss commits on the real log and cuts the power, again and again: what was answered is
// there (G13), and a member goes on in its generation (G14).
func TestPowerLoss(t *testing.T) {
	defer goleak.VerifyNone(t)
	run := tier.Of(t, 6, 0)
	for seed := range run.Seeds() {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { powerLoss(t, seed) })
	}
	run.Report(t, "4 crashes each")
}

func powerLoss(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	n := &node{t: t, fs: vfs.PowerLoss(seed)}
	n.start()
	cs := make([]*committer, 5)
	for i := range cs {
		cs[i] = &committer{group: fmt.Sprint("group", i)}
	}
	for range 4 {
		id, generation := n.member("members")
		enough := &countdown{zero: make(chan struct{})}
		enough.left.Store(1 + rng.Int64N(300))
		var running sync.WaitGroup
		for _, c := range cs {
			running.Go(func() { c.run(n, enough) })
		}
		<-enough.zero
		kind := vfs.PowerCrash
		if rng.IntN(3) == 0 {
			kind = vfs.KillCrash
		}
		next := n.fs.Crash(kind)
		enough.over.Store(true)
		_ = n.stop() // it has crashed
		running.Wait()
		n.fs = next
		if kind == vfs.PowerCrash {
			n.boot++
		}
		n.start()
		for _, c := range cs {
			got := max(n.fetch(c.group), 0) // -1 is none
			if got < c.acked || got > c.tried {
				t.Fatalf("%s: %d is there, %d was answered, %d tried", c.group, got, c.acked, c.tried)
			}
			c.acked = got
		}
		if got := n.heartbeat("members", id, generation); got != "ok" {
			t.Fatalf("the member gets %s", got)
		}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Version, leave.Group = 2, "members"
		leave.MemberID = id
		if r := wait(n.svc.Leave, leave); r.ErrorCode != 0 {
			t.Fatalf("leave: %s", code(r.ErrorCode))
		}
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, c := range cs {
		total += c.acked
	}
	if total == 0 {
		t.Fatal("nothing was committed")
	}
	t.Logf("%d commits", total)
}
