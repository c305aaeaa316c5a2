package quorum

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

func uuid(n byte) string { return kafkaproto.TopicID{0: n, 6: 0x40, 8: 0x80}.String() }

// TestFoundingVerdicts: what a broker makes of the cards of a round.
func TestFoundingVerdicts(t *testing.T) {
	seeds := []string{"a:1", "b:1", "c:1"}
	mine := card{Directory: uuid(1), Seeds: seeds, Node: -1}
	fresh := func(n byte) card { return card{Directory: uuid(n), Seeds: seeds, Node: -1} }
	agreed := []Founder{{uuid(1), 1, "a:1"}, {uuid(2), 2, "b:1"}, {uuid(3), 3, "c:1"}}
	promised := func(n byte) card { c := fresh(n); c.Promise = digestOf(agreed); return c }
	member := func(n byte, cluster byte, founders ...Founder) card {
		return card{Directory: uuid(n), Node: 1, ClusterID: uuid(cluster), Founders: founders}
	}
	others := []Founder{{uuid(8), 1, ""}, {uuid(9), 2, ""}}
	with := func(c card, change func(*card)) card { change(&c); return c }
	for name, c := range map[string]struct {
		own   card
		heard map[string]card
		want  string
	}{
		"a seed is silent":  {mine, map[string]card{"a:1": mine, "b:1": fresh(2)}, "wait: seed c:1 does not answer"},
		"nobody has agreed": {mine, map[string]card{"a:1": mine, "b:1": fresh(2), "c:1": fresh(3)}, "wait: seed "},
		"one has not agreed": {mine, map[string]card{"a:1": mine, "b:1": promised(2), "c:1": fresh(3)},
			"wait: seed c:1 has not agreed"},
		"all have agreed": {mine, map[string]card{"a:1": mine, "b:1": promised(2), "c:1": promised(3)}, "form: node 1 of 3"},
		"one has agreed to others": {mine, map[string]card{"a:1": mine, "b:1": promised(2), "c:1": promised(4)},
			"wait: seed "},
		"other seeds": {mine, map[string]card{"a:1": mine, "b:1": with(fresh(2), func(c *card) { c.Seeds = seeds[:2] }),
			"c:1": fresh(3)}, "wait: seed b:1 was given the seeds a:1,b:1"},
		"no seed": {with(mine, func(c *card) { c.Directory = uuid(7) }),
			map[string]card{"a:1": mine, "b:1": fresh(2), "c:1": fresh(3)}, "wait: none of the seeds is this broker"},
		"twice": {mine, map[string]card{"a:1": mine, "b:1": mine, "c:1": fresh(3)}, "error: the seeds a:1 and b:1 are the same"},
		"same number": {mine, map[string]card{"a:1": mine, "b:1": with(fresh(2), func(c *card) { c.Node = 5 }),
			"c:1": with(fresh(3), func(c *card) { c.Node = 5 })}, "error: the seeds b:1 and c:1 both ask for node.id 5"},
		"other cluster id": {mine, map[string]card{"a:1": mine, "b:1": with(fresh(2), func(c *card) { c.Wants = uuid(9) }),
			"c:1": fresh(3)}, "error: seed b:1 asks for the cluster id"},
		"decided":   {mine, map[string]card{"b:1": member(2, 5, agreed...)}, "form: node 1 of 3"},
		"a cluster": {mine, map[string]card{"a:1": mine, "c:1": member(9, 5, others...)}, "join: c:1"},
		"two clusters": {mine, map[string]card{"b:1": member(8, 5, others...), "c:1": member(9, 6, others...)},
			"error: the seeds belong to different clusters"},
		"not the cluster asked for": {with(mine, func(c *card) { c.Wants = uuid(4) }),
			map[string]card{"b:1": member(8, 5, others...)}, "error: seed b:1 belongs to cluster"},
	} {
		f := founding{own: c.own, heard: c.heard}
		got := ""
		switch v := f.judge(); {
		case v.err != nil:
			got = "error: " + v.err.Error()
		case v.form != nil:
			got = fmt.Sprintf("form: node %d of %d", v.form.Identity.NodeID, len(v.form.Founders))
		case len(v.join) > 0:
			got = "join: " + strings.Join(v.join, ",")
		default:
			got = "wait: " + v.wait
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// TestFoundingAgrees: whatever order brokers hear each other in, and whoever is wiped or starts anew
// before it has decided, no two that keep their disks decide differently.
func TestFoundingAgrees(t *testing.T) {
	formed := 0
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(5)
		var seeds []string
		for i := range n {
			seeds = append(seeds, fmt.Sprintf("s%d:1", i))
		}
		type node struct {
			founding
			decided *Membership
		}
		nodes := make([]*node, n)
		drawn := byte(0)
		wipe := func(i int) {
			drawn++
			nodes[i] = &node{founding: founding{own: card{Directory: uuid(drawn), Seeds: seeds, Node: -1}}}
		}
		for i := range n {
			wipe(i)
		}
		show := func(i int) card {
			if m := nodes[i].decided; m != nil {
				return m.card()
			}
			return nodes[i].own
		}
		for range 20 * n {
			x := nodes[rng.IntN(n)]
			switch k := rng.IntN(12); {
			case k == 0: // its disk is lost
				wipe(rng.IntN(n))
				continue
			case k == 1: // it starts anew
				x.own.Promise, x.heard = "", nil
				continue
			}
			if x.decided != nil {
				continue
			}
			// Cards of a round are heard one after the other; some are of a while ago.
			if x.heard == nil || rng.IntN(8) == 0 {
				x.heard = map[string]card{}
			}
			for i, addr := range seeds {
				if rng.IntN(2) > 0 {
					x.heard[addr] = show(i)
				}
			}
			if v := x.judge(); v.err == nil && v.form != nil {
				x.decided = v.form
			}
		}
		cluster := ""
		for _, x := range nodes {
			if x.decided == nil {
				continue
			}
			formed++
			if id := x.decided.Identity.ClusterID; cluster != "" && id != cluster {
				t.Fatalf("seed %d: clusters %s and %s", seed, cluster, id)
			}
			cluster = x.decided.Identity.ClusterID
		}
	}
	if formed == 0 {
		t.Error("no cluster was formed")
	}
}

func TestSeedsOf(t *testing.T) {
	for _, c := range []struct {
		asked  []string
		values map[string]string
		want   []string
	}{
		{[]string{"B:1", "a:1", " a:1"}, nil, []string{"a:1", "b:1"}},
		{nil, map[string]string{"controller.quorum.voters": "1@host:9093"}, []string{"host:9093"}},
		{nil, map[string]string{"controller.quorum.bootstrap.servers": "b:1,a:1"}, []string{"a:1", "b:1"}},
		{nil, nil, nil},
	} {
		s, _, err := config.NewStatic(config.Layer{Name: "test", Values: c.values})
		if err != nil {
			t.Fatal(err)
		}
		if got := SeedsOf(c.asked, s); !slices.Equal(got, c.want) {
			t.Errorf("%q %v: %q, want %q", c.asked, c.values, got, c.want)
		}
	}
}

// TestFoundingWaits: founders start one after the other, one asks for a number, one restarts before the
// last is there; a broker that is no seed waits and joins. The decision outlives a restart.
func TestFoundingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		late := f.add()
		late.start()
		f.brokers[0].start()
		f.brokers[1].wants = 7
		f.brokers[1].start()
		time.Sleep(3 * time.Second)
		f.brokers[0].stop()
		f.brokers[0].start()
		time.Sleep(3 * time.Second)
		for _, b := range f.brokers {
			if b.controller() != nil {
				t.Fatalf("%s is a member before all founders were there", b.addr)
			}
		}
		f.brokers[2].start()
		f.enrolled(f.brokers...)
		var got []int
		for _, b := range f.brokers {
			got = append(got, int(b.controller().NodeID()))
		}
		if !slices.Equal(got, []int{1, 7, 2, 8}) {
			t.Errorf("nodes %v", got)
		}
		before := f.brokers[1].controller().Identity()
		f.brokers[1].stop()
		if member, err := Member(f.brokers[1].fs, "data"); err != nil || !member {
			t.Errorf("%v, %v", member, err)
		}
		f.brokers[1].start()
		f.enrolled(f.brokers[1])
		if got := f.brokers[1].controller().Identity(); got != before {
			t.Errorf("%+v was %+v", got, before)
		}
	})
}

// TestFoundingCrash: whatever of the decision a power loss takes, a restart goes on with all of it or
// with none.
func TestFoundingCrash(t *testing.T) {
	for seed := range uint64(40) {
		fs := vfs.PowerLoss(seed)
		if err := fs.MkdirAll("data", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := fs.SyncDir("."); err != nil {
			t.Fatal(err)
		}
		m := Membership{Identity: Identity{ClusterID: uuid(5), NodeID: 2, Directory: uuid(2)},
			Founders: []Founder{{uuid(1), 1, "a:1"}, {uuid(2), 2, "b:1"}}}
		if seed%2 == 0 {
			fs.FailSync(int(seed / 2 % 6))
		}
		err := m.settle(fs, "data")
		after := fs.Crash(vfs.PowerCrash)
		form, err1 := readMembership(after, "data")
		id, err2 := readIdentity(after, "data")
		switch {
		case err1 != nil || err2 != nil:
			t.Errorf("seed %d: %v, %v", seed, err1, err2)
		case err == nil && (form == nil || id == nil):
			t.Errorf("seed %d: lost after it was durable", seed)
		case id != nil && form == nil:
			t.Errorf("seed %d: meta.properties alone would be a cluster of its own", seed)
		case form != nil && !reflect.DeepEqual(form.membership(), m):
			t.Errorf("seed %d: %+v", seed, form)
		}
	}
}

// TestJoinRefused: who asks for a number that is taken, or for another cluster, is told so and stops.
func TestJoinRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 1)
		defer f.close()
		f.startAll()
		for values, want := range map[string]string{
			"node.id=1":                     "another node.id",
			"sluice.cluster.id=" + uuid(99): "sluice.cluster.id asks for",
		} {
			key, value, _ := strings.Cut(values, "=")
			s, _, err := config.NewStatic(config.Layer{Name: "test", Values: map[string]string{key: value}})
			if err != nil {
				t.Fatal(err)
			}
			b := f.add()
			if err := b.fs.MkdirAll("data", 0o755); err != nil {
				t.Fatal(err)
			}
			o := f.brokers[0].founding.o
			o.FS, o.Static, o.Transport, o.Peer = b.fs, s, b, b.addr
			fo, err := NewFounding(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fo.Run(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", values, err, want)
			}
		}
	})
}

func FuzzFounding(f *testing.F) {
	m := Membership{Identity: Identity{ClusterID: uuid(5), NodeID: 2, Directory: uuid(2)}, Founders: []Founder{{uuid(2), 2, "b:1"}}}
	c, err := m.card().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c)
	f.Add([]byte(`{"v":1,"cluster":"` + uuid(5) + `","node":3,"founders":[{"directory":"` + uuid(2) + `","node":2}]}`))
	f.Add([]byte(`{"version":1,"directory":"` + uuid(2) + `"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := decodeCard(b); err == nil {
			fo := founding{own: card{Directory: uuid(2), Seeds: []string{"a:1"}, Node: -1}, heard: map[string]card{"a:1": c}}
			if v := fo.judge(); v.form != nil && v.err == nil && checkFounders(v.form.Founders) != nil {
				t.Errorf("formed of %+v", v.form)
			}
		}
		_, _ = decodeJoined(b)
		if form, err := parseMembership(b); err == nil && form.ClusterID != "" {
			_ = form.membership().Spec(config.Metadata{})
		}
	})
}
