package liveness

import (
	"slices"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// follower is broker 4 of five whose groups are led by broker 1, with the given in-sync set.
func follower(t *testing.T, h *holdings, groups int, inSync ...kafkaproto.NodeID) (*Machine, time.Time) {
	t.Helper()
	c := config(4, 1)
	c.Replicas = h
	m := New(c, start)
	m.SetPeers(start, []kafkaproto.NodeID{1, 2, 3, 4, 5})
	for _, n := range []kafkaproto.NodeID{1, 2, 3} { // 5 is down
		m.Connected(start, n, 1)
		receive(t, m, start, n, newWriter(kindBeat, 1, 0).beat(0, 0, 0))
	}
	w, part := newWriter(kindDigest, 1, 0), uint32(0)
	for i := range groups {
		it := item{group: groupID(i), term: 7, seq: uint64(i + 1), inSync: inSync}
		if !w.add(it, MaxBody) {
			t.Fatal("does not fit")
		}
	}
	receive(t, m, start, 1, w.digest(1, part, true, uint64(groups)))
	m.Take()
	return m, start.Add(10 * ms)
}

func receive(t *testing.T, m *Machine, now time.Time, from kafkaproto.NodeID, body []byte) {
	t.Helper()
	if err := m.Receive(now, from, body); err != nil {
		t.Fatal(err)
	}
}

func kill(m *Machine, now time.Time, n kafkaproto.NodeID) {
	m.Disconnected(now, n)
	m.Refused(now, n)
}

func TestRank(t *testing.T) {
	type ids = []kafkaproto.NodeID
	cases := []struct {
		name           string
		voters, inSync ids
		rank           int // -1: never
	}{
		{"preferred", ids{4, 1, 2}, ids{1, 2, 4}, 0},
		{"after the leader", ids{1, 4, 2}, ids{1, 2, 4}, 0},
		{"second", ids{1, 2, 4}, ids{1, 2, 4}, 1},
		{"third", ids{2, 3, 4, 1}, ids{1, 2, 3, 4}, 2},
		{"the one before is down", ids{1, 5, 4}, ids{1, 4, 5}, 0},
		{"the one before is not in sync", ids{2, 4, 1}, ids{1, 4}, 0},
		{"not in sync itself", ids{4, 1, 2, 3}, ids{1, 2, 3}, 2},
		{"nobody in sync is told", ids{2, 4, 1}, nil, 1},
		{"no voter", ids{1, 2, 3}, ids{1, 2, 3}, -1},
		{"not held", nil, ids{1, 2, 3}, -1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, now := follower(t, &holdings{voters: c.voters}, 1, c.inSync...)
			kill(m, now, 1)
			begin, at := now, time.Duration(-1)
			for now.Before(begin.Add(400*ms)) && at < 0 {
				m.Advance(now)
				if o := m.Take(); len(o.Campaigns) > 0 {
					at = now.Sub(begin)
				}
				now = later(m.Deadline(), now.Add(1))
			}
			least := time.Duration(c.rank) * 75 * ms
			if c.rank < 0 && at >= 0 || c.rank >= 0 && (at < least || at >= least+26*ms) {
				t.Errorf("campaigns after %v, rank %d", at, c.rank)
			}
		})
	}
}

// TestCampaignsPointless lets a leader be found, or come back, before the time has come.
func TestCampaignsPointless(t *testing.T) {
	m, now := follower(t, &holdings{voters: []kafkaproto.NodeID{2, 3, 1, 4}}, 3, 1, 2, 3, 4)
	kill(m, now, 1)
	w := newWriter(kindBeat, 1, 0)
	w.add(item{group: groupID(0), term: 8, seq: 1}, MaxBody)
	receive(t, m, now, 2, w.beat(0, 0, 1))
	m.DropTopic(now, groupID(1).Topic)
	m.Advance(now.Add(time.Second))
	if o := m.Take(); len(o.Campaigns) != 0 {
		t.Errorf("campaigns %+v", o.Campaigns)
	}

	m, now = follower(t, &holdings{voters: []kafkaproto.NodeID{2, 3, 1, 4}}, 3, 1, 2, 3, 4)
	kill(m, now, 1)
	w = newWriter(kindBeat, 1, 0)
	w.add(item{group: groupID(0), term: 8, seq: 1}, MaxBody)
	receive(t, m, now, 2, w.beat(0, 0, 1))
	kill(m, now.Add(ms), 2) // the new leader dies, too: for its term there is a campaign of its own
	m.Connected(now, 1, 1)
	receive(t, m, now, 1, newWriter(kindBeat, 1, 0).beat(0, 3, 3)) // and the old one is back
	for i := range 4 {
		m.Advance(now.Add(time.Duration(i) * 100 * ms))
	}
	if o := m.Take(); len(o.Campaigns) != 1 || o.Campaigns[0] != (Campaign{groupID(0), 8}) {
		t.Errorf("campaigns %+v", o.Campaigns)
	}
}

// TestResignedIsTakenOver: the followers of a leader that stepped down sleep as long as its broker is up.
func TestResignedIsTakenOver(t *testing.T) {
	m, now := follower(t, &holdings{voters: []kafkaproto.NodeID{1, 4, 2}}, 2, 1, 2, 4)
	w := newWriter(kindBeat, 1, 0)
	w.add(item{group: groupID(1), term: 7, seq: 3, resigned: true}, MaxBody)
	receive(t, m, now, 1, w.beat(0, 2, 3))
	m.Advance(now.Add(74 * ms))
	if o := m.Take(); len(o.Campaigns) != 0 {
		t.Errorf("no time for a transfer: %+v", o.Campaigns)
	}
	m.Advance(now.Add(101 * ms))
	if o := m.Take(); len(o.Campaigns) != 1 || o.Campaigns[0] != (Campaign{groupID(1), 7}) {
		t.Errorf("campaigns %+v", o.Campaigns)
	}
}

// TestCampaignRate kills the leader of 10,000 groups: 2,000 in 100 ms, the urgent one first, each once.
func TestCampaignRate(t *testing.T) {
	const groups = 10_000
	urgent := groupID(9_999)
	h := &holdings{voters: []kafkaproto.NodeID{1, 4}, urgent: map[kafkaproto.PartitionID]bool{urgent: true}}
	m, now := follower(t, h, groups, 1, 4)
	kill(m, now, 1)
	begin := now
	seen := map[kafkaproto.PartitionID]int{}
	windows := map[time.Duration]int{}
	for steps := 0; len(seen) < groups && steps < 200_000; steps++ {
		now = later(now, m.Deadline())
		m.Advance(now)
		for _, c := range m.Take().Campaigns {
			seen[c.Group]++
			windows[now.Sub(begin)/(100*ms)]++
			if c.Group == urgent && now.Sub(begin) > 25*ms {
				t.Errorf("the urgent group waited %v", now.Sub(begin))
			}
		}
	}
	for g, n := range seen {
		if n != 1 {
			t.Errorf("%v: %d campaigns", g, n)
		}
	}
	for w, n := range windows {
		if n > 2*2000+1 {
			t.Errorf("window %d: %d campaigns", w, n)
		}
	}
	if d := now.Sub(begin); len(seen) != groups || d < 400*ms || d > 600*ms {
		t.Errorf("%d groups in %v", len(seen), d)
	}
}

// TestWakes brings a peer back, then takes most of them away: only groups that lag or are cut off are
// woken, each once, at a bounded rate.
func TestWakes(t *testing.T) {
	const groups = 9_000
	urgent := groupID(3)
	h := &holdings{
		voters: []kafkaproto.NodeID{1, 2, 3}, urgent: map[kafkaproto.PartitionID]bool{urgent: true},
		lags: func(g kafkaproto.PartitionID, n kafkaproto.NodeID) bool { return n == 2 && g.Partition%3 == 0 },
	}
	c := config(1, 1)
	c.Replicas = h
	m := New(c, start)
	m.SetPeers(start, []kafkaproto.NodeID{1, 2, 3})
	now := start
	for i := range groups {
		m.Lead(now, groupID(i), 1, nil)
	}
	meet := func(n kafkaproto.NodeID) {
		m.Connected(now, n, 1)
		receive(t, m, now, n, newWriter(kindBeat, 1, 0).beat(0, 0, 0))
	}
	collect := func() (wakes []Wake) {
		for end := now.Add(time.Second); now.Before(end); {
			now = later(now, m.Deadline())
			m.Advance(now)
			w := m.Take().Wakes
			if len(w) > 2001 {
				t.Errorf("%d wakes at once", len(w))
			}
			wakes = append(wakes, w...)
			for _, n := range []kafkaproto.NodeID{2, 3} {
				receive(t, m, now, n, newWriter(kindBeat, 1, 0).beat(0, 0, 0))
			}
		}
		return wakes
	}
	distinct := func(w []Wake) int {
		slices.SortFunc(w, func(a, b Wake) int { return int(a.Group.Partition - b.Group.Partition) })
		return len(slices.Compact(w))
	}
	meet(3)
	meet(2)
	if first := m.Take().Wakes; len(first) != 2001 || first[0] != (Wake{urgent, 2, LagWake}) {
		t.Fatalf("%d wakes at once, first %+v", len(first), first[:1])
	}
	wakes := collect()
	if len(wakes) != groups/3-2001 || distinct(wakes) != len(wakes) {
		t.Errorf("%d more lag wakes, %d of them distinct", len(wakes), distinct(wakes))
	}

	kill(m, now, 3)
	if w := m.Take().Wakes; len(w) != 0 {
		t.Errorf("%d wakes with a quorum", len(w))
	}
	kill(m, now, 2)
	if first := m.Take().Wakes; len(first) != 2001 || first[0] != (Wake{Group: urgent, Why: QuorumWake}) {
		t.Fatalf("%d wakes at once, first %+v", len(first), first[:1])
	}
	meet(3) // back before all were woken: the rest need not be, and nothing lags there
	if wakes = collect(); len(wakes) != 0 {
		t.Errorf("%d wakes after the quorum is back", len(wakes))
	}
}
