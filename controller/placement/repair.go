package placement

import (
	"cmp"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// leaving says why a broker's replicas have to go; 0 when they need not.
func (w *work) leaving(id kafkaproto.NodeID) Cause {
	switch n := w.byID[id]; {
	case n == nil || n.lost:
		return CauseLost
	case n.Draining:
		return CauseDrain
	}
	return 0
}

// evacuate moves what is on brokers that are lost, then what is on those that are drained: first the
// partitions with the fewest replicas left.
func (w *work) evacuate() {
	var todo []*part
	cause := make(map[*part]Cause)
	stays := make(map[*part]int)
	for _, p := range w.parts {
		for _, id := range p.Replicas {
			switch c := w.leaving(id); {
			case c == 0:
				stays[p]++
			case cause[p] == 0:
				todo = append(todo, p)
				cause[p] = c
			default:
				cause[p] = min(cause[p], c)
			}
		}
	}
	slices.SortStableFunc(todo, func(a, b *part) int {
		return cmp.Or(cmp.Compare(cause[a], cause[b]), cmp.Compare(stays[a], stays[b]))
	})
	held := make(map[Why]int)
	for _, p := range todo {
		switch to, broker := w.without(p); {
		case p.Moving:
		case p.Leader < 0:
			held[WhyLeaderless]++
		case slices.Equal(to, p.Replicas):
			held[WhyNoBroker]++
		case !w.fits(1, w.added(p, to)*p.Bytes):
			return
		default:
			w.put(p, to, Move{Cause: w.leaving(broker), Broker: broker})
		}
	}
	for _, why := range []Why{WhyLeaderless, WhyNoBroker} {
		if held[why] > 0 {
			w.hold(Held{Why: why, Broker: -1, Partitions: held[why]})
		}
	}
}

func (w *work) added(p *part, to []kafkaproto.NodeID) (n int64) {
	for _, id := range to {
		if !slices.Contains(p.Replicas, id) {
			n++
		}
	}
	return n
}

// without gives a partition's replicas with others for those that have to go, as far as there are
// brokers, and one that has to go. The preferred leader is one that stays, if any does.
func (w *work) without(p *part) (to []kafkaproto.NodeID, broker kafkaproto.NodeID) {
	to = slices.Clone(p.Replicas)
	worst := Cause(0)
	for at, id := range p.Replicas {
		c := w.leaving(id)
		if c == 0 {
			continue
		}
		if best := w.replacement(p, to, at); best != nil {
			to[at] = best.ID
			if worst == 0 || c < worst {
				worst, broker = c, id
			}
		}
	}
	if w.leaving(p.Replicas[0]) != 0 {
		if at := slices.IndexFunc(to, func(id kafkaproto.NodeID) bool {
			return slices.Contains(p.Replicas, id) && w.leaving(id) == 0
		}); at > 0 && to[0] != p.Replicas[0] {
			to[0], to[at] = to[at], to[0]
		}
	}
	return to, broker
}

// replacement finds the broker for one place among replicas: first by racks, then by load; nil when
// there is none.
func (w *work) replacement(p *part, replicas []kafkaproto.NodeID, at int) (best *node) {
	var pairs int
	var gain float64
	next := slices.Clone(replicas)
	empty := &node{}
	for _, n := range w.nodes {
		if !n.takes || slices.Contains(replicas, n.ID) {
			continue
		}
		next[at] = n.ID
		s, g := w.shared(next), w.gain(empty, n, p.load(at == 0))
		if best == nil || s < pairs || s == pairs && g > gain+least {
			best, pairs, gain = n, s, g
		}
	}
	return best
}

// spread moves replicas that share a rack though they need not.
func (w *work) spread() {
	forced := make(map[int]int) // by the number of replicas
	for _, p := range w.parts {
		least, ok := forced[len(p.Replicas)]
		if !ok {
			least = w.forced(len(p.Replicas))
			forced[len(p.Replicas)] = least
		}
		if !p.still() || w.shared(p.Replicas) <= least {
			continue
		}
		var to []kafkaproto.NodeID
		var from *node
		pairs := w.shared(p.Replicas)
		for at := len(p.Replicas) - 1; at >= 0; at-- { // rather not the leader
			n := w.replacement(p, p.Replicas, at)
			if n == nil {
				continue
			}
			if next := replaced(p.Replicas, p.Replicas[at], n.ID); w.shared(next) < pairs {
				to, from, pairs = next, w.byID[p.Replicas[at]], w.shared(next)
			}
		}
		if to == nil || from == nil {
			continue
		}
		if !w.fits(1, p.Bytes) {
			return
		}
		w.put(p, to, Move{Cause: CauseRack, Broker: from.ID})
	}
}

// forced is how many pairs of so many replicas must share a rack, with the brokers there are.
func (w *work) forced(replicas int) (pairs int) {
	room, used := make(map[string]int), make(map[string]int)
	var racks []string
	for _, n := range w.nodes {
		if n.takes {
			if room[n.rackOf] == 0 {
				racks = append(racks, n.rackOf)
			}
			room[n.rackOf]++
		}
	}
	for range replicas {
		best := ""
		found := false
		for _, r := range racks {
			if room[r] > used[r] && (!found || used[r] < used[best]) {
				best, found = r, true
			}
		}
		if !found {
			break
		}
		pairs += used[best]
		used[best]++
	}
	return pairs
}

// waiting reports whether a broker is away that may come back: what is uneven without it need not
// be so with it.
func (w *work) waiting() (yes bool) {
	for _, n := range w.nodes {
		if (n.Fenced && !n.lost || n.Stopping) && !n.Draining {
			yes = true
			h := Held{Why: WhyAway, Broker: n.ID, Partitions: len(n.on)}
			if n.Fenced {
				h.Left = w.limits.LostAfter - n.Away
			}
			w.hold(h)
		}
	}
	return yes
}
