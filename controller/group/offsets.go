package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
)

// offset is a committed offset in memory.
type offset struct {
	offsetValue
	seq uint64 // order of application, which is that of the log
}

// put keeps an offset.
func (g *group) put(topic string, partition int32, o *offset) {
	if g.offsets == nil {
		g.offsets = make(map[string]map[int32]*offset)
	}
	t := g.offsets[topic]
	if t == nil {
		t = make(map[int32]*offset)
		g.offsets[topic] = t
	}
	t[partition] = o
}

func (g *group) drop(topic string, partition int32) {
	t := g.offsets[topic]
	delete(t, partition)
	if len(t) == 0 {
		delete(g.offsets, topic)
	}
}

// hasPending reports whether an open transaction has committed an offset for the partition.
func (g *group) hasPending(k offsetKey) bool {
	for _, pending := range g.txns {
		if pending[k] != nil {
			return true
		}
	}
	return false
}

// applyOffset applies an offset record; v nil is a tombstone, p the transaction it belongs to.
func (m *Machine) applyOffset(k offsetKey, v *offsetValue, p *coord.Producer) {
	if v == nil {
		g := m.groups[k.Group]
		if g == nil {
			return
		}
		g.drop(k.Topic, k.Partition)
		for id, pending := range g.txns {
			delete(pending, k)
			if len(pending) == 0 {
				m.closeTxn(g, id)
			}
		}
		m.forget(g)
		return
	}
	m.seq++
	o := &offset{offsetValue: *v, seq: m.seq}
	g := m.getOrMake(k.Group)
	if p == nil {
		g.put(k.Topic, k.Partition, o)
		return
	}
	if g.txns == nil {
		g.txns = make(map[kafkaproto.ProducerID]map[offsetKey]*offset)
	}
	if g.txns[p.ID] == nil {
		g.txns[p.ID] = make(map[offsetKey]*offset)
		if m.byTxn[p.ID] == nil {
			m.byTxn[p.ID] = make(map[string]*group)
		}
		m.byTxn[p.ID][g.id] = g
	}
	g.txns[p.ID][k] = o
}

func (m *Machine) closeTxn(g *group, id kafkaproto.ProducerID) {
	delete(g.txns, id)
	delete(m.byTxn[id], g.id)
	if len(m.byTxn[id]) == 0 {
		delete(m.byTxn, id)
	}
}

// ApplyMarker implements coord.Machine: the pending offsets of a transaction count, or never did.
// An offset that was committed without a transaction after a pending one was written stays.
func (m *Machine) ApplyMarker(mk coord.Marker) {
	for _, g := range m.byTxn[mk.Producer.ID] {
		pending := g.txns[mk.Producer.ID]
		m.closeTxn(g, mk.Producer.ID)
		for k, o := range pending {
			old := g.offsets[k.Topic][k.Partition]
			if mk.Commit && (old == nil || old.seq < o.seq) {
				g.put(k.Topic, k.Partition, o)
			}
		}
		m.forget(g)
	}
}

// commitPartition is one offset to commit.
type commitPartition struct {
	topic     string
	topicID   kafkaproto.TopicID
	partition int32
	offset    kafkaproto.Offset
	epoch     kafkaproto.LeaderEpoch
	metadata  string
}

// commitInput is an OffsetCommit or TxnOffsetCommit of partitions that exist. The answer is a
// []int16 with one code for each partition, or a *kerr.Error for the request.
type commitInput struct {
	version          int16
	group            string
	member, instance string
	generation       int32
	retention        int64 // milliseconds, -1 for the broker's
	producer         *coord.Producer
	partitions       []commitPartition
}

func (*commitInput) isInput() {}

// commitKnowsGroup is the version of OffsetCommit from which on an unknown group has an error of
// its own.
const commitKnowsGroup = 9

func (m *Machine) commit(to coord.Ticket, in *commitInput) {
	g := m.groups[in.group]
	if err := checkCommit(g, in); err != nil {
		m.out.Reply(to, err)
		return
	}
	if g != nil && in.producer == nil {
		if mb := g.byID[in.member]; mb != nil { // a commit is a sign of life
			m.armSession(mb)
		}
	}
	expires := int64(-1)
	if in.retention >= 0 {
		expires = m.now.Wall + in.retention
	}
	codes := make([]int16, len(in.partitions))
	for i := range in.partitions {
		p := &in.partitions[i]
		if javaLen(p.metadata) > m.cfg.MaxMetadataBytes || len(p.metadata) > maxString {
			codes[i] = kerr.OffsetMetadataTooLarge.Code
			continue
		}
		m.writeOffset(offsetKey{in.group, p.topic, p.partition}, &offsetValue{
			Offset: p.offset, Epoch: p.epoch, Metadata: p.metadata,
			Committed: m.now.Wall, Expires: expires, TopicID: p.topicID,
		}, in.producer)
	}
	m.out.Reply(to, codes)
}

// checkCommit decides whether the sender may commit (row 54). Without generation, member and
// instance it is a consumer that assigns itself, or a tool: good while the group has no members.
// A transaction from an old client says neither, and is good at any time.
func checkCommit(g *group, in *commitInput) *kerr.Error {
	txn := in.producer != nil
	if g == nil {
		switch {
		case in.generation < 0:
			return nil
		case in.version >= commitKnowsGroup && !txn:
			return kerr.GroupIDNotFound
		default:
			return kerr.IllegalGeneration
		}
	}
	if in.generation < 0 && g.state == Empty {
		return nil
	}
	if in.generation >= 0 || in.member != "" || in.instance != "" {
		if err := g.validate(in.member, in.instance); err != nil {
			return err
		}
		if in.generation != g.generation {
			return kerr.IllegalGeneration
		}
	} else if !txn && g.state != Empty {
		return kerr.UnknownMemberID
	}
	if !txn && g.state == CompletingRebalance {
		return kerr.RebalanceInProgress
	}
	return nil
}

// endTxnInput ends a producer's transaction on this partition. The answer is nil.
type endTxnInput struct{ marker coord.Marker }

func (*endTxnInput) isInput() {}

func (m *Machine) endTxn(to coord.Ticket, in *endTxnInput) {
	m.ApplyMarker(in.marker)
	m.out.WriteMarker(in.marker)
	m.out.Reply(to, nil)
}

// fetchTopic names partitions of a topic to fetch the offsets of.
type fetchTopic struct {
	topic      string
	topicID    kafkaproto.TopicID // zero when the topic is not there
	partitions []int32
}

// fetchInput is an OffsetFetch of one group. The answer is a []fetchedTopic.
type fetchInput struct {
	group  string
	topics []fetchTopic
	// all asks for everything the group has, in topics' stead; ids are looked up in it.
	all           Topics
	requireStable bool
}

func (*fetchInput) isInput() {}

// fetchedTopic is one topic of the answer; offsets are in the order asked for, or sorted.
type fetchedTopic struct {
	topic      string
	topicID    kafkaproto.TopicID
	partitions []fetchedOffset
}

type fetchedOffset struct {
	partition int32
	offset    kafkaproto.Offset
	epoch     kafkaproto.LeaderEpoch
	metadata  string
	code      int16
}

func (m *Machine) fetch(to coord.Ticket, in *fetchInput) {
	g := m.groups[in.group]
	topics := in.topics
	if in.all != nil {
		topics = g.allOffsets(in.all)
	}
	out := make([]fetchedTopic, len(topics))
	for i := range topics {
		t := &topics[i]
		out[i] = fetchedTopic{t.topic, t.topicID, make([]fetchedOffset, len(t.partitions))}
		for j, p := range t.partitions {
			out[i].partitions[j] = g.fetchOne(in, t, p)
		}
	}
	m.out.Reply(to, out)
}

// allOffsets names every partition with a committed offset, sorted.
func (g *group) allOffsets(topics Topics) []fetchTopic {
	if g == nil {
		return nil
	}
	out := make([]fetchTopic, 0, len(g.offsets))
	for name, ps := range g.offsets {
		t := fetchTopic{topic: name}
		t.topicID, _, _ = topics.Topic(name)
		for p, o := range ps {
			if o.of(t.topicID) {
				t.partitions = append(t.partitions, p)
			}
		}
		if len(t.partitions) > 0 {
			slices.Sort(t.partitions)
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b fetchTopic) int {
		if a.topic < b.topic {
			return -1
		}
		return 1
	})
	return out
}

// of reports whether the offset belongs to the topic with this id, and not to one of the same name
// that was deleted. Where an id is not known the name decides.
func (o *offset) of(id kafkaproto.TopicID) bool {
	return o.TopicID == id || o.TopicID.IsZero() || id.IsZero()
}

func (g *group) fetchOne(in *fetchInput, t *fetchTopic, p int32) fetchedOffset {
	none := fetchedOffset{partition: p, offset: -1, epoch: kafkaproto.NoEpoch}
	if g == nil {
		return none
	}
	if in.requireStable && g.hasPending(offsetKey{in.group, t.topic, p}) {
		none.code = kerr.UnstableOffsetCommit.Code
		return none
	}
	o := g.offsets[t.topic][p]
	if o == nil || !o.of(t.topicID) {
		return none
	}
	return fetchedOffset{partition: p, offset: o.Offset, epoch: o.Epoch, metadata: o.Metadata}
}

// deleteOffsetsInput is an OffsetDelete of partitions that exist. The answer is a []int16 with one
// code for each partition, or a *kerr.Error for the request.
type deleteOffsetsInput struct {
	group  string
	topics []fetchTopic
}

func (*deleteOffsetsInput) isInput() {}

func (m *Machine) deleteOffsets(to coord.Ticket, in *deleteOffsetsInput) {
	g := m.groups[in.group]
	switch {
	case g == nil:
		m.out.Reply(to, kerr.GroupIDNotFound)
		return
	case g.state != Empty && g.protoType != consumerProtocol:
		m.out.Reply(to, kerr.NonEmptyGroup) // what its members are at is not known
		return
	}
	var codes []int16
	for i := range in.topics {
		t := &in.topics[i]
		subscribed := g.isSubscribed(t.topic)
		for _, p := range t.partitions {
			if subscribed {
				codes = append(codes, kerr.GroupSubscribedToTopic.Code)
				continue
			}
			codes = append(codes, 0)
			k := offsetKey{in.group, t.topic, p}
			if g.offsets[t.topic][p] != nil || g.hasPending(k) {
				m.writeOffset(k, nil, nil)
			}
		}
	}
	m.out.Reply(to, codes)
}

// dropOffsetsInput removes offsets whose topic is gone, in all groups. The answer is the number of
// offsets, an int.
type dropOffsetsInput struct {
	topic string // only offsets of this topic; "" for all
	// gone reports whether the offsets of this topic name and id are to go.
	gone func(name string, id kafkaproto.TopicID) bool
}

func (*dropOffsetsInput) isInput() {}

func (m *Machine) dropOffsets(to coord.Ticket, in *dropOffsetsInput) {
	n := 0
	for _, id := range m.sortedGroups() {
		g := m.groups[id]
		for _, k := range g.keys(in.topic) {
			if in.gone(k.Topic, g.topicIDOf(k)) {
				m.writeOffset(k, nil, nil)
				n++
			}
		}
	}
	m.out.Reply(to, n)
}

// keys lists the partitions with a committed or pending offset, sorted; those of one topic, or of
// all for "".
func (g *group) keys(topic string) []offsetKey {
	set := make(map[offsetKey]bool)
	for t, ps := range g.offsets {
		if topic != "" && t != topic {
			continue
		}
		for p := range ps {
			set[offsetKey{g.id, t, p}] = true
		}
	}
	for _, pending := range g.txns {
		for k := range pending {
			if topic == "" || k.Topic == topic {
				set[k] = true
			}
		}
	}
	keys := make([]offsetKey, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b offsetKey) int {
		if a.Topic != b.Topic {
			if a.Topic < b.Topic {
				return -1
			}
			return 1
		}
		return int(a.Partition) - int(b.Partition)
	})
	return keys
}

// topicIDOf gives the topic id that the newest offset for k was committed with.
func (g *group) topicIDOf(k offsetKey) kafkaproto.TopicID {
	newest := g.offsets[k.Topic][k.Partition]
	for _, pending := range g.txns {
		if o := pending[k]; o != nil && (newest == nil || newest.seq < o.seq) {
			newest = o
		}
	}
	if newest == nil {
		return kafkaproto.TopicID{}
	}
	return newest.TopicID
}

// cleanUp writes tombstones for what has expired, and looks again after the check interval.
func (m *Machine) cleanUp() {
	m.timers.set(&m.cleanup, m.now.Steady+m.cfg.RetentionCheckMs)
	for _, id := range m.sortedGroups() {
		g := m.groups[id]
		if !m.expireOffsets(g) || g.state != Empty || len(g.joiners) > 0 {
			continue
		}
		if m.groups[id] == g {
			m.writeGroup(id, nil)
		}
	}
}

// expireOffsets writes tombstones for a group's expired offsets and reports whether it keeps none
// (row 56). Those of a group with members stay while their topic is subscribed; those of an Empty
// group expire together, counted from when it became Empty; a group that never had members counts
// from each commit.
func (m *Machine) expireOffsets(g *group) bool {
	kept := len(g.txns) > 0
	for _, k := range g.keys("") {
		o := g.offsets[k.Topic][k.Partition]
		if o == nil || g.hasPending(k) || !m.isExpired(g, k.Topic, o) {
			kept = true
			continue
		}
		m.writeOffset(k, nil, nil)
	}
	return !kept
}

func (m *Machine) isExpired(g *group, topic string, o *offset) bool {
	base := o.Committed
	switch {
	case g.protoType == "":
	case g.state == Empty:
		if g.since >= 0 {
			base = g.since
		}
	case g.state == Stable && g.subscribedKnown:
	default:
		return false
	}
	if g.isSubscribed(topic) {
		return false
	}
	if o.Expires >= 0 {
		return m.now.Steady >= o.Expires
	}
	return m.now.Steady-base >= m.cfg.OffsetRetentionMs
}
