package liveness

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// flushDelay is how long a change of the own leaderships waits for others before it is told: a beat of
// its own leaves then, since clients wait for the news of an election.
const flushDelay = 10 * time.Millisecond

// Machine is the state of one broker's liveness. It is not safe for use by several goroutines.
type Machine struct {
	cfg Config
	out Output

	self    *peer // holds the own leaderships; always up
	peers   map[kafkaproto.NodeID]*peer
	members []*peer // without self, by node id

	table  map[kafkaproto.PartitionID]*entry
	topics map[kafkaproto.TopicID]*entry // first of a chain by entry.sibling
	tombs  map[kafkaproto.TopicID]time.Time
	buried []kafkaproto.TopicID // in the order of their times

	seq     uint64   // of the last own change
	flushed uint64   // of the last one that was told
	pending []change // in between
	flushAt time.Time
	digests uint32 // id of the last digest sent

	urgent, ordinary campaigns
	campaignRate     rate
	wakeRate         rate
	noQuorum         []*entry // led groups that must tick

	started   bool // SetPeers was called
	admitted  bool
	quorum    bool
	nextBeat  time.Time
	late      bool // the last round was
	diskEnded time.Time
	stalled   bool
	exited    bool

	scratch  []kafkaproto.NodeID
	counters Counters
}

// peer is a broker, this one included.
type peer struct {
	node        kafkaproto.NodeID
	incarnation uint64
	member      bool
	connected   bool
	up          bool
	settled     bool // sent a whole digest or was found down: clients need not wait for it
	heard       time.Time

	led []*entry // entries that name it as leader and were not resigned

	// What it told.
	have    uint64 // changes up to here are known
	whole   bool   // a whole digest came on this connection
	wants   bool   // a digest is missing
	digest  uint32 // id of the newest digest begun, 0 for none
	part    uint32 // of it that comes next
	broken  bool   // a part of it is missing
	through bool   // all of it came

	// What it is told.
	granted    bool // a digest that it asked for on this connection
	sentDigest time.Time
	nextDigest time.Time

	lagging []*entry // led groups to be looked at since it is back
}

// New makes a machine that starts at now.
func New(cfg Config, now time.Time) *Machine {
	m := &Machine{
		cfg:       cfg.withDefaults(),
		peers:     map[kafkaproto.NodeID]*peer{},
		table:     map[kafkaproto.PartitionID]*entry{},
		topics:    map[kafkaproto.TopicID]*entry{},
		tombs:     map[kafkaproto.TopicID]time.Time{},
		nextBeat:  now,
		diskEnded: now,
	}
	m.self = &peer{node: cfg.Node, incarnation: cfg.Incarnation, up: true}
	m.peers[cfg.Node] = m.self
	m.campaignRate = rate{per: m.cfg.Campaigns, window: m.cfg.Interval}
	m.wakeRate = rate{per: m.cfg.Wakes, window: m.cfg.Interval}
	return m
}

// SetPeers tells all members of the cluster; this broker may be among them. Clients are not admitted
// before the first call.
func (m *Machine) SetPeers(now time.Time, nodes []kafkaproto.NodeID) {
	m.started = true
	for _, p := range slices.Clone(m.members) {
		if slices.Contains(nodes, p.node) {
			continue
		}
		m.members = slices.DeleteFunc(m.members, func(q *peer) bool { return q == p })
		if p.up {
			m.down(now, p, Removed)
		}
		*p = peer{node: p.node, led: p.led}
	}
	for _, n := range nodes {
		p := m.peers[n]
		if p == m.self || p != nil && p.member {
			continue
		}
		if p == nil {
			p = &peer{node: n}
			m.peers[n] = p
		}
		p.member, p.heard = true, now
		m.members = append(m.members, p)
	}
	slices.SortFunc(m.members, func(a, b *peer) int { return cmp.Compare(a.node, b.node) })
	m.countQuorum()
	m.after(now)
}

// DiskCycle tells that a sync of the data directory ended well at now: a commit round, or the write of a
// probe file that stands in for one on an idle broker.
func (m *Machine) DiskCycle(now time.Time) {
	if now.After(m.diskEnded) {
		m.diskEnded = now
	}
	m.judgeDisk(now)
	m.after(now)
}

// Advance does what is due at now.
func (m *Machine) Advance(now time.Time) {
	if !now.Before(m.nextBeat) {
		m.round(now)
	} else if len(m.pending) > 0 && !now.Before(m.flushAt) {
		m.beatAll(now)
	}
	m.after(now)
}

// Deadline is when Advance has something to do next.
func (m *Machine) Deadline() time.Time {
	d := m.nextBeat
	if len(m.pending) > 0 {
		d = earlier(d, m.flushAt)
	}
	if len(m.urgent) > 0 {
		d = earlier(d, m.urgent[0].at)
	}
	if len(m.ordinary) > 0 {
		d = earlier(d, m.campaignRate.ready(m.ordinary[0].at))
	}
	if m.wakesWait() {
		d = earlier(d, m.wakeRate.end())
	}
	return d
}

// Take gives what has to be done since the last call.
func (m *Machine) Take() Output {
	out := m.out
	m.out = Output{}
	for i := range out.Changed {
		c := &out.Changed[i]
		if e := m.table[c.Group]; e != nil {
			e.changed = false
			c.Leader = m.view(e)
		}
	}
	out.Changed = slices.DeleteFunc(out.Changed, func(c Change) bool { return m.table[c.Group] == nil })
	return out
}

// Up reports whether a broker is up; this one always is.
func (m *Machine) Up(node kafkaproto.NodeID) bool {
	p := m.peers[node]
	return p != nil && p.up
}

// Admitted reports whether clients may be served.
func (m *Machine) Admitted() bool { return m.admitted }

// Quorum reports whether a majority of all members is up.
func (m *Machine) Quorum() bool { return m.quorum }

// Counters gives what was counted since the start.
func (m *Machine) Counters() Counters { return m.counters }

// round is one beat of the clock.
func (m *Machine) round(now time.Time) {
	late, before := now.Sub(m.nextBeat), m.late
	m.late = late > m.cfg.LateAfter
	if m.late {
		m.excuse(now, late)
	}
	if !m.late || before { // who is always late must find the dead at last: by the time left in each round
		m.judgeSilence(now)
	}
	m.judgeDisk(now)
	m.forgetTombs(now)
	m.beatAll(now)
	for _, p := range m.members {
		if p.connected && !now.Before(p.nextDigest) {
			m.sendDigest(now, p)
		}
	}
	m.nextBeat = m.nextBeat.Add(m.cfg.Interval)
	if !m.nextBeat.After(now) {
		m.nextBeat = now.Add(m.cfg.Interval)
	}
}

// excuse takes the time in which this broker stood still out of what it knows of others and of its disk.
func (m *Machine) excuse(now time.Time, late time.Duration) {
	m.counters.LateRounds++
	for _, p := range m.members {
		p.heard = earlier(now, p.heard.Add(late))
	}
	m.diskEnded = earlier(now, m.diskEnded.Add(late))
}

func (m *Machine) judgeSilence(now time.Time) {
	for _, p := range m.members {
		if now.Sub(p.heard) < m.cfg.SilentAfter {
			continue
		}
		p.settled = true
		if p.up {
			m.down(now, p, Silent)
		}
	}
}

func (m *Machine) judgeDisk(now time.Time) {
	age := now.Sub(m.diskEnded)
	if stalled := age > m.cfg.StallAfter; stalled != m.stalled {
		m.stalled = stalled
		m.out.Disk = DiskBack
		if stalled {
			m.out.Disk = DiskStalled
		}
	}
	if age > m.cfg.ExitAfter && !m.exited {
		m.exited, m.out.Exit = true, true
	}
}

// after ends each input: what is due leaves with it.
func (m *Machine) after(now time.Time) {
	m.campaign(now)
	m.wake(now)
	if m.started && !m.admitted && !slices.ContainsFunc(m.members, func(p *peer) bool { return !p.settled }) {
		m.admitted, m.out.Admitted = true, true
	}
}

func (m *Machine) countQuorum() {
	up := 1
	for _, p := range m.members {
		if p.up {
			up++
		}
	}
	had := m.quorum
	m.quorum = m.started && up >= (len(m.members)+1)/2+1
	switch {
	case m.quorum && !had:
		m.out.Quorum = QuorumBack
	case had && !m.quorum:
		m.out.Quorum = QuorumLost
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
