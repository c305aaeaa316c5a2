package meta

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// raftGroup is the raft group of a partition told in the plainest way.
type raftGroup struct {
	voters, learners []uint64
	seen             Partition              // what its leader knows of the metadata
	reports          []CompleteReassignment // under way; they may come late, twice or never
}

// cluster is metadata with the raft groups of its partitions.
type cluster struct {
	*machine
	groups map[kafkaproto.PartitionID]*raftGroup
	used   map[string]kafkaproto.NodeID // replica ids that ever were, and where
	owner  map[kafkaproto.NodeID]string // of a broker's number
}

// TestClusterModel: brokers come and go, administrators change assignments, leaders carry them out
// and report late. No member of a raft group is ever gone from the metadata, no replica id is used
// twice, no number changes hands under a replica; and left alone, all is carried out.
func TestClusterModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &cluster{
			machine: newMachine(t, nil, 1, 2, 3, 4), groups: map[kafkaproto.PartitionID]*raftGroup{},
			used: map[string]kafkaproto.NodeID{}, owner: map[kafkaproto.NodeID]string{},
		}
		c.do(t, CreateTopics{Topics: []NewTopic{{Name: "a", Partitions: 2, Replication: 2}, {Name: "b", Partitions: 1, Replication: 3}}})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0, 1:
				c.broker(t)
			case 2, 3:
				c.administrator(t)
			default:
				c.leader(t)
			}
			c.check(t)
		}
		c.settle(t)
		checkReplay(t, c.machine)
	})
}

func (c *cluster) broker(t *rapid.T) {
	id := kafkaproto.NodeID(rapid.IntRange(1, 5).Draw(t, "broker"))
	dir := fmt.Sprint("dir", rapid.IntRange(1, 6).Draw(t, "directory"))
	var cmd Command
	switch rapid.IntRange(0, 2).Draw(t, "broker command") {
	case 0:
		cmd = UnregisterBroker{ID: id, IfEmpty: rapid.Bool().Draw(t, "if empty")}
	case 1:
		cmd = RegisterBroker{ID: rapid.SampledFrom(ids{id, -1}).Draw(t, "asked"), Directory: dir}
	default:
		cmd = ChangeBroker{ID: id, Change: BrokerChange(rapid.IntRange(1, 5).Draw(t, "change"))}
	}
	if records, _, err := c.image.Execute(cmd, c.env); err == nil && len(records) > 0 {
		c.do(t, cmd)
	}
}

func (c *cluster) administrator(t *rapid.T) {
	topic := c.image.Topic(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "topic"))
	r := ReassignPartition{Topic: topic.Name, Partition: int32(rapid.IntRange(0, len(topic.Partitions)-1).Draw(t, "partition"))}
	if rapid.IntRange(0, 3).Draw(t, "cancel") > 0 {
		r.Replicas = rapid.SliceOfNDistinct(rapid.SampledFrom(ids{1, 2, 3, 4, 5}), 1, 4, rapid.ID).Draw(t, "replicas")
	}
	p := topic.Partitions[r.Partition]
	before := p.reverted()
	row := c.do(t, AlterPartitionReassignments{Partitions: []ReassignPartition{r}}).(PartitionsReassigned).Partitions[0]
	after := c.image.Topic(topic.Name).Partitions[r.Partition]
	switch {
	case row.Err != nil:
	case r.Replicas == nil && (!slices.Equal(after.Target(), before) || after.Reassigning()):
		t.Fatalf("%+v taken back is %+v", p, after)
	case r.Replicas != nil && !slices.Equal(after.Target(), r.Replicas):
		t.Fatalf("%v asked, %+v", r.Replicas, after)
	}
}

// leader lets the leader of a partition do one thing of its work.
func (c *cluster) leader(t *rapid.T) {
	all := c.partitions()
	pid := rapid.SampledFrom(all).Draw(t, "leader of")
	g := c.groups[pid]
	switch rapid.IntRange(0, 4).Draw(t, "leader does") {
	case 0:
		g.seen = c.partition(pid)
	case 1, 2:
		g.step()
	case 3:
		g.report(pid)
	case 4:
		if len(g.reports) > 0 {
			c.deliver(t, g, rapid.IntRange(0, len(g.reports)-1).Draw(t, "report"))
		}
	}
}

// partitions lists all partitions and sees that each has its group.
func (c *cluster) partitions() (all []kafkaproto.PartitionID) {
	for topic := range c.image.Topics() {
		for n, p := range topic.Partitions {
			pid := kafkaproto.PartitionID{Topic: topic.ID, Partition: int32(n)}
			all = append(all, pid)
			if c.groups[pid] == nil {
				g := &raftGroup{seen: p}
				for _, r := range p.Replicas {
					g.voters = append(g.voters, r.ID)
				}
				c.groups[pid] = g
			}
		}
	}
	return all
}

func (c *cluster) partition(pid kafkaproto.PartitionID) Partition {
	return c.image.TopicByID(pid.Topic).Partitions[pid.Partition]
}

// step adds what is missing as learners, then makes the change in one.
func (g *raftGroup) step() {
	var want, missing []uint64
	for _, r := range g.seen.Replicas {
		if !r.State.Wanted() {
			continue
		}
		want = append(want, r.ID)
		if !slices.Contains(g.voters, r.ID) && !slices.Contains(g.learners, r.ID) {
			missing = append(missing, r.ID)
		}
	}
	if len(missing) > 0 {
		g.learners = append(g.learners, missing...)
		return
	}
	g.voters, g.learners = want, nil
}

func (g *raftGroup) report(pid kafkaproto.PartitionID) {
	g.reports = append(g.reports, CompleteReassignment{
		Partition: pid, Version: g.seen.Version, Leader: g.voters[0],
		Voters: slices.Clone(g.voters), Learners: slices.Clone(g.learners),
	})
}

// deliver brings a report to the controller; a leader that hears that it is late looks again.
func (c *cluster) deliver(t *rapid.T, g *raftGroup, at int) {
	r := g.reports[at]
	_, _, err := c.image.Execute(r, c.env)
	if late := r.Version != c.partition(r.Partition).Version; late != (err != nil) {
		t.Fatalf("late %v: %v", late, err)
	} else if !late {
		c.do(t, r)
	}
}

func (c *cluster) check(t *rapid.T) {
	for _, pid := range c.partitions() {
		p, g := c.partition(pid), c.groups[pid]
		for _, r := range p.Replicas {
			key := fmt.Sprint(pid, " ", r.ID)
			if at, ok := c.used[key]; ok && at != r.Node {
				t.Fatalf("replica %s was on %d, is on %d", key, at, r.Node)
			}
			c.used[key] = r.Node
			c.checkOwner(t, r.Node)
		}
		// The group works on what its leader saw; of that, no member may be gone.
		if g.seen.Version != p.Version {
			continue
		}
		for _, id := range slices.Concat(g.voters, g.learners) {
			if !slices.ContainsFunc(p.Replicas, func(r Replica) bool { return r.ID == id }) {
				t.Fatalf("member %d of %v is gone: %+v", id, pid, p)
			}
		}
	}
	c.checkUse(t)
}

// checkOwner: while a replica stands on a number, it belongs to one directory.
func (c *cluster) checkOwner(t *rapid.T, id kafkaproto.NodeID) {
	n := c.image.Node(id)
	if n == nil {
		return
	}
	if old, ok := c.owner[id]; ok && old != n.Directory {
		t.Fatalf("broker %d was %s, is %s", id, old, n.Directory)
	}
	c.owner[id] = n.Directory
}

// checkUse compares the counts that are kept with what they count, and forgets owners of numbers
// that no replica stands on.
func (c *cluster) checkUse(t *rapid.T) {
	want, stands := map[kafkaproto.NodeID]use{}, map[kafkaproto.NodeID]bool{}
	for topic := range c.image.Topics() {
		for _, p := range topic.Partitions {
			for _, n := range p.Target() {
				u := want[n]
				u.replicas++
				want[n] = u
			}
			u := want[p.Leader()]
			u.leaders++
			want[p.Leader()] = u
			for _, r := range p.Replicas {
				stands[r.Node] = true
			}
		}
	}
	if !maps.Equal(want, c.image.used) {
		t.Fatalf("use %v, want %v", c.image.used, want)
	}
	maps.DeleteFunc(c.owner, func(id kafkaproto.NodeID, _ string) bool { return !stands[id] })
}

// settle lets the leaders finish: then the group is what is wanted, and the metadata says so.
func (c *cluster) settle(t *rapid.T) {
	for _, pid := range c.partitions() {
		g := c.groups[pid]
		for range 4 {
			g.seen, g.reports = c.partition(pid), nil
			g.step()
			g.report(pid)
			c.deliver(t, g, 0)
		}
		p := c.partition(pid)
		var want []uint64
		for _, r := range p.Replicas {
			want = append(want, r.ID)
		}
		if !p.Settled() || !slices.Equal(want, g.voters) || len(g.learners) > 0 {
			t.Fatalf("%+v, voters %v, learners %v", p, g.voters, g.learners)
		}
	}
}
