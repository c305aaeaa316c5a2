package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/member"
	"github.com/sluicelog/sluice/replica/transport"
)

const tick = 100 * time.Millisecond

// Broker is one process: it runs, or it is down and has a disk.
type Broker struct {
	w     *World
	node  kafkaproto.NodeID
	disk  *vfs.PowerFS
	boot  int
	runs  int // of the machine: a power loss ends one
	clock skewed

	up       bool
	full     bool // its disk
	stalled  bool // its disk hangs
	inject   *vfs.ErrFS
	crashIn  int // operations until it crashes in the middle of one; 0: not planned
	crashHow vfs.CrashKind
	crashed  *vfs.PowerFS // what is left of the disk, once that has happened

	store  *store.Store
	engine *engine.Engine
	member *member.Member
	net    *transport.Endpoint
	shown  map[kafkaproto.PartitionID]kafkaproto.Offset
	holds  map[kafkaproto.PartitionID]uint64 // the replicas here
}

// late is a transport that is not there yet when the member is made.
type late struct{ *Broker }

func (l late) Send(to kafkaproto.NodeID, m transport.Message)      { l.net.Send(to, m) }
func (l late) SendLiveness(to kafkaproto.NodeID, b []byte)         { l.net.SendLiveness(to, b) }
func (l late) SetPeers(peers map[kafkaproto.NodeID]transport.Peer) { l.net.SetPeers(peers) }
func (l late) Close() error                                        { return l.net.Close() }
func (l late) Call(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	return l.net.Call(ctx, to, method, body)
}
func (l late) OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	l.w.Stats.Files++
	return l.net.OpenStream(ctx, to, method, body)
}

// String names the broker.
func (b *Broker) String() string {
	if b == nil {
		return "nobody"
	}
	return fmt.Sprint("broker ", b.node)
}

// skewed is a clock that runs at a rate of its own.
type skewed struct {
	w    *World
	rate float64
}

func (s skewed) Now() time.Time {
	return s.w.began.Add(time.Duration(float64(s.w.clock.Now().Sub(s.w.began)) * s.rate))
}

func (s skewed) wait(d time.Duration) time.Duration { return time.Duration(float64(d)/s.rate) + 1 }

func (s skewed) AfterFunc(d time.Duration, f func()) clock.Timer {
	return skewedTimer{s, s.w.clock.AfterFunc(s.wait(d), f)}
}

type skewedTimer struct {
	s skewed
	clock.Timer
}

func (t skewedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.s.wait(d)) }

// start boots the broker on its disk.
func (b *Broker) start() {
	b.boot++
	w := b.w
	w.note("start %d", b.node)
	b.up, b.stalled, b.full, b.crashIn, b.crashed = true, false, false, 0, nil
	b.shown = map[kafkaproto.PartitionID]kafkaproto.Offset{}
	b.holds = map[kafkaproto.PartitionID]uint64{}
	b.inject = vfs.Inject(b.disk)
	b.inject.Hook(b.operation)
	var err error
	b.store, err = store.Open(store.Options{
		FS: b.inject, Dir: "/data", Clock: b.clock, Logger: w.logger(b.node), Manual: true,
		Journal: journal.Options{FileBytes: 32 << 10, ExtendBytes: 4 << 10},
		BootID:  fmt.Sprint(b.node, ".", b.runs), Random: rand.NewChaCha8([32]byte{byte(b.node), byte(b.boot)}),
	})
	if err != nil {
		if !w.broken(b, err) {
			w.fail("heals", "broker %d does not start: %v", b.node, err)
		}
		w.note("%d does not start: %v", b.node, err)
		b.up, b.disk = false, b.disk.Crash(vfs.PowerCrash)
		b.runs++
		return
	}
	b.member = member.New(member.Options{
		Self: b.node, Incarnation: uint64(b.boot), Clock: b.clock, Logger: w.logger(b.node),
		Random: rand.New(rand.NewPCG(w.seed, uint64(b.node)<<32|uint64(b.boot))), Transport: late{b},
	})
	b.engine = engine.New(engine.Options{
		Store: b.store, Clock: b.clock, Logger: w.logger(b.node), Self: b.node, Transport: late{b}, Files: late{b},
		Manual: true, OnLeadership: b.leadership, OnPlaced: b.placed,
	})
	b.member.Attach(b.engine)
	b.net = w.net.Join(b.node, uint64(b.boot), b.member)
	b.member.SetPeers(w.peersOf(b.node))
	b.member.Start()
	b.ticks(b.boot)
	w.open(b)
}

// ticks arms the next tick of this boot.
func (b *Broker) ticks(boot int) {
	b.clock.AfterFunc(tick, func() {
		if b.up && b.boot == boot {
			b.engine.Tick()
			if !b.stalled {
				b.member.DiskAnswered()
			}
			b.ticks(boot)
		}
	})
}

// operation is called before each operation on the disk.
func (b *Broker) operation(vfs.Op, string) error {
	if b.crashIn > 0 {
		if b.crashIn--; b.crashIn == 0 {
			b.crashed = b.disk.Crash(b.crashHow)
		}
	}
	if b.crashed != nil {
		return vfs.ErrCrashed
	}
	return nil
}

// crash ends the process; the disk keeps what kind lets it keep.
func (b *Broker) crash(kind vfs.CrashKind) {
	if !b.up {
		return
	}
	if b.crashed != nil {
		kind = b.crashHow
	}
	if kind == vfs.PowerCrash {
		b.runs++
	}
	b.w.note("crash %d, kind %d", b.node, kind)
	b.up = false
	left := b.crashed
	if left == nil {
		left = b.disk.Crash(kind)
	}
	b.crashed, b.crashIn = left, 0 // what Close still tries finds no disk
	_ = b.net.Close()
	b.member.Close()
	b.engine.Close()
	_ = b.store.Close() // its disk is gone
	b.disk = left
	b.w.forget(b)
}

// run does what the broker's groups have to do.
func (b *Broker) run() {
	if b.up {
		b.engine.Run()
	}
	if b.up && b.crashed != nil {
		b.crash(b.crashHow)
	}
	if b.up && b.store.Err() != nil { // ruling 6: the process ends, and the machine with it
		b.w.note("the data directory of %d has stopped", b.node)
		b.crash(vfs.PowerCrash)
	}
}

func (b *Broker) leadership(p *engine.Partition, lead engine.Leadership) {
	b.member.Leadership(p, lead)
	if lead.Leading {
		b.w.led(b.node, p.ID(), lead.Epoch)
	}
}

// placed is the controller's part: the move is done.
func (b *Broker) placed(p *engine.Partition, on []engine.Replica) { b.w.placed(p.ID(), on) }

// errDown is what a client finds where no broker is, or not the leader.
var errDown = errors.New("no leader")

// quietLogger is for worlds that nobody watches.
var quietLogger = slog.New(slog.DiscardHandler)
