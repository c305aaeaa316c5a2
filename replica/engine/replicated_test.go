package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/transport"
)

// fabric joins the engines of a test: each has a line to each other one, which keeps the order.
type fabric struct {
	t       *testing.T
	brokers []*testBroker
	mu      sync.Mutex
	cut     map[[2]kafkaproto.NodeID]bool
	lines   map[[2]kafkaproto.NodeID]chan transport.Message
	wg      sync.WaitGroup
}

type testBroker struct {
	f       *fabric
	node    kafkaproto.NodeID
	fs      vfs.FS
	store   *store.Store
	engine  *Engine
	placed  [][]Replica
	sent    atomic.Int64
	streams atomic.Int64
}

func (b *testBroker) Send(to kafkaproto.NodeID, m transport.Message) {
	b.sent.Add(1)
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	line := b.f.lines[[2]kafkaproto.NodeID{b.node, to}]
	if line == nil || b.f.cut[[2]kafkaproto.NodeID{b.node, to}] {
		return
	}
	select {
	case line <- m:
	default: // full
	}
}

// OpenStream asks the other engine itself.
func (b *testBroker) OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	b.f.mu.Lock()
	cut := b.f.cut[[2]kafkaproto.NodeID{b.node, to}]
	b.f.mu.Unlock()
	if cut || method != StreamSnapshot {
		return nil, errors.New("not reachable")
	}
	b.streams.Add(1)
	return b.f.brokers[to-1].engine.Stream(ctx, b.node, body)
}

// newFabric starts n brokers, 1 to n.
func newFabric(t *testing.T, n int) *fabric {
	f := &fabric{t: t, cut: map[[2]kafkaproto.NodeID]bool{}, lines: map[[2]kafkaproto.NodeID]chan transport.Message{}}
	for i := range n {
		f.brokers = append(f.brokers, &testBroker{f: f, node: kafkaproto.NodeID(i + 1), fs: vfs.Memory()})
	}
	for _, b := range f.brokers {
		b.start()
	}
	for _, a := range f.brokers {
		for _, b := range f.brokers {
			if a != b {
				f.line(a, b)
			}
		}
	}
	return f
}

func (f *fabric) line(from, to *testBroker) {
	c := make(chan transport.Message, 1000)
	f.lines[[2]kafkaproto.NodeID{from.node, to.node}] = c
	f.wg.Go(func() {
		for m := range c {
			if m.Payload != nil {
				parts, release, err := m.Payload.Load()
				if err != nil {
					continue
				}
				m.Payload = transport.Bytes(bytes.Join(parts, nil))
				release()
			}
			to.engine.Raft(from.node, []transport.Message{m})
		}
	})
}

func (b *testBroker) start() {
	var err error
	b.store, err = store.Open(store.Options{FS: b.fs, Dir: "/data", Logger: slog.New(slog.DiscardHandler), BootID: "boot"})
	if err != nil {
		b.f.t.Fatal(err)
	}
	b.engine = New(Options{Store: b.store, Clock: clock.System, Logger: slog.New(slog.DiscardHandler), Self: b.node, Transport: b, Files: b,
		OnPlaced: func(_ *Partition, on []Replica) {
			b.f.mu.Lock()
			defer b.f.mu.Unlock()
			b.placed = append(b.placed, on)
		}})
}

func (f *fabric) close() {
	for _, b := range f.brokers {
		b.engine.Close()
	}
	f.mu.Lock()
	for k, c := range f.lines {
		close(c)
		delete(f.lines, k)
	}
	f.mu.Unlock()
	f.wg.Wait()
	for _, b := range f.brokers {
		if err := b.store.Close(); err != nil {
			f.t.Error(err)
		}
	}
}

// isolate cuts a broker off from all others, or joins it again.
func (f *fabric) isolate(node kafkaproto.NodeID, off bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.lines {
		if k[0] == node || k[1] == node {
			f.cut[k] = off
		}
	}
}

func on(nodes ...kafkaproto.NodeID) []Replica {
	var rs []Replica
	for _, n := range nodes {
		rs = append(rs, Replica{ID: uint64(n) * 10, Node: n})
	}
	return rs
}

// open gives the partition to the brokers that are to have a replica.
func (f *fabric) open(s Spec) {
	f.t.Helper()
	s.ID, s.TP, s.Config.Strict, s.Config.Delete = partitionID(1), partitionName(1), true, true
	for _, r := range s.Replicas {
		if err := f.brokers[r.Node-1].engine.Open(s); err != nil {
			f.t.Fatal(err)
		}
	}
}

// leader waits until one broker, not being in except, leads and is ready.
func (f *fabric) leader(except ...kafkaproto.NodeID) *Partition {
	f.t.Helper()
	for range 200 {
		synctest.Wait()
		for _, b := range f.brokers {
			p := b.engine.ByID(partitionID(1))
			if p != nil && p.Leadership().Ready && !contains(except, b.node) {
				return p
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatal("nobody leads")
	return nil
}

func contains(list []kafkaproto.NodeID, n kafkaproto.NodeID) bool {
	for _, x := range list {
		if x == n {
			return true
		}
	}
	return false
}

func (f *fabric) at(n kafkaproto.NodeID) *Partition {
	return f.brokers[n-1].engine.ByID(partitionID(1))
}

// appendOne appends a record and gives the channel on which its fate is told.
func appendOne(t *testing.T, p *Partition, value string) (AppendResult, chan error) {
	t.Helper()
	a, err := p.Append(oneRecord(value), AppendOptions{NowMs: testNow})
	if err != nil {
		t.Fatal(err)
	}
	fate := make(chan error, 1)
	p.WhenCommitted(a.End, func(err error) { fate <- err })
	return a, fate
}

func mustCommit(t *testing.T, p *Partition, value string) {
	t.Helper()
	if _, fate := appendOne(t, p, value); <-fate != nil {
		t.Fatal("not committed")
	}
}

func (f *fabric) segments(n kafkaproto.NodeID) string {
	f.t.Helper()
	var all []byte
	dir := f.at(n).log.Dir()
	names, err := f.brokers[n-1].fs.ReadDir(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range names {
		if path.Ext(e.Name()) != ".log" {
			continue
		}
		b, err := vfs.ReadFile(f.brokers[n-1].fs, path.Join(dir, e.Name()), 1<<24)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			f.t.Fatal(err)
		}
		all = append(all, b...)
	}
	return string(all)
}

// same waits until all have the same bytes and show all of them.
func (f *fabric) same(nodes ...kafkaproto.NodeID) {
	f.t.Helper()
	var last string
	for range 100 {
		synctest.Wait()
		last = ""
		want := f.segments(nodes[0])
		for _, n := range nodes {
			if p := f.at(n); f.segments(n) != want || p.HighWatermark() != f.at(nodes[0]).LogEnd() {
				last += fmt.Sprintf("%d: %+v, %d bytes, end %d, high watermark %d\n", n, p.Leadership(), len(f.segments(n)), p.LogEnd(), p.HighWatermark())
			}
		}
		if last == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatalf("others than %d:\n%s", nodes[0], last)
}

func TestReplicatedAppendAndFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.open(Spec{Replicas: on(1, 2, 3)})
		p := f.leader()
		if p != f.at(1) {
			t.Errorf("the preferred leader does not lead")
		}
		if f.brokers[0].engine.Get(partitionName(1).Topic, 0) != p || f.brokers[1].engine.Get(partitionName(1).Topic, 0) != nil {
			t.Error("Get is for the partitions that a broker leads")
		}
		for i := range 20 {
			mustCommit(t, p, fmt.Sprint("value ", i))
		}
		if _, err := f.at(2).Append(oneRecord("x"), AppendOptions{}); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("append to a follower: %v", err)
		}

		f.isolate(1, true)
		_, lost := appendOne(t, p, "never seen")                                    // written by a leader that has no majority any more
		late, err := p.Append(oneRecord("nor this"), AppendOptions{NowMs: testNow}) // and asked for when all is over
		if err != nil {
			t.Fatal(err)
		}
		q := f.leader(1)
		if q.Leadership().Epoch <= p.Leadership().Epoch && p.Leadership().Leading {
			t.Errorf("epochs: %+v then %+v", p.Leadership(), q.Leadership())
		}
		if q.HighWatermark() != 20 {
			t.Errorf("the new leader shows %d records", q.HighWatermark())
		}
		mustCommit(t, q, "after the failover")
		select {
		case err := <-lost:
			t.Errorf("told before its fate is known: %v", err)
		default:
		}
		f.isolate(1, false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if err := fateOf(lost); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("what another leader has replaced is told %v", err)
		}
		mustCommit(t, f.leader(), "at the offset of what was cut off")
		f.same(1, 2, 3)
		asked := make(chan error, 1)
		p.WhenAppended(late, func(err error) { asked <- err })
		if err := fateOf(asked); !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("what another leader has replaced is told %v, when it is asked for late", err)
		}
		if hw := f.at(1).HighWatermark(); hw != 22 {
			t.Errorf("high watermark %d", hw)
		}
	})
}

// TestReplicatedAppendsTogether: many writers at once; each gets an offset of its own, in order.
func TestReplicatedAppendsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.open(Spec{Replicas: on(1, 2, 3)})
		p := f.leader()
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[kafkaproto.Offset]bool{}
		for w := range 8 {
			wg.Go(func() {
				last := kafkaproto.Offset(-1)
				for i := range 50 {
					a, fate := appendOne(t, p, fmt.Sprint(w, i))
					if a.BaseOffset <= last {
						t.Errorf("writer %d: offset %d after %d", w, a.BaseOffset, last)
					}
					last = a.BaseOffset
					if err := <-fate; err != nil {
						t.Error(err)
					}
					mu.Lock()
					seen[a.BaseOffset] = true
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(seen) != 400 || p.HighWatermark() != 400 {
			t.Errorf("%d offsets, high watermark %d", len(seen), p.HighWatermark())
		}
	})
}

// TestGrowAndMove: one replica becomes three, then moves to other brokers, its leader too, while it is
// written to.
func TestGrowAndMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 5)
		defer f.close()
		f.open(Spec{Replicas: on(1)})
		p := f.at(1)
		for i := range 10 {
			mustCommit(t, p, fmt.Sprint("solo ", i))
		}
		f.open(Spec{Replicas: on(1, 2, 3), Adding: on(2, 3), First: []uint64{10}})
		wantPlaced(t, f, 1, on(1, 2, 3))
		mustCommit(t, f.leader(), "on three")
		f.same(1, 2, 3)
		f.open(Spec{Replicas: on(4, 5, 3, 1, 2), Adding: on(4, 5), Removing: on(1, 2), First: []uint64{10}})
		for i := range 10 {
			mustCommit(t, f.leader(), fmt.Sprint("moving ", i))
			time.Sleep(time.Second)
		}
		q := f.leader(1, 2)
		wantPlaced(t, f, q.rep.Load().e.self, on(4, 5, 3))
		f.isolate(1, true)
		f.isolate(2, true)
		mustCommit(t, q, "without those that left")
		f.same(3, 4, 5)
	})
}

func wantPlaced(t *testing.T, f *fabric, node kafkaproto.NodeID, want []Replica) {
	t.Helper()
	for range 100 {
		synctest.Wait()
		f.mu.Lock()
		placed := f.brokers[node-1].placed
		f.mu.Unlock()
		if n := len(placed); n > 0 && fmt.Sprint(placed[n-1]) == fmt.Sprint(want) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("broker %d was not told that the partition is on %v", node, want)
}

// TestBackToSolo: three replicas become one, with writers running; what they were told stays.
func TestBackToSolo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.open(Spec{Replicas: on(1, 2, 3)})
		p := f.leader()
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var acked atomic.Int64
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if a, err := p.Append(oneRecord("x"), AppendOptions{}); err == nil {
						done := make(chan error, 1)
						p.WhenCommitted(a.End, func(err error) { done <- err })
						if <-done == nil {
							acked.Add(1)
						}
					} else {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		f.open(Spec{Replicas: on(1, 2, 3), Removing: on(2, 3)})
		wantPlaced(t, f, 1, on(1))
		for p.rep.Load() != nil { // it waits for a moment without a write
			f.open(Spec{Replicas: on(1)})
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(time.Second)
		close(stop)
		wg.Wait()
		if n := acked.Load(); n == 0 || kafkaproto.Offset(n) != p.HighWatermark() {
			t.Errorf("%d acknowledged, high watermark %d", n, p.HighWatermark())
		}
		if lead := p.Leadership(); !lead.Leading || !lead.Ready {
			t.Errorf("%+v", lead)
		}
		f.open(Spec{Replicas: on(1, 2, 3), Adding: on(2, 3)}) // under their old numbers, which a controller never gives
		mustCommit(t, p, "and back")
	})
}

// TestFiles: a replica that has fallen behind what the leader keeps as entries gets files, goes on with
// entries, and can lead.
func TestFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		spec := Spec{Replicas: on(1, 2, 3)}
		spec.Config.SegmentBytes, spec.Config.RetentionBytes, spec.Config.RetentionAge = 1<<10, -1, -1
		f.open(spec)
		p := f.leader()
		mustCommit(t, p, "first")
		f.same(1, 2, 3)
		f.isolate(3, true)
		for i := range 100 {
			mustCommit(t, p, fmt.Sprint("value ", i))
		}
		if _, err := p.DeleteRecords(60); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		f.isolate(3, false)
		for range 300 {
			synctest.Wait()
			if f.at(3).HighWatermark() == 101 {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if q := f.at(3); q.HighWatermark() != 101 || q.LogStart() != 60 || f.brokers[2].streams.Load() != 1 {
			t.Fatalf("high watermark %d, log start %d, %d streams", q.HighWatermark(), q.LogStart(), f.brokers[2].streams.Load())
		}
		mustCommit(t, p, "as an entry")
		f.same(1, 2) // 3 has other segments below the log start
		f.brokers[0].engine.BrokerDown(2)
		f.isolate(1, true)
		f.brokers[2].engine.BrokerDown(1)
		f.brokers[1].engine.BrokerDown(1)
		f.brokers[2].engine.Campaign(partitionID(1))
		mustCommit(t, f.leader(1, 2), "led by who got files")
	})
}

// TestReplicatedRetention: what is too much goes on all replicas, by the leader's word.
func TestReplicatedRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		spec := Spec{Replicas: on(1, 2, 3)}
		spec.Config.SegmentBytes, spec.Config.RetentionBytes, spec.Config.RetentionAge = 1<<10, 2<<10, -1
		f.open(spec)
		p := f.leader()
		for i := range 100 {
			mustCommit(t, p, fmt.Sprint("value ", i))
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		start := p.LogStart()
		for n := kafkaproto.NodeID(1); n <= 3; n++ {
			if q := f.at(n); start == 0 || q.LogStart() != start || q.Size() > 4<<10 {
				t.Errorf("broker %d: log start %d of %d, %d bytes", n, q.LogStart(), start, q.Size())
			}
		}
	})
}

// TestPreferredLeaderReturns: who led in its place hands back, and no writer fails.
func TestPreferredLeaderReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		for _, b := range f.brokers {
			for _, other := range f.brokers {
				b.engine.BrokerUp(other.node)
			}
		}
		f.open(Spec{Replicas: on(1, 2, 3)})
		mustCommit(t, f.leader(), "one")
		f.isolate(1, true)
		for _, n := range []kafkaproto.NodeID{2, 3} {
			f.brokers[n-1].engine.BrokerDown(1)
			f.brokers[0].engine.BrokerDown(n)
		}
		f.brokers[0].engine.Wake(partitionID(1))
		f.brokers[1].engine.Campaign(partitionID(1))
		other := f.leader(1)
		mustCommit(t, other, "two")
		epoch := other.Leadership().Epoch
		back := func() bool {
			lead := f.at(1).Leadership()
			return lead.Ready && lead.Epoch > epoch
		}
		f.isolate(1, false)
		for _, n := range []kafkaproto.NodeID{2, 3} {
			f.brokers[n-1].engine.BrokerUp(1)
			f.brokers[0].engine.BrokerUp(n)
			f.brokers[n-1].engine.Wake(partitionID(1))
		}
		for range 300 {
			if back() {
				break
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if !back() {
			t.Fatal("the preferred leader did not return")
		}
		f.same(1, 2, 3)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		for _, b := range f.brokers {
			if b.engine.Active() != 0 {
				t.Errorf("broker %d is not at rest", b.node)
			}
		}
	})
}

// TestMinInSync: a follower that does not follow leaves the set in time, one whose broker is dead at
// once; with too few of them an append that would wait for all is refused, others are not.
func TestMinInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.open(Spec{Replicas: on(1, 2, 3), MinInSync: 3})
		p := f.leader()
		all := func() error {
			_, err := p.Append(oneRecord("all"), AppendOptions{All: true})
			return err
		}
		if err := all(); err != nil {
			t.Fatal(err)
		}
		f.isolate(3, true)
		for range 120 {
			mustCommit(t, p, "one")
			time.Sleep(100 * time.Millisecond)
		}
		if got := p.Leadership().InSync; fmt.Sprint(got) != "[1 2]" {
			t.Errorf("in sync are %v", got)
		}
		if err := all(); !errors.Is(err, kerr.NotEnoughReplicas) {
			t.Errorf("with two of three in sync: %v", err)
		}
		p.SetMinInSync(2)
		if err := all(); err != nil {
			t.Error(err)
		}
		f.brokers[0].engine.BrokerDown(2)
		if err := all(); !errors.Is(err, kerr.NotEnoughReplicas) {
			t.Errorf("with a dead broker in sync: %v", err)
		}
		f.brokers[0].engine.BrokerUp(2)
		f.isolate(3, false)
		time.Sleep(3 * time.Second)
		if got := p.Leadership().InSync; fmt.Sprint(got) != "[1 2 3]" {
			t.Errorf("in sync are %v", got)
		}
	})
}

// TestQuiet: a group in which nothing happens costs nothing; a write wakes it, and so does the death of
// its leader's broker, without any tick having told of it.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		for _, b := range f.brokers {
			for _, other := range f.brokers {
				b.engine.BrokerUp(other.node)
			}
		}
		f.open(Spec{Replicas: on(1, 2, 3)})
		mustCommit(t, f.leader(), "one")
		time.Sleep(10 * time.Second)
		for _, b := range f.brokers {
			if n := b.engine.Active(); n != 0 {
				t.Errorf("broker %d has %d active groups", b.node, n)
			}
			b.sent.Store(0)
		}
		time.Sleep(time.Hour)
		for _, b := range f.brokers {
			if n := b.sent.Load(); n != 0 {
				t.Errorf("broker %d sent %d messages in a quiet hour", b.node, n)
			}
		}
		mustCommit(t, f.at(1), "two")
		f.same(1, 2, 3)
		time.Sleep(10 * time.Second)
		f.isolate(1, true)
		for _, n := range []kafkaproto.NodeID{2, 3} {
			f.brokers[n-1].engine.BrokerDown(1)
			f.brokers[0].engine.BrokerDown(n)
		}
		f.brokers[0].engine.Wake(partitionID(1))
		began := time.Now()
		f.brokers[1].engine.Campaign(partitionID(1))
		synctest.Wait()
		q := f.leader(1)
		if took := time.Since(began); took > 150*time.Millisecond || q != f.at(2) {
			t.Errorf("failover took %s", took)
		}
		mustCommit(t, q, "three")
		time.Sleep(5 * time.Second)
		if f.at(1).Leadership().Leading {
			t.Error("who led alone believed that no more than an election timeout")
		}
	})
}

// TestReplicatedDeleteRecords: the log start moves on all replicas.
func TestReplicatedDeleteRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.open(Spec{Replicas: on(1, 2, 3)})
		p := f.leader()
		for i := range 10 {
			mustCommit(t, p, fmt.Sprint("value ", i))
		}
		if got, err := p.DeleteRecords(4); err != nil || got != 4 {
			t.Errorf("%d, %v", got, err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for n := kafkaproto.NodeID(1); n <= 3; n++ {
			if at := f.at(n).LogStart(); at != 4 {
				p := f.at(n)
				t.Errorf("broker %d: log start %d; %+v end %d hw %d loghw %d", n, at, p.Leadership(), p.LogEnd(), p.HighWatermark(), p.log.HighWatermark())
			}
		}
		f.isolate(p.rep.Load().e.self, true)
		if _, err := p.DeleteRecords(5); !errors.Is(err, kerr.RequestTimedOut) && !errors.Is(err, kerr.NotLeaderForPartition) {
			t.Errorf("without a majority: %v", err)
		}
	})
}

// fateOf gives what was told, or an error when nothing is.
func fateOf(fate chan error) error {
	synctest.Wait()
	select {
	case err := <-fate:
		return err
	default:
		return errors.New("nothing was told")
	}
}

func oneRecord(value string) batch.Batch {
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(batch.Record{Timestamp: testNow, Value: []byte(value)})
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}
