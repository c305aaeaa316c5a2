package liveness

import (
	"container/heap"
	"slices"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// rate lets so much through in a window of time that begins with its first use.
type rate struct {
	per    int
	window time.Duration
	begin  time.Time
	used   int
}

// take reports whether one more may leave at now.
func (r *rate) take(now time.Time) bool {
	if !now.Before(r.begin.Add(r.window)) {
		r.begin, r.used = now, 0
	}
	if r.used >= r.per {
		return false
	}
	r.used++
	return true
}

// end is when the window ends.
func (r *rate) end() time.Time { return r.begin.Add(r.window) }

// ready is the first time from at on at which one more may leave.
func (r *rate) ready(at time.Time) time.Time {
	if r.used >= r.per {
		return later(at, r.end())
	}
	return at
}

// planned is a campaign that waits for its time.
type planned struct {
	at   time.Time
	e    *entry
	term kafkaproto.LeaderEpoch
}

// campaigns is a heap by time.
type campaigns []planned

func (c campaigns) Len() int           { return len(c) }
func (c campaigns) Less(i, j int) bool { return c[i].at.Before(c[j].at) }
func (c campaigns) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }

// Push is heap.Interface's.
func (c *campaigns) Push(x any) { *c = append(*c, x.(planned)) }

// Pop is heap.Interface's.
func (c *campaigns) Pop() any {
	last := len(*c) - 1
	p := (*c)[last]
	(*c)[last] = planned{}
	*c = (*c)[:last]
	return p
}

// plan puts a campaign for a group that has lost its leader at this broker's rank among the voters
// that are left, steps further back.
func (m *Machine) plan(now time.Time, e *entry, steps int) {
	if e.queued {
		return
	}
	voters, urgent := m.cfg.Replicas.Voters(e.group)
	rank, ok := m.rank(e, voters)
	if !ok {
		return
	}
	at := now.Add(time.Duration(rank+steps)*m.cfg.RankStep + time.Duration(m.cfg.Random.Int64N(int64(m.cfg.Jitter))))
	e.queued = true
	queue := &m.ordinary
	if urgent {
		queue = &m.urgent
	}
	heap.Push(queue, planned{at: at, e: e, term: e.term})
}

// rank is how many voters are to try before this one: those that are up, in the order given, the ones
// that were in sync before those that were not. False when this broker is no voter.
func (m *Machine) rank(e *entry, voters []kafkaproto.NodeID) (int, bool) {
	behind := func(n kafkaproto.NodeID) bool { return len(e.inSync) > 0 && !slices.Contains(e.inSync, n) }
	me := slices.Index(voters, m.self.node)
	if me < 0 {
		return 0, false
	}
	rank := 0
	for i, v := range voters {
		if v == m.self.node || v == e.leader.node || !m.Up(v) {
			continue
		}
		if b := behind(v); b == behind(m.self.node) && i < me || !b && behind(m.self.node) {
			rank++
		}
	}
	return rank, true
}

// campaign lets the campaigns leave whose time has come.
func (m *Machine) campaign(now time.Time) {
	for len(m.urgent) > 0 && !m.urgent[0].at.After(now) {
		if c := heap.Pop(&m.urgent).(planned); m.due(c) {
			m.out.Campaigns = append(m.out.Campaigns, Campaign{Group: c.e.group, Term: c.term})
		}
	}
	for len(m.ordinary) > 0 && !m.ordinary[0].at.After(now) {
		c := m.ordinary[0]
		if m.pointless(c) {
			m.due(heap.Pop(&m.ordinary).(planned))
			continue
		}
		if !m.campaignRate.take(now) {
			return
		}
		heap.Pop(&m.ordinary)
		m.due(c)
		m.out.Campaigns = append(m.out.Campaigns, Campaign{Group: c.e.group, Term: c.term})
	}
}

// pointless reports whether the group has a leader again, or a later term is known.
func (m *Machine) pointless(c planned) bool {
	return c.e.gone || c.e.term != c.term || m.live(c.e)
}

// due takes the mark off a campaign that left its queue and reports whether it is still needed.
func (m *Machine) due(c planned) bool {
	if c.e.term == c.term {
		c.e.queued = false
	}
	return !m.pointless(c)
}

// lookForLag puts all led groups on the list of a peer that is back. Urgent ones do not wait.
func (m *Machine) lookForLag(p *peer) {
	p.lagging = nil
	for _, e := range m.self.led {
		voters, urgent := m.cfg.Replicas.Voters(e.group)
		if e.noQuorum && m.majority(voters) {
			e.noQuorum = false
		}
		if !urgent {
			p.lagging = append(p.lagging, e)
		} else if m.cfg.Replicas.Lags(e.group, p.node) {
			m.out.Wakes = append(m.out.Wakes, Wake{Group: e.group, Node: p.node, Why: LagWake})
		}
	}
}

// lookForQuorum finds led groups that have lost the majority of their voters' brokers.
func (m *Machine) lookForQuorum() {
	for _, e := range m.self.led {
		if e.noQuorum {
			continue
		}
		voters, urgent := m.cfg.Replicas.Voters(e.group)
		if len(voters) == 0 || m.majority(voters) {
			continue
		}
		e.noQuorum = true
		if urgent {
			m.out.Wakes = append(m.out.Wakes, Wake{Group: e.group, Why: QuorumWake})
		} else {
			m.noQuorum = append(m.noQuorum, e)
		}
	}
}

func (m *Machine) majority(voters []kafkaproto.NodeID) bool {
	up := 0
	for _, v := range voters {
		if m.Up(v) {
			up++
		}
	}
	return up >= len(voters)/2+1
}

// wake lets wakes leave, lost quorums first.
func (m *Machine) wake(now time.Time) {
	for len(m.noQuorum) > 0 {
		e := m.noQuorum[0]
		if m.leads(e) && e.noQuorum {
			if !m.wakeRate.take(now) {
				return
			}
			m.out.Wakes = append(m.out.Wakes, Wake{Group: e.group, Why: QuorumWake})
		}
		m.noQuorum = m.noQuorum[1:]
	}
	m.noQuorum = nil
	for _, p := range m.members {
		for len(p.lagging) > 0 {
			e := p.lagging[0]
			if m.leads(e) && m.cfg.Replicas.Lags(e.group, p.node) {
				if !m.wakeRate.take(now) {
					return
				}
				m.out.Wakes = append(m.out.Wakes, Wake{Group: e.group, Node: p.node, Why: LagWake})
			}
			p.lagging = p.lagging[1:]
		}
		p.lagging = nil
	}
}

func (m *Machine) leads(e *entry) bool { return !e.gone && e.leader == m.self && e.at >= 0 }

func (m *Machine) wakesWait() bool {
	return len(m.noQuorum) > 0 || slices.ContainsFunc(m.members, func(p *peer) bool { return len(p.lagging) > 0 })
}
