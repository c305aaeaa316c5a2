package group

import (
	"fmt"
	"slices"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// input is a request for one group, or an event for all of a shard; see the *Input types.
type input interface{ isInput() }

// Machine is the state of one partition of __consumer_offsets (coord.Machine).
type Machine struct {
	cfg     Config
	groups  map[string]*group
	timers  timers
	cleanup timer  // the next look for expired offsets
	seq     uint64 // counts applied offsets and given ids: their order
	// byTxn finds the groups with pending offsets of a producer.
	byTxn map[kafkaproto.ProducerID]map[string]*group

	// now and out belong to the call in progress.
	now coord.Now
	out *coord.Effects[any]
}

// NewMachine makes an empty shard.
func NewMachine(cfg Config) *Machine {
	m := &Machine{
		cfg: cfg, groups: make(map[string]*group),
		byTxn: make(map[kafkaproto.ProducerID]map[string]*group),
	}
	m.cleanup.fire = (*Machine).cleanUp
	return m
}

// Step implements coord.Machine.
func (m *Machine) Step(now coord.Now, to coord.Ticket, in input, e *coord.Effects[any]) {
	m.now, m.out = now, e
	switch in := in.(type) {
	case *joinInput:
		m.join(to, in)
	case *syncInput:
		m.sync(to, in)
	case *heartbeatInput:
		m.heartbeat(to, in)
	case *leaveInput:
		m.leave(to, in)
	case *commitInput:
		m.commit(to, in)
	case *fetchInput:
		m.fetch(to, in)
	case *deleteOffsetsInput:
		m.deleteOffsets(to, in)
	case *describeInput:
		m.describe(to, in)
	case *listInput:
		m.list(to, in)
	case *deleteGroupInput:
		m.deleteGroup(to, in)
	case *dropOffsetsInput:
		m.dropOffsets(to, in)
	case *endTxnInput:
		m.endTxn(to, in)
	default:
		panic(fmt.Sprintf("group machine: input %T", in))
	}
	m.out = nil
}

// Tick implements coord.Machine.
func (m *Machine) Tick(now coord.Now, e *coord.Effects[any]) {
	m.now, m.out = now, e
	for t := m.timers.due(now.Steady); t != nil; t = m.timers.due(now.Steady) {
		t.fire(m)
	}
	m.out = nil
}

// Deadline implements coord.Machine.
func (m *Machine) Deadline() int64 {
	if len(m.timers.heap) == 0 {
		return coord.Never
	}
	return m.timers.heap[0].at
}

// Apply implements coord.Machine.
func (m *Machine) Apply(r *coord.Record) error {
	k, err := decodeKey(r.Key)
	if err != nil {
		return err
	}
	switch k := k.(type) {
	case groupKey:
		if r.Value == nil {
			m.applyGroup(string(k), nil)
			return nil
		}
		v, err := decodeGroupValue(r.Value)
		if err != nil {
			return fmt.Errorf("group %q: %w", string(k), err)
		}
		m.applyGroup(string(k), v)
	case offsetKey:
		if r.Value == nil {
			m.applyOffset(k, nil, nil)
			return nil
		}
		v, err := decodeOffsetValue(r.Value)
		if err != nil {
			return fmt.Errorf("offset of group %q, %s-%d: %w", k.Group, k.Topic, k.Partition, err)
		}
		if id, ok := headerTopicID(r.Headers); ok {
			v.TopicID = id
		}
		m.applyOffset(k, &v, r.Producer)
	}
	return nil
}

func headerTopicID(hs []batch.RecordHeader) (id kafkaproto.TopicID, ok bool) {
	for i := range hs {
		if hs[i].Key == topicIDHeader && len(hs[i].Value) == len(id) {
			return kafkaproto.TopicID(hs[i].Value), true
		}
	}
	return id, false
}

// Loaded implements coord.Machine: everyone gets a whole session to be heard of again.
func (m *Machine) Loaded(now coord.Now) {
	m.now = now
	m.out = &coord.Effects[any]{}
	m.timers.set(&m.cleanup, now.Steady+m.cfg.RetentionCheckMs)
	for _, id := range m.sortedGroups() {
		g := m.groups[id]
		for _, mb := range g.members {
			m.armSession(mb)
		}
		if len(g.members) > m.cfg.MaxSize {
			m.prepareRebalance(g) // group.max.size was lowered: let members rejoin up to it
		}
	}
	if len(m.out.Entries) != 0 || len(m.out.Replies) != 0 {
		panic(fmt.Sprintf("loading wrote %d entries and %d replies",
			len(m.out.Entries), len(m.out.Replies)))
	}
	m.out = nil
}

func (m *Machine) sortedGroups() []string {
	ids := make([]string, 0, len(m.groups))
	for id := range m.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// getOrMake finds a group, or makes one that nothing is known of yet.
func (m *Machine) getOrMake(id string) *group {
	g := m.groups[id]
	if g == nil {
		g = newGroup(id)
		g.phase.fire = func(m *Machine) { m.phaseEnded(g) }
		m.groups[id] = g
	}
	return g
}

// forget drops a group of which nothing is left.
func (m *Machine) forget(g *group) {
	if g.idle() {
		m.timers.cancel(&g.phase)
		delete(m.groups, g.id)
	}
}

// writeGroup writes and applies what is to be known of a group; v nil ends it.
func (m *Machine) writeGroup(id string, v *groupValue) {
	r := coord.Record{Key: appendGroupKey(nil, id)}
	if v != nil {
		r.Value = appendGroupValue(make([]byte, 0, v.size()), v)
	}
	m.applyGroup(id, v)
	m.out.Write(r)
}

// writeOffset writes and applies a committed offset; v nil removes it.
func (m *Machine) writeOffset(k offsetKey, v *offsetValue, p *coord.Producer) {
	r := coord.Record{Key: appendOffsetKey(nil, k), Producer: p}
	if v != nil {
		r.Value = appendOffsetValue(make([]byte, 0, 32+len(v.Metadata)), v)
		if !v.TopicID.IsZero() {
			r.Headers = []batch.RecordHeader{{Key: topicIDHeader, Value: slices.Clone(v.TopicID[:])}}
		}
	}
	m.applyOffset(k, v, p)
	m.out.Write(r)
}

// applyGroup makes the group what the record says: of this generation, with these members, Stable
// or Empty. Members that are there already keep their sessions and what else they offer, so that
// live and replayed state differ in nothing that the record tells.
func (m *Machine) applyGroup(id string, v *groupValue) {
	if v == nil {
		if g := m.groups[id]; g != nil {
			m.endGroup(g)
		}
		return
	}
	g := m.getOrMake(id)
	g.recorded = true
	g.generation, g.protoType, g.proto, g.since = v.Generation, v.ProtocolType, v.Protocol, v.Since
	g.initial = false
	m.timersOff(g)
	place := make(map[string]int, len(v.Members))
	for i := range v.Members {
		place[v.Members[i].ID] = i
	}
	for _, mb := range slices.Clone(g.members) {
		if _, ok := place[mb.id]; !ok {
			m.timers.cancel(&mb.session)
			g.remove(mb)
		}
	}
	for i := range v.Members {
		m.applyMember(g, &v.Members[i])
	}
	slices.SortFunc(g.members, func(a, b *member) int { return place[a.id] - place[b.id] })
	g.leader = v.Leader
	g.state = Stable
	if len(g.members) == 0 {
		g.state, g.leader = Empty, ""
	}
	g.computeSubscribed()
}

// timersOff ends the wait of the phase, unless members are still expected to send SyncGroup.
func (m *Machine) timersOff(g *group) {
	if g.syncing == 0 {
		m.timers.cancel(&g.phase)
	}
}

func (m *Machine) applyMember(g *group, v *memberValue) {
	mb := g.byID[v.ID]
	if mb == nil {
		if old := g.static[v.Instance]; v.Instance != "" && old != nil {
			m.timers.cancel(&old.session) // two members of one instance: the later holds
			g.remove(old)
		}
		mb = newMember(v.ID, v.Instance)
		g.add(mb)
	}
	mb.clientID, mb.host = v.ClientID, v.Host
	mb.rebalanceTimeout, mb.sessionTimeout = v.RebalanceTimeout, v.SessionTimeout
	mb.assignment = v.Assignment
	if !mb.offers(g.proto) || string(mb.metadata(g.proto)) != string(v.Subscription) {
		mb.protocols = []protocol{{name: g.proto, metadata: v.Subscription}}
	}
}

func newMember(id, instance string) *member {
	mb := &member{id: id, instance: instance}
	mb.session.fire = func(m *Machine) { m.sessionEnded(mb) }
	return mb
}

// endGroup applies a tombstone. Offsets have tombstones of their own; a group that still has some
// goes on without members, as one that only keeps offsets (Kafka writes such a tombstone when a
// group changes its protocol).
func (m *Machine) endGroup(g *group) {
	for _, mb := range slices.Clone(g.members) {
		m.timers.cancel(&mb.session)
		g.remove(mb)
	}
	for _, j := range g.joiners {
		m.timers.cancel(&j.session)
	}
	clear(g.joiners)
	m.timers.cancel(&g.phase)
	g.recorded, g.state, g.initial = false, Empty, false
	g.generation, g.protoType, g.proto, g.leader, g.since = 0, "", "", "", -1
	g.computeSubscribed()
	m.forget(g)
}

// value is the record of the group as it is now.
func (g *group) value(now int64) *groupValue {
	v := &groupValue{
		ProtocolType: g.protoType, Generation: g.generation, Protocol: g.proto,
		Leader: g.leader, Since: now, Members: make([]memberValue, len(g.members)),
	}
	for i, mb := range g.members {
		v.Members[i] = memberValue{
			ID: mb.id, Instance: mb.instance, ClientID: mb.clientID, Host: mb.host,
			RebalanceTimeout: mb.rebalanceTimeout, SessionTimeout: mb.sessionTimeout,
			Subscription: mb.metadata(g.proto), Assignment: mb.assignment,
		}
	}
	return v
}

// codeOf is the number of a Kafka error, 0 for nil.
func codeOf(k *kerr.Error) int16 {
	if k == nil {
		return 0
	}
	return k.Code
}

// javaLen is the length of a string as Java counts it: UTF-16 units.
func javaLen(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
