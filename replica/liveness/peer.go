package liveness

import (
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Connected tells that frames can be exchanged with a peer, which has proved that it is node and said
// that it is this incarnation. It is told a digest at once.
func (m *Machine) Connected(now time.Time, node kafkaproto.NodeID, incarnation uint64) {
	p := m.peers[node]
	if p == nil || !p.member {
		return
	}
	if p.incarnation != incarnation {
		if p.up {
			m.down(now, p, Restarted)
		}
		p.incarnation = incarnation
		p.have, p.digest, p.part, p.broken, p.through = 0, 0, 0, false, false
	}
	p.connected = true
	p.heard = later(p.heard, now)
	p.whole, p.wants, p.granted = false, false, false
	m.sendDigest(now, p)
	w := newWriter(kindBeat, m.cfg.Incarnation, 0)
	m.send(p, w.beat(m.diskAge(now), m.seq, m.seq))
	m.after(now)
}

// Disconnected tells that the connection to a peer is gone. The peer stays what it was until it is
// refused, silent for long enough, or connected again.
func (m *Machine) Disconnected(now time.Time, node kafkaproto.NodeID) {
	if p := m.peers[node]; p != nil && p.member {
		p.connected = false
	}
	m.after(now)
}

// Refused tells that an attempt to connect to a peer was refused (ECONNREFUSED and nothing else): its
// machine is there and no process of it listens. While connected it means nothing.
func (m *Machine) Refused(now time.Time, node kafkaproto.NodeID) {
	p := m.peers[node]
	if p == nil || !p.member || p.connected {
		return
	}
	p.settled = true
	if p.up {
		m.down(now, p, Refused)
	}
	m.after(now)
}

// Receive takes a frame's body that came from a peer; it is not kept. An error (ErrMalformed, ErrVersion)
// means that nothing of it counted, and that its connection is to be closed.
func (m *Machine) Receive(now time.Time, from kafkaproto.NodeID, body []byte) error {
	p := m.peers[from]
	if p == nil || !p.member || !p.connected {
		m.counters.Stray++
		return nil
	}
	f, scratch, err := decode(body, m.scratch)
	m.scratch = scratch
	if err != nil {
		m.counters.Malformed++
		return err
	}
	if f.incarnation != p.incarnation {
		m.counters.Stray++
		return nil
	}
	p.heard = later(p.heard, now)
	if f.kind == kindBeat {
		m.beat(now, p, &f)
	} else {
		m.digestPart(now, p, &f)
	}
	m.after(now)
	return nil
}

// beat takes a beat: the peer's health and its changes.
func (m *Machine) beat(now time.Time, p *peer, f *frame) {
	healthy := time.Duration(f.diskAge)*time.Millisecond <= m.cfg.StallAfter
	switch {
	case healthy && !p.up:
		m.up(p)
	case !healthy:
		p.settled = true
		if p.up {
			m.down(now, p, DiskStall)
		}
	}
	m.applyAll(now, p, f)
	switch {
	case f.from > p.have || !p.whole: // a whole digest comes first where frames keep their order
		m.counters.Gaps++
		p.wants = true
	case f.to > p.have:
		p.have = f.to
	}
	// It asks with each beat until it has one; what it asks soon after one left was said before it came.
	if f.wants && (!p.granted || !now.Before(p.sentDigest.Add(m.cfg.RequestGap))) {
		p.granted = true
		m.sendDigest(now, p)
	}
}

func (m *Machine) up(p *peer) {
	p.up = true
	m.out.Peers = append(m.out.Peers, PeerChange{Node: p.node, Incarnation: p.incarnation, Up: true})
	m.countQuorum()
	m.lookForLag(p)
}

func (m *Machine) down(now time.Time, p *peer, why Reason) {
	p.up, p.settled, p.lagging = false, true, nil
	m.out.Peers = append(m.out.Peers, PeerChange{Node: p.node, Incarnation: p.incarnation, Reason: why})
	m.countQuorum()
	for _, e := range p.led {
		if e.incarnation == p.incarnation {
			m.plan(now, e, 0)
		}
	}
	m.lookForQuorum()
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
