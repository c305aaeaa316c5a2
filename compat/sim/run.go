package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// Run lets a world live for a number of steps, heals it, and checks it.
func (w *World) Run(steps int) {
	defer func() {
		if r := recover(); r != nil { // a broken invariant of a broker, which may hold its locks
			panic(fmt.Sprintf("seed %d (%s): %v\n%s", w.seed, w.mood.Name, r, strings.Join(w.history[max(0, len(w.history)-40):], "\n")))
		}
		w.close()
	}()
	w.steps(steps)
	w.Heal()
	w.check.final()
	w.check.bytes()
	w.quiet()
	w.check.bytes()
}

func (w *World) steps(n int) {
	for range n {
		w.Step()
	}
}

// Step is some milliseconds of the world's life.
func (w *World) Step() {
	m := &w.mood
	for _, p := range w.parts {
		if w.chance(m.Produce) {
			p.client.step()
		}
	}
	b := w.brokers[w.rng.IntN(len(w.brokers))]
	w.faults(b)
	if w.chance(m.Move) {
		w.move()
	}
	if w.chance(m.Delete) {
		w.deleteRecords()
	}
	if w.chance(m.Again) {
		w.openAll() // what could not be done when it was told first
	}
	w.disks()
	w.pass(time.Duration(1+w.rng.IntN(20)) * time.Millisecond)
}

// faults draws what befalls a broker.
func (w *World) faults(b *Broker) {
	m := &w.mood
	switch {
	case b.up && w.chance(m.Kill):
		b.crash(vfs.KillCrash)
	case b.up && w.chance(m.Power):
		b.crash(vfs.PowerCrash)
	case b.up && b.crashIn == 0 && w.chance(m.MidWrite):
		b.crashIn, b.crashHow = 1+w.rng.IntN(20), []vfs.CrashKind{vfs.KillCrash, vfs.PowerCrash}[w.rng.IntN(2)]
		w.note("%d will crash in %d operations", b.node, b.crashIn)
	case !b.up && w.chance(m.Restart):
		b.start()
	case b.up && w.chance(m.Stall):
		b.stalled = true
		w.note("the disk of %d hangs", b.node)
	case b.stalled && w.chance(100):
		b.stalled = false
	}
	w.diskFaults(b)
	if w.chance(m.Slow) {
		if w.slow = b.node; w.rng.IntN(2) == 0 {
			w.slow = 0
		}
		w.note("slow is %d", w.slow)
	}
	if b.up && w.chance(m.HandOver) {
		w.note("%d hands over", b.node)
		b.engine.HandOver()
	}
	if w.chance(m.Isolate) {
		w.note("%d is cut off", b.node)
		w.Stats.Cuts++
		for _, other := range w.brokers {
			if other != b {
				w.net.Cut(b.node, other.node)
				w.net.Cut(other.node, b.node)
			}
		}
	}
	if w.chance(m.Cut) {
		to := w.brokers[w.rng.IntN(len(w.brokers))]
		if to != b {
			w.Stats.Cuts++
			w.note("cut %d to %d", b.node, to.node)
			if w.rng.IntN(2) == 0 {
				w.net.Break(b.node, to.node)
			} else {
				w.net.Cut(b.node, to.node)
			}
			if w.rng.IntN(2) == 0 {
				w.net.Cut(to.node, b.node)
			}
		}
	}
	if w.chance(m.Heal) {
		w.joinAll()
	}
}

// diskFaults draws what befalls a broker's disk while it runs.
func (w *World) diskFaults(b *Broker) {
	switch m := &w.mood; {
	case !b.up || b.crashed != nil:
	case w.chance(m.SyncError):
		w.note("a sync of %d will fail", b.node)
		w.Stats.Broken++
		b.disk.FailSync(1)
	case b.full && w.chance(50):
		w.makeRoom(b)
	case !b.full && w.chance(m.Full):
		n := w.rng.Int64N(8 << 10)
		w.note("the disk of %d has %d bytes left", b.node, n)
		w.Stats.Full++
		b.full = true
		b.inject.SetBudget(n)
	}
}

// makeRoom ends a disk's being full.
func (w *World) makeRoom(b *Broker) {
	w.note("the disk of %d has room", b.node)
	b.full = false
	b.inject.SetBudget(1 << 40)
}

// joinAll ends all cuts.
func (w *World) joinAll() {
	for _, a := range w.brokers {
		for _, b := range w.brokers {
			if a != b {
				w.net.Heal(a.node, b.node)
			}
		}
	}
}

// disks lets some of the disks finish what they were given.
func (w *World) disks() {
	for _, b := range w.brokers {
		if !b.up || b.stalled && !w.healing {
			continue
		}
		switch {
		case w.healing || w.chance(w.mood.Upkeep):
			b.store.Step()
		case w.chance(w.mood.Sync):
			b.store.StepSync()
		}
		b.run()
	}
}

// deleteRecords moves a log start, as a client of the leader.
func (w *World) deleteRecords() {
	p := w.parts[w.rng.IntN(len(w.parts))]
	at := p.client.leader()
	if at == nil {
		return
	}
	ep := at.engine.Get(p.tp.Topic, 0)
	hw, start := ep.HighWatermark(), ep.LogStart()
	if hw-start < 20 {
		return
	}
	to := start + kafkaproto.Offset(w.rng.Int64N(int64(hw-start)))
	w.note("log start of %s to %d", p.tp, to)
	ep.MoveLogStart(to)
}

// healTime is the bound of the invariant "heals".
const healTime = 30 * time.Second

// Heal ends all faults and waits until everything is well.
func (w *World) Heal() {
	w.note("heal")
	w.healing = true
	for _, b := range w.brokers {
		b.run() // one may be about to crash
		if b.crashIn, b.stalled = 0, false; !b.up {
			b.start()
		}
		if b.full {
			w.makeRoom(b)
		}
		b.disk.FailSync(0)
	}
	w.joinAll()
	why := ""
	for end := w.clock.Now().Add(healTime); w.clock.Now().Before(end); {
		for _, p := range w.parts {
			p.client.step()
		}
		w.disks()
		w.pass(10 * time.Millisecond)
		w.restart()
		if w.rng.IntN(10) == 0 {
			w.openAll()
		}
		if why = w.unwell(); why == "" {
			return
		}
	}
	w.fail("heals", "%s\n%s", why, w.state())
}

// restart starts who has stopped by itself.
func (w *World) restart() {
	for _, b := range w.brokers {
		if !b.up {
			b.start()
		}
	}
}

// unwell says what is not as it should be.
func (w *World) unwell() string {
	for _, p := range w.parts {
		if n := len(p.client.open); n > 0 {
			return p.tp.String() + " has writes without an answer"
		}
		if len(p.adding)+len(p.removing) > 0 {
			return p.tp.String() + " is being moved"
		}
		leaders, hw := 0, kafkaproto.Offset(-1)
		for _, r := range p.replicas {
			ep := w.broker(r.Node).engine.ByID(p.id)
			if ep == nil || ep.Offline() != nil {
				return p.tp.String() + " is not open"
			}
			if ep.Leadership().Ready {
				leaders++
			}
			if hw >= 0 && ep.HighWatermark() != hw || ep.LogEnd() != ep.HighWatermark() {
				return p.tp.String() + " differs between its replicas"
			}
			hw = ep.HighWatermark()
		}
		if leaders != 1 {
			return p.tp.String() + " is not led"
		}
	}
	return ""
}

// state describes what is there, for a failure.
func (w *World) state() string {
	var b strings.Builder
	for _, p := range w.parts {
		fmt.Fprintf(&b, "%s on %v, adding %v, removing %v\n", p.tp, p.replicas, p.adding, p.removing)
		for _, x := range p.client.open {
			fmt.Fprintf(&b, "  write %s at %d, sent to %s %d steps ago, answered %t\n", x.value, x.base, x.broker, x.since, x.done)
		}
		for _, br := range w.brokers {
			if !br.up {
				continue
			}
			if ep := br.engine.ByID(p.id); ep != nil {
				fmt.Fprintf(&b, "  on %d: %+v, start %d, high watermark %d, end %d, members %+v, offline: %v\n", br.node, ep.Leadership(),
					ep.LogStart(), ep.HighWatermark(), ep.LogEnd(), ep.Members(), ep.Offline())
			}
		}
	}
	return b.String()
}

// quiet waits until no group gets ticks.
func (w *World) quiet() {
	for range 250 { // a lead is given back after 10 s
		w.disks()
		w.pass(100 * time.Millisecond)
	}
	for _, b := range w.brokers {
		if n := b.engine.Active(); n > 0 {
			w.fail("quiet", "%d groups get ticks on %d\n%s", n, b.node, w.state())
		}
	}
	w.solo()
	w.wakes()
}

// solo counts the partitions that are in their solo form.
func (w *World) solo() {
	for _, p := range w.parts {
		if len(p.replicas) == 1 && w.broker(p.replicas[0].Node).engine.ByID(p.id).Alone() {
			w.Stats.Solo++
		}
	}
}

// wakes writes once more to each partition: it must be answered without an election.
func (w *World) wakes() {
	for _, p := range w.parts {
		p.client.more = 1
	}
	for range 200 {
		for _, p := range w.parts {
			p.client.step()
		}
		w.disks()
		w.pass(10 * time.Millisecond)
	}
	for _, p := range w.parts {
		if len(p.client.open) > 0 {
			w.fail("quiet", "a write to %s is not answered in 2 s\n%s", p.tp, w.state())
		}
	}
}

func (w *World) close() {
	for _, b := range w.brokers {
		if b.up {
			b.crash(vfs.KillCrash)
		}
	}
}
