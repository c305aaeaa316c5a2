package liveness

import (
	"math"
	"slices"
	"time"
)

func (m *Machine) send(p *peer, body []byte) {
	m.out.Send = append(m.out.Send, Frame{To: p.node, Body: body})
}

// diskAge is how long ago a sync ended, in ms.
func (m *Machine) diskAge(now time.Time) uint32 {
	return uint32(min(max(now.Sub(m.diskEnded).Milliseconds(), 0), math.MaxUint32))
}

// beatAll tells all connected peers that this broker lives, and its changes since the last time, in as
// many beats as they need. Peers share the bytes.
func (m *Machine) beatAll(now time.Time) {
	frames := m.changes(now)
	asking := frames[0] // with the flag that asks for a digest
	if slices.ContainsFunc(m.members, func(p *peer) bool { return p.connected && p.wants }) {
		asking = slices.Clone(asking)
		asking[flagsAt] |= flagWants
	}
	for _, p := range m.members {
		if !p.connected {
			continue
		}
		for i, body := range frames {
			if p.wants && i == 0 {
				body = asking
			}
			m.send(p, body)
		}
	}
}

// changes encodes what is pending, at least one beat. Each beat joins the one before: (from, to].
func (m *Machine) changes(now time.Time) [][]byte {
	var frames [][]byte
	age := m.diskAge(now)
	from, to := m.flushed, m.flushed
	w := newWriter(kindBeat, m.cfg.Incarnation, m.sizeHint(len(m.pending)))
	for i, c := range m.pending {
		if it, current := c.item(m.self); current && !w.add(it, m.cfg.MaxFrame) {
			frames = append(frames, w.beat(age, from, to))
			from = to
			w = newWriter(kindBeat, m.cfg.Incarnation, m.sizeHint(len(m.pending)-i))
			w.add(it, m.cfg.MaxFrame) // MaxFrame is larger than any item
		}
		to = c.seq
	}
	m.flushed = m.seq
	clear(m.pending)
	m.pending = m.pending[:0]
	return append(frames, w.beat(age, from, m.seq))
}

// item is a change as it is told; not current when a later change of the group tells more.
func (c change) item(self *peer) (it item, current bool) {
	if c.resigned {
		return item{group: c.e.group, term: c.term, seq: c.seq, resigned: true}, true
	}
	e := c.e
	if e.leader != self || e.at < 0 || e.seq != c.seq {
		return item{}, false
	}
	return e.item(), true
}

func (e *entry) item() item {
	return item{group: e.group, term: e.term, seq: e.seq, inSync: e.inSync}
}

// sizeHint is about what n items take, at most a frame.
func (m *Machine) sizeHint(n int) int { return min(n*40, m.cfg.MaxFrame) }

// sendDigest tells a peer all led groups as they are now. It is encoded at once: a list that changed
// between the parts might lack a group that is led.
func (m *Machine) sendDigest(now time.Time, p *peer) {
	p.sentDigest = now
	p.nextDigest = now.Add(m.cfg.DigestEvery + time.Duration(m.cfg.Random.Int64N(int64(m.cfg.Interval))))
	m.digests++
	part, led := uint32(0), m.self.led
	w := newWriter(kindDigest, m.cfg.Incarnation, m.sizeHint(len(led)))
	for i, e := range led {
		if it := e.item(); !w.add(it, m.cfg.MaxFrame) {
			m.send(p, w.digest(m.digests, part, false, m.seq))
			part++
			w = newWriter(kindDigest, m.cfg.Incarnation, m.sizeHint(len(led)-i))
			w.add(it, m.cfg.MaxFrame)
		}
	}
	m.send(p, w.digest(m.digests, part, true, m.seq))
}

// digestPart takes a part of a peer's digest. Parts count for absence only when all came in order.
func (m *Machine) digestPart(now time.Time, p *peer, f *frame) {
	m.applyAll(now, p, f)
	switch {
	case f.digest < p.digest, f.digest == p.digest && (p.through || f.part < p.part):
		return // late or twice
	case f.digest > p.digest:
		p.digest, p.part, p.broken, p.through = f.digest, 0, false, false
	}
	if f.part != p.part {
		p.broken = true
	}
	if p.broken {
		m.counters.Gaps++
		p.wants = true
		return
	}
	p.part++
	if f.last {
		m.wholeDigest(now, p, f)
	}
}

// wholeDigest ends a digest: what it does not list its sender does not lead.
func (m *Machine) wholeDigest(now time.Time, p *peer, f *frame) {
	p.through, p.whole, p.wants, p.settled = true, true, false, true
	p.have = max(p.have, f.to)
	for i := len(p.led) - 1; i >= 0; i-- { // unlink moves the last one, which was looked at
		e := p.led[i]
		switch {
		case e.incarnation != p.incarnation: // whatever its mark says: ids begin anew, too
			m.retire(now, e)
		case e.seq <= f.to && e.digest != f.digest:
			e.seq = f.to
			m.retire(now, e)
		}
	}
}
