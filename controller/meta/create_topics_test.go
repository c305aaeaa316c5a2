package meta

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

func assign(pairs ...[]kafkaproto.NodeID) []Assignment {
	var all []Assignment
	for p, brokers := range pairs {
		all = append(all, Assignment{Partition: int32(p), Replicas: brokers})
	}
	return all
}

// TestRow43CreateTopics holds what Kafka 4.4.0 answered on one broker.
func TestRow43CreateTopics(t *testing.T) {
	type ids = []kafkaproto.NodeID
	one := func(n NewTopic) NewTopic {
		if n.Name == "" {
			n.Name = "t"
		}
		if n.Partitions == 0 {
			n.Partitions = 1
		}
		if n.Replication == 0 {
			n.Replication = 1
		}
		return n
	}
	cfg := func(pairs ...string) NewTopic {
		n := one(NewTopic{})
		for i := 0; i < len(pairs); i += 2 {
			n.Config = append(n.Config, ConfigValue{pairs[i], &pairs[i+1]})
		}
		return n
	}
	byHand := func(a ...Assignment) NewTopic {
		return NewTopic{Name: "t", Partitions: -1, Replication: -1, Assignment: a}
	}
	const badName = "INVALID_TOPIC_EXCEPTION: Topic name is invalid: "
	const chars = "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	const gap = "INVALID_REPLICA_ASSIGNMENT: partitions should be a consecutive 0-based integer sequence"
	for _, c := range []struct {
		topic NewTopic
		want  string
	}{
		{one(NewTopic{}), ""},
		{NewTopic{Name: "t", Partitions: -1, Replication: -1}, ""},
		{one(NewTopic{Name: "old"}), "TOPIC_ALREADY_EXISTS: Topic 'old' already exists."},
		{NewTopic{Name: "t", Partitions: 0, Replication: 1}, "INVALID_PARTITIONS: Number of partitions was set to an invalid non-positive value."},
		{one(NewTopic{Partitions: -2}), "INVALID_PARTITIONS: Number of partitions was set to an invalid non-positive value."},
		{NewTopic{Name: "t", Partitions: 1, Replication: 0}, "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value."},
		{one(NewTopic{Replication: -2}), "INVALID_REPLICATION_FACTOR: Replication factor must be larger than 0, or -1 to use the default value."},
		{one(NewTopic{Replication: 3}), "INVALID_REPLICATION_FACTOR: Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 broker(s) are registered."},
		{one(NewTopic{Partitions: 10001}), "POLICY_VIOLATION: Excessively large number of partitions per request."},
		{one(NewTopic{Partitions: 10000}), ""},
		{one(NewTopic{Assignment: assign(ids{1})}), "INVALID_REQUEST: A manual partition assignment was specified, but replication factor was not set to -1."},
		{NewTopic{Name: "t", Partitions: 1, Replication: -1, Assignment: assign(ids{1})}, "INVALID_REQUEST: A manual partition assignment was specified, but numPartitions was not set to -1."},
		{byHand(assign(ids{1}, ids{1})...), ""},
		{byHand(Assignment{0, ids{1}}, Assignment{2, ids{1}}), gap},
		{byHand(Assignment{1, ids{1}}), gap},
		{byHand(Assignment{-1, ids{1}}), gap},
		{byHand(Assignment{0, ids{1}}, Assignment{0, ids{1}}), "INVALID_REPLICA_ASSIGNMENT: Found multiple manual partition assignments for partition 0"},
		{byHand(assign(ids{1, 1})...), "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the broker 1 more than once."},
		{byHand(assign(ids{7})...), "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 7, but no such broker is registered."},
		{byHand(assign(ids{})...), "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty replica list."},
		{byHand(assign(ids{1}, ids{1, 2})...), "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 2, but no such broker is registered."},
		{byHand(assign(ids{-1})...), "INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker -1, but no such broker is registered."},
		{NewTopic{Partitions: 1, Replication: 1}, badName + "the empty string is not allowed"},
		{one(NewTopic{Name: "."}), badName + "'.' is not allowed"},
		{one(NewTopic{Name: ".."}), badName + "'..' is not allowed"},
		{one(NewTopic{Name: "a b"}), badName + "'a b" + chars},
		{one(NewTopic{Name: "a/b"}), badName + "'a/b" + chars},
		{one(NewTopic{Name: "ä"}), badName + "'ä" + chars},
		{one(NewTopic{Name: "a\x00"}), badName + "'a\x00" + chars},
		{one(NewTopic{Name: strings.Repeat("x", 249)}), ""},
		{one(NewTopic{Name: strings.Repeat("x", 250)}), badName + "the length of '" + strings.Repeat("x", 250) + "' is longer than the max allowed length 249"},
		{one(NewTopic{Name: "old.one"}), "INVALID_TOPIC_EXCEPTION: Topic 'old.one' collides with existing topic: old_one"},
		{one(NewTopic{Name: "old-one"}), ""},
		{one(NewTopic{Name: "__consumer_offsets"}), ""},
		{one(NewTopic{Name: "__cluster_metadata"}), "INVALID_REQUEST: Creation of internal topic __cluster_metadata is prohibited."},
		{cfg("nope.key", "1"), "INVALID_CONFIG: Unknown topic config name: nope.key"},
		{cfg("retention.ms", "x"), "INVALID_CONFIG: Invalid value x for configuration retention.ms: Not a number of type LONG"},
		{cfg("segment.bytes", "1"), "INVALID_CONFIG: Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"},
		{cfg("min.compaction.lag.ms", "10", "max.compaction.lag.ms", "5"), "INVALID_CONFIG: conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"},
		{cfg("retention.ms", "5", "retention.ms", "6"), ""},
		{cfg("retention.bytes", "-2", "cleanup.policy", ""), ""},
		{NewTopic{Name: "t", Partitions: 1, Replication: 1, Config: []ConfigValue{{"retention.ms", nil}, {"nope", nil}}}, "INVALID_CONFIG: Null value not supported for topic configs: retention.ms,nope"},
	} {
		for _, validateOnly := range []bool{true, false} {
			m := newMachine(t, nil, 1)
			m.do(t, CreateTopics{Topics: []NewTopic{one(NewTopic{Name: "old"}), one(NewTopic{Name: "old_one"})}})
			before := m.image.TopicCount()
			res := m.do(t, CreateTopics{Topics: []NewTopic{c.topic}, ValidateOnly: validateOnly}).(CreateTopicsResult)
			if len(res.Topics) != 1 || res.Topics[0].Name != c.topic.Name {
				t.Fatalf("%+v: rows %+v", c.topic, res.Topics)
			}
			row := res.Topics[0]
			checkErr(t, c.topic.Name, row.Err, c.want)
			made := m.image.TopicCount() - before
			if want := row.Err == nil && !validateOnly; (made == 1) != want {
				t.Errorf("%+v: made %d topics", c.topic, made)
			}
			if row.Err != nil && (row.Partitions != -1 || row.Replication != -1 || !row.ID.IsZero()) {
				t.Errorf("%+v: a failed row says %+v", c.topic, row)
			}
			if row.Err == nil && (row.Partitions < 1 || row.Replication != 1 || row.ID.IsZero()) {
				t.Errorf("%+v: row %+v", c.topic, row)
			}
		}
	}
}

// TestRow43OneRequest: duplicates get one row, and names that collide inside one request are both
// made (kafka-protocol.md §3b).
func TestRow43OneRequest(t *testing.T) {
	m := newMachine(t, nil, 1)
	var cmd CreateTopics
	for _, n := range []string{"dup", "c.d", "dup", "c_d", "x"} {
		cmd.Topics = append(cmd.Topics, NewTopic{Name: n, Partitions: 1, Replication: 1})
	}
	var got []string
	for _, row := range m.do(t, cmd).(CreateTopicsResult).Topics {
		got = append(got, row.Name)
		want := ""
		if row.Name == "dup" {
			want = "INVALID_REQUEST: Duplicate topic name."
		}
		checkErr(t, row.Name, row.Err, want)
	}
	if !slices.Equal(got, []string{"dup", "c.d", "c_d", "x"}) || !slices.Equal(names(m.image), []string{"c.d", "c_d", "x"}) {
		t.Errorf("rows %v, topics %v", got, names(m.image))
	}
	big := CreateTopics{Topics: []NewTopic{
		{Name: "a", Partitions: 6000, Replication: 1}, {Name: "b", Partitions: 6000, Replication: 1},
	}}
	for _, row := range m.do(t, big).(CreateTopicsResult).Topics {
		checkErr(t, row.Name, row.Err, "POLICY_VIOLATION")
	}
}

// TestRow43Defaults: -1 takes the settings, and one broker makes one replica of them.
func TestRow43Defaults(t *testing.T) {
	settings := map[string]string{"num.partitions": "4", "default.replication.factor": "3"}
	ask := CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: -1, Replication: -1}}}
	for nodes, want := range map[int]string{
		1: "", 2: "INVALID_REPLICATION_FACTOR", 3: "", 0: "INVALID_REPLICATION_FACTOR",
	} {
		m := newMachine(t, settings)
		for n := range nodes {
			m.do(t, RegisterBroker{ID: kafkaproto.NodeID(n + 1), Directory: fmt.Sprint("dir", n)})
		}
		row := m.do(t, ask).(CreateTopicsResult).Topics[0]
		checkErr(t, "defaults", row.Err, want)
		if replicas := int16(min(nodes, 3)); row.Err == nil && (row.Partitions != 4 || row.Replication != replicas) {
			t.Errorf("%d nodes: %+v", nodes, row)
		}
	}
}

// TestInternalTopics: ruling 14, 1 or 3 replicas and never 2.
func TestInternalTopics(t *testing.T) {
	s, _, err := config.NewStatic()
	if err != nil {
		t.Fatal(err)
	}
	b := config.NewResolver(s).Broker()
	for nodes, want := range map[int]int16{1: 1, 2: 1, 3: 3, 4: 3} {
		m := newMachine(t, nil)
		for n := range nodes {
			m.do(t, RegisterBroker{ID: kafkaproto.NodeID(n + 1), Directory: fmt.Sprint("dir", n)})
		}
		res := m.do(t, CreateTopics{Internal: true, Topics: []NewTopic{
			InternalTopic(ConsumerOffsets, b), InternalTopic(TransactionState, b),
		}}).(CreateTopicsResult)
		for _, row := range res.Topics {
			if row.Err != nil || row.Partitions != 50 || row.Replication != want || row.Config["cleanup.policy"] != "compact" {
				t.Errorf("%d nodes: %+v", nodes, row)
			}
		}
		topic := m.image.Topic(ConsumerOffsets)
		r := config.NewResolver(s)
		if !topic.Internal || !topic.Settings(r).Internal || !topic.Settings(r).StoreConfig(kafkaproto.PartitionID{}).Internal ||
			topic.Settings(r).SegmentBytes != 104857600 {
			t.Errorf("%+v", topic)
		}
	}
}

// TestPlacement spreads partitions and leaders evenly.
func TestPlacement(t *testing.T) {
	m := newMachine(t, nil, 3, 1, 2)
	m.do(t, CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: 9, Replication: 2}}})
	m.do(t, CreatePartitions{Topics: []GrowTopic{{Name: "t", Count: 12}}})
	leaders, copies := map[kafkaproto.NodeID]int{}, map[kafkaproto.NodeID]int{}
	for _, p := range m.image.Topic("t").Partitions {
		leaders[p.Leader()]++
		for _, r := range p.Replicas {
			copies[r.Node]++
		}
		if len(p.Replicas) != 2 || p.Replicas[0].Node == p.Replicas[1].Node {
			t.Errorf("replicas %v", p.Replicas)
		}
	}
	for _, n := range []kafkaproto.NodeID{1, 2, 3} {
		if leaders[n] != 4 || copies[n] != 8 {
			t.Errorf("node %d leads %d and keeps %d", n, leaders[n], copies[n])
		}
	}
}

// TestCreatedConfig: settings are kept in canonical spelling, and the topic's id is drawn.
func TestCreatedConfig(t *testing.T) {
	m := newMachine(t, nil, 1)
	row := m.do(t, CreateTopics{Topics: []NewTopic{{Name: "t", Partitions: 2, Replication: 1, Config: []ConfigValue{
		{"retention.ms", str(" 5 ")}, {"preallocate", str("TRUE")}, {"cleanup.policy", str("compact , delete")},
	}}}}).(CreateTopicsResult).Topics[0]
	topic := m.image.TopicByID(row.ID)
	if topic == nil || topic != m.image.Topic("t") || topic.Version != 1 || len(topic.Partitions) != 2 ||
		topic.Config["retention.ms"] != "5" || topic.Config["preallocate"] != "true" ||
		topic.Config["cleanup.policy"] != "compact,delete" || row.Config["retention.ms"] != "5" {
		t.Errorf("%+v, row %+v", topic, row)
	}
}
