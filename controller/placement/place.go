package placement

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Broker is a broker that new replicas may go to, with its present use.
type Broker struct {
	ID       kafkaproto.NodeID
	Rack     string        // "": shares its rack with no other broker
	Fenced   bool          // not heard of
	Stopping bool          // in controlled shutdown
	Draining bool          // to be emptied
	Away     time.Duration // how long it has been fenced; for Next

	Replicas int   // kept, or wanted to be kept
	Leaders  int   // of them preferred leaders
	Bytes    int64 // of all replicas
}

// tier orders brokers by how willingly they are given a replica: lower first.
func (b *Broker) tier() int {
	switch {
	case b.Fenced:
		return 3
	case b.Draining:
		return 2
	case b.Stopping:
		return 1
	}
	return 0
}

// rack is the broker's rack as a key: brokers without one are racks of their own.
func (b *Broker) rack() string {
	if b.Rack == "" {
		return "\x00" + strconv.Itoa(int(b.ID))
	}
	return b.Rack
}

// Request asks for the replicas of new partitions of one topic.
type Request struct {
	Topic       string                // brokers that are equal otherwise take turns from where it says
	Have        [][]kafkaproto.NodeID // the partitions that the topic has
	Count       int
	Replication int // at least 1, at most the number of brokers
}

// Place chooses the replicas of new partitions, the preferred leader first. Each next replica goes
// to the broker that is, in this order: the most available, in the rack with the fewest replicas of
// the partition, with the fewest replicas of the topic, with the fewest replicas at all, with the
// fewest bytes. The one with the fewest leaders leads.
func Place(brokers []Broker, r Request) [][]kafkaproto.NodeID {
	p := newPlacer(brokers, r)
	made := make([][]kafkaproto.NodeID, r.Count)
	for n := range made {
		replicas := make([]kafkaproto.NodeID, 0, r.Replication)
		for range r.Replication {
			replicas = append(replicas, p.add(replicas))
		}
		p.lead(replicas)
		made[n] = replicas
	}
	return made
}

// Extend gives a partition's replicas with more behind them, up to r.Replication; r.Count is not
// looked at.
func Extend(brokers []Broker, replicas []kafkaproto.NodeID, r Request) []kafkaproto.NodeID {
	p := newPlacer(brokers, r)
	next := slices.Clone(replicas)
	for len(next) < r.Replication {
		next = append(next, p.add(next))
	}
	return next
}

// slot is a broker while replicas are placed.
type slot struct {
	Broker
	tierOf, turn int
	rackOf       string
	topic, leads int // replicas and leaders of the topic at hand
}

type placer struct{ slots []slot }

func newPlacer(brokers []Broker, r Request) *placer {
	p := &placer{slots: make([]slot, len(brokers))}
	for n, b := range brokers {
		p.slots[n] = slot{Broker: b, tierOf: b.tier(), rackOf: b.rack()}
	}
	slices.SortFunc(p.slots, func(a, b slot) int { return cmp.Compare(a.ID, b.ID) })
	start := 0
	for _, c := range []byte(r.Topic) {
		start = (start*31 + int(c)) % len(p.slots)
	}
	for n := range p.slots {
		p.slots[n].turn = (n - start + len(p.slots)) % len(p.slots)
	}
	for _, replicas := range r.Have {
		for n, id := range replicas {
			if s := p.slot(id); s != nil {
				s.topic++
				if n == 0 {
					s.leads++
				}
			}
		}
	}
	return p
}

func (p *placer) slot(id kafkaproto.NodeID) *slot {
	for n := range p.slots {
		if p.slots[n].ID == id {
			return &p.slots[n]
		}
	}
	return nil
}

// add chooses one more broker and counts the replica on it.
func (p *placer) add(replicas []kafkaproto.NodeID) kafkaproto.NodeID {
	var racks []string
	for _, id := range replicas {
		if s := p.slot(id); s != nil {
			racks = append(racks, s.rackOf)
		}
	}
	inRack := func(s *slot) (n int) {
		for _, r := range racks {
			if r == s.rackOf {
				n++
			}
		}
		return n
	}
	var best *slot
	bestRack := 0
	for n := range p.slots {
		s := &p.slots[n]
		if slices.Contains(replicas, s.ID) {
			continue
		}
		if rack := inRack(s); best == nil || before(s, best, rack, bestRack) {
			best, bestRack = s, rack
		}
	}
	best.topic++
	best.Replicas++
	return best.ID
}

func before(a, b *slot, rackA, rackB int) bool {
	return cmp.Or(
		cmp.Compare(a.tierOf, b.tierOf), cmp.Compare(rackA, rackB), cmp.Compare(a.topic, b.topic),
		cmp.Compare(a.Replicas, b.Replicas), cmp.Compare(a.Bytes, b.Bytes),
		cmp.Compare(a.turn, b.turn),
	) < 0
}

// lead brings the replica that shall lead to the front.
func (p *placer) lead(replicas []kafkaproto.NodeID) {
	at := 0
	for n := 1; n < len(replicas); n++ {
		a, b := p.slot(replicas[n]), p.slot(replicas[at])
		if cmp.Or(
			cmp.Compare(a.tierOf, b.tierOf), cmp.Compare(a.leads, b.leads),
			cmp.Compare(a.Leaders, b.Leaders),
		) < 0 {
			at = n
		}
	}
	first := replicas[at]
	copy(replicas[1:at+1], replicas[:at])
	replicas[0] = first
	s := p.slot(first)
	s.leads++
	s.Leaders++
}
