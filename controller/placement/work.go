package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// load is an amount of each measure.
type load [measures]float64

// rateWeight is what a more even rate counts, between moves that all help.
const rateWeight = 0.1

// least is a gain that is none: below it lie the errors of floating point.
const least = 1e-9

// node is a broker while a plan is made.
type node struct {
	Broker
	rackOf string
	lost   bool
	takes  bool // new replicas
	load   load
	on     []*part // with a replica here
}

// part is a partition while a plan is made; Replicas is a copy.
type part struct {
	Partition
	touched bool // in the plan already
}

// still reports whether the partition can be moved in this plan.
func (p *part) still() bool { return !p.touched && !p.Moving && p.Leader >= 0 }

// load is what one replica weighs.
func (p *part) load(leads bool) load {
	v := load{Replicas: 1, Bytes: float64(p.Bytes), Rate: p.In}
	if leads {
		v[Leaders] = 1
		v[Rate] += p.Out
	}
	return v
}

func (v load) minus(o load) load {
	for m := range v {
		v[m] -= o[m]
	}
	return v
}

// work is a plan in the making: the cluster as it will be when the plan is carried out.
type work struct {
	limits       Limits
	nodes        []*node // by id
	byID         map[kafkaproto.NodeID]*node
	parts        []*part // by topic and number
	takers       int
	mean, hi, lo load
	plan         Plan
	moves        int // under way
	copying      int64
	reorders     int
	limited      bool // WhyLimit was told
}

func newWork(c Cluster, l Limits) *work {
	w := &work{limits: l, byID: make(map[kafkaproto.NodeID]*node)}
	for _, b := range c.Brokers {
		n := &node{Broker: b, rackOf: b.rack(), lost: b.Fenced && b.Away >= l.LostAfter}
		n.takes = !b.Fenced && !b.Draining && !b.Stopping
		if n.takes {
			w.takers++
		}
		w.nodes = append(w.nodes, n)
		w.byID[b.ID] = n
	}
	slices.SortFunc(w.nodes, func(a, b *node) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range c.Partitions {
		p.Replicas = slices.Clone(p.Replicas)
		w.parts = append(w.parts, &part{Partition: p})
		if p.Moving {
			w.moves++
			w.copying += p.Copying
		}
	}
	slices.SortFunc(w.parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	for _, p := range w.parts {
		for at, id := range p.Replicas {
			v := p.load(at == 0)
			for m := range v {
				w.mean[m] += v[m]
			}
			if n := w.byID[id]; n != nil {
				n.add(p, v)
			}
		}
	}
	w.bounds()
	return w
}

// settle takes the mean of what is on the brokers that take replicas, now that all that can come to
// them is there.
func (w *work) settle() {
	w.mean = load{}
	for _, n := range w.nodes {
		if n.takes {
			for m, x := range n.load {
				w.mean[m] += x
			}
		}
	}
	w.bounds()
}

func (n *node) add(p *part, v load) {
	n.on = append(n.on, p)
	n.shift(v, 1)
}

func (n *node) shift(v load, sign float64) {
	for m := range v {
		n.load[m] += sign * v[m]
	}
}

// bounds makes means of sums, and sets how much of each measure is within tolerance.
func (w *work) bounds() {
	for m := range measures {
		w.mean[m] /= float64(max(w.takers, 1))
		slack := w.mean[m] * w.limits.Tolerance
		if m == Bytes {
			slack = max(slack, float64(w.limits.SmallBytes))
		}
		w.hi[m], w.lo[m] = w.mean[m]+slack, w.mean[m]-slack
		if m == Replicas || m == Leaders {
			w.hi[m] = max(w.hi[m], math.Ceil(w.mean[m]))
			w.lo[m] = min(w.lo[m], math.Floor(w.mean[m]))
		}
	}
}

// excess is how far an amount is out of tolerance. Sums of bytes have no errors worth a thought, but
// means do.
func (w *work) excess(m Measure, x float64) float64 {
	over := max(x-w.hi[m], w.lo[m]-x)
	if over <= least*w.mean[m] {
		return 0
	}
	return over
}

// gain is by how much the sum of the squared relative distances from the means falls when a load
// goes from one broker to another.
func (w *work) gain(from, to *node, v load) (sum float64) {
	for m := range Rate {
		sum += w.gainOf(m, from, to, v)
	}
	return sum
}

// gainOf is one measure's part of it: f²+t²-(f-x)²-(t+x)² = 2x(f-t-x).
func (w *work) gainOf(m Measure, from, to *node, v load) float64 {
	if w.mean[m] == 0 {
		return 0
	}
	return 2 * v[m] * (from.load[m] - to.load[m] - v[m]) / (w.mean[m] * w.mean[m])
}

// worsens reports whether a measure up to the last one would be further out of tolerance at one of
// the two.
func (w *work) worsens(from, to *node, v load, last Measure) bool {
	for m := range last + 1 {
		if w.excess(m, from.load[m]-v[m]) > w.excess(m, from.load[m]) ||
			w.excess(m, to.load[m]+v[m]) > w.excess(m, to.load[m]) {
			return true
		}
	}
	return false
}

// shared counts the pairs of replicas that share a rack.
func (w *work) shared(replicas []kafkaproto.NodeID) (pairs int) {
	for n, id := range replicas {
		for _, o := range replicas[:n] {
			if a, b := w.byID[id], w.byID[o]; a != nil && b != nil && a.rackOf == b.rackOf {
				pairs++
			}
		}
	}
	return pairs
}

// replaced gives replicas with one broker for another.
func replaced(replicas []kafkaproto.NodeID, from, to kafkaproto.NodeID) []kafkaproto.NodeID {
	next := slices.Clone(replicas)
	next[slices.Index(next, from)] = to
	return next
}

// fits reports whether the limits have room for moves that copy so much.
func (w *work) fits(moves int, bytes int64) bool {
	ok := w.moves+moves <= w.limits.Moves && w.copying+bytes <= w.limits.Bytes ||
		w.moves == 0 && w.limits.Moves > 0
	if !ok && !w.limited {
		w.limited = true
		w.hold(Held{Why: WhyLimit, Broker: -1, Partitions: w.moves})
	}
	return ok
}

// put gives a partition its new replicas and adds the move to the plan. Copied is what new replicas
// have to fetch.
func (w *work) put(p *part, to []kafkaproto.NodeID, m Move) {
	m.Partition, m.Topic, m.Version = p.ID, p.Topic, p.Version
	m.From, m.To = slices.Clone(p.Replicas), slices.Clone(to)
	for at, id := range p.Replicas {
		if n := w.byID[id]; n != nil {
			n.shift(p.load(at == 0), -1)
			if !slices.Contains(to, id) {
				n.on = slices.DeleteFunc(n.on, func(o *part) bool { return o == p })
			}
		}
	}
	for at, id := range to {
		n := w.byID[id]
		if n == nil {
			continue
		}
		n.shift(p.load(at == 0), 1)
		if !slices.Contains(p.Replicas, id) {
			n.on = append(n.on, p)
			m.Copy += p.Bytes
		}
	}
	p.Replicas, p.touched = to, true
	w.plan.Moves = append(w.plan.Moves, m)
	if m.Copy > 0 || !sameSet(m.From, m.To) {
		w.moves++
		w.copying += m.Copy
	} else {
		w.reorders++
	}
}

func sameSet(a, b []kafkaproto.NodeID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id kafkaproto.NodeID) bool {
		return !slices.Contains(b, id)
	})
}

func (w *work) evenness() []Evenness {
	var all []Evenness
	for m := range Rate {
		e := Evenness{Measure: m, Mean: w.mean[m], LeastOn: -1, MostOn: -1, Within: true}
		for _, n := range w.nodes {
			if !n.takes {
				continue
			}
			x := n.load[m]
			if e.LeastOn < 0 || x < e.Least {
				e.Least, e.LeastOn = x, n.ID
			}
			if e.MostOn < 0 || x > e.Most {
				e.Most, e.MostOn = x, n.ID
			}
			e.Within = e.Within && w.excess(m, x) == 0
		}
		all = append(all, e)
	}
	return all
}
