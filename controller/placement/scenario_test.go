package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// parts makes partitions t-0, t-1, ... of so many bytes, led by their first replica, all in sync.
func parts(bytes int64, replicas ...ids) (all []Partition) {
	for n, r := range replicas {
		all = append(all, Partition{
			ID: kafkaproto.PartitionID{Partition: int32(n)}, Topic: "t", Version: 1, Replicas: r, Bytes: bytes,
			Leader: r[0], InSync: r,
		})
	}
	return all
}

// tell spells a plan.
func tell(p Plan) string {
	var lines []string
	for _, m := range p.Moves {
		lines = append(lines, m.String())
	}
	for _, h := range p.Held {
		lines = append(lines, "held: "+h.String())
	}
	return strings.Join(lines, "\n")
}

// TestPlans tells small stories.
func TestPlans(t *testing.T) {
	limits := func(change func(l *Limits)) Limits {
		l := testLimits()
		l.Bytes = 1 << 40
		if change != nil {
			change(&l)
		}
		return l
	}
	with := func(brokers []Broker, change func(b []Broker)) []Broker {
		change(brokers)
		return brokers
	}
	for _, c := range []struct {
		name    string
		cluster Cluster
		limits  Limits
		want    string
	}{
		{
			"nothing at all", Cluster{}, limits(nil), "held: replicas, bytes and leaders are even",
		},
		{
			"even", Cluster{brokersIn("", "", ""), parts(5, ids{1, 2}, ids{2, 3}, ids{3, 1})}, limits(nil),
			"held: replicas, bytes and leaders are even",
		},
		{
			"a join", Cluster{brokersIn("", ""), parts(2048, ids{1}, ids{1}, ids{1}, ids{1})}, limits(nil),
			"t-0: [1] -> [2], copies 2.0 KiB: broker 2 has 0 replicas, the mean is 2 replicas\n" +
				"t-1: [1] -> [2], copies 2.0 KiB: broker 2 has 1 replicas, the mean is 2 replicas",
		},
		{
			"one at a time", Cluster{brokersIn("", ""), parts(2048, ids{1}, ids{1}, ids{1}, ids{1})},
			limits(func(l *Limits) { l.Moves = 1 }),
			"t-0: [1] -> [2], copies 2.0 KiB: broker 2 has 0 replicas, the mean is 2 replicas\n" +
				"held: 1 moves are under way: the next ones wait for them",
		},
		{
			"larger than what may be copied at once", Cluster{brokersIn("", ""), parts(3<<30, ids{1}, ids{1}, ids{1}, ids{1})},
			limits(func(l *Limits) { l.Bytes = 1 }),
			"t-0: [1] -> [2], copies 3.0 GiB: broker 2 has 0 replicas, the mean is 2 replicas\n" +
				"held: 1 moves are under way: the next ones wait for them",
		},
		{
			"moves under way count", Cluster{brokersIn("", ""), with2(parts(5, ids{1}, ids{1}, ids{1}, ids{2}, ids{1}, ids{1}), func(p []Partition) { p[3].Moving, p[3].Copying = true, 5 })},
			limits(func(l *Limits) { l.Moves = 1 }), "held: 1 moves are under way: the next ones wait for them",
		},
		{
			"no moves at all", Cluster{brokersIn("", ""), parts(5, ids{1}, ids{1}, ids{1}, ids{1})},
			limits(func(l *Limits) { l.Moves = 0 }), "held: 0 moves are under way: the next ones wait for them",
		},
		{
			"a drain; the leader's place goes to one that stays",
			Cluster{with(brokersIn("", "", ""), func(b []Broker) { b[0].Draining = true }), parts(5, ids{1, 2}, ids{2, 3})}, limits(nil),
			"t-0: [1 2] -> [2 3], copies 5 B: broker 1 is drained\n" +
				"t-1: [2 3] -> [3 2], copies nothing: broker 3 has 0 leaders, the mean is 1 leaders",
		},
		{
			"a drain with nowhere to go",
			Cluster{with(brokersIn("", ""), func(b []Broker) { b[0].Draining = true }), parts(5, ids{1, 2})}, limits(nil),
			"held: 1 partitions should move, but all brokers that take replicas have one of theirs: add a broker",
		},
		{
			"lost before drained, the fewest replicas first",
			Cluster{
				with(brokersIn("", "", "", "", ""), func(b []Broker) { b[0].Fenced, b[0].Away, b[1].Draining = true, time.Hour, true }),
				parts(5, ids{2, 3}, ids{3, 1, 4}, ids{3, 1}),
			}, limits(func(l *Limits) { l.Moves = 2 }),
			"t-2: [3 1] -> [3 5], copies 5 B: broker 1 is lost\nt-1: [3 1 4] -> [3 5 4], copies 5 B: broker 1 is lost\n" +
				"held: 2 moves are under way: the next ones wait for them",
		},
		{
			"unregistered is lost", Cluster{brokersIn("", "", ""), parts(5, ids{3, 9}, ids{1, 2})}, limits(nil),
			"t-0: [3 9] -> [3 1], copies 5 B: broker 9 is lost",
		},
		{
			"away, not lost", Cluster{with(brokersIn("", "", ""), func(b []Broker) { b[2].Fenced, b[2].Away = true, 20*time.Second }), parts(5, ids{1}, ids{1}, ids{3})}, limits(nil),
			"held: broker 3 is away with 1 replicas: it is waited for, 40s more",
		},
		{
			"stopping", Cluster{with(brokersIn("", "", ""), func(b []Broker) { b[2].Stopping = true }), parts(5, ids{1}, ids{1}, ids{3})}, limits(nil),
			"held: broker 3 is being shut down: it is waited for",
		},
		{
			"without a leader", Cluster{with(brokersIn("", "", ""), func(b []Broker) { b[0].Draining = true }), with2(parts(5, ids{1}), func(p []Partition) { p[0].Leader = -1 })}, limits(nil),
			"held: 1 partitions that should move have no leader: they need most of their replicas back",
		},
		{
			"racks", Cluster{brokersIn("a", "a", "b"), parts(5, ids{1, 2})}, limits(nil),
			"t-0: [1 2] -> [1 3], copies 5 B: the replica on broker 2 shares its rack with another",
		},
		{
			"racks before evenness", Cluster{brokersIn("a", "b", "b"), parts(5, ids{1, 2}, ids{2, 1}, ids{1, 3}, ids{3, 1})}, limits(nil),
			"held: broker 1 has 4 replicas, the mean is 2.7 replicas, but no move helps: 4 would put replicas into one rack\n" +
				"held: broker 1 has 20 B, the mean is 13 B, but no move helps: 4 would put replicas into one rack\n" +
				"held: broker 2 has 10 B, the mean is 13 B, but no move helps: 6 would make it no more even, 2 would put replicas into one rack\n" +
				"held: broker 3 has 10 B, the mean is 13 B, but no move helps: 6 would make it no more even, 2 would put replicas into one rack",
		},
		{
			"one giant", Cluster{brokersIn("", ""), append(parts(1<<30, ids{1}), with2(parts(5, ids{2}), func(p []Partition) { p[0].Topic = "u" })...)}, limits(nil),
			"held: broker 1 has 1.0 GiB, the mean is 512.0 MiB, but no move helps: 2 would make it no more even\n" +
				"held: broker 2 has 5 B, the mean is 512.0 MiB, but no move helps: 2 would make it no more even",
		},
		{
			"not worth it", Cluster{brokersIn("", ""), append(parts(1<<20, ids{1}), with2(parts(5, ids{2}), func(p []Partition) { p[0].Topic = "u" })...)},
			limits(func(l *Limits) { l.SmallBytes = 1 << 20 }), "held: replicas, bytes and leaders are even",
		},
		{
			"leaders", Cluster{brokersIn("", ""), parts(5, ids{1, 2}, ids{1, 2}, ids{1, 2}, ids{1, 2})}, limits(nil),
			"t-0: [1 2] -> [2 1], copies nothing: broker 2 has 0 leaders, the mean is 2 leaders\n" +
				"t-1: [1 2] -> [2 1], copies nothing: broker 2 has 1 leaders, the mean is 2 leaders",
		},
	} {
		if got := tell(Next(c.cluster, c.limits)); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// with2 changes partitions.
func with2(p []Partition, change func(p []Partition)) []Partition {
	change(p)
	return p
}

// TestWay: leaders go over brokers between, where two share no partition.
func TestWay(t *testing.T) {
	p := parts(5, ids{1, 2}, ids{1, 2}, ids{1, 2}, ids{2, 3}, ids{2, 3}, ids{3, 2})
	c := Cluster{brokersIn("", "", ""), p}
	plan := Next(c, testLimits())
	got := map[kafkaproto.NodeID]int{}
	for _, m := range plan.Moves {
		if m.Measure == Leaders && !sameSet(m.From, m.To) {
			t.Errorf("%s", m)
		}
		c.Partitions[m.Partition.Partition].Replicas = m.To
	}
	for _, p := range c.Partitions {
		got[p.Replicas[0]]++
	}
	if fmt.Sprint(got) != "map[1:2 2:2 3:2]" {
		t.Errorf("leaders %v\n%s", got, tell(plan))
	}
}

// TestTransfers: brokers that leave hand over first, then the preferred replicas get their places.
func TestTransfers(t *testing.T) {
	brokers := brokersIn("", "", "", "")
	brokers[0].Stopping, brokers[3].Fenced = true, true
	p := parts(5, ids{2, 3}, ids{1, 2, 3}, ids{1, 4}, ids{2, 3}, ids{4, 3}, ids{3, 2}, ids{3, 2})
	p[0].Leader = 3                          // back to 2
	p[3].Leader, p[3].InSync = 3, ids{3}     // 2 is not in sync
	p[4].Leader = 3                          // 4 is fenced
	p[6].Leader = -1                         // nobody to hand over
	p = append(p, parts(5, ids{1, 2, 3})[0]) // to the one with fewer leaders
	p[7].ID.Partition = 7
	var got []string
	for _, tr := range Transfers(Cluster{brokers, p}, 10) {
		got = append(got, fmt.Sprint(tr.Partition.Partition, tr.From, tr.To, tr.Away))
	}
	if want := []string{"1 1 2 true", "7 1 2 true", "0 3 2 false"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Transfers(Cluster{brokers, p}, 1); len(got) != 1 || !got[0].Away {
		t.Errorf("%+v", got)
	}
	if got := Transfers(Cluster{brokers, p}, 0); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// TestElect holds what Kafka 4.4.0 answered to ElectLeaders.
func TestElect(t *testing.T) {
	brokers := brokersIn("", "", "")
	brokers[2].Fenced = true
	p := func(leader kafkaproto.NodeID, replicas, inSync ids) Partition {
		return Partition{Replicas: replicas, Leader: leader, InSync: inSync}
	}
	for _, c := range []struct {
		p       Partition
		unclean bool
		want    string
	}{
		{p(1, ids{1, 2}, ids{1, 2}), false, "ELECTION_NOT_NEEDED: Leader election not needed for topic partition."},
		{p(2, ids{1, 2}, ids{1, 2}), true, "ELECTION_NOT_NEEDED: Leader election not needed for topic partition."},
		{p(2, ids{1, 2}, ids{1, 2}), false, "1"},
		{p(2, ids{1, 2}, ids{2}), false, "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."},
		{p(1, ids{3, 1}, ids{3, 1}), false, "PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available."},
		{p(-1, ids{3, 1, 2}, ids{3, 2}), true, "2"},
		{p(-1, ids{3, 1}, ids{3}), true, "1"},
		{p(-1, ids{3}, ids{3}), true, "ELIGIBLE_LEADERS_NOT_AVAILABLE: Eligible topic partition leaders are not available."},
	} {
		got, err := Elect(c.p, brokers, c.unclean)
		text := fmt.Sprint(got)
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%+v, unclean %v: %s, want %s", c.p, c.unclean, text, c.want)
		}
	}
}

// TestLarge: thirty thousand partitions, one broker of ten new: the plan is made and helps.
func TestLarge(t *testing.T) {
	var c Cluster
	c.Brokers = brokersIn("a", "b", "c", "a", "b", "c", "a", "b", "c", "a")
	for n, r := range Place(c.Brokers[:9], Request{Topic: "t", Count: 30000, Replication: 3}) {
		p := parts(int64(1000+n%7*100), r)[0]
		p.ID.Partition = int32(n)
		c.Partitions = append(c.Partitions, p)
	}
	l := DefaultLimits()
	l.SmallBytes = 0
	plan := Next(c, l)
	if len(plan.Moves) != l.Moves || len(plan.Held) == 0 || plan.Held[0].Why != WhyLimit {
		t.Fatalf("%s", tell(plan))
	}
	carryOut(t, &c, l, plan)
	if after := newWork(c, l).byID[10].load[Replicas]; after != float64(l.Moves) {
		t.Errorf("%v replicas on the new broker", after)
	}
}
