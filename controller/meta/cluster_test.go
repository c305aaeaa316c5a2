package meta

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

type ids = []kafkaproto.NodeID

// fails runs a command that is refused as a whole, or "" is not.
func (m *machine) fails(t tb, c Command, want string) Result {
	t.Helper()
	if want == "" {
		return m.do(t, c)
	}
	_, _, err := m.image.Execute(c, m.env)
	checkErr(t, fmt.Sprintf("%+v", c), err, want)
	return nil
}

// TestRegisterBroker is ruling 23.
func TestRegisterBroker(t *testing.T) {
	m := newMachine(t, nil)
	register := func(id kafkaproto.NodeID, dir, want string) kafkaproto.NodeID {
		t.Helper()
		if res := m.fails(t, RegisterBroker{ID: id, Directory: dir}, want); res != nil {
			return res.(BrokerRegistered).ID
		}
		return -1
	}
	if got := register(-1, "a", ""); got != 1 {
		t.Errorf("the first broker is %d", got)
	}
	if got := register(7, "b", ""); got != 7 {
		t.Errorf("asked for 7, got %d", got)
	}
	if got := register(-1, "c", ""); got != 8 {
		t.Errorf("the next broker is %d", got)
	}
	if got := register(-1, "b", ""); got != 7 {
		t.Errorf("a known directory is %d", got)
	}
	register(7, "x", "DUPLICATE_BROKER_REGISTRATION: broker id 7 belongs to data directory b, not to x: give this broker another node.id")
	register(9, "b", "INVALID_REGISTRATION: data directory b is broker 7, not 9: set node.id to 7, or give this broker another directory")
	register(1, "", "INVALID_REGISTRATION")
	register(-2, "x", "INVALID_REQUEST")
	register(maxNode, "x", "INVALID_REQUEST")
	m.do(t, UnregisterBroker{ID: 8})
	if got := register(-1, "d", ""); got != 9 {
		t.Errorf("the number of a broker that is gone was given away: %d", got)
	}
	if got := register(-1, "c", ""); got != 8 || m.image.Node(8).Version != 1 || len(m.image.departed) != 0 {
		t.Errorf("a broker that was gone is %d, %+v", got, m.image.departed)
	}
	m.do(t, UnregisterBroker{ID: 8})
	if got := register(8, "e", ""); got != 8 {
		t.Errorf("asked for a free number, got %d", got)
	}
	checkReplay(t, m)
}

// TestRegisterOverReplicas: an empty directory never takes the place of a replica.
func TestRegisterOverReplicas(t *testing.T) {
	m := newMachine(t, nil, 1, 2)
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: 1, Replication: 2}}})
	m.fails(t, UnregisterBroker{ID: 2, IfEmpty: true}, "INELIGIBLE_REPLICA: broker 2 has replicas still: drain it first")
	m.fails(t, UnregisterBroker{ID: 2, IfVersion: 7}, "INVALID_UPDATE_VERSION")
	m.do(t, UnregisterBroker{ID: 2, IfVersion: 1})
	m.fails(t, UnregisterBroker{ID: 2}, "BROKER_ID_NOT_REGISTERED: Broker ID 2 is not currently registered")
	if r, l := m.image.ReplicasOn(2); r != 1 || m.image.Node(2) != nil {
		t.Errorf("%d replicas, %d leaders", r, l)
	}
	m.fails(t, RegisterBroker{ID: 2, Directory: "new"}, "DUPLICATE_BROKER_REGISTRATION: broker id 2 was another data directory's, and partitions have replicas on it: give this broker another node.id, or move them first")
	back := m.do(t, RegisterBroker{ID: 2, Directory: "dir2"}).(BrokerRegistered)
	if back.ID != 2 {
		t.Errorf("%+v", back)
	}
	m.do(t, UnregisterBroker{ID: 2})
	m.do(t, AlterPartitionReassignments{Partitions: []ReassignPartition{{Topic: "t", Replicas: ids{1}}}})
	m.fails(t, RegisterBroker{ID: 2, Directory: "new"}, "DUPLICATE_BROKER_REGISTRATION")
	topic := m.image.Topic("t")
	p := topic.Partitions[0]
	stay, _ := p.ReplicaOn(1)
	m.do(t, CompleteReassignment{
		Partition: kafkaproto.PartitionID{Topic: topic.ID}, Version: p.Version, Leader: stay.ID, Voters: []uint64{stay.ID},
	})
	m.fails(t, RegisterBroker{ID: 2, Directory: "new"}, "")
	checkReplay(t, m)
}

// TestBrokerEpochs: a start of the process has an epoch of its own, and commands can name it.
func TestBrokerEpochs(t *testing.T) {
	m := newMachine(t, nil)
	start := func(incarnation uint64, host string) BrokerRegistered {
		return m.do(t, RegisterBroker{
			ID: 3, Directory: "d", Incarnation: incarnation, Peer: host + ":9093",
			Endpoints: []Endpoint{{"PLAINTEXT", "PLAINTEXT", host, 9092}, {"TLS", "SSL", host, 9094}},
		}).(BrokerRegistered)
	}
	first := start(1, "a")
	version := m.image.Version()
	if again := start(1, "a"); again != first || m.image.Version() != version {
		t.Errorf("the same again: %+v, %+v", first, again)
	}
	if moved := start(1, "b"); moved != first || m.image.Node(3).Peer != "b:9093" {
		t.Errorf("a new address made a new epoch: %+v, %+v", first, moved)
	}
	change := func(c BrokerChange, epoch int64, want string) {
		t.Helper()
		m.fails(t, ChangeBroker{ID: 3, Change: c, Epoch: epoch}, want)
	}
	change(FenceBroker, first.Epoch, "")
	change(StopBroker, first.Epoch, "")
	change(DrainBroker, 0, "")
	if n := m.image.Node(3); !n.Fenced || !n.Draining || !n.Stopping || n.Active() || n.Version != 5 {
		t.Errorf("%+v", n)
	}
	second := start(2, "b")
	if second.Epoch <= first.Epoch {
		t.Errorf("epochs %d, %d", first.Epoch, second.Epoch)
	}
	if n := m.image.Node(3); n.Fenced || !n.Draining || n.Stopping || !n.Active() {
		t.Errorf("after a restart: %+v", n)
	}
	change(FenceBroker, first.Epoch, fmt.Sprintf("STALE_BROKER_EPOCH: Expected broker epoch %d, but got broker epoch %d", second.Epoch, first.Epoch))
	version = m.image.Version()
	change(UnfenceBroker, second.Epoch, "")
	if m.image.Version() != version {
		t.Error("unfencing what is not fenced made a record")
	}
	m.fails(t, ChangeBroker{ID: 3, Change: UndrainBroker, IfVersion: 5}, "INVALID_UPDATE_VERSION: broker 3 is at version 6, the change was made for 5")
	m.fails(t, ChangeBroker{ID: 3, Change: UndrainBroker, IfVersion: 6}, "")
	m.fails(t, ChangeBroker{ID: 4, Change: FenceBroker}, "BROKER_ID_NOT_REGISTERED")
	m.fails(t, ChangeBroker{ID: 3, Change: 99}, "INVALID_REQUEST")
	if e, ok := m.image.Node(3).Endpoint("TLS"); !ok || e.Port != 9094 {
		t.Errorf("%+v", e)
	}
	if _, ok := m.image.Node(3).Endpoint("X"); ok {
		t.Error("a listener that is not there")
	}
	checkReplay(t, m)
}

// TestUpdateFeatures holds what Kafka 4.4.0 answered on three nodes.
func TestUpdateFeatures(t *testing.T) {
	m := newMachine(t, nil, 1)
	type updates = []FeatureUpdate
	const tv, mv = "transaction.version", "metadata.version"
	update := func(want string, u ...FeatureUpdate) {
		t.Helper()
		for _, validateOnly := range []bool{true, false} {
			before := m.image.Version()
			if want != "" {
				m.fails(t, UpdateFeatures{Updates: u}, "INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: "+want)
			} else if m.do(t, UpdateFeatures{Updates: u, ValidateOnly: validateOnly}); validateOnly && m.image.Version() != before {
				t.Errorf("%+v changed something", u)
			}
		}
	}
	const inv = "Invalid update version "
	update("")
	update(inv+"1 for feature foo. Local controller 1 does not support this feature.", FeatureUpdate{"foo", 1, 1})
	update(inv+"1 for feature transaction.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.", FeatureUpdate{tv, 1, 1})
	update(inv+"1 for feature transaction.version. The controller does not support the given upgrade type.", FeatureUpdate{tv, 1, 0})
	update(inv+"1 for feature transaction.version. The controller does not support the given upgrade type.", FeatureUpdate{tv, 1, 9})
	update(inv+"3 for feature transaction.version. Local controller 1 only supports versions 0-2", FeatureUpdate{tv, 3, 1})
	update(inv+"-1 for feature transaction.version. A feature version cannot be less than 0.", FeatureUpdate{tv, -1, 2})
	update("", FeatureUpdate{tv, 2, 1})
	update("", FeatureUpdate{tv, 2, 2})
	update(inv+"1 for feature foo. Local controller 1 does not support this feature.", FeatureUpdate{tv, 1, 2}, FeatureUpdate{"foo", 1, 1})
	update("", FeatureUpdate{tv, 1, 2})
	update(inv+"2 for feature transaction.version. Can't downgrade to a newer version.", FeatureUpdate{tv, 2, 2})
	update("", FeatureUpdate{tv, 0, 3})
	if got := m.image.Features(); len(got) != 1 || m.image.Feature(tv) != 0 {
		t.Errorf("features %v", got)
	}
	// A restart does not undo it, from the log or from a snapshot.
	checkReplay(t, m)
	before := m.image.Version()
	m.do(t, InitCluster{ClusterID: m.image.ClusterID()})
	if m.image.Version() != before {
		t.Error("a start raised what was lowered")
	}
	epoch := m.image.FeaturesEpoch()
	m.fails(t, UpdateFeatures{Updates: updates{{tv, 2, 1}}, IfEpoch: epoch + 1}, "INVALID_UPDATE_VERSION")
	m.fails(t, UpdateFeatures{Updates: updates{{tv, 2, 1}}, IfEpoch: epoch}, "")
	if m.image.FeaturesEpoch() <= epoch {
		t.Error("the epoch stays")
	}
	const down = "Unsupported metadata.version downgrade from 33 to 7. "
	update(down+"Refusing to perform the requested downgrade because it might delete metadata information.", FeatureUpdate{mv, 7, 2})
	update(down+"Unsafe metadata downgrade is not supported in this version.", FeatureUpdate{mv, 7, 3})
	update(inv+"6 for feature metadata.version. Local controller 1 only supports versions 7-33", FeatureUpdate{mv, 6, 2})
	update("", FeatureUpdate{mv, 33, 1})

	// A broker of another release.
	m.do(t, UpdateFeatures{Updates: updates{{tv, 1, 2}}})
	other := func(max int16) RegisterBroker {
		return RegisterBroker{ID: 2, Directory: "two", Features: []FeatureRange{{mv, 7, 33}, {tv, 0, max}}}
	}
	m.do(t, other(1))
	update(inv+"2 for feature transaction.version. Broker 2 only supports versions 0-1", FeatureUpdate{tv, 2, 1})
	m.do(t, other(2))
	update("", FeatureUpdate{tv, 2, 1})
	m.fails(t, other(1), "UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized version 2 of transaction.version. The broker wants a version between 0 and 1, inclusive.")
	m.fails(t, RegisterBroker{ID: 2, Directory: "two", Features: []FeatureRange{{mv, 7, 33}}}, "UNSUPPORTED_VERSION")
}

// TestFencedBrokers holds what Kafka 4.4.0 answered with a broker of three stopped.
func TestFencedBrokers(t *testing.T) {
	m := newMachine(t, nil, 1, 2, 3)
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "h", Partitions: -1, Replication: -1, Assignment: assign(ids{1, 2}, ids{2, 3})}}})
	m.do(t, ChangeBroker{ID: 3, Change: FenceBroker})
	create := func(n NewTopic, want string) {
		t.Helper()
		row := m.do(t, CreateTopics{Topics: []NewTopic{n}}).(CreateTopicsResult).Topics[0]
		checkErr(t, n.Name, row.Err, want)
	}
	grow := func(g GrowTopic, want string) {
		t.Helper()
		row := m.do(t, CreatePartitions{Topics: []GrowTopic{g}}).(CreatePartitionsResult).Topics[0]
		checkErr(t, g.Name, row.Err, want)
	}
	create(NewTopic{Name: "d", Partitions: 2, Replication: 3}, "")
	for _, p := range m.image.Topic("d").Partitions {
		if p.Nodes()[2] != 3 {
			t.Errorf("replicas %v", p.Nodes())
		}
	}
	create(NewTopic{Name: "d2", Partitions: 9, Replication: 2}, "")
	if r, _ := m.image.ReplicasOn(3); r != 3 {
		t.Errorf("%d replicas on the fenced broker", r)
	}
	create(NewTopic{Name: "d3", Partitions: -1, Replication: -1, Assignment: assign(ids{3})}, "INVALID_REPLICA_ASSIGNMENT: All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown.")
	create(NewTopic{Name: "d31", Partitions: -1, Replication: -1, Assignment: assign(ids{3, 1})}, "")
	grow(GrowTopic{"h", 3, []ids{{3, 1}}}, "")
	create(NewTopic{Name: "o3", Partitions: -1, Replication: -1, Assignment: assign(ids{1})}, "")
	grow(GrowTopic{"o3", 2, []ids{{3}}}, "INVALID_REPLICA_ASSIGNMENT: All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled shutdown.")
	m.do(t, ChangeBroker{ID: 2, Change: FenceBroker})
	m.do(t, ChangeBroker{ID: 1, Change: StopBroker})
	create(NewTopic{Name: "x", Partitions: 1, Replication: 2}, "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 2 time(s): All brokers are currently fenced or in controlled shutdown.")
	create(NewTopic{Name: "x", Partitions: 1, Replication: 4}, "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only 3 broker(s) are registered.")
	m.do(t, ChangeBroker{ID: 1, Change: FenceBroker})
	create(NewTopic{Name: "x", Partitions: 1, Replication: 1}, "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 1 time(s): All brokers are currently fenced.")
	grow(GrowTopic{Name: "h", Count: 5}, "INVALID_REPLICATION_FACTOR")
	checkReplay(t, m)
}

// TestGrowInternalTopics is ruling 14: one replica or three.
func TestGrowInternalTopics(t *testing.T) {
	m := newMachine(t, nil, 1)
	m.do(t, CreateTopics{Internal: true, Topics: []NewTopic{
		{Name: ConsumerOffsets, Partitions: 6, Replication: 3}, {Name: TransactionState, Partitions: 4, Replication: 3},
	}})
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "mine", Partitions: 4, Replication: 1}}})
	grow := func(max, want int) {
		t.Helper()
		if got := m.do(t, GrowInternalTopics{Max: max}).(PartitionsReassigned); len(got.Partitions) != want {
			t.Errorf("%d partitions grow, want %d: %+v", len(got.Partitions), want, got)
		}
	}
	grow(0, 0)
	m.do(t, RegisterBroker{ID: 2, Directory: "two"})
	grow(0, 0)
	m.do(t, RegisterBroker{ID: 3, Directory: "three"})
	m.do(t, ChangeBroker{ID: 3, Change: DrainBroker})
	grow(0, 0)
	m.do(t, ChangeBroker{ID: 3, Change: UndrainBroker})
	m.do(t, RegisterBroker{ID: 4, Directory: "four"})
	grow(8, 8)
	grow(0, 2)
	grow(0, 0)
	for _, name := range []string{ConsumerOffsets, TransactionState} {
		for _, p := range m.image.Topic(name).Partitions {
			if len(p.Target()) != 3 || p.Leader() != 1 || len(p.Adding()) != 2 {
				t.Errorf("%+v", p)
			}
		}
	}
	for n := kafkaproto.NodeID(2); n <= 4; n++ {
		if r, _ := m.image.ReplicasOn(n); r < 6 || r > 7 {
			t.Errorf("%d replicas on %d", r, n)
		}
	}
	if len(m.image.Topic("mine").Partitions[0].Replicas) != 1 {
		t.Error("a user's topic grew")
	}
	checkReplay(t, m)

	m = newMachine(t, map[string]string{"offsets.topic.replication.factor": "1"}, 1, 2, 3)
	m.do(t, CreateTopics{Internal: true, Topics: []NewTopic{{Name: ConsumerOffsets, Partitions: 6, Replication: 1}}})
	grow(0, 0)
}

// TestReassign holds what Kafka 4.4.0 answered, and where we keep more in mind.
func TestReassign(t *testing.T) {
	m := newMachine(t, nil, 1, 2, 3)
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: -1, Replication: -1, Assignment: assign(ids{1, 2, 3}, ids{2, 3, 1})}}})
	one := func(r ReassignPartition, keep bool, want string) ReassignedPartition {
		t.Helper()
		r.Topic += "t"
		res := m.do(t, AlterPartitionReassignments{Partitions: []ReassignPartition{r}, KeepFactor: keep}).(PartitionsReassigned)
		if got := res.Partitions[0].Err; want == "NO_REASSIGNMENT_IN_PROGRESS" && got == kerr.NoReassignmentInProgress {
			return res.Partitions[0]
		}
		checkErr(t, fmt.Sprintf("%+v", r), res.Partitions[0].Err, want)
		return res.Partitions[0]
	}
	to := func(want string, nodes ...kafkaproto.NodeID) {
		t.Helper()
		if nodes == nil {
			nodes = ids{}
		}
		one(ReassignPartition{Replicas: nodes}, false, want)
	}
	state := func(replicas, adding, removing ids) {
		t.Helper()
		p := m.image.Topic("t").Partitions[0]
		if !slices.Equal(p.Nodes(), replicas) || !slices.Equal(p.Adding(), adding) || !slices.Equal(p.Removing(), removing) ||
			p.Reassigning() != (len(adding)+len(removing) > 0) {
			t.Fatalf("replicas %v adding %v removing %v, want %v %v %v", p.Nodes(), p.Adding(), p.Removing(), replicas, adding, removing)
		}
	}
	cancel := ReassignPartition{}
	one(ReassignPartition{Topic: "no", Replicas: ids{1}}, false, "UNKNOWN_TOPIC_OR_PARTITION: Unable to find a topic named not.")
	one(ReassignPartition{Partition: 7, Replicas: ids{1}}, false, "UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition t:7.")
	one(ReassignPartition{Partition: -7}, false, "UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition t:-7.")
	one(cancel, false, "NO_REASSIGNMENT_IN_PROGRESS")
	to("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list.")
	to("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the broker 1 more than once.", 1, 1)
	to("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 9, but no such broker is registered.", 1, 9)
	to("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker -2, but no such broker is registered.", 1, -2)
	one(ReassignPartition{Replicas: ids{1, 2}}, true, "INVALID_REPLICATION_FACTOR: The replication factor is changed from 3 to 2")
	// Another order is no reassignment.
	to("", 2, 1, 3)
	state(ids{2, 1, 3}, nil, nil)
	before := m.image.Version()
	to("", 2, 1, 3)
	if m.image.Version() != before {
		t.Error("the same again made a record")
	}
	to("", 2, 1)
	state(ids{2, 1, 3}, nil, ids{3})
	one(ReassignPartition{Replicas: ids{1, 2, 3}}, true, "INVALID_REPLICATION_FACTOR: The replication factor is changed from 2 to 3")
	one(cancel, false, "")
	state(ids{2, 1, 3}, nil, nil)
	one(cancel, false, "NO_REASSIGNMENT_IN_PROGRESS")

	// Kafka takes the replica that was being added for one that was there; we do not.
	m.do(t, RegisterBroker{ID: 4, Directory: "four"})
	m.do(t, RegisterBroker{ID: 5, Directory: "five"})
	to("", 4, 1, 3)
	state(ids{4, 1, 3, 2}, ids{4}, ids{2})
	to("", 5, 1, 3)
	state(ids{5, 1, 3, 2}, ids{5}, ids{2})
	to("", 5, 4, 3)
	state(ids{5, 4, 3, 1, 2}, ids{5, 4}, ids{1, 2})
	one(cancel, false, "")
	state(ids{3, 1, 2}, nil, nil)
	p := m.image.Topic("t").Partitions[0]
	if p.Settled() || p.NextReplica != 6 || len(p.Replicas) != 5 {
		t.Errorf("%+v", p)
	}
	one(ReassignPartition{Replicas: ids{1}, IfVersion: p.Version - 1}, false, fmt.Sprintf("INVALID_UPDATE_VERSION: partition t:0 is at version %d, the change was made for %d", p.Version, p.Version-1))
	if row := one(ReassignPartition{Replicas: ids{1, 5}, IfVersion: p.Version}, false, ""); row.Version != p.Version+1 {
		t.Errorf("%+v", row)
	}
	// The replica that was taken back and is wanted again is the same one.
	if r, _ := m.image.Topic("t").Partitions[0].ReplicaOn(5); r.ID != 5 || r.State != ReplicaAdding {
		t.Errorf("%+v", r)
	}
	res := m.do(t, AlterPartitionReassignments{Partitions: []ReassignPartition{
		{Topic: "t", Partition: 1, Replicas: ids{1}}, {Topic: "t", Partition: 1, Replicas: ids{2}},
	}}).(PartitionsReassigned)
	checkErr(t, "twice", res.Partitions[1].Err, "INVALID_REQUEST: Duplicate partition t:1.")
	checkReplay(t, m)
}

// TestGrowWhileReassigning: new partitions get as many replicas as are wanted, not as many as stand
// there meanwhile (Kafka 4.4.0 gives 2 here).
func TestGrowWhileReassigning(t *testing.T) {
	m := newMachine(t, nil, 1, 2, 3)
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: 1, Replication: 1}}})
	from := m.image.Topic("t").Partitions[0].Leader()
	m.do(t, AlterPartitionReassignments{Partitions: []ReassignPartition{{Topic: "t", Replicas: ids{from%3 + 1}}}})
	m.do(t, CreatePartitions{Topics: []GrowTopic{{Name: "t", Count: 2}}})
	if got := m.image.Topic("t").Partitions[1]; len(got.Replicas) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestComplete: what the leader reached is compared with what it worked on.
func TestComplete(t *testing.T) {
	m := newMachine(t, nil, 1, 2)
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: -1, Replication: -1, Assignment: assign(ids{1})}}})
	topic := m.image.Topic("t")
	at := func() Partition { return m.image.Topic("t").Partitions[0] }
	report := func(version int64, leader uint64, voters, learners []uint64, want string) {
		t.Helper()
		m.fails(t, CompleteReassignment{
			Partition: kafkaproto.PartitionID{Topic: topic.ID}, Version: version, Leader: leader, Voters: voters, Learners: learners,
		}, want)
	}
	move := func(nodes ids) {
		m.do(t, AlterPartitionReassignments{Partitions: []ReassignPartition{{Topic: "t", Replicas: nodes}}})
	}
	type u = []uint64
	move(ids{2})
	report(2, 1, u{1}, u{2}, "") // a learner only: no news
	if p := at(); p.Version != 2 || len(p.Replicas) != 2 {
		t.Fatalf("%+v", p)
	}
	report(2, 1, u{}, nil, "INVALID_REQUEST: replica 1 reports voters [] without itself")
	report(2, 9, u{9}, nil, "INVALID_REQUEST: replica 9 is none of this partition")
	report(1, 2, u{2}, nil, "INVALID_UPDATE_VERSION: partition t:0 is at version 2, the leader worked on 1")
	// The change is through, but an administrator was faster: nobody loses data.
	move(nil)
	report(2, 2, u{2}, nil, "INVALID_UPDATE_VERSION")
	if p := at(); p.Version != 3 || len(p.Replicas) != 2 || p.Replicas[1].State != ReplicaCancelled || p.Reassigning() || p.Settled() {
		t.Fatalf("%+v", p)
	}
	report(3, 2, u{2}, u{1}, "")
	if p := at(); p.Version != 3 {
		t.Fatalf("%+v", p)
	}
	report(3, 1, u{1}, u{2}, "")
	if p := at(); p.Version != 3 {
		t.Fatalf("a learner is gone: %+v", p)
	}
	report(3, 1, u{1}, nil, "")
	if p := at(); p.Version != 4 || !p.Settled() || !slices.Equal(p.Replicas, []Replica{{ID: 1, Node: 1}}) {
		t.Fatalf("%+v", p)
	}
	move(ids{2})
	report(5, 3, u{3}, nil, "")
	if p := at(); p.Version != 6 || p.NextReplica != 4 || !slices.Equal(p.Replicas, []Replica{{ID: 3, Node: 2}}) {
		t.Fatalf("%+v", p)
	}
	m.fails(t, CompleteReassignment{Partition: kafkaproto.PartitionID{Topic: kafkaproto.TopicID{9}}}, "UNKNOWN_TOPIC_ID")
	m.fails(t, CompleteReassignment{Partition: kafkaproto.PartitionID{Topic: topic.ID, Partition: 1}}, "UNKNOWN_TOPIC_OR_PARTITION")
	checkReplay(t, m)
}
