package meta

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// withTopics makes a machine of one broker with topics of one partition.
func withTopics(t tb, static map[string]string, names ...string) *machine {
	m := newMachine(t, static, 1)
	for _, n := range names {
		m.do(t, CreateTopics{Topics: []NewTopic{{Name: n, Partitions: 1, Replication: 1}}})
	}
	return m
}

// TestRow44DeleteTopics holds what Kafka 4.4.0 answered.
func TestRow44DeleteTopics(t *testing.T) {
	m := withTopics(t, nil, "a", "b", "c")
	a, b := m.image.Topic("a").ID, m.image.Topic("b").ID
	del := func(refs ...TopicRef) []DeletedTopic {
		return m.do(t, DeleteTopics{Topics: refs}).(DeleteTopicsResult).Topics
	}
	type row struct {
		name string
		id   kafkaproto.TopicID
		err  string
	}
	check := func(what string, got []DeletedTopic, want ...row) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%s: rows %+v", what, got)
			return
		}
		for i, w := range want {
			checkErr(t, what, got[i].Err, w.err)
			if got[i].Name != w.name || got[i].ID != w.id {
				t.Errorf("%s: row %+v", what, got[i])
			}
		}
	}
	none := kafkaproto.TopicID{}
	check("unknown", del(TopicRef{Name: "nope"}), row{"nope", none, "UNKNOWN_TOPIC_OR_PARTITION: This server does not host this topic-partition."})
	check("bad name", del(TopicRef{Name: "a b"}), row{"a b", none, "UNKNOWN_TOPIC_OR_PARTITION"})
	check("unknown id", del(TopicRef{ID: kafkaproto.TopicID{1}}), row{"", kafkaproto.TopicID{1}, "UNKNOWN_TOPIC_ID: This server does not host this topic ID."})
	check("neither", del(TopicRef{}), row{"", none, "INVALID_REQUEST: Neither topic name nor id were specified."})
	check("both", del(TopicRef{Name: "a", ID: a}), row{"a", a, "INVALID_REQUEST: You may not specify both topic name and topic id."})
	check("name twice", del(TopicRef{Name: "a"}, TopicRef{Name: "a"}), row{"a", none, "INVALID_REQUEST: Duplicate topic name."})
	check("id twice", del(TopicRef{ID: a}, TopicRef{ID: a}), row{"", a, "INVALID_REQUEST: Duplicate topic id."})
	check("name and id", del(TopicRef{ID: a}, TopicRef{Name: "a"}), row{"a", a, "INVALID_REQUEST: The provided topic name maps to an ID that was already supplied."})
	if m.image.TopicCount() != 3 {
		t.Fatalf("topics %v", names(m.image))
	}
	check("by name", del(TopicRef{Name: "a"}), row{"a", a, ""})
	check("by id", del(TopicRef{ID: b}), row{"b", b, ""})
	check("again", del(TopicRef{ID: b}), row{"", b, "UNKNOWN_TOPIC_ID"})
	if !slices.Equal(names(m.image), []string{"c"}) || m.image.TopicByID(a) != nil {
		t.Errorf("topics %v", names(m.image))
	}

	m = withTopics(t, map[string]string{"delete.topic.enable": "false"}, "a")
	check("not enabled", del(TopicRef{Name: "a"}), row{"a", none, "TOPIC_DELETION_DISABLED"})
}

// TestDeleteFreesCollidingName: a name that collided can be used when the other is gone.
func TestDeleteFreesCollidingName(t *testing.T) {
	m := withTopics(t, nil, "a.b")
	old := m.image.Topic("a.b").ID
	create := func(name, want string) {
		t.Helper()
		row := m.do(t, CreateTopics{Topics: []NewTopic{{Name: name, Partitions: 1, Replication: 1}}}).(CreateTopicsResult).Topics[0]
		checkErr(t, name, row.Err, want)
	}
	create("a_b", "INVALID_TOPIC_EXCEPTION")
	m.do(t, DeleteTopics{Topics: []TopicRef{{Name: "a.b"}}})
	create("a_b", "")
	m.do(t, DeleteTopics{Topics: []TopicRef{{Name: "a_b"}}})
	create("a.b", "")
	if m.image.Topic("a.b").ID == old {
		t.Error("a topic made anew has its old id")
	}
}

// TestRow45CreatePartitions holds what Kafka 4.4.0 answered.
func TestRow45CreatePartitions(t *testing.T) {
	type ids = []kafkaproto.NodeID
	m := withTopics(t, nil, "t", "u")
	grow := func(want string, g ...GrowTopic) {
		t.Helper()
		for _, validateOnly := range []bool{true, false} {
			before := m.image.Version()
			res := m.do(t, CreatePartitions{Topics: g, ValidateOnly: validateOnly}).(CreatePartitionsResult)
			if len(res.Topics) != 1 || res.Topics[0].Name != g[0].Name {
				t.Fatalf("rows %+v", res.Topics)
			}
			checkErr(t, fmt.Sprint(g), res.Topics[0].Err, want)
			if changed := m.image.Version() != before; changed != (want == "" && !validateOnly) {
				t.Errorf("%v: changed %v", g, changed)
			}
		}
	}
	grow("INVALID_PARTITIONS: Topic already has 1 partition(s).", GrowTopic{Name: "t", Count: 1})
	grow("INVALID_PARTITIONS: The topic t currently has 1 partition(s); 0 would not be an increase.", GrowTopic{Name: "t"})
	grow("INVALID_PARTITIONS: The topic t currently has 1 partition(s); -1 would not be an increase.", GrowTopic{Name: "t", Count: -1})
	grow("", GrowTopic{Name: "t", Count: 3})
	grow("INVALID_PARTITIONS: The topic t currently has 3 partition(s); 2 would not be an increase.", GrowTopic{Name: "t", Count: 2})
	grow("UNKNOWN_TOPIC_OR_PARTITION", GrowTopic{Name: "nope", Count: 2})
	grow("UNKNOWN_TOPIC_OR_PARTITION", GrowTopic{Name: "a b", Count: 2})
	grow("INVALID_REPLICA_ASSIGNMENT: Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.", GrowTopic{"t", 5, []ids{{1}}})
	grow("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 9, but no such broker is registered.", GrowTopic{"t", 4, []ids{{9}}})
	grow("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the broker 1 more than once.", GrowTopic{"t", 4, []ids{{1, 1}}})
	grow("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 2, but no such broker is registered.", GrowTopic{"t", 4, []ids{{1, 2}}})
	grow("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list.", GrowTopic{"t", 4, []ids{{}}})
	grow("", GrowTopic{"t", 4, []ids{{1}}})
	grow("POLICY_VIOLATION: Excessively large number of additional partitions per request.", GrowTopic{Name: "t", Count: 20000})
	grow("INVALID_REQUEST: Duplicate topic name.", GrowTopic{Name: "t", Count: 7}, GrowTopic{Name: "t", Count: 8})
	m.do(t, RegisterBroker{ID: 2, Directory: "d2"})
	grow("INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with previous partitions, which have 1 replica(s).", GrowTopic{"t", 5, []ids{{1, 2}}})
	if got := m.image.Topic("t"); len(got.Partitions) != 4 || got.Version != 3 {
		t.Errorf("%+v", got)
	}
}

func op(name string, o Op, value string) AlterOp { return AlterOp{name, o, &value} }

// TestRow59Incremental holds what Kafka 4.4.0 answered to IncrementalAlterConfigs of a topic.
func TestRow59Incremental(t *testing.T) {
	m := withTopics(t, nil, "t")
	inc := func(want string, name string, ops ...AlterOp) {
		t.Helper()
		for _, validateOnly := range []bool{true, false} {
			before := m.image.Version()
			res := m.do(t, AlterConfigs{ValidateOnly: validateOnly, Resources: []AlterResource{
				{Type: ResourceTopic, Name: name, Ops: ops},
			}}).(AlterConfigsResult)
			checkErr(t, fmt.Sprintf("%s %+v", name, ops), res.Resources[0].Err, want)
			if (validateOnly || want != "") && m.image.Version() != before {
				t.Errorf("%+v changed something", ops)
			}
		}
	}
	value := func(key, want string) {
		t.Helper()
		got, ok := m.image.Topic("t").Config[key]
		if !ok {
			got = "<none>"
		}
		if got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	inc("", "t", op("retention.ms", OpSet, " 5000 "))
	value("retention.ms", "5000")
	inc("INVALID_CONFIG: Invalid value x for configuration retention.ms: Not a number of type LONG", "t", op("retention.ms", OpSet, "x"))
	inc("INVALID_REQUEST: Null value not supported for : retention.ms", "t", AlterOp{"retention.ms", OpSet, nil})
	inc("INVALID_REQUEST: Null value not supported for : cleanup.policy", "t", AlterOp{"cleanup.policy", OpAppend, nil})
	inc("", "t", AlterOp{"retention.ms", OpDelete, nil})
	value("retention.ms", "<none>")
	inc("", "t", AlterOp{"nope", OpDelete, nil})
	inc("INVALID_CONFIG: Unknown topic config name: nope", "t", op("nope", OpSet, "1"))
	inc("INVALID_CONFIG: Can't APPEND to key retention.ms because its type is not LIST.", "t", op("retention.ms", OpAppend, "1"))
	inc("INVALID_CONFIG: Can't APPEND to key nope because its type is not LIST.", "t", op("nope", OpAppend, "1"))
	inc("INVALID_CONFIG: Can't SUBTRACT to key retention.ms because its type is not LIST.", "t", op("retention.ms", OpSubtract, "1"))
	inc("", "t", op("cleanup.policy", OpAppend, "compact"))
	value("cleanup.policy", "delete,compact")
	inc("", "t", op("cleanup.policy", OpAppend, "compact"))
	value("cleanup.policy", "delete,compact")
	inc("INVALID_CONFIG: Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete", "t", op("cleanup.policy", OpAppend, "foo"))
	inc("", "t", op("cleanup.policy", OpSubtract, "delete"))
	value("cleanup.policy", "compact")
	inc("", "t", op("cleanup.policy", OpSubtract, "foo"))
	value("cleanup.policy", "compact")
	inc("", "t", op("cleanup.policy", OpSubtract, "compact"))
	value("cleanup.policy", "")
	inc("", "t", op("leader.replication.throttled.replicas", OpAppend, "0:1"))
	inc("", "t", op("leader.replication.throttled.replicas", OpAppend, "1:1,0:1"))
	value("leader.replication.throttled.replicas", "0:1,1:1")
	inc("INVALID_REQUEST", "t", op("retention.ms", 9, "1")) // Kafka: UNKNOWN_SERVER_ERROR
	inc("INVALID_REQUEST: Error due to duplicate config keys", "t", op("retention.ms", OpSet, "1"), op("retention.ms", OpSet, "2"))
	inc("UNKNOWN_TOPIC_OR_PARTITION: The topic 'nope' does not exist.", "nope", op("retention.ms", OpSet, "1"))
	inc("INVALID_REQUEST: Default topic resources are not allowed.", "", op("retention.ms", OpSet, "1"))
	inc("INVALID_TOPIC_EXCEPTION", "a b", op("retention.ms", OpSet, "1"))
	inc("INVALID_CONFIG: conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)", "t", op("min.compaction.lag.ms", OpSet, "10"), op("max.compaction.lag.ms", OpSet, "5"))
	inc("INVALID_CONFIG: Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.", "t", op("remote.storage.enable", OpSet, "true"))
	inc("INVALID_CONFIG: Invalid value  for configuration retention.ms: Not a number of type LONG", "t", op("retention.ms", OpSet, ""))
	// All or nothing: the good half of a bad change is not made.
	inc("INVALID_CONFIG", "t", op("segment.ms", OpSet, "7"), op("retention.ms", OpSet, "x"))
	value("segment.ms", "<none>")

	for _, kind := range []ResourceType{0, 99} {
		res := m.do(t, AlterConfigs{Resources: []AlterResource{{Type: kind, Name: "x"}}}).(AlterConfigsResult)
		checkErr(t, "type", res.Resources[0].Err, fmt.Sprintf("INVALID_REQUEST: Unknown resource type %d", kind))
	}
	res := m.do(t, AlterConfigs{Resources: []AlterResource{
		{Type: ResourceTopic, Name: "t"}, {Type: ResourceBroker, Name: "1"}, {Type: ResourceTopic, Name: "t"},
	}}).(AlterConfigsResult)
	for i, want := range []string{"INVALID_REQUEST: Each resource must appear at most once.", "", "INVALID_REQUEST: Each resource must appear at most once."} {
		checkErr(t, "twice", res.Resources[i].Err, want)
	}
}

// TestRow59Replace holds what Kafka 4.4.0 answered to AlterConfigs.
func TestRow59Replace(t *testing.T) {
	m := withTopics(t, nil, "t")
	alter := func(want string, kind ResourceType, name string, ops ...AlterOp) {
		t.Helper()
		res := m.do(t, AlterConfigs{Replace: true, Resources: []AlterResource{{Type: kind, Name: name, Ops: ops}}}).(AlterConfigsResult)
		checkErr(t, fmt.Sprintf("%s %+v", name, ops), res.Resources[0].Err, want)
	}
	alter("", ResourceTopic, "t", op("retention.ms", 0, "99"), op("segment.ms", 0, "7"))
	alter("", ResourceTopic, "t", op("segment.ms", 0, "8"))
	if got := m.image.Topic("t").Config; !maps.Equal(got, map[string]string{"segment.ms": "8"}) {
		t.Errorf("not replaced: %v", got)
	}
	alter("INVALID_REQUEST: Null value not supported for : segment.ms", ResourceTopic, "t", AlterOp{"segment.ms", 0, nil})
	alter("INVALID_CONFIG: Invalid value x for configuration segment.ms: Not a number of type LONG", ResourceTopic, "t", op("segment.ms", 0, "x"))
	alter("INVALID_CONFIG: Unknown topic config name: foo", ResourceTopic, "t", op("foo", 0, "x"))
	alter("INVALID_REQUEST: Error due to duplicate config keys", ResourceTopic, "t", op("segment.ms", 0, "5"), op("segment.ms", 0, "6"))
	alter("UNKNOWN_TOPIC_OR_PARTITION: The topic 'nope' does not exist.", ResourceTopic, "nope", op("segment.ms", 0, "5"))
	alter("INVALID_REQUEST: Cannot update these configs dynamically: [num.partitions]", ResourceBroker, "1", op("num.partitions", 0, "5"))
	alter("", ResourceTopic, "t")
	if got := m.image.Topic("t").Config; len(got) != 0 {
		t.Errorf("an empty set left %v", got)
	}
}

// TestRow59Broker holds what Kafka 4.4.0 answered for broker resources.
func TestRow59Broker(t *testing.T) {
	m := withTopics(t, nil, "t")
	inc := func(want string, name string, ops ...AlterOp) {
		t.Helper()
		res := m.do(t, AlterConfigs{Resources: []AlterResource{{Type: ResourceBroker, Name: name, Ops: ops}}}).(AlterConfigsResult)
		checkErr(t, fmt.Sprintf("%q %+v", name, ops), res.Resources[0].Err, want)
	}
	for _, name := range []string{"1", ""} {
		inc("", name, op("log.retention.ms", OpSet, " 7000 "))
		inc("INVALID_REQUEST: Invalid value x for configuration log.retention.ms: Not a number of type LONG", name, op("log.retention.ms", OpSet, "x"))
		inc("INVALID_REQUEST: Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576", name, op("log.segment.bytes", OpSet, "1"))
		inc("INVALID_REQUEST: Cannot update these configs dynamically: [num.partitions]", name, op("num.partitions", OpSet, "3"))
		inc("", name, op("nope.foo", OpSet, "3"))
		inc("INVALID_REQUEST: Null value not supported for : log.retention.ms", name, AlterOp{"log.retention.ms", OpSet, nil})
		inc("", name, op("log.cleanup.policy", OpAppend, "compact"))
		inc("", name, AlterOp{"num.partitions", OpDelete, nil})
		inc("", name, AlterOp{"nope", OpDelete, nil})
		want := map[string]string{"log.retention.ms": "7000", "nope.foo": "3", "log.cleanup.policy": "delete,compact"}
		if got := m.image.BrokerConfig(name); !maps.Equal(got, want) {
			t.Errorf("broker %q: %v", name, got)
		}
	}
	inc("INVALID_REQUEST: Unexpected broker id, expected 1, but received 7", "7", op("log.retention.ms", OpSet, "7000"))
	inc("INVALID_REQUEST: Node id must be an integer, but it is: x", "x", op("log.retention.ms", OpSet, "7000"))
	if got, _ := m.layers().TopicText("retention.ms", nil); got != "7000" {
		t.Errorf("the dynamic default is not in force: %s", got)
	}
}

func (m *machine) layers() *config.Layers {
	return config.NewLayers(m.env.Static, m.image.BrokerConfig(""), m.image.BrokerConfig("1"))
}

// TestIfVersion: a change made for another version of the topic is refused.
func TestIfVersion(t *testing.T) {
	m := withTopics(t, nil, "t")
	alter := func(version int64, value, want string) {
		t.Helper()
		res := m.do(t, AlterConfigs{Resources: []AlterResource{{
			Type: ResourceTopic, Name: "t", IfVersion: version, Ops: []AlterOp{op("retention.ms", OpSet, value)},
		}}}).(AlterConfigsResult)
		checkErr(t, value, res.Resources[0].Err, want)
	}
	alter(1, "5", "")
	alter(1, "6", "INVALID_UPDATE_VERSION: topic t is at version 2, the change was made for 1")
	alter(2, "6", "")
	alter(0, "7", "")
	if got := m.image.Topic("t"); got.Version != 4 || got.Config["retention.ms"] != "7" {
		t.Errorf("%+v", got)
	}
}

// TestProducerIDs: blocks do not overlap.
func TestProducerIDs(t *testing.T) {
	m := newMachine(t, nil, 1)
	for i := range 5 {
		b := m.do(t, AllocateProducerIDs{Node: 1}).(ProducerIDBlock)
		if b.First != kafkaproto.ProducerID(i*1000) || b.Count != 1000 {
			t.Fatalf("block %d: %+v", i, b)
		}
	}
	m.image.nextProducer = 1<<63 - 500
	if _, _, err := m.image.Execute(AllocateProducerIDs{}, m.env); err == nil {
		t.Error("ids beyond the last were given")
	}
}

// TestNodes: a broker's id belongs to one data directory.
func TestNodes(t *testing.T) {
	m := newMachine(t, nil, 2, 1)
	before := m.image.Version()
	m.do(t, RegisterBroker{ID: 1, Directory: "dir1"})
	if m.image.Version() != before {
		t.Error("registering the same again made a record")
	}
	m.do(t, RegisterBroker{ID: 1, Directory: "dir1", Rack: "r", Endpoints: []Endpoint{{"PLAINTEXT", "PLAINTEXT", "h", 1}}})
	if n := m.image.Node(1); n.Rack != "r" || len(n.Endpoints) != 1 {
		t.Errorf("%+v", n)
	}
	_, _, err := m.image.Execute(RegisterBroker{ID: 1, Directory: "other"}, m.env)
	checkErr(t, "other directory", err, "DUPLICATE_BROKER_REGISTRATION")
	if ns := m.image.Nodes(); len(ns) != 2 || ns[0].ID != 1 || ns[1].ID != 2 || m.image.Node(3) != nil {
		t.Errorf("nodes %v", ns)
	}
}

// TestFeatures is ruling 21.
func TestFeatures(t *testing.T) {
	m := newMachine(t, nil)
	want := []Feature{{"metadata.version", 33}, {"transaction.version", 2}}
	if got := m.image.Features(); !slices.Equal(got, want) || m.image.FeaturesEpoch() < 0 {
		t.Errorf("features %v, epoch %d", got, m.image.FeaturesEpoch())
	}
	before := m.image.Version()
	m.do(t, InitCluster{ClusterID: m.image.ClusterID()})
	if m.image.Version() != before {
		t.Error("a second start changed something")
	}
	if _, _, err := m.image.Execute(InitCluster{ClusterID: "AAAAAAAAAAAAAAAAAAAAAQ"}, m.env); err == nil {
		t.Error("another cluster id was taken")
	}
	for _, s := range SupportedFeatures() {
		if s.Level < s.Min || s.Level > s.Max {
			t.Errorf("%+v", s)
		}
	}
}

// TestSettingsMemo: a topic's typed view is remembered until a layer changes.
func TestSettingsMemo(t *testing.T) {
	m := withTopics(t, nil, "t")
	r := config.NewResolver(m.env.Static)
	topic := m.image.Topic("t")
	first := topic.Settings(r)
	if topic.Settings(r) != first {
		t.Error("the view is made anew each time")
	}
	r.SetDynamic(map[string]string{"log.retention.ms": "5"}, nil)
	if second := topic.Settings(r); second == first || second.RetentionAge.Milliseconds() != 5 {
		t.Error("a dynamic change is not seen")
	}
}
