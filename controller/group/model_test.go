package group

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/controller/coord"
)

// TestModel lets consumers join, assign, commit, leave and die, while the log commits late, loses
// its tail, fails, is compacted, and the coordinator crashes. It checks
//
//	C1  in one generation no partition has two owners;
//	C2  a commit that was answered is what every later fetch shows, or a later one;
//	C3  a replay gives what the live machine had;
//	C4  every request is answered once, and the machine's parts agree at any time.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":          func(*rapid.T) { m.check() },
			"step":      m.step,
			"step2":     m.step, // twice as likely
			"step3":     m.step,
			"commit":    m.commit,
			"fetch":     func(*rapid.T) { m.fetch() },
			"leave":     m.leave,
			"die":       m.die,
			"log":       func(*rapid.T) { m.w.log(m.shard).Commit() },
			"log2":      func(*rapid.T) { m.w.log(m.shard).Commit() },
			"fail":      func(*rapid.T) { m.w.log(m.shard).Fail(errDisk) },
			"lose":      func(*rapid.T) { m.w.log(m.shard).Lose(errDisk) },
			"advance":   m.advance,
			"crash":     m.crash,
			"compact":   func(*rapid.T) { m.compact() },
			"compare":   func(*rapid.T) { m.compare() },
			"delete":    func(*rapid.T) { m.deleteGroup() },
			"deleteOff": m.deleteOffsets,
		})
		m.end()
	})
}

const modelPartitions = 4

// consumer is one simulated member.
type consumer struct {
	name     string
	instance string
	id       string
	gen      int32
	state    string // idle, joining, joined, syncing, stable
	leader   bool
	members  []string
	epoch    int // answers to older lives are not looked at
}

type model struct {
	rt        *rapid.T
	w         *world
	shard     int32
	consumers []*consumer
	issued    int
	answers   []int

	life   int                       // of the group: grows with each deletion
	owners map[string]map[int]string // "life/generation" -> partition -> owner

	next  int64           // offset of the next commit: grows, so that it tells the order
	floor map[int32]int64 // least offset that a fetch must show
	reset map[int32]int   // grows when offsets were perhaps deleted
}

func newModel(rt *rapid.T) *model {
	w := newWorld()
	w.cfg.OffsetRetentionMs = 1 << 50
	w.cfg.InitialDelayMs = 1000
	w.auto = false
	w.addTopic("t", modelPartitions)
	w.crash(true)
	m := &model{
		rt: rt, w: w, shard: PartitionOf("g", testShards), owners: map[string]map[int]string{},
		floor: map[int32]int64{}, reset: map[int32]int{}, next: 1,
	}
	for i, instance := range []string{"", "", "i1", "i2"} {
		m.consumers = append(m.consumers, &consumer{name: fmt.Sprint("c", i), instance: instance,
			state: "idle"})
	}
	return m
}

// asked registers a request; the function it gives must be called with its answer.
func (m *model) asked() func() {
	n := m.issued
	m.issued++
	m.answers = append(m.answers, 0)
	return func() {
		m.answers[n]++
		if m.answers[n] > 1 {
			m.rt.Fatalf("request %d is answered %d times", n, m.answers[n])
		}
	}
}

func (m *model) machine(fn func(*Machine)) {
	m.w.svc.rt.Inspect(m.shard, func(x coord.Machine[input, any]) { fn(x.(*Machine)) }, func(bool) {})
}

func (m *model) check() {
	m.machine(func(x *Machine) {
		if err := x.check(); err != nil {
			m.rt.Fatal(err)
		}
	})
}

func (m *model) pick(rt *rapid.T) *consumer {
	return rapid.SampledFrom(m.consumers).Draw(rt, "consumer")
}

// step lets a consumer do what comes next for it.
func (m *model) step(rt *rapid.T) {
	c := m.pick(rt)
	switch c.state {
	case "idle":
		m.join(rt, c)
	case "joined":
		m.sync(rt, c)
	case "stable":
		m.heartbeat(c)
	}
}

func (m *model) join(rt *rapid.T, c *consumer) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(rapid.SampledFrom([]int{3, 9}).Draw(rt, "version"))
	req.Group, req.MemberID, req.ProtocolType = "g", c.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 20_000
	if c.instance != "" {
		req.Version = 9
		req.InstanceID = &c.instance
	}
	for _, name := range rapid.SampledFrom([][]string{{"range"}, {"range", "rr"}, {"rr",
		"range"}}).Draw(rt, "offers") {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, subscribe("t")
		req.Protocols = append(req.Protocols, p)
	}
	c.state = "joining"
	c.epoch++
	epoch, answered := c.epoch, m.asked()
	m.w.svc.Join(Client{ID: c.name, Host: "/h"}, req, func(r *kmsg.JoinGroupResponse) {
		answered()
		if c.epoch != epoch {
			return
		}
		c.state = "idle"
		switch code(r.ErrorCode) {
		case "ok":
			c.state = "joined"
			c.id, c.gen, c.leader, c.members = r.MemberID, r.Generation, r.LeaderID == r.MemberID, nil
			if r.SkipAssignment {
				c.leader = false
			}
			for _, other := range r.Members {
				c.members = append(c.members, other.MemberID)
			}
		case "MEMBER_ID_REQUIRED":
			c.id = r.MemberID
		case "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID":
			c.id = ""
		case "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE",
			"INCONSISTENT_GROUP_PROTOCOL", "REBALANCE_IN_PROGRESS":
		default:
			m.rt.Fatalf("join: %s", code(r.ErrorCode))
		}
	})
}

func (m *model) sync(rt *rapid.T, c *consumer) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, "g", c.id, c.gen
	if c.instance != "" {
		req.InstanceID = &c.instance
	}
	if c.leader {
		shift := rapid.IntRange(0, 3).Draw(rt, "shift")
		for i, id := range c.members {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID = id
			var ps []string
			for p := range modelPartitions {
				if (p+shift)%len(c.members) == i {
					ps = append(ps, strconv.Itoa(p))
				}
			}
			a.MemberAssignment = []byte(strings.Join(ps, ","))
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
	}
	c.state = "syncing"
	c.epoch++
	epoch, answered, gen, life := c.epoch, m.asked(), c.gen, m.life
	owner := c.id
	if c.instance != "" {
		owner = c.instance
	}
	m.w.svc.Sync(req, func(r *kmsg.SyncGroupResponse) {
		answered()
		if r.ErrorCode == 0 && life == m.life {
			m.own(owner, gen, string(r.MemberAssignment))
		}
		if c.epoch != epoch {
			return
		}
		switch code(r.ErrorCode) {
		case "ok":
			c.state = "stable"
		case "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID":
			c.state, c.id = "idle", ""
		default:
			c.state = "idle"
		}
	})
}

// own notes what a member was given (C1).
func (m *model) own(owner string, gen int32, assignment string) {
	key := fmt.Sprint(m.life, "/", gen)
	if m.owners[key] == nil {
		m.owners[key] = map[int]string{}
	}
	for _, s := range strings.Split(assignment, ",") {
		p, err := strconv.Atoi(s)
		if err != nil {
			continue
		}
		if old := m.owners[key][p]; old != "" && old != owner {
			m.rt.Fatalf("generation %s: partition %d is given to %s and to %s", key, p, old, owner)
		}
		m.owners[key][p] = owner
	}
}

func (m *model) heartbeat(c *consumer) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = "g", c.id, c.gen
	if c.instance != "" {
		req.InstanceID = &c.instance
	}
	epoch, answered := c.epoch, m.asked()
	m.w.svc.Heartbeat(req, func(r *kmsg.HeartbeatResponse) {
		answered()
		if c.epoch != epoch {
			return
		}
		switch code(r.ErrorCode) {
		case "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION":
			c.state = "idle"
		case "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID":
			c.state, c.id = "idle", ""
		}
	})
}

// commit commits as a member, or as a tool. Offsets grow, and tell in which order they were given.
func (m *model) commit(rt *rapid.T) {
	c := m.pick(rt)
	p := rapid.Int32Range(0, modelPartitions-1).Draw(rt, "partition")
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = 9, "g"
	if c.state == "stable" {
		req.MemberID, req.Generation = c.id, c.gen
		if c.instance != "" {
			req.InstanceID = &c.instance
		}
	}
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset = p, m.next
	m.next++
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	reset, answered := m.reset[p], m.asked()
	m.w.svc.OffsetCommit(req, func(r *kmsg.OffsetCommitResponse) {
		answered()
		if r.Topics[0].Partitions[0].ErrorCode == 0 && m.reset[p] == reset {
			m.floor[p] = max(m.floor[p], rp.Offset)
		}
	})
}

func (m *model) fetch() {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, "g"
	floor, reset, answered := maps.Clone(m.floor), maps.Clone(m.reset), m.asked()
	m.w.svc.OffsetFetch(req, func(r *kmsg.OffsetFetchResponse) {
		answered()
		if r.ErrorCode != 0 {
			return
		}
		got := map[int32]int64{}
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				got[p.Partition] = p.Offset
			}
		}
		for p := range int32(modelPartitions) {
			if got[p] < floor[p] && m.reset[p] == reset[p] {
				m.rt.Fatalf("partition %d: fetched %d after %d was answered", p, got[p], floor[p])
			}
			if got[p] >= m.next {
				m.rt.Fatalf("partition %d: fetched %d, which nobody committed", p, got[p])
			}
			if m.reset[p] == reset[p] {
				m.floor[p] = max(m.floor[p], got[p])
			}
		}
	})
}

func (m *model) leave(rt *rapid.T) {
	c := m.pick(rt)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, "g"
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID = c.id
	if c.instance != "" {
		lm.MemberID, lm.InstanceID = "", &c.instance
	}
	req.Members = append(req.Members, lm)
	c.epoch++
	c.state, c.id = "idle", ""
	answered := m.asked()
	m.w.svc.Leave(req, func(*kmsg.LeaveGroupResponse) { answered() })
}

// die lets a consumer forget everything; a static one comes again under its instance.
func (m *model) die(rt *rapid.T) {
	c := m.pick(rt)
	c.epoch++
	c.state, c.id = "idle", ""
}

func (m *model) advance(rt *rapid.T) {
	m.w.clock.Advance(time.Duration(rapid.IntRange(1, 15_000).Draw(rt, "ms")) * time.Millisecond)
}

func (m *model) crash(rt *rapid.T) { m.w.crash(rapid.Bool().Draw(rt, "keep what is written")) }

// compact restarts on a compacted log.
func (m *model) compact() {
	l := m.w.log(m.shard)
	l.Commit()
	c, err := l.Compacted()
	if err != nil {
		m.rt.Fatal(err)
	}
	m.w.logs[m.shard] = c
	m.w.crash(true)
}

// deleteGroup may succeed when nobody is in; what becomes of the offsets is open until then.
func (m *model) deleteGroup() {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{"g"}
	before, answered := maps.Clone(m.floor), m.asked()
	m.forgetOffsets()
	resets := maps.Clone(m.reset)
	m.w.svc.Delete(req, func(r *kmsg.DeleteGroupsResponse) {
		answered()
		if code(r.Groups[0].ErrorCode) != "NON_EMPTY_GROUP" {
			m.life++ // generations may begin anew
			return
		}
		for p, f := range before { // nothing was deleted
			if m.reset[p] == resets[p] {
				m.floor[p] = max(m.floor[p], f)
			}
		}
	})
}

func (m *model) forgetOffsets() {
	for p := range int32(modelPartitions) {
		m.reset[p]++
		m.floor[p] = 0
	}
}

func (m *model) deleteOffsets(rt *rapid.T) {
	p := rapid.Int32Range(0, modelPartitions-1).Draw(rt, "partition")
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = "g"
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = "t"
	rp := kmsg.NewOffsetDeleteRequestTopicPartition()
	rp.Partition = p
	t.Partitions = append(t.Partitions, rp)
	req.Topics = append(req.Topics, t)
	m.reset[p]++
	m.floor[p] = 0
	answered := m.asked()
	m.w.svc.OffsetDelete(req, func(*kmsg.OffsetDeleteResponse) { answered() })
}

// end lets everything come to rest, and counts the answers.
func (m *model) end() {
	for range 20 {
		m.w.log(m.shard).Fail() // those pending are used up by now or never
		m.w.log(m.shard).Commit()
		m.w.clock.Advance(5 * time.Second)
	}
	m.fetch()
	m.compare()
	m.w.svc.Close()
	for n, times := range m.answers {
		if times != 1 {
			m.rt.Fatalf("request %d is answered %d times", n, times)
		}
	}
}

// compare replays the log, as it is and as the cleaner leaves it, and looks for differences to the
// live machine (C3).
func (m *model) compare() {
	m.w.log(m.shard).Commit()
	m.machine(func(live *Machine) {
		// Live once more, from the log as it is and as the cleaner leaves it.
		compacted, err := m.w.log(m.shard).Compacted()
		if err != nil {
			m.rt.Fatal(err)
		}
		for name, l := range map[string]coord.Log{"log": m.w.log(m.shard), "compacted log": compacted} {
			rt := coord.New(coord.Options[input, any]{
				Clock: m.w.clock, Logger: m.w.svc.log, Name: "replay",
				NewMachine: func(int32) coord.Machine[input, any] { return NewMachine(m.w.cfg) },
				Open:       func(int32) (coord.Log, error) { return l, nil },
			})
			rt.Load(0)
			rt.Inspect(0, func(x coord.Machine[input, any]) {
				again := x.(*Machine)
				if err := again.check(); err != nil {
					m.rt.Fatal(err)
				}
				if d := again.settled().diff(live.settled(), live.groups); d != "" {
					m.rt.Fatalf("%s: %s", name, d)
				}
			}, func(ok bool) {
				if !ok {
					m.rt.Fatalf("%s: not replayed", name)
				}
			})
			rt.Close()
		}
	})
}
