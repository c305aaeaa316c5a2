package placement

import (
	"cmp"
	"slices"
)

// exchange is a change for balance: p's replica goes from one broker to the other, and q's, if there
// is a q, comes back for it.
type exchange struct {
	from, to *node
	p, q     *part
	gain     float64 // with a share of that of the rate
}

func (x *exchange) bytes() int64 {
	if x.q != nil {
		return x.p.Bytes + x.q.Bytes
	}
	return x.p.Bytes
}

// better orders exchanges: by gain, then by what they copy, so that of equal ones the first stays.
func (x *exchange) better(o *exchange) bool {
	if o.p == nil {
		return true
	}
	if d := x.gain - o.gain; d > least || d < -least {
		return d > 0
	}
	return x.bytes() < o.bytes()
}

// spot is one measure of one broker that is out of tolerance.
type spot struct {
	n *node
	m Measure
}

// balance evens out replicas and bytes, then leaders, until nothing is out of tolerance, nothing
// helps, or the limits are reached.
func (w *work) balance() {
	var held []Held
	for _, ms := range [...][]Measure{{Replicas, Bytes}, {Leaders}} {
		stuck := make(map[spot]Held)
		for !w.limited {
			s, ok := w.worst(ms, stuck)
			if !ok {
				break
			}
			h := Held{
				Why: WhyNoMove, Broker: s.n.ID, Measure: s.m, Value: s.n.load[s.m], Mean: w.mean[s.m],
			}
			before := len(w.plan.Moves)
			if s.m == Leaders && w.reorder(s) || w.even(s, &h.Refused) {
				if len(w.plan.Moves) > before {
					clear(stuck) // what did not help before may help now
				}
				continue
			}
			stuck[s] = h
		}
		for _, m := range ms {
			for _, n := range w.nodes {
				if h, ok := stuck[spot{n, m}]; ok {
					held = append(held, h)
				}
			}
		}
	}
	// While something else moves, or cannot, these are no news: they may follow from it.
	if len(w.plan.Moves) == 0 && len(w.plan.Held) == 0 {
		w.plan.Held = held
	}
}

// worst finds what is out of tolerance the most, of what is not known to be stuck.
func (w *work) worst(ms []Measure, stuck map[spot]Held) (worst spot, ok bool) {
	most := 0.0
	for _, m := range ms {
		for _, n := range w.nodes {
			if _, known := stuck[spot{n, m}]; known || !n.takes || w.mean[m] == 0 {
				continue
			}
			if e := w.excess(m, n.load[m]) / w.mean[m]; e > most {
				worst, most, ok = spot{n, m}, e, true
			}
		}
	}
	return worst, ok
}

// even makes the best move, or else the best exchange, that helps; false when there is none.
func (w *work) even(s spot, refused *Refused) bool {
	var best exchange
	type finder func(from, to *node, r rule, best *exchange, refused *Refused)
	for _, strict := range []bool{true, false} {
		*refused = Refused{}
		for _, find := range []finder{w.lone, w.pair} {
			for _, other := range w.nodes {
				from, to := s.n, other
				if s.n.load[s.m] < w.mean[s.m] {
					from, to = other, s.n
				}
				if other != s.n && other.takes {
					find(from, to, rule{s.m, strict}, &best, refused)
				}
			}
			if best.p != nil {
				return w.carry(s, best)
			}
		}
	}
	return false
}

// carry puts an exchange into the plan; where the limits have no room it only says so.
func (w *work) carry(s spot, x exchange) bool {
	moves := 1
	if x.q != nil {
		moves = 2
	}
	if !w.fits(moves, x.bytes()) {
		return true // w.limited ends the search
	}
	m := Move{
		Cause: CauseUneven, Broker: s.n.ID, Measure: s.m, Value: s.n.load[s.m], Mean: w.mean[s.m],
	}
	w.put(x.p, replaced(x.p.Replicas, x.from.ID, x.to.ID), m)
	if x.q != nil {
		w.put(x.q, replaced(x.q.Replicas, x.to.ID, x.from.ID), m)
	}
	return true
}

// rule is what an exchange has to do: make a measure more even. A strict one makes all of them
// together more even as well, and none worse; else the earlier ones count alone.
type rule struct {
	Measure
	strict bool
}

// lone looks at moves of one replica.
func (w *work) lone(from, to *node, r rule, best *exchange, refused *Refused) {
	for _, p := range from.on {
		if slices.Contains(p.Replicas, to.ID) || r.Measure == Leaders && p.Replicas[0] != from.ID {
			continue
		}
		w.weigh(exchange{from: from, to: to, p: p}, r, best, refused)
	}
}

// pair looks at exchanges of two replicas: those whose difference is about what is needed.
func (w *work) pair(from, to *node, r rule, best *exchange, refused *Refused) {
	if r.Measure == Replicas {
		return // two for two changes nothing
	}
	want := 0.0 // the difference in bytes that is best
	if r.Measure == Bytes {
		want = (from.load[Bytes] - to.load[Bytes]) / 2
	}
	var back []*part
	for _, q := range to.on {
		if !slices.Contains(q.Replicas, from.ID) && (r.Measure != Leaders || q.Replicas[0] != to.ID) {
			back = append(back, q)
		}
	}
	slices.SortFunc(back, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.ID.Partition, b.ID.Partition))
	})
	const near = 8 // how many on each side of the best size are looked at
	for _, p := range from.on {
		if slices.Contains(p.Replicas, to.ID) || r.Measure == Leaders && p.Replicas[0] != from.ID {
			continue
		}
		at, _ := slices.BinarySearchFunc(back, float64(p.Bytes)-want, func(q *part, size float64) int {
			return cmp.Compare(float64(q.Bytes), size)
		})
		for _, q := range back[max(0, at-near):min(len(back), at+near)] {
			w.weigh(exchange{from: from, to: to, p: p, q: q}, r, best, refused)
		}
	}
}

// weigh keeps an exchange if it is the best so far, and counts it if it cannot be.
func (w *work) weigh(x exchange, r rule, best *exchange, refused *Refused) {
	v := x.p.load(x.p.Replicas[0] == x.from.ID)
	if x.q != nil {
		v = v.minus(x.q.load(x.q.Replicas[0] == x.to.ID))
	}
	x.gain = w.gain(x.from, x.to, v)
	lowers := w.gainOf(r.Measure, x.from, x.to, v) > least && (x.gain > least || !r.strict)
	last := Leaders
	if !r.strict {
		last = r.Measure
	}
	x.gain += rateWeight * w.gainOf(Rate, x.from, x.to, v)
	switch {
	case best.p != nil && !x.better(best):
	case !x.p.still() || x.q != nil && !x.q.still():
		refused.Busy++
	case !lowers:
		refused.TooBig++
	case w.worsens(x.from, x.to, v, last):
		refused.Worsens++
	case !w.racksAllow(x.p, x.from, x.to) || x.q != nil && !w.racksAllow(x.q, x.to, x.from):
		refused.Racks++
	default:
		*best = x
	}
}

// racksAllow reports whether the replica that goes shares its new rack with no more than its old one.
func (w *work) racksAllow(p *part, from, to *node) bool {
	before, after := 0, 0
	for _, id := range p.Replicas {
		if n := w.byID[id]; n != nil && n != from {
			if n.rackOf == from.rackOf {
				before++
			}
			if n.rackOf == to.rackOf {
				after++
			}
		}
	}
	return after <= before
}

// reorder shifts one preferred leader from where there are too many to where there are too few, over
// as many brokers as lie between: on each edge of the way a partition that the one leads gets the
// other, which has a replica of it, as its leader. Nothing is copied.
func (w *work) reorder(s spot) bool {
	way := w.way(s)
	if way == nil {
		return false
	}
	if w.reorders+len(way) > w.limits.Reorders {
		if !w.limited {
			w.limited = true
			w.hold(Held{Why: WhyLimit, Broker: -1, Partitions: w.reorders})
		}
		return true
	}
	value := s.n.load[Leaders]
	for _, e := range way {
		to := slices.Clone(e.p.Replicas)
		at := slices.Index(to, e.to.ID)
		to[0], to[at] = to[at], to[0]
		w.put(e.p, to, Move{
			Cause: CauseUneven, Broker: s.n.ID, Measure: Leaders, Value: value, Mean: w.mean[Leaders],
		})
	}
	return true
}

// edge is a partition that one broker leads and another could.
type edge struct {
	from, to *node
	p        *part
}

// way finds the shortest way that makes leaders more even at s, to the broker with the most to give
// or the most room; nil when there is none.
func (w *work) way(s spot) []edge {
	over := s.n.load[Leaders] > w.mean[Leaders]
	edges := w.edges(over)
	came := map[*node]edge{s.n: {}}
	var end *node
	for queue := []*node{s.n}; len(queue) > 0 && end == nil; {
		var next []*node
		for _, n := range queue {
			for _, e := range edges[n] {
				far := e.to
				if !over {
					far = e.from
				}
				if _, seen := came[far]; seen {
					continue
				}
				came[far] = e
				next = append(next, far)
				if w.helps(s.n, far, over) && (end == nil || beyondOf(far, end, over)) {
					end = far
				}
			}
		}
		queue = next
	}
	if end == nil {
		return nil
	}
	var way []edge
	for n := end; n != s.n; {
		e := came[n]
		way = append(way, e)
		if n = e.from; !over {
			n = e.to
		}
	}
	return way
}

// beyondOf reports whether a is the better end than b.
func beyondOf(a, b *node, over bool) bool {
	if over {
		return a.load[Leaders] < b.load[Leaders]
	}
	return a.load[Leaders] > b.load[Leaders]
}

// helps reports whether a leader more at the one end and less at the other is more even.
func (w *work) helps(n, far *node, over bool) bool {
	from, to := n, far
	if !over {
		from, to = far, n
	}
	v := load{Leaders: 1}
	return w.gain(from, to, v) > least && !w.worsens(from, to, v, Leaders)
}

// edges lists, by the broker that leads or, for the way back, by the one that could, one partition
// for each pair of brokers.
func (w *work) edges(forward bool) map[*node][]edge {
	type pair struct{ from, to *node }
	seen := make(map[pair]bool)
	all := make(map[*node][]edge)
	for _, p := range w.parts {
		from := w.byID[p.Replicas[0]]
		if !p.still() || from == nil {
			continue
		}
		for _, id := range p.Replicas[1:] {
			to := w.byID[id]
			if to == nil || !to.takes || !from.takes || seen[pair{from, to}] {
				continue
			}
			seen[pair{from, to}] = true
			key := from
			if !forward {
				key = to
			}
			all[key] = append(all[key], edge{from, to, p})
		}
	}
	return all
}
