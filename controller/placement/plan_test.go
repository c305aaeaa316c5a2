package placement

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// tb is what testing.TB and *rapid.T share.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// dice are what a scenario is drawn from: one seed, so that a failing one can be run again.
type dice struct{ *rand.Rand }

func roll(t *rapid.T) dice {
	return dice{rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
}

// between draws from lo to hi, both included.
func (d dice) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

// cluster makes one whose partitions are small beside what a broker keeps, so that it can be even.
func (d dice) cluster() Cluster {
	racks := []int{0, 0, 1, 2, 3}[d.IntN(5)]
	brokers := d.between(3, 8)
	if racks > 1 { // racks of one size
		brokers = racks * d.between(2, 3)
	}
	var c Cluster
	for n := range brokers {
		b := Broker{ID: kafkaproto.NodeID(n + 1)}
		if racks > 0 {
			b.Rack = fmt.Sprint("r", n%racks)
		}
		c.Brokers = append(c.Brokers, b)
	}
	topics := d.between(1, 4)
	for n := range topics {
		rf := d.between(1, min(3, brokers))
		// Some brokers have most of it, as after others joined.
		from := brokers
		if d.IntN(2) == 0 {
			from = d.between(rf, brokers)
		}
		for p := range d.between(15, 25) * brokers / topics {
			order := nodesTo(from)
			d.Shuffle(from, func(a, b int) { order[a], order[b] = order[b], order[a] })
			c.Partitions = append(c.Partitions, Partition{
				ID: kafkaproto.PartitionID{Topic: kafkaproto.TopicID{byte(n + 1)}, Partition: int32(p)}, Topic: fmt.Sprint("t", n),
				Replicas: order[:rf], Leader: order[0], Bytes: int64(d.between(100, 300)), In: d.Float64() * 9,
			})
		}
	}
	return c
}

func nodesTo(n int) (all ids) {
	for id := range n {
		all = append(all, kafkaproto.NodeID(id+1))
	}
	return all
}

func testLimits() Limits {
	return Limits{Moves: 12, Bytes: 5000, Reorders: 20, Tolerance: 0.1, LostAfter: time.Minute}
}

// beyond is what the brokers are out of tolerance by, for each measure (L2), counted anew.
func beyond(c Cluster, l Limits) (sum [3]float64) {
	for m, v := range loads(c, func(b Broker) bool { return !b.Fenced && !b.Draining }) {
		mean := 0.0
		for _, x := range v {
			mean += x / float64(len(v))
		}
		hi, lo := mean*(1+l.Tolerance), mean*(1-l.Tolerance)
		if m != int(Bytes) {
			hi, lo = max(hi, math.Ceil(mean)), min(lo, math.Floor(mean))
		}
		for _, x := range v {
			if over := max(x-hi, lo-x); over > 1e-9*mean {
				sum[m] += over * over
			}
		}
		sum[m] = math.Round(sum[m]*1e6) / 1e6 // sums in another order differ in the last digits
	}
	return sum
}

// loads gives replicas, bytes and leaders of the brokers chosen.
func loads(c Cluster, choose func(Broker) bool) [3][]float64 {
	var all [3][]float64
	for _, b := range c.Brokers {
		if !choose(b) {
			continue
		}
		var v [3]float64
		for _, p := range c.Partitions {
			if slices.Contains(p.Replicas, b.ID) {
				v[0]++
				v[1] += float64(p.Bytes)
			}
			if p.Replicas[0] == b.ID {
				v[2]++
			}
		}
		for m := range all {
			all[m] = append(all[m], v[m])
		}
	}
	return all
}

// carryOut does what a plan says, and checks each move.
func carryOut(t tb, c *Cluster, l Limits, plan Plan) {
	t.Helper()
	w := newWork(*c, l)
	seen := map[kafkaproto.PartitionID]bool{}
	copied, moves, reorders := int64(0), 0, 0
	for _, m := range plan.Moves {
		at := slices.IndexFunc(c.Partitions, func(p Partition) bool { return p.ID == m.Partition })
		p := &c.Partitions[at]
		if seen[m.Partition] || !slices.Equal(p.Replicas, m.From) || len(m.To) != len(m.From) || p.Version != m.Version || p.Moving || p.Leader < 0 {
			t.Fatalf("%+v of %+v", m, p)
		}
		seen[m.Partition] = true
		for n, id := range m.To {
			if slices.Contains(m.To[:n], id) || !slices.Contains(m.From, id) && !w.byID[id].takes {
				t.Fatalf("%+v goes to %d", m, id)
			}
			if !slices.Contains(m.From, id) {
				copied += p.Bytes
			}
		}
		if w.takers >= len(m.To) && w.shared(m.To) > max(w.shared(m.From), w.forced(len(m.To))) {
			t.Fatalf("%+v puts more into one rack", m)
		}
		if sameSet(m.From, m.To) {
			reorders++
		} else {
			moves++
		}
		p.Replicas, p.Version = slices.Clone(m.To), p.Version+1
		if !slices.Contains(m.To, p.Leader) {
			p.Leader = m.To[0]
		}
	}
	if moves > max(l.Moves, 2) || reorders > l.Reorders || copied > l.Bytes && moves > 2 {
		t.Fatalf("%d moves, %d reorders, %d bytes", moves, reorders, copied)
	}
}

// run plans and carries out until nothing moves; it holds that balancing makes
// things more even each time (L2). It gives the last plan.
func run(t tb, c *Cluster, l Limits) Plan {
	t.Helper()
	last := [3]float64{math.Inf(1)}
	replicas, copies := 0, 0
	for _, p := range c.Partitions {
		replicas += len(p.Replicas)
	}
	for round := 0; ; round++ {
		plan := Next(*c, l)
		if len(plan.Moves) == 0 {
			return plan
		}
		for _, m := range plan.Moves {
			if !sameSet(m.From, m.To) {
				copies++
			}
		}
		// Mostly fewer replicas move than there are; with racks that forbid it to be even, up to twice.
		if copies > 3*replicas || round > 3*replicas+len(c.Partitions) {
			t.Fatalf("round %d, %d of %d replicas moved: %+v", round, copies, replicas, plan)
		}
		carryOut(t, c, l, plan)
		now := beyond(*c, l)
		if urgent := slices.ContainsFunc(plan.Moves, func(m Move) bool { return m.Cause != CauseUneven }); !urgent && slices.Compare(now[:], last[:]) >= 0 {
			t.Fatalf("round %d: out of tolerance by %v, now by %v after %+v", round, last, now, plan.Moves)
		}
		last = now
	}
}

// checkEven: no broker is further than a tenth from the mean, or by one.
func checkEven(t tb, c Cluster, plan Plan) {
	t.Helper()
	for m, v := range loads(c, func(b Broker) bool { return !b.Fenced && !b.Draining }) {
		mean := 0.0
		for _, x := range v {
			mean += x / float64(len(v))
		}
		for _, x := range v {
			slack := mean * 0.1
			if m != int(Bytes) {
				slack = max(slack, 1)
			}
			if math.Abs(x-mean) > slack+1e-6 {
				t.Fatalf("%s %v, mean %v; %+v", Measure(m), v, mean, plan.Held)
			}
		}
	}
	if len(plan.Held) != 1 || plan.Held[0].Why != WhyBalanced {
		t.Fatalf("held %+v", plan.Held)
	}
	for _, e := range append(plan.Before, plan.After...) {
		if !e.Within {
			t.Fatalf("%+v", e)
		}
	}
	checkRacks(t, c)
}

func checkRacks(t tb, c Cluster) {
	t.Helper()
	w := newWork(c, testLimits())
	for _, p := range w.parts {
		if w.shared(p.Replicas) > w.forced(len(p.Replicas)) {
			t.Fatalf("%v share racks of %+v", p.Replicas, c.Brokers)
		}
	}
}

// TestConverges: from any start, through a drain, a join and a lost broker, all ends even, within the
// racks, and what was to be emptied is empty.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, l := roll(t).cluster(), testLimits()
		checkEven(t, c, run(t, &c, l))
		if hasRacks(c) {
			return // with a broker less, the racks may not allow it to be even
		}
		c.Brokers = append(c.Brokers, Broker{ID: 20})
		checkEven(t, c, run(t, &c, l))
		if len(c.Brokers) < 5 {
			return
		}
		c.Brokers[1].Draining = true
		checkEven(t, c, run(t, &c, l))
		c.Brokers[0].Fenced, c.Brokers[0].Away = true, l.LostAfter
		checkEven(t, c, run(t, &c, l))
		checkEmpty(t, c, c.Brokers[0].ID, c.Brokers[1].ID)
	})
}

func hasRacks(c Cluster) bool {
	return slices.ContainsFunc(c.Brokers, func(b Broker) bool { return b.Rack != "" })
}

func checkEmpty(t tb, c Cluster, gone ...kafkaproto.NodeID) {
	t.Helper()
	for _, p := range c.Partitions {
		for _, id := range gone {
			if slices.Contains(p.Replicas, id) {
				t.Fatalf("%v on %d", p.Replicas, id)
			}
		}
	}
}

// TestAnyStart: sizes and racks of any kind, brokers in any state. It may not end even, but it ends,
// worsens nothing on the way, keeps to the racks, empties what is to be emptied where it can, and
// says why it stops.
func TestAnyStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := roll(t)
		c, l := d.cluster(), testLimits()
		l.Moves, l.Bytes = d.between(1, 9), int64(d.between(0, 20000))
		c.Partitions = slices.DeleteFunc(c.Partitions, func(Partition) bool { return d.IntN(2) == 0 })
		for n := range c.Partitions {
			if d.IntN(30) == 0 {
				c.Partitions[n].Bytes *= 40
			}
		}
		takers := 0
		for n := range c.Brokers {
			b := &c.Brokers[n]
			b.Rack = []string{"", "a", "b"}[d.IntN(3)]
			switch d.IntN(8) {
			case 0:
				b.Draining = true
			case 1:
				b.Fenced, b.Away = true, time.Duration(d.IntN(2))*l.LostAfter
			default:
				takers++
			}
		}
		checkOrder(t, d, c, l)
		plan := run(t, &c, l)
		if len(plan.Held) == 0 {
			t.Fatalf("nothing moves and nothing says why")
		}
		for _, b := range c.Brokers {
			if takers >= 3 && (b.Draining || b.Fenced && b.Away >= l.LostAfter) {
				checkEmpty(t, c, b.ID)
			}
		}
		for _, e := range plan.After {
			if !e.Within && !slices.ContainsFunc(plan.Held, func(h Held) bool {
				return h.Why != WhyBalanced && (h.Why != WhyNoMove || h.Measure == e.Measure)
			}) {
				t.Fatalf("%+v is not within tolerance, held %+v", e, plan.Held)
			}
		}
		checkOrder(t, d, c, l)
	})
}

// checkOrder: the order of the input is nothing to the plan.
func checkOrder(t tb, d dice, c Cluster, l Limits) {
	t.Helper()
	want := fmt.Sprint(Next(c, l))
	b, p := c.Brokers, c.Partitions
	d.Shuffle(len(b), func(i, j int) { b[i], b[j] = b[j], b[i] })
	d.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	if got := fmt.Sprint(Next(c, l)); got != want {
		t.Fatalf("in another order:\n%s\n%s", got, want)
	}
}
