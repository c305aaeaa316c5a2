package sim

import (
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/transport"
)

// World is the brokers, what is between them, and who looks on.
type World struct {
	t       testing.TB
	seed    uint64
	rng     *rand.Rand
	clock   *clock.Manual
	began   time.Time
	net     *transport.Network
	brokers []*Broker
	parts   []*Part
	check   checker
	mood    Mood
	healing bool
	slow    kafkaproto.NodeID // whose packets take long; 0: nobody's
	history []string
	digest  hash.Hash64 // of all that happened
	Stats   Stats
}

// Stats says how much happened.
type Stats struct {
	Crashes, Acked, Failovers, Moves, Packets, Lost, Files, Solo, Full, Broken, Cuts int
}

// Add adds what happened in another world.
func (s *Stats) Add(o Stats) {
	s.Crashes += o.Crashes
	s.Acked += o.Acked
	s.Failovers += o.Failovers
	s.Moves += o.Moves
	s.Packets += o.Packets
	s.Lost += o.Lost
	s.Files += o.Files
	s.Solo += o.Solo
	s.Full += o.Full
	s.Broken += o.Broken
	s.Cuts += o.Cuts
}

// Part is a partition as the controller knows it.
type Part struct {
	id               kafkaproto.PartitionID
	tp               kafkaproto.TopicPartition
	replicas         []engine.Replica
	adding, removing []engine.Replica
	next             uint64
	first            []uint64
	client           *Client
	minInSync        int32
}

// Mood is how often things happen, per step of some milliseconds, in thousandths.
type Mood struct {
	Name                                                string
	Produce, Sync, Upkeep                               int
	Kill, Power, MidWrite, Restart                      int
	Cut, Heal, Lose, Repeat, Delay, Stall, Move, Delete int
	Full, SyncError, Slow, HandOver, Again, Isolate     int
	AtWord                                              int // per such word, not per step
	Skew                                                int // thousandths by which a clock may run fast or slow
}

// Moods are gone through by the seed.
var Moods = []Mood{
	{Name: "fair", Produce: 600, Sync: 800, Upkeep: 50, Kill: 1, Power: 1, Restart: 20, Move: 2, Delete: 2},
	{Name: "lossy", Produce: 500, Sync: 700, Upkeep: 50, Kill: 2, Power: 2, MidWrite: 2, Restart: 20, Cut: 4, Heal: 20,
		Lose: 50, Repeat: 30, Delay: 200, Move: 3, Delete: 3, Slow: 5, Again: 5},
	{Name: "crashes", Produce: 500, Sync: 500, Upkeep: 50, Kill: 8, Power: 10, MidWrite: 10, Restart: 60, AtWord: 100, Lose: 5,
		Delay: 50, Move: 2, Delete: 2},
	{Name: "cuts", Produce: 500, Sync: 700, Upkeep: 50, Kill: 1, Power: 1, Restart: 20, Cut: 10, Isolate: 8, Heal: 12, Lose: 10,
		Delay: 100, Stall: 5, Move: 2, Delete: 2, HandOver: 2, Skew: 100},
	{Name: "moves", Produce: 500, Sync: 700, Upkeep: 100, Kill: 2, Power: 2, MidWrite: 1, Restart: 30, Lose: 5, Delay: 50,
		Move: 30, Delete: 10, Again: 30},
	{Name: "disks", Produce: 600, Sync: 500, Upkeep: 100, Kill: 2, Power: 4, MidWrite: 5, Restart: 40, Stall: 10, Full: 8,
		SyncError: 4, Move: 3, Delete: 5, Again: 5},
	{Name: "idle", Produce: 20, Sync: 700, Upkeep: 50, Kill: 2, Power: 2, Restart: 20, Cut: 2, Isolate: 2, Heal: 10, Lose: 100,
		Delay: 50, Move: 3, Delete: 3, HandOver: 2},
	{Name: "terms", Produce: 700, Sync: 300, Upkeep: 30, Power: 15, MidWrite: 15, Restart: 150, AtWord: 300, Isolate: 10, Heal: 20,
		Lose: 20, Delay: 100, HandOver: 10},
	{Name: "all", Produce: 500, Sync: 600, Upkeep: 80, Kill: 3, Power: 4, MidWrite: 4, Restart: 40, Cut: 6, Isolate: 4, Heal: 15,
		Lose: 20, Repeat: 20, Delay: 80, Stall: 3, Move: 10, Delete: 8, Full: 3, SyncError: 1, Slow: 3, HandOver: 4,
		Again: 10, AtWord: 50, Skew: 200},
}

// New makes a world of 3 to 5 brokers with a few partitions.
func New(t testing.TB, seed uint64) *World {
	w := &World{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), mood: Moods[seed%uint64(len(Moods))]}
	w.clock = clock.NewManual(time.UnixMilli(1_700_000_000_000))
	w.began = w.clock.Now()
	w.net = transport.NewNetwork(w.clock)
	w.net.Fate = w.fate
	w.digest = fnv.New64a()
	w.check.init(w)
	for i := range 3 + w.rng.IntN(3) {
		w.brokers = append(w.brokers, &Broker{w: w, node: kafkaproto.NodeID(i + 1), disk: vfs.PowerLoss(seed*31 + uint64(i)),
			clock: skewed{w, 1 + float64(w.rng.IntN(2*w.mood.Skew+1)-w.mood.Skew)/1000}})
	}
	for i := range 1 + w.rng.IntN(4) {
		p := &Part{id: kafkaproto.PartitionID{Topic: kafkaproto.TopicID{1, byte(i)}}, next: 1,
			tp: kafkaproto.TopicPartition{Topic: fmt.Sprint("topic", i)}}
		for _, n := range w.pick(w.factor(3)) {
			p.replicas = append(p.replicas, p.replica(n))
			p.first = append(p.first, p.next-1)
		}
		p.minInSync = int32(1 + w.rng.IntN(2))
		p.client = newClient(w, p, kafkaproto.ProducerID(100+i))
		w.parts = append(w.parts, p)
	}
	for _, b := range w.brokers {
		b.start()
	}
	return w
}

// factor draws how many replicas a partition has: mostly usual, else 1, 3 or 5, as far as there are brokers.
func (w *World) factor(usual int) int {
	if w.rng.IntN(2) == 0 {
		return usual
	}
	return min(1+2*w.rng.IntN(3), (len(w.brokers)-1)/2*2+1)
}

// replica gives a new incarnation on a broker.
func (p *Part) replica(n kafkaproto.NodeID) engine.Replica {
	p.next++
	return engine.Replica{ID: p.next - 1, Node: n}
}

// pick draws n different brokers.
func (w *World) pick(n int) []kafkaproto.NodeID {
	var nodes []kafkaproto.NodeID
	for _, i := range w.rng.Perm(len(w.brokers))[:n] {
		nodes = append(nodes, w.brokers[i].node)
	}
	return nodes
}

func (w *World) broker(n kafkaproto.NodeID) *Broker { return w.brokers[n-1] }

func (w *World) peersOf(n kafkaproto.NodeID) map[kafkaproto.NodeID]transport.Peer {
	peers := map[kafkaproto.NodeID]transport.Peer{}
	for _, b := range w.brokers {
		if b.node != n {
			peers[b.node] = transport.Peer{}
		}
	}
	return peers
}

// open gives a broker the partitions that it has a replica of, and takes others away.
func (w *World) open(b *Broker) {
	for _, p := range w.parts {
		all := slices.Concat(p.replicas, p.removing)
		if !slices.ContainsFunc(all, func(r engine.Replica) bool { return r.Node == b.node }) {
			if b.engine.ByID(p.id) != nil {
				delete(b.shown, p.id)
				if err := b.engine.Delete(p.id); err != nil && !w.broken(b, err) {
					w.fail("heals", "delete %s on %d: %v", p.tp, b.node, err)
				}
			}
			continue
		}
		at := slices.IndexFunc(all, func(r engine.Replica) bool { return r.Node == b.node })
		if b.holds[p.id] != all[at].ID {
			b.holds[p.id] = all[at].ID
			delete(b.shown, p.id)
		}
		err := b.engine.Open(engine.Spec{ID: p.id, TP: p.tp, Replicas: all, Adding: p.adding, Removing: p.removing, First: p.first, MinInSync: p.minInSync,
			Config: store.Config{SegmentBytes: 4 << 10, Strict: true, Delete: true, RetentionBytes: -1, RetentionAge: -1, MaxMessageBytes: 1 << 20}})
		if err != nil && !w.broken(b, err) {
			w.fail("heals", "open %s on %d: %v", p.tp, b.node, err)
		}
	}
}

// broken tells whether an error comes of the disk, as things are with it. It is tried again.
func (w *World) broken(b *Broker, err error) bool {
	return b.crashed != nil || errors.Is(err, syscall.EIO) || vfs.IsNoSpace(err) || b.store != nil && b.store.Err() != nil
}

// move begins to bring a partition to other brokers, as a controller would.
func (w *World) move() {
	p := w.parts[w.rng.IntN(len(w.parts))]
	if len(p.adding)+len(p.removing) > 0 {
		return
	}
	var target, adding []engine.Replica
	for _, n := range w.pick(w.factor(1)) {
		at := slices.IndexFunc(p.replicas, func(r engine.Replica) bool { return r.Node == n })
		if at >= 0 {
			target = append(target, p.replicas[at])
			continue
		}
		r := p.replica(n)
		target, adding = append(target, r), append(adding, r)
	}
	p.removing = slices.DeleteFunc(p.replicas, func(r engine.Replica) bool { return slices.Contains(target, r) })
	p.replicas, p.adding = target, adding
	w.note("move %s to %v, away from %v", p.tp, target, p.removing)
	w.Stats.Moves++
	w.openAll()
}

func (w *World) openAll() {
	for _, b := range w.brokers {
		if b.up {
			w.open(b)
		}
	}
}

// placed ends a move when the leader says so of what is wanted now.
func (w *World) placed(id kafkaproto.PartitionID, on []engine.Replica) {
	for _, p := range w.parts {
		if p.id == id && slices.Equal(p.replicas, on) && len(p.adding)+len(p.removing) > 0 {
			w.note("%s is on %v", p.tp, on)
			p.adding, p.removing = nil, nil
			w.clock.AfterFunc(time.Millisecond, w.openAll) // not from within the engine
		}
	}
}

// fate says what becomes of a packet.
func (w *World) fate(p transport.Packet) transport.Fate {
	w.Stats.Packets++
	fmt.Fprint(w.digest, p.From, p.To, p.Kind)
	w.atWord(p)
	delay := func() time.Duration { return time.Duration(w.rng.IntN(400)) * time.Microsecond }
	if w.healing {
		return transport.Fate{Delays: []time.Duration{delay()}}
	}
	f := transport.Fate{Late: w.rng.IntN(2) == 0}
	switch {
	case w.chance(w.mood.Lose):
		w.Stats.Lost++
		f.Refused = w.rng.IntN(2) == 0
		return f
	case w.chance(w.mood.Delay):
		f.Delays = append(f.Delays, time.Duration(w.rng.IntN(200))*time.Millisecond)
	default:
		f.Delays = append(f.Delays, delay())
	}
	if w.slow == p.From || w.slow == p.To {
		f.Delays[0] += time.Duration(100+w.rng.IntN(400)) * time.Millisecond
	}
	if w.chance(w.mood.Repeat) {
		f.Delays = append(f.Delays, time.Duration(w.rng.IntN(100))*time.Millisecond)
	}
	return f
}

// atWord may have the power go just when a broker has given its vote, or begun to send a change of the
// configuration: it must stand by that when it is back, which is often at once.
func (w *World) atWord(p transport.Packet) {
	if p.Kind != transport.PacketRaft || w.healing {
		return
	}
	word := p.Message.Raft.Type == pb.MsgVoteResp
	for _, e := range p.Message.Raft.Entries {
		word = word || e.Type != pb.EntryNormal
	}
	if !word || !w.chance(w.mood.AtWord) {
		return
	}
	b := w.broker(p.From)
	boot, again := b.boot, w.rng.IntN(3) > 0
	w.clock.AfterFunc(time.Duration(w.rng.IntN(300))*time.Microsecond, func() {
		if !b.up || b.boot != boot || w.healing {
			return
		}
		b.crash(vfs.PowerCrash)
		if again {
			b.start()
		}
	})
}

func (w *World) chance(thousandths int) bool { return w.rng.IntN(1000) < thousandths }

// pass lets time pass, and everything happen that is due.
func (w *World) pass(d time.Duration) {
	end := w.clock.Now().Add(d)
	for {
		for _, b := range w.brokers {
			b.run()
		}
		due, ok := w.net.Next()
		if !ok || due.After(end) {
			due = end
		}
		w.clock.Advance(max(0, due.Sub(w.clock.Now())))
		for _, b := range w.brokers {
			b.run()
		}
		if !w.net.Step() && !w.clock.Now().Before(end) {
			break
		}
	}
	for _, b := range w.brokers {
		b.run()
	}
	w.check.look()
}

// led hears of a leader.
func (w *World) led(node kafkaproto.NodeID, id kafkaproto.PartitionID, epoch kafkaproto.LeaderEpoch) {
	w.check.led(node, id, epoch)
}

// forget drops what was known of a broker that has crashed.
func (w *World) forget(*Broker) { w.Stats.Crashes++ }

func (w *World) logger(n kafkaproto.NodeID) *slog.Logger {
	if !Verbose {
		return quietLogger
	}
	return slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", n)
}

// Verbose has the brokers write their logs.
var Verbose = false

// note adds a line to the history that a failure prints.
func (w *World) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3f ", w.clock.Now().Sub(w.began).Seconds()) + fmt.Sprintf(format, args...)
	_, _ = w.digest.Write([]byte(line))
	if Verbose {
		w.t.Log(line)
	}
	w.history = append(w.history, line)
	if len(w.history) > 200 {
		w.history = w.history[len(w.history)-100:]
	}
}

// fail ends the run.
func (w *World) fail(invariant, format string, args ...any) {
	w.t.Helper()
	last := w.history[max(0, len(w.history)-60):]
	w.t.Fatalf("seed %d (%s), %s: %s\n%s", w.seed, w.mood.Name, invariant, fmt.Sprintf(format, args...), strings.Join(last, "\n"))
}
