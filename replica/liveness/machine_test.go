package liveness

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// start is when virtual time begins.
var start = time.Unix(1_700_000_000, 0)

const ms = time.Millisecond

// holdings is a Replicas of literal answers.
type holdings struct {
	voters []kafkaproto.NodeID // of all groups
	urgent map[kafkaproto.PartitionID]bool
	lags   func(kafkaproto.PartitionID, kafkaproto.NodeID) bool
}

func (h *holdings) Voters(g kafkaproto.PartitionID) ([]kafkaproto.NodeID, bool) {
	return h.voters, h.urgent[g]
}

func (h *holdings) Lags(g kafkaproto.PartitionID, n kafkaproto.NodeID) bool {
	return h.lags != nil && h.lags(g, n)
}

func groupID(i int) kafkaproto.PartitionID {
	return kafkaproto.PartitionID{Topic: kafkaproto.TopicID{1, byte(i >> 12)}, Partition: int32(i)}
}

func config(node kafkaproto.NodeID, incarnation uint64) Config {
	return Config{
		Node: node, Incarnation: incarnation, Random: rand.New(rand.NewPCG(uint64(node), incarnation)),
		Replicas: &holdings{voters: []kafkaproto.NodeID{1, 2, 3}},
	}
}

// brokers is a cluster of machines whose frames come at once and in order, unless cut.
type brokers struct {
	t   *testing.T
	now time.Time
	m   map[kafkaproto.NodeID]*Machine
	out map[kafkaproto.NodeID]*Output // gathered since last asked
	ids []kafkaproto.NodeID
	off map[kafkaproto.NodeID]bool // stands still: gets no clock, sends nothing
}

func newBrokers(t *testing.T, n int) *brokers {
	b := &brokers{t: t, now: start, m: map[kafkaproto.NodeID]*Machine{}, out: map[kafkaproto.NodeID]*Output{},
		off: map[kafkaproto.NodeID]bool{}}
	for i := 1; i <= n; i++ {
		b.ids = append(b.ids, kafkaproto.NodeID(i))
	}
	for _, id := range b.ids {
		b.m[id] = New(config(id, 1), b.now)
		b.m[id].SetPeers(b.now, b.ids)
		b.out[id] = &Output{}
	}
	for _, x := range b.ids {
		for _, y := range b.ids {
			if x != y {
				b.m[x].Connected(b.now, y, 1)
			}
		}
	}
	b.settle()
	b.run(200 * ms)
	return b
}

// settle delivers frames until none are left.
func (b *brokers) settle() {
	for again := true; again; {
		again = false
		for _, id := range b.ids {
			if b.off[id] {
				continue
			}
			o := b.m[id].Take()
			b.gather(id, o)
			for _, f := range o.Send {
				again = true
				if b.off[f.To] {
					continue
				}
				if err := b.m[f.To].Receive(b.now, id, f.Body); err != nil {
					b.t.Fatal(err)
				}
			}
		}
	}
}

func (b *brokers) gather(id kafkaproto.NodeID, o Output) {
	all := b.out[id]
	all.Peers = append(all.Peers, o.Peers...)
	all.Changed = append(all.Changed, o.Changed...)
	all.Campaigns = append(all.Campaigns, o.Campaigns...)
	all.Wakes = append(all.Wakes, o.Wakes...)
	all.Admitted = all.Admitted || o.Admitted
	all.Exit = all.Exit || o.Exit
	if o.Quorum != QuorumSame {
		all.Quorum = o.Quorum
	}
	if o.Disk != DiskSame {
		all.Disk = o.Disk
	}
}

// took gives what a broker put out since it was last asked.
func (b *brokers) took(id kafkaproto.NodeID) Output {
	b.settle()
	o := *b.out[id]
	b.out[id] = &Output{}
	return o
}

// run lets time pass to each deadline; every disk syncs.
func (b *brokers) run(d time.Duration) { b.runWhile(d, func() bool { return true }) }

func (b *brokers) runWhile(d time.Duration, more func() bool) {
	for end := b.now.Add(d); b.now.Before(end) && more(); {
		next := end
		for _, id := range b.ids {
			if !b.off[id] {
				next = earlier(next, later(b.m[id].Deadline(), b.now))
			}
		}
		b.now = next
		for _, id := range b.ids {
			if !b.off[id] {
				b.m[id].DiskCycle(b.now)
				b.m[id].Advance(b.now)
			}
		}
		b.settle()
	}
}

func (b *brokers) wantLeader(at kafkaproto.NodeID, g kafkaproto.PartitionID, term kafkaproto.LeaderEpoch, node kafkaproto.NodeID, live bool) {
	b.t.Helper()
	l, ok := b.m[at].Leader(g)
	if !ok || l.Term != term || l.Node != node || l.Live != live {
		b.t.Errorf("broker %d, group %v: %+v, %t; want term %d, node %d, live %t", at, g, l, ok, term, node, live)
	}
}

func TestStartAndDelta(t *testing.T) {
	b := newBrokers(t, 3)
	for _, id := range b.ids {
		o := b.took(id)
		if !o.Admitted || o.Quorum != QuorumBack || len(o.Peers) != 2 {
			t.Fatalf("broker %d after the start: %+v", id, o)
		}
	}
	g := groupID(7)
	if !b.m[1].Lead(b.now, g, 5, []kafkaproto.NodeID{1, 3}) {
		t.Fatal("leadership refused")
	}
	b.run(flushDelay)
	for _, id := range b.ids {
		b.wantLeader(id, g, 5, 1, true)
	}
	o := b.took(2)
	if len(o.Changed) != 1 || o.Changed[0].Group != g || !slices.Equal(o.Changed[0].InSync, []kafkaproto.NodeID{1, 3}) {
		t.Fatalf("changes %+v", o.Changed)
	}
	if b.m[2].Lead(b.now, g, 4, nil) || b.m[2].Lead(b.now, g, 5, nil) {
		t.Fatal("a known term was led a second time")
	}
	b.m[2].Lead(b.now, g, 6, []kafkaproto.NodeID{2})
	b.run(flushDelay)
	b.m[1].Resign(b.now, g, 5) // late: it was deposed
	b.run(flushDelay)
	for _, id := range b.ids {
		b.wantLeader(id, g, 6, 2, true)
	}
	b.m[2].Resign(b.now, g, 6)
	b.run(flushDelay)
	for _, id := range b.ids {
		b.wantLeader(id, g, 6, 2, false)
	}
	for _, id := range b.ids {
		if c := b.m[id].Counters(); c != (Counters{}) {
			t.Errorf("broker %d counted %+v on a clean run", id, c)
		}
	}
}

// TestDeposedIsTold: broker 3 hears of the new leader's broker nothing, and must not go on believing in
// the old one.
func TestDeposedIsTold(t *testing.T) {
	b := newBrokers(t, 3)
	g := groupID(1)
	b.m[1].Lead(b.now, g, 5, nil)
	b.run(flushDelay)
	b.m[3].Disconnected(b.now, 2)
	b.m[2].Lead(b.now, g, 6, nil)
	b.run(3 * flushDelay)
	b.wantLeader(1, g, 6, 2, true)
	b.wantLeader(3, g, 5, 1, false)
}

// TestSecondLeaderOfTerm must not happen; the first one is believed.
func TestSecondLeaderOfTerm(t *testing.T) {
	b := newBrokers(t, 3)
	g := groupID(1)
	b.m[1].Lead(b.now, g, 5, nil)
	b.m[2].Lead(b.now, g, 5, nil)
	b.run(flushDelay)
	b.wantLeader(1, g, 5, 1, true)
	b.wantLeader(2, g, 5, 2, true)
	if c := b.m[1].Counters(); c.Conflicts == 0 {
		t.Error("not counted")
	}
}

// TestNewLifeBeforeItsDigest: what the old life led is not live because the new one is up.
func TestNewLifeBeforeItsDigest(t *testing.T) {
	m, now := follower(t, &holdings{}, 1)
	m.Connected(now, 1, 2)
	receive(t, m, now, 1, newWriter(kindBeat, 2, 0).beat(0, 0, 0))
	if l, _ := m.Leader(groupID(0)); !m.Up(1) || l.Live || l.Term != 7 || l.Node != 1 {
		t.Errorf("up %t, %+v", m.Up(1), l)
	}
	n := 0
	for range m.Led(1) {
		n++
	}
	receive(t, m, now, 1, newWriter(kindDigest, 2, 0).digest(1, 0, true, 0)) // the id of the old life's
	for range m.Led(1) {
		n--
	}
	if n != 1 {
		t.Error("listed as led after the new life's digest")
	}
}

// TestRequests asks for digests with each beat: the first is answered at once, others after a second.
func TestRequests(t *testing.T) {
	m := New(config(1, 1), start)
	m.SetPeers(start, []kafkaproto.NodeID{1, 2})
	m.Connected(start, 2, 1)
	m.Take()
	var at []time.Duration
	for d := time.Duration(0); d < 2500*ms; d += 50 * ms {
		body := newWriter(kindBeat, 1, 0).beat(0, 0, 0)
		body[flagsAt] |= flagWants
		receive(t, m, start.Add(d), 2, body)
		for _, f := range m.Take().Send {
			if f.Body[1] == kindDigest {
				at = append(at, d)
			}
		}
	}
	if !slices.Equal(at, []time.Duration{0, time.Second, 2 * time.Second}) {
		t.Errorf("digests after %v", at)
	}
}

// TestFullTable refuses what is beyond the limit, and learns it from a digest once there is room.
func TestFullTable(t *testing.T) {
	b := newBrokers(t, 2)
	b.m[2].cfg.MaxGroups = 1
	other := kafkaproto.PartitionID{Topic: kafkaproto.TopicID{9}}
	b.m[1].Lead(b.now, groupID(1), 1, nil)
	b.m[1].Lead(b.now, other, 1, nil)
	b.run(100 * ms)
	if b.m[2].Groups() != 1 || b.m[2].Counters().Overflow == 0 {
		t.Fatalf("%d groups, %+v", b.m[2].Groups(), b.m[2].Counters())
	}
	b.m[2].DropTopic(b.now, groupID(1).Topic)
	b.run(11 * time.Second)
	b.wantLeader(2, other, 1, 1, true)
}

// TestLateFrames delivers by hand, in orders that a connection does not give.
func TestLateFrames(t *testing.T) {
	g := groupID(1)
	lead := func(seq uint64, inSync ...kafkaproto.NodeID) item {
		return item{group: g, term: 5, seq: seq, inSync: inSync}
	}
	beat := func(from, to uint64, items ...item) []byte {
		w := newWriter(kindBeat, 1, 0)
		for _, it := range items {
			w.add(it, MaxBody)
		}
		return w.beat(0, from, to)
	}
	digest := func(id, part uint32, last bool, seq uint64, items ...item) []byte {
		w := newWriter(kindDigest, 1, 0)
		for _, it := range items {
			w.add(it, MaxBody)
		}
		return w.digest(id, part, last, seq)
	}
	cases := []struct {
		name   string
		frames [][]byte
		live   bool
		inSync []kafkaproto.NodeID
	}{
		{"older change after newer", [][]byte{beat(1, 2, lead(2, 1)), beat(0, 1, lead(1, 1, 2))}, true, []kafkaproto.NodeID{1}},
		{"older digest's part within a newer", [][]byte{
			digest(2, 0, false, 2, lead(1, 1)), digest(1, 0, false, 1, lead(1, 1)), digest(2, 1, true, 2),
		}, true, []kafkaproto.NodeID{1}},
		{"change between parts", [][]byte{digest(2, 0, false, 2), beat(2, 3, lead(3, 1)), digest(2, 1, true, 2)}, true, []kafkaproto.NodeID{1}},
		{"absent", [][]byte{beat(0, 1, lead(1, 1)), digest(2, 0, true, 2)}, false, []kafkaproto.NodeID{1}},
		{"absent, and a change before it comes late", [][]byte{beat(0, 1, lead(1, 1)), digest(2, 0, true, 3), beat(1, 2, lead(2, 1, 2))},
			false, []kafkaproto.NodeID{1}},
		{"never known, absent, an older digest comes late", [][]byte{digest(2, 0, true, 3), digest(1, 0, true, 1, lead(1, 1))}, false, nil},
		{"absent from a digest without its first part", [][]byte{beat(0, 1, lead(1, 1)), digest(2, 1, true, 2)}, true, []kafkaproto.NodeID{1}},
		{"a part twice", [][]byte{
			beat(0, 1, lead(1, 1)), digest(2, 0, false, 2), digest(2, 0, false, 2), digest(2, 1, true, 2, lead(1, 1)),
		}, true, []kafkaproto.NodeID{1}},
		{"a digest twice, a change between", [][]byte{digest(2, 0, true, 2), beat(2, 3, lead(3, 1)), digest(2, 0, true, 2)}, true, []kafkaproto.NodeID{1}},
	}
	for _, c := range cases {
		m := New(config(2, 1), start)
		m.SetPeers(start, []kafkaproto.NodeID{1, 2})
		m.Connected(start, 1, 1)
		receive(t, m, start, 1, beat(0, 0))
		for _, f := range c.frames {
			receive(t, m, start, 1, f)
		}
		if l, _ := m.Leader(g); l.Live != c.live || !slices.Equal(l.InSync, c.inSync) {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}
