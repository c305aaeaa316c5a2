package group

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"testing"
	"testing/cryptotest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/transport"
)

var (
	theID = kafkaproto.PartitionID{Topic: kafkaproto.TopicID{9, 1}}
	theTP = kafkaproto.TopicPartition{Topic: "orders"}
)

// member is one replica on a disk of its own.
type member struct {
	id    uint64
	fs    *vfs.PowerFS
	clock *clock.Manual
	store *store.Store
	log   *store.Log
	group *Group
	full  *vfs.ErrFS
	// shown is the highest high watermark of each boot.
	shown kafkaproto.Offset
}

type wire struct {
	to  uint64
	msg transport.Message
}

// world is a few replicas of one partition and what is under way between them, in one goroutine.
type world struct {
	t       testing.TB
	rng     *rand.Rand
	members []*member
	net     []wire
	cut     map[[2]uint64]bool
	next    int
	values  map[kafkaproto.Offset]string // what has been acknowledged, by offset
	pending map[uint64]map[kafkaproto.Offset]string
	leaders map[uint64]uint64 // of each term
	boots   int
}

const segmentBytes = 2 << 10

func newWorld(t testing.TB, seed uint64, n int) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), cut: map[[2]uint64]bool{},
		values: map[kafkaproto.Offset]string{}, pending: map[uint64]map[kafkaproto.Offset]string{},
		leaders: map[uint64]uint64{}}
	for i := range n {
		m := &member{id: uint64(i + 1), fs: vfs.PowerLoss(seed*16 + uint64(i)), clock: clock.NewManual(time.UnixMilli(1_700_000_000_000))}
		w.members = append(w.members, m)
	}
	for _, m := range w.members {
		w.boot(m)
	}
	return w
}

func (w *world) conf() pb.ConfState {
	var conf pb.ConfState
	for _, m := range w.members {
		conf.Voters = append(conf.Voters, m.id)
	}
	return conf
}

func (w *world) boot(m *member) {
	w.t.Helper()
	w.boots++
	m.full = vfs.Inject(m.fs)
	var err error
	m.store, err = store.Open(store.Options{FS: m.full, Dir: "/data", Clock: m.clock,
		Logger: slog.New(slog.DiscardHandler), BootID: fmt.Sprint(w.boots), Manual: true,
		Random: rand.NewChaCha8([32]byte{byte(m.id)})})
	if err != nil {
		w.t.Fatalf("open store of %d: %v", m.id, err)
	}
	m.log, err = m.store.OpenLog(theID, theTP, store.Config{SegmentBytes: segmentBytes, Strict: true})
	if err != nil {
		w.t.Fatalf("open log of %d: %v", m.id, err)
	}
	if err := m.log.StartReplica(w.conf()); err != nil {
		w.t.Fatalf("start %d: %v", m.id, err)
	}
	if m.group, err = New(Config{Log: m.log, Self: m.id, ElectionTicks: 4, HeartbeatTicks: 1}); err != nil {
		w.t.Fatal(err)
	}
	g := m.group
	m.log.Observe(g.Observe)
	m.shown = 0
	delete(w.pending, m.id)
}

// crash ends the member and boots it on what is left of its disk.
func (w *world) crash(m *member, kind vfs.CrashKind) {
	m.log.Observe(func(store.Event) {})
	fs := m.fs.Crash(kind)
	_ = m.store.Close() // it has crashed
	m.fs = fs
	w.boot(m)
}

// flush does what a member has to do and puts its messages on the wire.
func (w *world) flush(m *member) {
	out := m.group.Flush()
	for _, o := range out.Messages {
		w.net = append(w.net, wire{to: o.To, msg: o.Message})
	}
	if len(out.Snapshots) > 0 {
		w.t.Fatalf("%d wants a snapshot", m.id)
	}
	if out.Truncated >= 0 {
		for off := range w.pending[m.id] {
			if off >= out.Truncated {
				delete(w.pending[m.id], off)
			}
		}
	}
	if out.HighWatermark < m.shown {
		w.t.Fatalf("the high watermark of %d went back from %d to %d", m.id, m.shown, out.HighWatermark)
	}
	m.shown = out.HighWatermark
	for off, v := range w.pending[m.id] {
		if off < out.HighWatermark {
			w.ack(off, v)
			delete(w.pending[m.id], off)
		}
	}
	if r := out.Role; r.Leading {
		if other, ok := w.leaders[r.Term]; ok && other != m.id {
			w.t.Fatalf("%d and %d lead in term %d", other, m.id, r.Term)
		}
		w.leaders[r.Term] = m.id
	}
}

func (w *world) ack(off kafkaproto.Offset, v string) {
	if old, ok := w.values[off]; ok && old != v {
		w.t.Fatalf("offset %d was acknowledged as %q and as %q", off, old, v)
	}
	w.values[off] = v
}

func makeBatch(value string) batch.Batch {
	b := batch.NewBuilder(batch.BuilderOptions{})
	b.Add(batch.Record{Value: []byte(value), Timestamp: 1_700_000_000_000})
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

func (w *world) propose(m *member) {
	if !m.group.Role().Leading {
		return
	}
	w.next++
	value := fmt.Sprintf("value %d of %s", w.next, bytes.Repeat([]byte("x"), w.rng.IntN(200)))
	a, err := m.group.Propose(makeBatch(value), store.AppendOptions{NowMs: 1})
	w.flush(m)
	if err != nil {
		return
	}
	if w.pending[m.id] == nil {
		w.pending[m.id] = map[kafkaproto.Offset]string{}
	}
	if a.BaseOffset < m.group.HighWatermark() {
		w.ack(a.BaseOffset, value)
	} else {
		w.pending[m.id][a.BaseOffset] = value
	}
}

// deliver takes one message off the wire.
func (w *world) deliver(i int, keep bool) {
	x := w.net[i]
	if !keep {
		w.net[i] = w.net[len(w.net)-1]
		w.net = w.net[:len(w.net)-1]
	}
	from, to := x.msg.Raft.From, x.to
	if w.cut[[2]uint64{from, to}] {
		w.member(from).group.ReportUnreachable(to)
		w.flush(w.member(from))
		return
	}
	if x.msg.Payload != nil {
		parts, release, err := x.msg.Payload.Load()
		if err != nil {
			return // truncated meanwhile, or the sender has crashed
		}
		x.msg.Payload = transport.Bytes(bytes.Join(parts, nil))
		release()
	}
	m := w.member(to)
	if err := m.group.Step(&x.msg); err != nil {
		w.t.Fatalf("step %d: %v", to, err)
	}
	w.flush(m)
}

func (w *world) member(id uint64) *member { return w.members[id-1] }

// heal lets time pass without faults until one leads and all have all.
func (w *world) heal() {
	w.cut = map[[2]uint64]bool{}
	for _, m := range w.members {
		m.full.Hook(func(vfs.Op, string) error { return nil })
	}
	for range 3000 {
		for _, m := range w.members {
			m.group.Tick()
			m.group.RetryBlocked()
			w.flush(m)
		}
		for len(w.net) > 0 {
			w.deliver(0, false)
			for _, m := range w.members {
				m.store.StepSync()
				w.flush(m)
			}
		}
		if w.settled() {
			return
		}
	}
	w.t.Fatal("no agreement after healing")
}

func (w *world) settled() bool {
	end, hw := w.members[0].log.EndOffset(), w.members[0].group.HighWatermark()
	ready := false
	for _, m := range w.members {
		ready = ready || m.group.Role().Ready
		if m.log.EndOffset() != end || m.group.HighWatermark() != hw {
			return false
		}
	}
	return ready && end == hw
}

// contents reads all bytes of the member's segments, whatever the files they lie in: a replica that was cut
// back rolls elsewhere.
func (w *world) contents(m *member) []byte {
	names, err := m.fs.ReadDir(m.log.Dir())
	if err != nil {
		w.t.Fatal(err)
	}
	var all []byte
	for _, e := range names {
		if path.Ext(e.Name()) == ".log" {
			b, err := vfs.ReadFile(m.fs, path.Join(m.log.Dir(), e.Name()), 1<<24)
			if err != nil {
				w.t.Fatal(err)
			}
			all = append(all, b...)
		}
	}
	return all
}

// check compares the members with each other and with what was acknowledged.
func (w *world) check() {
	first := w.contents(w.members[0])
	for _, m := range w.members[1:] {
		if !bytes.Equal(first, w.contents(m)) {
			w.t.Fatalf("segments of 1 and %d differ", m.id)
		}
	}
	got := map[kafkaproto.Offset]string{}
	m := w.members[0]
	for off := kafkaproto.Offset(0); off < m.log.EndOffset(); {
		r, err := m.log.Read(off, 1<<20, m.log.EndOffset(), true)
		if err != nil {
			w.t.Fatal(err)
		}
		buf := make([]byte, r.Len)
		if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
			w.t.Fatal(err)
		}
		r.Release()
		if _, err := batch.Scan(buf, func(_ int, b batch.Batch) (bool, error) {
			return true, b.Each(1<<20, func(rec *batch.Record) (bool, error) {
				got[rec.Offset] = string(rec.Value)
				return true, nil
			})
		}); err != nil {
			w.t.Fatal(err)
		}
		off = r.Next
	}
	for off, v := range w.values {
		if got[off] != v {
			w.t.Fatalf("offset %d was acknowledged as %q and holds %q", off, v, got[off])
		}
	}
}

func (w *world) close() {
	for _, m := range w.members {
		m.log.Observe(func(store.Event) {})
		if err := m.store.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// weights say how often each thing happens in a step.
type weights struct{ deliver, propose, tick, sync, lose, cut, campaign, transfer, kill, power, powerBoth int }

var moods = []weights{
	{deliver: 500, propose: 150, tick: 100, sync: 250, lose: 2, cut: 1, transfer: 1, kill: 1, power: 1},                             // fair
	{deliver: 450, propose: 150, tick: 140, sync: 180, lose: 15, cut: 6, campaign: 3, transfer: 4, kill: 3, power: 3, powerBoth: 1}, // rough
	{deliver: 450, propose: 60, tick: 60, sync: 120, lose: 15, campaign: 60, transfer: 10, kill: 10, power: 40, powerBoth: 5},       // storms of elections
}

// step does one thing at random.
func (w *world) step(o weights) {
	m := w.members[w.rng.IntN(len(w.members))]
	p := w.rng.IntN(o.deliver + o.propose + o.tick + o.sync + o.lose + o.cut + o.campaign + o.transfer + o.kill + o.power + o.powerBoth)
	is := func(weight int) bool { p -= weight; return p < 0 }
	switch {
	case is(o.deliver):
		if len(w.net) > 0 {
			i := 0
			if w.rng.IntN(4) == 0 {
				i = w.rng.IntN(len(w.net))
			}
			w.deliver(i, w.rng.IntN(20) == 0)
		}
	case is(o.propose):
		for _, m := range w.members { // a deposed leader may still believe in itself
			w.propose(m)
		}
	case is(o.tick):
		m.group.Tick()
		w.flush(m)
	case is(o.sync):
		m.store.StepSync()
		w.flush(m)
	case is(o.lose):
		if len(w.net) > 0 {
			w.net = append(w.net[:0], w.net[1:]...)
		}
	case is(o.cut):
		w.cut = map[[2]uint64]bool{}
		for range w.rng.IntN(3) {
			w.cut[[2]uint64{uint64(w.rng.IntN(len(w.members)) + 1), uint64(w.rng.IntN(len(w.members)) + 1)}] = true
		}
	case is(o.campaign):
		_ = m.group.ForgetLeader()
		_ = m.group.Campaign()
		w.flush(m)
	case is(o.transfer):
		m.group.TransferLeader(uint64(w.rng.IntN(len(w.members)) + 1))
		w.flush(m)
	case is(o.kill):
		w.crash(m, vfs.KillCrash)
	case is(o.power):
		w.crash(m, vfs.PowerCrash)
	default:
		w.crash(w.members[0], vfs.PowerCrash)
		w.crash(w.members[1], vfs.PowerCrash)
	}
}

// TestFaults: three replicas under lost, repeated and late messages, cuts, kills and power losses, of
// one or of most. What was acknowledged stays, and after healing all are the same, byte for byte.
func TestFaults(t *testing.T) {
	run := tier.Of(t, 45, 0)
	acked, boots := 0, 0
	for seed := range run.Seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			w := newWorld(t, seed, 3)
			defer w.close()
			for range 1500 {
				w.step(moods[seed%uint64(len(moods))])
			}
			w.heal()
			w.check()
			acked, boots = acked+len(w.values), boots+w.boots
		})
	}
	if acked < int(run.Amount)*30 {
		t.Errorf("only %d records were acknowledged", acked)
	}
	run.Report(t, "%d records acknowledged, %d starts", acked, boots)
}
