package config

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

func newResolver(t testing.TB, values map[string]string) *Resolver {
	t.Helper()
	s, _, err := NewStatic(Layer{Name: "test", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return NewResolver(s)
}

// checkFault compares an error's Kafka code and sentence; want "" means no error.
func checkFault(t *testing.T, what string, err error, code int16, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	var f *kafkaproto.Fault
	if !errors.As(err, &f) || f.Kafka.Code != code || f.Text != want {
		t.Errorf("%s: %v\nwant %s: %s", what, err, kerr.ErrorForCode(code), want)
	}
}

// line spells an entry as the golden files do.
func line(e Entry) string {
	value := func(v *string) string {
		if v == nil {
			return "<null>"
		}
		return *v
	}
	var synonyms []string
	for _, s := range e.Synonyms {
		synonyms = append(synonyms, fmt.Sprintf("%s=%s@%d", s.Name, value(s.Value), s.Source))
	}
	return strings.Join([]string{
		e.Name, value(e.Value), fmt.Sprint(e.Source), fmt.Sprint(e.ReadOnly), fmt.Sprint(e.Sensitive),
		fmt.Sprint(int(e.Type)), strings.Join(synonyms, " "),
	}, "\t")
}

// kafkasExample is the state that the golden files were captured in.
func kafkasExample(t *testing.T) (*Resolver, map[string]string) {
	r := newResolver(t, map[string]string{
		"process.roles": "broker,controller", "node.id": "1",
		"controller.quorum.voters":                         "1@127.0.0.1:19752",
		"listeners":                                        "PLAINTEXT://127.0.0.1:19751,CONTROLLER://127.0.0.1:19752",
		"advertised.listeners":                             "PLAINTEXT://127.0.0.1:19751",
		"controller.listener.names":                        "CONTROLLER",
		"inter.broker.listener.name":                       "PLAINTEXT",
		"log.dirs":                                         "/data",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
	})
	r.SetDynamic(
		map[string]string{"min.insync.replicas": "1", "log.retention.ms": "7000"},
		map[string]string{"log.retention.ms": "8000", "compression.type": "zstd"})
	topic := map[string]string{}
	for name, value := range map[string]string{
		"retention.ms": " 1000 ", "preallocate": "TRUE", "cleanup.policy": "delete, compact",
		"min.cleanable.dirty.ratio": "0x1p-1", "compression.type": "gzip",
	} {
		v, err := CanonicalTopic(name, value)
		if err != nil {
			t.Fatal(err)
		}
		topic[name] = v
	}
	return r, topic
}

// TestDescribeIsKafkas compares whole DescribeConfigs answers with those of Kafka 4.4.0.
func TestDescribeIsKafkas(t *testing.T) {
	r, topic := kafkasExample(t)
	compareDescribed(t, "kafka-4.4.0-describe-topic.tsv", r.DescribeTopic(topic), func(string) bool {
		return false
	})
	compareDescribed(t, "kafka-4.4.0-describe-broker.tsv", r.DescribeBroker(), func(name string) bool {
		_, ok := defaultDifferences[name]
		return ok || readOnlyHere(name) || name == "broker.id" // a mirror of node.id in Kafka
	})
	var defaults []string
	for _, e := range r.DescribeDefaults() {
		defaults = append(defaults, line(e))
	}
	want := "log.retention.ms\t7000\t3\tfalse\tfalse\t5\tlog.retention.ms=7000@3\n" +
		"min.insync.replicas\t1\t3\tfalse\tfalse\t3\tmin.insync.replicas=1@3"
	if got := strings.Join(defaults, "\n"); got != want {
		t.Errorf("cluster defaults:\n%s\nwant\n%s", got, want)
	}
}

func compareDescribed(t *testing.T, file string, entries []Entry, different func(string) bool) {
	t.Helper()
	got := map[string]string{}
	for _, e := range entries {
		got[e.Name] = line(e)
		if e.Doc == "" {
			t.Errorf("%s has no doc", e.Name)
		}
	}
	for _, row := range readTable(t, file, 7) {
		want := strings.Join(row, "\t")
		if got[row[0]] != want && !different(row[0]) {
			t.Errorf("%s:\n got %s\nwant %s", file, got[row[0]], want)
		}
		delete(got, row[0])
	}
	for name := range got {
		if !strings.HasPrefix(name, "sluice.") {
			t.Errorf("%s: %s is not in Kafka's answer", file, name)
		}
	}
}

// TestStandIns: retention.ms <- log.retention.ms, minutes, hours, and likewise for the others.
func TestStandIns(t *testing.T) {
	for _, c := range []struct {
		static       map[string]string
		key, want    string
		source       Source
		broker       map[string]string
		clusterWide  map[string]string
		ownOverrides map[string]string
	}{
		{key: "retention.ms", want: "604800000", source: 5},
		{static: map[string]string{"log.retention.hours": "1"}, key: "retention.ms", want: "3600000", source: 4},
		{static: map[string]string{"log.retention.hours": "-1"}, key: "retention.ms", want: "-1", source: 4},
		{static: map[string]string{"log.retention.hours": "1", "log.retention.minutes": "2"}, key: "retention.ms", want: "120000", source: 4},
		{static: map[string]string{"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, key: "retention.ms", want: "3", source: 4},
		{static: map[string]string{"log.retention.ms": "3"}, clusterWide: map[string]string{"log.retention.ms": "4"}, key: "retention.ms", want: "4", source: 3},
		{static: map[string]string{"log.retention.ms": "3"}, clusterWide: map[string]string{"log.retention.ms": "4"}, broker: map[string]string{"log.retention.ms": "5"}, key: "retention.ms", want: "5", source: 2},
		{broker: map[string]string{"log.retention.ms": "5"}, ownOverrides: map[string]string{"retention.ms": "6"}, key: "retention.ms", want: "6", source: 1},
		{static: map[string]string{"log.roll.hours": "2"}, key: "segment.ms", want: "7200000", source: 4},
		{static: map[string]string{"log.roll.jitter.hours": "1"}, key: "segment.jitter.ms", want: "3600000", source: 4},
		{static: map[string]string{"log.flush.scheduler.interval.ms": "9"}, key: "flush.ms", want: "9", source: 4},
		{static: map[string]string{"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"}, key: "flush.ms", want: "8", source: 4},
	} {
		r := newResolver(t, c.static)
		r.SetDynamic(c.clusterWide, c.broker)
		for _, e := range r.DescribeTopic(c.ownOverrides) {
			if e.Name == c.key && (*e.Value != c.want || e.Source != c.source) {
				t.Errorf("%v %v %v: %s is %s from %d, want %s from %d", c.static, c.clusterWide,
					c.broker, c.key, *e.Value, e.Source, c.want, c.source)
			}
		}
	}
}

// TestDurability is ruling 12.
func TestDurability(t *testing.T) {
	type kv = map[string]string
	for _, c := range []struct {
		name          string
		static, topic kv
		internal      bool
		strict        bool
		messages      int64
		interval      time.Duration
	}{
		{name: "strict by default", strict: true},
		{name: "relaxed broker", static: kv{"sluice.durability": "relaxed"}},
		{name: "relaxed topic", topic: kv{"sluice.durability": "relaxed"}},
		{name: "strict topic", static: kv{"sluice.durability": "relaxed"}, topic: kv{"sluice.durability": "strict"}, strict: true},
		{name: "flush.messages=1 on the topic", static: kv{"sluice.durability": "relaxed"}, topic: kv{"flush.messages": "1"}, strict: true, messages: 1},
		{name: "flush.messages=1 on the broker", static: kv{"sluice.durability": "relaxed", "log.flush.interval.messages": "1"}, strict: true, messages: 1},
		{name: "flush.messages=1 beside relaxed", topic: kv{"sluice.durability": "relaxed", "flush.messages": "1"}, strict: true, messages: 1},
		{name: "MaxInt64 changes nothing", static: kv{"log.flush.interval.messages": maxLong, "log.flush.interval.ms": maxLong}, strict: true},
		{name: "MaxInt64 does not make strict", static: kv{"sluice.durability": "relaxed", "log.flush.interval.messages": maxLong}},
		{name: "finite flush does not relax", topic: kv{"flush.messages": "1000", "flush.ms": "50"}, strict: true, messages: 1000, interval: 50 * time.Millisecond},
		{name: "finite flush bounds the window", topic: kv{"sluice.durability": "relaxed", "flush.messages": "1000", "flush.ms": "50"}, messages: 1000, interval: 50 * time.Millisecond},
		{name: "flush.ms=0 is a bound", topic: kv{"sluice.durability": "relaxed", "flush.ms": "0"}, interval: time.Millisecond},
		{name: "internal topics are strict", static: kv{"sluice.durability": "relaxed"}, internal: true, strict: true},
	} {
		topic := newResolver(t, c.static).Topic(c.topic)
		topic.Internal = c.internal
		got := topic.StoreConfig(kafkaproto.PartitionID{})
		if got.Strict != c.strict || got.FlushMessages != c.messages || got.FlushInterval != c.interval {
			t.Errorf("%s: strict %v, messages %d, interval %v", c.name, got.Strict, got.FlushMessages,
				got.FlushInterval)
		}
	}
}

// TestStoreConfig: zeros and bounds mean the same to Kafka and to the log.
func TestStoreConfig(t *testing.T) {
	id := kafkaproto.PartitionID{Topic: kafkaproto.TopicID{1}, Partition: 3}
	topic := newResolver(t, nil).Topic(map[string]string{
		"retention.ms": "0", "retention.bytes": "0", "delete.retention.ms": "0",
		"min.cleanable.dirty.ratio": "0.0", "index.interval.bytes": "0", "cleanup.policy": "compact,delete",
		"segment.jitter.ms": "1000", "max.message.bytes": "0",
	})
	c := topic.StoreConfig(id)
	if c.RetentionAge != 1 || c.RetentionBytes != 1 || c.DeleteRetention != 1 ||
		c.MinCleanableRatio >= 0 || c.IndexInterval != 1 || !c.Compact || !c.Delete || c.MaxMessageBytes != 1 {
		t.Errorf("zeros: %+v", c)
	}
	if c.SegmentJitter <= 0 || c.SegmentJitter >= time.Second || c.SegmentJitter != topic.StoreConfig(id).SegmentJitter {
		t.Errorf("jitter %v", c.SegmentJitter)
	}
	if c.MaxCompactionLag != math.MaxInt64 || c.SegmentBytes != 1<<30 || c.SegmentAge != 168*time.Hour {
		t.Errorf("defaults: %+v", c)
	}
	topic = newResolver(t, nil).Topic(map[string]string{"cleanup.policy": "", "retention.ms": "5"})
	if c = topic.StoreConfig(id); !c.Delete || c.Compact || c.RetentionAge >= 0 || c.RetentionBytes >= 0 {
		t.Errorf("an empty policy removes something: %+v", c)
	}
	topic = newResolver(t, nil).Topic(map[string]string{"retention.ms": "-1", "retention.bytes": "-2"})
	if c = topic.StoreConfig(id); c.RetentionAge >= 0 || c.RetentionBytes >= 0 {
		t.Errorf("no bounds: %+v", c)
	}
}

// TestTopicView checks what the produce path reads.
func TestTopicView(t *testing.T) {
	topic := newResolver(t, map[string]string{"compression.type": "gzip", "compression.gzip.level": "7"}).
		Topic(map[string]string{"message.timestamp.type": "LogAppendTime", "max.message.bytes": "77"})
	if topic.CompressionType != "gzip" || topic.CompressionLevel != 7 || topic.MaxMessageBytes != 77 ||
		topic.TimestampType != LogAppendTime || topic.TimestampAfterMax != 3600000 || topic.MinInsync != 1 {
		t.Errorf("%+v", topic)
	}
	// A text that another release wrote and this one cannot read counts as the default.
	topic = newResolver(t, nil).Topic(map[string]string{"segment.bytes": "huge", "min.cleanable.dirty.ratio": "?"})
	if topic.SegmentBytes != 1<<30 || topic.MinCleanableRatio != 0.5 {
		t.Errorf("unreadable values: %+v", topic)
	}
}

// TestValidate checks what one value alone does not show.
func TestValidate(t *testing.T) {
	l := newResolver(t, nil).Layers()
	checkFault(t, "lags", l.ValidateTopic(map[string]string{"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}),
		40, "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)")
	checkFault(t, "one lag", l.ValidateTopic(map[string]string{"min.compaction.lag.ms": "10"}), 40, "")

	for _, c := range []struct {
		values map[string]string
		wide   bool
		want   string
	}{
		{map[string]string{"log.retention.ms": " 7 "}, false, ""},
		{map[string]string{"nope.foo": "3"}, true, ""},
		{map[string]string{"log.retention.ms": "x"}, true, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"},
		{map[string]string{"log.segment.bytes": "1"}, false, "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576"},
		{map[string]string{"num.partitions": "3", "default.replication.factor": "1"}, false, "Cannot update these configs dynamically: [default.replication.factor, num.partitions]"},
		{map[string]string{"log.retention.hours": "3"}, true, "Cannot update these configs dynamically: [log.retention.hours]"},
		{map[string]string{"listeners": "PLAINTEXT://:1"}, false, "Cannot update these configs dynamically: [listeners]"},
		{map[string]string{"max.connections.per.ip.overrides": "a"}, false, "Invalid value a for configuration max.connections.per.ip.overrides: not host:count pairs"},
		{map[string]string{"max.connections.per.ip.overrides": "127.0.0.1:5,[::1]:6"}, false, ""},
	} {
		got, err := CanonicalBroker(c.values, c.wide)
		checkFault(t, fmt.Sprint(c.values), err, 42, c.want)
		if err == nil && len(got) != len(c.values) {
			t.Errorf("%v: canonical %v", c.values, got)
		}
	}
}

// TestResolverIdentity: a view may be remembered as long as Layers is the same.
func TestResolverIdentity(t *testing.T) {
	r := newResolver(t, nil)
	before := r.Layers()
	r.SetDynamic(map[string]string{}, nil)
	if r.Layers() != before {
		t.Error("nothing changed, but Layers did")
	}
	r.SetDynamic(nil, map[string]string{"message.max.bytes": "5", "max.connections": "6"})
	if r.Layers() == before || r.Topic(nil).MaxMessageBytes != 5 || r.Broker().MaxConns != 6 {
		t.Error("a dynamic change is not seen")
	}
	r.Pin(map[string]string{"node.id": "9", "log.dirs": "/x"})
	if r.Broker().NodeID != 9 || r.Broker().DataDir != "/x" || r.Broker().MaxConns != 6 {
		t.Errorf("pinned: %+v", r.Broker())
	}
}

// TestSensitive: what must not be shown is not (C5).
func TestSensitive(t *testing.T) {
	const listener = "listener.name.tls.ssl.keystore.key"
	r := newResolver(t, map[string]string{
		"ssl.keystore.key": "secret", "my.plugin.password": "secret", listener: "secret",
		"listener.name.x.scram-sha-256.sasl.jaas.config": "secret",
	})
	seen := 0
	for _, e := range r.DescribeBroker() {
		switch e.Name {
		case "ssl.keystore.key", "my.plugin.password", listener,
			"listener.name.x.scram-sha-256.sasl.jaas.config":
			seen++
			if !e.Sensitive || e.Value != nil || e.Source != SourceStatic {
				t.Errorf("%+v", e)
			}
		}
		for _, s := range append(e.Synonyms, Synonym{Value: e.Value}) {
			if s.Value != nil && strings.Contains(*s.Value, "secret") {
				t.Errorf("%s shows its value", e.Name)
			}
		}
	}
	if seen != 4 {
		t.Errorf("%d of 4 are described", seen)
	}
	for _, e := range r.DescribeTopic(map[string]string{"from.the.future": "secret"}) {
		if e.Name == "from.the.future" && (e.Value != nil || e.Source != SourceTopic) {
			t.Errorf("%+v", e)
		}
	}
}
