package liveness

import (
	"iter"
	"slices"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// entry is a line of the leader table. It stays until its topic is deleted.
type entry struct {
	group       kafkaproto.PartitionID
	term        kafkaproto.LeaderEpoch
	leader      *peer
	incarnation uint64 // of the leader when it told this
	seq         uint64 // number of the leader's change
	inSync      []kafkaproto.NodeID
	at          int    // in leader.led, -1 when resigned
	digest      uint32 // the leader's newest digest that listed it

	changed  bool // stands in Output.Changed
	queued   bool // a campaign for this term waits
	noQuorum bool // led here, and most voters are down
	gone     bool // the topic was deleted

	sibling *entry // the next of the topic
}

// change is an own change that peers are to be told. A resignation holds what the entry may no longer
// hold; else the entry is told as it is then.
type change struct {
	e        *entry
	seq      uint64
	term     kafkaproto.LeaderEpoch
	resigned bool
}

// Lead tells that this broker leads a group in a term (its no-op is committed), or that the in-sync set
// of that leadership is another. inSync is copied; what is beyond MaxInSync is not told. False means
// that a later term, or another leader of this one, is known, or that the topic was dropped.
func (m *Machine) Lead(now time.Time, group kafkaproto.PartitionID, term kafkaproto.LeaderEpoch, inSync []kafkaproto.NodeID) bool {
	inSync = inSync[:min(len(inSync), MaxInSync)]
	e := m.table[group]
	_, dropped := m.tombs[group.Topic]
	switch {
	case dropped:
		return false
	case e == nil:
		e = m.create(group)
	case term < e.term || term == e.term && e.leader != m.self:
		return false
	case term == e.term && e.at >= 0 && slices.Equal(e.inSync, inSync):
		return true
	}
	m.seq++
	m.set(e, m.self, item{group: group, term: term, seq: m.seq, inSync: inSync})
	m.tell(now, change{e: e, seq: m.seq, term: term})
	m.after(now)
	return true
}

// Resign tells that this broker does not lead a group in term any more.
func (m *Machine) Resign(now time.Time, group kafkaproto.PartitionID, term kafkaproto.LeaderEpoch) {
	e := m.table[group]
	if e == nil || e.leader != m.self || e.term != term || e.at < 0 {
		return
	}
	m.seq++
	e.seq = m.seq
	m.unlink(e)
	m.note(e)
	m.tell(now, change{e: e, seq: m.seq, term: term, resigned: true})
	m.after(now)
}

// DropTopic removes a deleted topic's groups, and refuses for a while what peers that have not heard of
// the deletion tell of it.
func (m *Machine) DropTopic(now time.Time, topic kafkaproto.TopicID) {
	for e := m.topics[topic]; e != nil; e = e.sibling {
		if e.at >= 0 {
			m.unlink(e)
		}
		e.gone = true
		delete(m.table, e.group)
	}
	delete(m.topics, topic)
	if _, known := m.tombs[topic]; !known {
		m.tombs[topic] = now.Add(m.cfg.ForgetAfter)
		m.buried = append(m.buried, topic)
	}
}

// Leader gives what is known of a group's leadership.
func (m *Machine) Leader(group kafkaproto.PartitionID) (Leader, bool) {
	e := m.table[group]
	if e == nil {
		return Leader{}, false
	}
	return m.view(e), true
}

// Led goes through the groups whose last known leader is node, in no order that means something. The
// machine must not be changed meanwhile.
func (m *Machine) Led(node kafkaproto.NodeID) iter.Seq2[kafkaproto.PartitionID, Leader] {
	return func(yield func(kafkaproto.PartitionID, Leader) bool) {
		p := m.peers[node]
		if p == nil {
			return
		}
		for _, e := range p.led {
			if !yield(e.group, m.view(e)) {
				return
			}
		}
	}
}

// Groups is how many groups the table knows.
func (m *Machine) Groups() int { return len(m.table) }

func (m *Machine) view(e *entry) Leader {
	return Leader{Term: e.term, Node: e.leader.node, Live: m.live(e), InSync: e.inSync}
}

func (m *Machine) live(e *entry) bool {
	return e.at >= 0 && e.leader.up && e.incarnation == e.leader.incarnation
}

// applyAll takes the items of a frame that was checked.
func (m *Machine) applyAll(now time.Time, p *peer, f *frame) {
	// All up to have is known, or known to be over: what is older comes late. A digest that is not older
	// is the truth at its number, and repairs what was refused for other reasons.
	floor := p.have
	if f.kind == kindDigest && f.to >= p.have {
		floor = 0
	}
	r := f.reader(m.scratch)
	for range f.count {
		it, err := r.next()
		if err != nil {
			panic("liveness: checked frame: " + err.Error())
		}
		e := m.apply(now, p, it, floor)
		if e != nil && f.kind == kindDigest && e.leader == p && e.incarnation == p.incarnation {
			e.digest = max(e.digest, f.digest) // an older digest may come late
		}
	}
	m.scratch = r.scratch
}

// apply takes what p tells of a group, unless its number is not above floor; nil when the group is not kept.
func (m *Machine) apply(now time.Time, p *peer, it item, floor uint64) *entry {
	e := m.table[it.group]
	switch {
	case it.seq <= floor:
		return e
	case e == nil:
		if _, dropped := m.tombs[it.group.Topic]; dropped {
			return nil
		}
		if len(m.table) >= m.cfg.MaxGroups {
			m.counters.Overflow++
			return nil
		}
		e = m.create(it.group)
	case it.term < e.term:
		return e
	case it.term == e.term && e.leader != p:
		m.counters.Conflicts++
		return e
	case it.term == e.term && e.incarnation == p.incarnation && it.seq <= e.seq:
		return e
	}
	if e.leader == m.self && e.at >= 0 { // deposed: peers that do not hear p must know, too
		m.seq++
		m.tell(now, change{e: e, seq: m.seq, term: e.term, resigned: true})
	}
	m.set(e, p, it)
	if it.resigned {
		m.retire(now, e)
	}
	return e
}

// retire marks a peer's leadership as resigned. Followers sleep while their leader's broker is up, so
// that one of them must act; a step later than after a death, since a transfer may be under way.
func (m *Machine) retire(now time.Time, e *entry) {
	m.unlink(e)
	m.note(e)
	m.plan(now, e, 1)
}

func (m *Machine) create(group kafkaproto.PartitionID) *entry {
	e := &entry{group: group, at: -1, sibling: m.topics[group.Topic]}
	m.topics[group.Topic] = e
	m.table[group] = e
	return e
}

// set makes an entry what leader p tells, and live if p is.
func (m *Machine) set(e *entry, p *peer, it item) {
	if e.leader != nil && it.term < e.term {
		panic("liveness: term goes back")
	}
	if e.leader != p || e.term != it.term {
		e.queued, e.noQuorum = false, false
	}
	if e.at >= 0 && e.leader != p {
		m.unlink(e)
	}
	if e.at < 0 {
		e.at = len(p.led)
		p.led = append(p.led, e)
	}
	e.leader, e.term, e.incarnation, e.seq, e.digest = p, it.term, p.incarnation, it.seq, 0
	if !slices.Equal(e.inSync, it.inSync) {
		e.inSync = slices.Clone(it.inSync)
	}
	m.note(e)
}

// unlink takes an entry out of its leader's list.
func (m *Machine) unlink(e *entry) {
	led := e.leader.led
	last := len(led) - 1
	led[e.at] = led[last]
	led[e.at].at = e.at
	led[last] = nil
	e.leader.led = led[:last]
	e.at = -1
}

func (m *Machine) note(e *entry) {
	if !e.changed {
		e.changed = true
		m.out.Changed = append(m.out.Changed, Change{Group: e.group})
	}
}

func (m *Machine) tell(now time.Time, c change) {
	if len(m.pending) == 0 {
		m.flushAt = now.Add(flushDelay)
	}
	m.pending = append(m.pending, c)
}

func (m *Machine) forgetTombs(now time.Time) {
	for len(m.buried) > 0 && !now.Before(m.tombs[m.buried[0]]) {
		delete(m.tombs, m.buried[0])
		m.buried = m.buried[1:]
	}
}
