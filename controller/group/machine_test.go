package group

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
)

// check verifies what must hold between the parts of a machine's state at any time.
func (m *Machine) check() error {
	armed := make(map[*timer]bool)
	for i, t := range m.timers.heap {
		if t.index != i+1 {
			return fmt.Errorf("timer %d knows itself as %d", i, t.index-1)
		}
		armed[t] = true
	}
	known := 0
	for id, g := range m.groups {
		if g.id != id || g.idle() {
			return fmt.Errorf("group %q is kept as %q, idle %v", g.id, id, g.idle())
		}
		if err := g.check(armed); err != nil {
			return fmt.Errorf("group %q in %v: %w", id, g.state, err)
		}
		known += len(g.members) + len(g.joiners)
		if armed[&g.phase] {
			known++
		}
		for p := range g.txns {
			if m.byTxn[p][id] != g {
				return fmt.Errorf("group %q is not found by producer %d", id, p)
			}
		}
	}
	if armed[&m.cleanup] {
		known++
	}
	if len(armed) > known {
		return fmt.Errorf("%d timers are armed, %d have an owner", len(armed), known)
	}
	return nil
}

func (g *group) check(armed map[*timer]bool) error {
	awaiting, syncing, static := 0, 0, 0
	for _, mb := range g.members {
		if g.byID[mb.id] != mb || mb.group != g {
			return fmt.Errorf("member %q is not found by its id", mb.id)
		}
		if mb.join != 0 {
			awaiting++
		}
		if mb.pending {
			syncing++
		}
		if mb.instance != "" {
			static++
			if g.static[mb.instance] != mb {
				return fmt.Errorf("member %q is not found by its instance", mb.id)
			}
		}
		if mb.join != 0 && g.state != PreparingRebalance || mb.sync != 0 &&
			g.state != CompletingRebalance {
			return fmt.Errorf("member %q has parked join %d, sync %d", mb.id, mb.join, mb.sync)
		}
		if !armed[&mb.session] && !armed[&g.phase] {
			return fmt.Errorf("member %q has no deadline", mb.id) // C4
		}
	}
	switch {
	case awaiting != g.awaiting || syncing != g.syncing:
		return fmt.Errorf("%d await and %d sync, counted %d and %d", awaiting, syncing, g.awaiting,
			g.syncing)
	case len(g.byID) != len(g.members) || len(g.static) != static:
		return fmt.Errorf("%d members, %d by id, %d static, %d by instance",
			len(g.members), len(g.byID), static, len(g.static))
	case len(g.members) == 0 && (g.state == Stable || g.state == CompletingRebalance):
		return fmt.Errorf("no members")
	case len(g.members) > 0 && g.state == Empty:
		return fmt.Errorf("%d members", len(g.members))
	case g.state == PreparingRebalance && !armed[&g.phase]:
		return fmt.Errorf("the join phase has no end")
	case g.syncing > 0 && !armed[&g.phase]:
		return fmt.Errorf("the wait for %d syncs has no end", g.syncing)
	}
	return nil
}

// settled is what the log tells of a shard: the groups that are at rest, and all offsets.
type settled struct {
	Groups  map[string]*groupValue
	Offsets map[offsetKey]offsetValue
	Pending map[kafkaproto.ProducerID]map[offsetKey]offsetValue
}

func (m *Machine) settled() settled {
	s := settled{
		map[string]*groupValue{}, map[offsetKey]offsetValue{},
		map[kafkaproto.ProducerID]map[offsetKey]offsetValue{},
	}
	for id, g := range m.groups {
		if g.recorded && (g.state == Stable || g.state == Empty) {
			s.Groups[id] = g.value(g.since)
			for i := range s.Groups[id].Members {
				mv := &s.Groups[id].Members[i]
				mv.Subscription, mv.Assignment = append([]byte{}, mv.Subscription...), append([]byte{},
					mv.Assignment...)
			}
		}
		for t, ps := range g.offsets {
			for p, o := range ps {
				s.Offsets[offsetKey{id, t, p}] = o.offsetValue
			}
		}
		for pid, pending := range g.txns {
			if s.Pending[pid] == nil {
				s.Pending[pid] = map[offsetKey]offsetValue{}
			}
			for k, o := range pending {
				s.Pending[pid][k] = o.offsetValue
			}
		}
	}
	return s
}

// diff compares a replayed machine with the live one. Groups of the live machine that are not at
// rest are told by the log as they were before, which need not be compared.
func (s settled) diff(live settled, liveGroups map[string]*group) string {
	for id, g := range live.Groups {
		if !reflect.DeepEqual(s.Groups[id], g) {
			return fmt.Sprintf("group %q: replayed %+v, live %+v", id, s.Groups[id], g)
		}
	}
	for id := range s.Groups {
		if liveGroups[id] == nil || !liveGroups[id].recorded {
			return fmt.Sprintf("group %q is replayed, and not live", id)
		}
	}
	if !maps.Equal(s.Offsets, live.Offsets) {
		return fmt.Sprintf("offsets: replayed %v, live %v", s.Offsets, live.Offsets)
	}
	if !reflect.DeepEqual(s.Pending, live.Pending) {
		return fmt.Sprintf("pending offsets: replayed %v, live %v", s.Pending, live.Pending)
	}
	return ""
}

// replayAnything gives a machine a group as no broker would write it, and lets time pass.
func replayAnything(t *testing.T, id string, g *groupValue) {
	m := NewMachine(DefaultConfig())
	now := coord.Now{Wall: 1, Steady: 1}
	m.applyGroup(id, &groupValue{ProtocolType: "consumer", Generation: 1, Protocol: "range",
		Leader:  "m",
		Members: []memberValue{{ID: "m", Instance: "i"}, {ID: "n"}}})
	m.applyGroup(id, g)
	m.Loaded(now)
	if err := m.check(); err != nil {
		t.Fatalf("%+v: %v", g, err)
	}
	for range 10 {
		now.Steady += 1 << 33
		m.Tick(now, &coord.Effects[any]{})
		if err := m.check(); err != nil {
			t.Fatalf("%+v, after ticks: %v", g, err)
		}
	}
	if m.groups[id] != nil {
		t.Fatalf("%+v: the group does not end: %+v", g, m.groups[id])
	}
}

// recorder steps a machine and replays every record into a second one, record by record: at each
// of them a crash may cut the log (lesson 9).
type recorder struct {
	t      *testing.T
	m      *Machine
	now    coord.Now
	ticket coord.Ticket
	log    []coord.Entry
}

func (r *recorder) do(in input) []coord.Reply[any] {
	r.ticket++
	e := &coord.Effects[any]{}
	r.m.Step(r.now, r.ticket, in, e)
	return r.took(e)
}

func (r *recorder) advance(ms int64) []coord.Reply[any] {
	end := r.now.Steady + ms
	var all []coord.Reply[any]
	for r.m.Deadline() <= end {
		r.now.Steady = r.m.Deadline()
		r.now.Wall = r.now.Steady
		e := &coord.Effects[any]{}
		r.m.Tick(r.now, e)
		all = append(all, r.took(e)...)
	}
	r.now.Steady, r.now.Wall = end, end
	return all
}

func (r *recorder) took(e *coord.Effects[any]) []coord.Reply[any] {
	r.t.Helper()
	r.log = append(r.log, slices.Clone(e.Entries)...)
	if err := r.m.check(); err != nil {
		r.t.Fatal(err)
	}
	return e.Replies
}

// replay makes a machine of a prefix of the log.
func (r *recorder) replay(n int) *Machine {
	r.t.Helper()
	m := NewMachine(r.m.cfg)
	for _, entry := range r.log[:n] {
		if entry.Marker != nil {
			m.ApplyMarker(*entry.Marker)
			continue
		}
		rec := entry.Record
		if err := m.Apply(&rec); err != nil {
			r.t.Fatalf("replay of %s: %v", showRecord(rec.Key, rec.Value), err)
		}
	}
	m.Loaded(r.now)
	if err := m.check(); err != nil {
		r.t.Fatalf("after %d records: %v", n, err)
	}
	return m
}

func (r *recorder) join(group, member, instance string, n int) []coord.Reply[any] {
	return r.do(&joinInput{
		version: 3, group: group, member: member, instance: instance, newID: fmt.Sprint("id", n),
		session: 10_000, timeout: 20_000, protType: "consumer",
		offers: []protocol{{"range", subscribe("t")}, {"rr", subscribe("t", "u")}},
	})
}

// TestCrashAtEveryRecord writes every kind of record there is, several times, cuts the log behind
// each record, and goes on from there: the machine is sound, members that are told of go on or run
// out, and nothing is left in the end.
func TestCrashAtEveryRecord(t *testing.T) {
	cfg := DefaultConfig()
	cfg.InitialDelayMs = 0
	r := &recorder{t: t, m: NewMachine(cfg), now: coord.Now{Wall: 1000, Steady: 1000}}
	r.m.Loaded(r.now)
	live := map[int]settled{}
	note := func() { live[len(r.log)] = r.m.settled() }
	commit := func(group, member string, gen int32, p *coord.Producer, topics ...string) {
		in := &commitInput{version: 9, group: group, member: member, generation: gen, retention: -1,
			producer: p}
		for i, t := range topics {
			in.partitions = append(in.partitions, commitPartition{
				topic: t, topicID: kafkaproto.TopicID{byte(i)}, partition: int32(i),
				offset: kafkaproto.Offset(len(r.log)),
			})
		}
		r.do(in)
		note()
	}
	assign := func(group, leader string, gen int32) {
		r.do(&syncInput{group: group, member: leader, generation: gen,
			assignments: map[string][]byte{leader: []byte("all"), "id2": []byte("some")}})
		note()
	}
	commit("simple", "", -1, nil, "t", "u") // offsets, no group record
	r.join("g", "", "", 1)                  // empty group
	r.advance(0)
	assign("g", "id1", 1) // group with members
	commit("g", "id1", 1, nil, "t", "u")
	r.join("g", "", "inst", 2)
	r.join("g", "id1", "", 0)
	assign("g", "id1", 2)
	r.join("g", "", "inst", 3) // static member under a new id
	note()
	tx := &coord.Producer{ID: 7, Epoch: 1}
	commit("g", "", -1, tx, "t", "v")
	commit("simple", "", -1, tx, "t")
	r.do(&endTxnInput{coord.Marker{Producer: *tx, Commit: true}})
	note()
	commit("g", "", -1, tx, "w")
	r.do(&endTxnInput{coord.Marker{Producer: *tx}})
	note()
	r.do(&deleteOffsetsInput{"g", []fetchTopic{{topic: "v",
		partitions: []int32{1}}}}) // offset tombstone
	note()
	r.do(&dropOffsetsInput{"u", func(string, kafkaproto.TopicID) bool { return true }})
	note()
	r.do(&leaveInput{"g", []leaver{{"id1", ""}, {"", "inst"}}}) // empty again
	note()
	r.do(&deleteGroupInput{"simple"}) // tombstones
	note()
	commit("late", "", -1, nil, "t")
	r.advance(cfg.OffsetRetentionMs + 2*cfg.RetentionCheckMs) // expiry: tombstones
	note()
	if len(r.m.groups) != 0 {
		t.Fatalf("groups are left: %v", r.m.sortedGroups())
	}
	checkKinds(t, r.log)
	for n := range len(r.log) + 1 {
		m := r.replay(n)
		if want, ok := live[n]; ok {
			if d := m.settled().diff(want, m.groups); d != "" {
				t.Errorf("after %d records: %s", n, d)
			}
		}
		// Go on: everything runs out, and a deletion keeps deleted.
		after := &recorder{t: t, m: m, now: r.now, log: slices.Clone(r.log[:n])}
		after.advance(2 * (cfg.OffsetRetentionMs + 2*cfg.RetentionCheckMs))
		for id, g := range m.groups {
			if len(g.txns) == 0 { // an open transaction keeps its group until it ends
				t.Errorf("after %d records: group %q stays: %+v", n, id, g)
			}
		}
		again := after.replay(len(after.log))
		if d := again.settled().diff(m.settled(), m.groups); d != "" {
			t.Errorf("after %d records, replayed again: %s", n, d)
		}
	}
}

// checkKinds sees to it that the log holds each kind of record.
func checkKinds(t *testing.T, log []coord.Entry) {
	kinds := map[string]int{}
	for _, e := range log {
		if e.Marker != nil {
			kinds[fmt.Sprint("marker ", e.Marker.Commit)]++
			continue
		}
		k, err := decodeKey(e.Record.Key)
		if err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprintf("%T value %v transaction %v", k, e.Record.Value != nil,
			e.Record.Producer != nil)
		if _, ok := k.(groupKey); ok && e.Record.Value != nil {
			g, err := decodeGroupValue(e.Record.Value)
			if err != nil {
				t.Fatal(err)
			}
			kind = fmt.Sprint("group with members ", len(g.Members) > 0)
		}
		kinds[kind]++
	}
	for _, want := range []string{
		"marker true", "marker false", "group with members true", "group with members false",
		"group.groupKey value false transaction false", "group.offsetKey value true transaction false",
		"group.offsetKey value false transaction false", "group.offsetKey value true transaction true",
	} {
		if kinds[want] == 0 {
			t.Errorf("no record of kind %q; there are %v", want, kinds)
		}
	}
}

// TestForeignRecords replays what another broker may have left: records of newer kinds, damaged
// ones, and a tombstone of a group that keeps its offsets, as Kafka writes it when a group goes
// over to another protocol.
func TestForeignRecords(t *testing.T) {
	m := NewMachine(DefaultConfig())
	apply := func(k, v []byte) error { return m.Apply(&coord.Record{Key: k, Value: v}) }
	for _, kv := range [][2][]byte{
		{{0, 3, 0, 1, 'g'}, {0, 0}},           // ConsumerGroupMetadata
		{nil, nil},                            // no key
		{appendGroupKey(nil, "g"), {0, 9}},    // a value of a later version
		{appendGroupKey(nil, "g"), {0, 3, 0}}, // a damaged value
		{appendOffsetKey(nil, offsetKey{"g", "t", 0}), {0, 3, 0}},
	} {
		if err := apply(kv[0], kv[1]); err == nil {
			t.Errorf("key %x value %x is taken", kv[0], kv[1])
		}
	}
	if len(m.groups) != 0 {
		t.Fatalf("they made groups: %v", m.sortedGroups())
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(apply(appendOffsetKey(nil, offsetKey{"g", "t", 0}), appendOffsetValue(nil,
		&offsetValue{Offset: 5, Expires: -1})))
	must(apply(appendGroupKey(nil, "g"), appendGroupValue(nil, &groupValue{
		ProtocolType: "consumer", Protocol: "range", Generation: 1, Leader: "m",
		Members: []memberValue{{ID: "m"}},
	})))
	must(apply(appendGroupKey(nil, "g"), nil))
	g := m.groups["g"]
	if g == nil || g.offsets["t"][0] == nil || len(g.members) != 0 || g.state != Empty ||
		g.protoType != "" {
		t.Fatalf("the group is %+v", g)
	}
	must(apply(appendOffsetKey(nil, offsetKey{"g", "t", 0}), nil))
	if len(m.groups) != 0 {
		t.Fatal("a group without anything stays")
	}
	must(apply(appendOffsetKey(nil, offsetKey{"g", "t", 0}), nil))
	must(apply(appendGroupKey(nil, "g"), nil))
}
