package group

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
)

// State is where a group is in its life.
type State int8

// The states of a classic group. A group that is gone is not kept: clients are told "Dead".
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
)

// String gives Kafka's name of the state.
func (s State) String() string {
	switch s {
	case Empty:
		return "Empty"
	case PreparingRebalance:
		return "PreparingRebalance"
	case CompletingRebalance:
		return "CompletingRebalance"
	case Stable:
		return "Stable"
	default:
		return fmt.Sprintf("State(%d)", int8(s))
	}
}

// consumerProtocol is the protocol type whose metadata the coordinator looks into, for the topics
// that a group is subscribed to. Of all others (connect, sr, …) it knows nothing.
const consumerProtocol = "consumer"

// protocol is one protocol that a member offers, with its opaque metadata.
type protocol struct {
	name     string
	metadata []byte
}

// member is one member of a group.
type member struct {
	group            *group
	id, instance     string // instance "" for a dynamic member
	clientID, host   string
	rebalanceTimeout int32 // milliseconds
	sessionTimeout   int32 // milliseconds
	protocols        []protocol
	assignment       []byte

	session timer
	join    coord.Ticket // parked JoinGroup, 0 for none
	version int16        // of that request
	sync    coord.Ticket // parked SyncGroup, 0 for none
	isNew   bool         // has not got its first answer: its session is the join's own timeout
	pending bool         // has not sent SyncGroup in this generation
}

// metadata gives what the member sent for a protocol.
func (m *member) metadata(name string) []byte {
	for i := range m.protocols {
		if m.protocols[i].name == name {
			return m.protocols[i].metadata
		}
	}
	return nil
}

// matches reports whether the member offers exactly these protocols.
func (m *member) matches(ps []protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// joiner is a member id that was given out and has not joined yet (KIP-394).
type joiner struct {
	group   *group
	id      string
	seq     uint64
	session timer
}

// group is one group. What apply sets is what the log says; the rest is the talk in between, and
// is lost when the shard moves.
type group struct {
	id         string
	recorded   bool // the log holds a value for it
	state      State
	initial    bool // PreparingRebalance began in Empty: wait for the initial delay
	generation int32
	protoType  string // "" until the first member
	proto      string // chosen protocol, "" for none
	leader     string // member id, "" for none
	since      int64  // wall milliseconds of the state's begin, -1 when not known

	members  []*member // in the order in which they joined
	byID     map[string]*member
	static   map[string]*member // by instance id
	joiners  map[string]*joiner
	awaiting int   // members with a parked JoinGroup
	syncing  int   // members pending in this generation
	phase    timer // end of the join or of the sync phase
	joined   bool  // a member joined since the initial delay was set
	left     int32 // milliseconds by which the initial delay may still be extended
	delay    int32 // milliseconds of the present initial delay

	subscribed      map[string]struct{}
	subscribedKnown bool

	offsets map[string]map[int32]*offset
	txns    map[kafkaproto.ProducerID]map[offsetKey]*offset // pending commits of open transactions
}

func newGroup(id string) *group {
	return &group{
		id: id, since: -1,
		byID: make(map[string]*member), static: make(map[string]*member),
		joiners: make(map[string]*joiner),
	}
}

// add puts a member in. The caller has checked that its protocols go with the group's.
func (g *group) add(m *member) {
	if g.byID[m.id] != nil {
		panic(fmt.Sprintf("group %q: member %q is added twice", g.id, m.id))
	}
	m.group = g
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != "" {
		if old := g.static[m.instance]; old != nil {
			panic(fmt.Sprintf("group %q: instance %q is %q and would be %q too",
				g.id, m.instance, old.id, m.id))
		}
		g.static[m.instance] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
}

// remove takes a member out, which has no parked request any more; the oldest member leads when
// the leader goes.
func (g *group) remove(m *member) {
	if m.join != 0 || m.sync != 0 {
		panic(fmt.Sprintf("group %q: member %q is removed with parked requests %d, %d",
			g.id, m.id, m.join, m.sync))
	}
	i := slices.Index(g.members, m)
	g.members = slices.Delete(g.members, i, i+1)
	delete(g.byID, m.id)
	if m.instance != "" && g.static[m.instance] == m {
		delete(g.static, m.instance)
	}
	if m.pending {
		m.pending = false
		g.syncing--
	}
	if g.leader == m.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

// rename gives a static member its new id.
func (g *group) rename(m *member, id string) {
	delete(g.byID, m.id)
	g.byID[id] = m
	if g.leader == m.id {
		g.leader = id
	}
	m.id = id
}

// allJoined reports whether every member, and everyone told to come again, has joined.
func (g *group) allJoined() bool {
	return g.awaiting == len(g.members) && len(g.joiners) == 0
}

// rebalanceTimeout is the largest one of the members, in milliseconds.
func (g *group) rebalanceTimeout() int32 {
	var longest int32
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

// supports reports whether a joiner with these protocols can be in one group with the members:
// all must have one protocol in common.
func (g *group) supports(protoType string, ps []protocol) bool {
	if g.state == Empty {
		return protoType != "" && len(ps) > 0
	}
	if g.protoType != protoType {
		return false
	}
	return slices.ContainsFunc(ps, func(p protocol) bool { return g.common(p.name) })
}

// common reports whether every member offers the protocol.
func (g *group) common(name string) bool {
	for _, m := range g.members {
		if !m.offers(name) {
			return false
		}
	}
	return true
}

func (m *member) offers(name string) bool {
	return slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.name == name })
}

// vote chooses the protocol: each member votes for the first of its list that all members offer,
// and of equal numbers of votes those win that began first.
func (g *group) vote() string {
	if len(g.members) == 0 {
		panic(fmt.Sprintf("group %q: a vote without members", g.id))
	}
	candidate := make(map[string]bool)
	for _, p := range g.members[0].protocols { // what all offer, the first offers
		candidate[p.name] = g.common(p.name)
	}
	votes := make(map[string]int)
	var order []string
	for _, m := range g.members {
		i := slices.IndexFunc(m.protocols, func(p protocol) bool { return candidate[p.name] })
		if i < 0 {
			continue
		}
		name := m.protocols[i].name
		if votes[name] == 0 {
			order = append(order, name)
		}
		votes[name]++
	}
	best := ""
	for _, name := range order {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// computeSubscribed reads the members' subscriptions. When they cannot be read the group's topics
// are not known, and a consumer group counts as subscribed to every topic.
func (g *group) computeSubscribed() {
	g.subscribed, g.subscribedKnown = nil, false
	if g.protoType != consumerProtocol {
		return
	}
	topics := make(map[string]struct{})
	for _, m := range g.members {
		if g.proto == "" {
			return
		}
		names, err := subscriptionTopics(m.metadata(g.proto))
		if err != nil {
			return
		}
		for _, t := range names {
			topics[t] = struct{}{}
		}
	}
	g.subscribed, g.subscribedKnown = topics, true
}

// isSubscribed reports whether offsets of the topic are in use by a member.
func (g *group) isSubscribed(topic string) bool {
	if !g.subscribedKnown {
		return g.protoType == consumerProtocol
	}
	_, ok := g.subscribed[topic]
	return ok
}

// idle reports whether nothing is left of the group.
func (g *group) idle() bool {
	return !g.recorded && len(g.members) == 0 && len(g.joiners) == 0 &&
		len(g.offsets) == 0 && len(g.txns) == 0
}

// subscriptionTopics reads the topics of a consumer's subscription: version int16, then an array
// of strings. Every later version begins the same (KIP-429, KIP-848).
func subscriptionTopics(b []byte) ([]string, error) {
	r := reader{b: b}
	r.int16()
	n := r.array(2)
	var topics []string
	for ; n > 0 && r.err == nil; n-- {
		topics = append(topics, r.string())
	}
	return topics, r.err
}
