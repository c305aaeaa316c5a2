package config

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// readTable reads a tab-separated file without its comments.
func readTable(t *testing.T, name string, columns int) [][]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows [][]string
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		row := strings.Split(s.Text(), "\t")
		if len(row) != columns {
			t.Fatalf("%s: %q has %d columns, want %d", name, s.Text(), len(row), columns)
		}
		rows = append(rows, row)
	}
	return rows
}

// defaultDifferences are the broker keys whose default is not Kafka's, with the reason.
var defaultDifferences = map[string]string{
	"log.dir":                   "/tmp is no place for data: the data directory must be chosen",
	"ssl.keystore.type":         "PEM is what is read",
	"ssl.truststore.type":       "PEM is what is read",
	"node.id":                   "required by Kafka, drawn once here",
	"process.roles":             "required by Kafka",
	"controller.listener.names": "required by Kafka",
}

// readOnlyHere are keys that Kafka alters at run time and that are read at start here.
func readOnlyHere(name string) bool {
	return name == "listeners" || name == "listener.security.protocol.map" ||
		name == "principal.builder.class" || name == "cordoned.log.dirs" ||
		strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "sasl.")
}

// TestRegistryIsKafkas walks Kafka's own tables: every key is here with its type, default, bounds
// and way of altering, and nothing else is but ours.
func TestRegistryIsKafkas(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range readTable(t, "kafka-4.4.0-keys.tsv", 7) {
		scope, name, kind, def, valid := row[0], row[1], row[2], row[3], row[4]
		seen[scope+name] = true
		lookup := BrokerKey
		if scope == "topic" {
			lookup = TopicKey
		}
		k, ok := lookup(name)
		if !ok {
			t.Errorf("%s key %s is missing", scope, name)
			continue
		}
		if k.Type.String() != kind || k.Valid.Text != valid || k.Hidden != (row[5] == "true") || k.Ours {
			t.Errorf("%s: %+v, Kafka has type %s, bounds %q, internal %s", name, *k, kind, valid, row[5])
		}
		mine := k.Default
		if k.Null {
			mine = "<null>"
		}
		if _, listed := defaultDifferences[name]; mine != def && !listed {
			t.Errorf("%s: default %s, Kafka has %s", name, mine, def)
		}
		if scope == "broker" && row[6] != "-" && k.ReadOnly() != (row[6] == "true") && !readOnlyHere(name) {
			t.Errorf("%s: read-only %v, Kafka has %s", name, k.ReadOnly(), row[6])
		}
	}
	for scope, keys := range map[string][]Key{"topic": TopicKeys(), "broker": BrokerKeys()} {
		for _, k := range keys {
			if !seen[scope+k.Name] && !k.Ours {
				t.Errorf("%s key %s is neither Kafka's nor ours", scope, k.Name)
			}
		}
	}
}

// TestRegistryIsSound checks what the code relies on.
func TestRegistryIsSound(t *testing.T) {
	for _, keys := range [][]Key{TopicKeys(), BrokerKeys()} {
		if !slices.IsSortedFunc(keys, func(a, b Key) int { return strings.Compare(a.Name, b.Name) }) {
			t.Error("keys are not sorted by name")
		}
		for i, k := range keys {
			if i > 0 && keys[i-1].Name == k.Name {
				t.Errorf("%s stands there twice", k.Name)
			}
			if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
				t.Errorf("%s: doc %q is not a sentence", k.Name, k.Doc)
			}
			if k.Null != (k.Default == "") && k.Type != List && k.Type != String {
				t.Errorf("%s: null %v with default %q", k.Name, k.Null, k.Default)
			}
			if !k.Null {
				if got, err := k.Parse(k.Default); err != nil || got != k.Default {
					t.Errorf("%s: default %q parses to %q, %v", k.Name, k.Default, got, err)
				}
			}
			for _, a := range k.Aliases {
				if _, ok := BrokerKey(a.Name); !ok {
					t.Errorf("%s: alias %s is no broker key", k.Name, a.Name)
				}
			}
		}
	}
}

// TestDefaultsOfDesign is the table of kafka-protocol.md §4: what a topic and a broker get when
// nothing is set.
func TestDefaultsOfDesign(t *testing.T) {
	topic := `cleanup.policy=delete max.message.bytes=1048588 compression.type=producer
		message.timestamp.type=CreateTime compression.gzip.level=-1 compression.lz4.level=9
		compression.zstd.level=3 message.timestamp.before.max.ms=9223372036854775807
		delete.retention.ms=86400000 message.timestamp.after.max.ms=3600000
		file.delete.delay.ms=60000 min.cleanable.dirty.ratio=0.5 flush.messages=9223372036854775807
		min.compaction.lag.ms=0 flush.ms=9223372036854775807
		max.compaction.lag.ms=9223372036854775807 index.interval.bytes=4096 min.insync.replicas=1
		preallocate=false retention.bytes=-1 retention.ms=604800000 segment.bytes=1073741824
		segment.index.bytes=10485760 segment.ms=604800000 segment.jitter.ms=0
		unclean.leader.election.enable=false remote.storage.enable=false local.retention.ms=-2
		local.retention.bytes=-2 leader.replication.throttled.replicas=
		follower.replication.throttled.replicas= sluice.durability=strict`
	broker := `auto.create.topics.enable=true delete.topic.enable=true num.partitions=1
		default.replication.factor=1 message.max.bytes=1048588 fetch.max.bytes=57671680
		socket.request.max.bytes=104857600 max.request.partition.size.limit=2000
		connections.max.idle.ms=600000 connection.failed.authentication.delay.ms=100
		max.connections=2147483647 max.connections.per.ip=2147483647
		max.incremental.fetch.session.cache.slots=1000 num.network.threads=3 num.io.threads=8
		queued.max.requests=500 log.retention.check.interval.ms=300000 log.cleaner.enable=true
		log.cleaner.threads=1 log.cleaner.backoff.ms=15000 replica.lag.time.max.ms=30000
		replica.fetch.max.bytes=1048576 replica.fetch.wait.max.ms=500 request.timeout.ms=30000
		auto.leader.rebalance.enable=true replica.selector.class=<null> broker.rack=<null>
		offsets.topic.num.partitions=50 offsets.topic.replication.factor=3
		offsets.retention.minutes=10080 offsets.retention.check.interval.ms=600000
		offset.metadata.max.bytes=4096 offsets.commit.timeout.ms=5000
		offsets.topic.segment.bytes=104857600 group.initial.rebalance.delay.ms=3000
		group.max.size=2147483647 group.min.session.timeout.ms=6000
		group.max.session.timeout.ms=1800000 group.consumer.session.timeout.ms=45000
		group.consumer.min.session.timeout.ms=45000 group.consumer.max.session.timeout.ms=60000
		group.consumer.heartbeat.interval.ms=5000 group.consumer.min.heartbeat.interval.ms=5000
		group.consumer.max.heartbeat.interval.ms=15000 group.consumer.assignors=uniform,range
		group.consumer.migration.policy=bidirectional group.consumer.assignment.interval.ms=1000
		group.consumer.regex.refresh.interval.ms=600000
		group.coordinator.rebalance.protocols=classic,consumer,streams
		group.share.record.lock.duration.ms=30000 group.share.delivery.count.limit=5
		transaction.max.timeout.ms=900000 transactional.id.expiration.ms=604800000
		transaction.state.log.num.partitions=50 transaction.state.log.replication.factor=3
		transaction.state.log.min.isr=2 transaction.partition.verification.enable=true
		transaction.abort.timed.out.transaction.cleanup.interval.ms=10000
		transaction.two.phase.commit.enable=false producer.id.expiration.ms=86400000
		producer.id.expiration.check.interval.ms=600000 connections.max.reauth.ms=0
		sasl.enabled.mechanisms=GSSAPI delegation.token.max.lifetime.ms=604800000
		delegation.token.expiry.time.ms=86400000 quota.window.num=11 quota.window.size.seconds=1
		num.recovery.threads.per.data.dir=2 unstable.api.versions.enable=false
		sluice.http.listeners=127.0.0.1:8080 sluice.durability=strict`
	r := newResolver(t, nil)
	checkValues(t, r.DescribeTopic(nil), topic)
	entries := r.DescribeBroker()
	for _, name := range []string{
		"group.consumer.regex.refresh.interval.ms", "producer.id.expiration.check.interval.ms",
		"unstable.api.versions.enable",
	} {
		// Kafka's internal keys are there but not described.
		k, _ := BrokerKey(name)
		entries = append(entries, Entry{Name: name, Value: &k.Default})
	}
	checkValues(t, entries, broker)
}

func checkValues(t *testing.T, entries []Entry, want string) {
	t.Helper()
	got := map[string]string{}
	for _, e := range entries {
		got[e.Name] = "<null>"
		if e.Value != nil {
			got[e.Name] = *e.Value
		}
	}
	for _, pair := range strings.Fields(want) {
		name, value, _ := strings.Cut(pair, "=")
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s is %q (there: %v), want %q", name, v, ok, value)
		}
	}
}

// TestTopicValueTexts holds what Kafka 4.4.0 answered to CreateTopics with one config each.
func TestTopicValueTexts(t *testing.T) {
	const inv, list = "Invalid value ", " must be the literal '*' or a list of replicas in the " +
		"following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
	types := "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
	for _, c := range []struct{ name, value, canonical, err string }{
		{"retention.ms", "x", "", inv + "x for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "", "", inv + " for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "-2", "", inv + "-2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", "1.5", "", inv + "1.5 for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "99999999999999999999", "", inv + "99999999999999999999 for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "0x10", "", inv + "0x10 for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", "1_000", "", inv + "1_000 for configuration retention.ms: Not a number of type LONG"},
		{"retention.ms", " 5 ", "5", ""},
		{"retention.ms", "+5", "5", ""},
		{"segment.bytes", "1", "", inv + "1 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "3000000000", "", inv + "3000000000 for configuration segment.bytes: Not a number of type INT"},
		{"preallocate", "yes", "", inv + "yes for configuration preallocate: Expected value to be either true or false"},
		{"preallocate", "", "", inv + " for configuration preallocate: Expected value to be either true or false"},
		{"preallocate", "TRUE", "true", ""},
		{"preallocate", " true ", "true", ""},
		{"min.cleanable.dirty.ratio", "1.5", "", inv + "1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "x", "", inv + "x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
		{"min.cleanable.dirty.ratio", "NaN", "", inv + "NaN for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"}, // Kafka takes it
		{"min.cleanable.dirty.ratio", "0.5d", "0.5", ""},
		{"min.cleanable.dirty.ratio", "1e-1", "0.1", ""},
		{"min.cleanable.dirty.ratio", "0x1p-1", "0.5", ""},
		{"min.cleanable.dirty.ratio", "0.0001", "1.0E-4", ""},
		{"min.cleanable.dirty.ratio", "1", "1.0", ""},
		{"cleanup.policy", "foo", "", inv + "foo for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "Delete", "", inv + "Delete for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "delete,", "", "Configuration 'cleanup.policy' values must not be empty."},
		{"cleanup.policy", ",delete", "", "Configuration 'cleanup.policy' values must not be empty."},
		{"cleanup.policy", "", "", ""},
		{"cleanup.policy", "delete,delete", "delete", ""},
		{"cleanup.policy", "delete, compact", "delete,compact", ""},
		{"compression.type", "lzo", "", inv + "lzo for configuration compression.type: " + types},
		{"compression.type", "", "", inv + " for configuration compression.type: " + types},
		{"compression.type", "GZIP", "", inv + "GZIP for configuration compression.type: " + types},
		{"compression.type", " gzip ", "gzip", ""},
		{"compression.gzip.level", "0", "", inv + "0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "10", "", inv + "10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "-1", "-1", ""},
		{"compression.lz4.level", "18", "", inv + "18 for configuration compression.lz4.level: Value must be no more than 17"},
		{"compression.zstd.level", "23", "", inv + "23 for configuration compression.zstd.level: Value must be no more than 22"},
		{"message.timestamp.type", "createtime", "", inv + "createtime for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime"},
		{"leader.replication.throttled.replicas", "x", "", inv + "[x] for configuration leader.replication.throttled.replicas: leader.replication.throttled.replicas" + list},
		{"follower.replication.throttled.replicas", "*,0:1", "", inv + "[*, 0:1] for configuration follower.replication.throttled.replicas: follower.replication.throttled.replicas" + list},
		{"leader.replication.throttled.replicas", "*", "*", ""},
		{"leader.replication.throttled.replicas", "0:1,1:2", "0:1,1:2", ""},
		{"retention.bytes", "-2", "-2", ""},
		{"min.insync.replicas", "0", "", inv + "0 for configuration min.insync.replicas: Value must be at least 1"},
		{"min.insync.replicas", "5", "5", ""},
		{"remote.storage.enable", "true", "", "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."},
		{"remote.log.copy.disable", "true", "true", ""},
		{"message.format.version", "3.0", "", "Unknown topic config name: message.format.version"},
		{"nope.key", "1", "", "Unknown topic config name: nope.key"},
		{"retention.m", "1", "", "Unknown topic config name: retention.m (did you mean retention.ms?)"},
		{"internal.segment.bytes", "1000", "1000", ""},
		{"max.decompressed.message.bytes", "0", "", inv + "0 for configuration max.decompressed.message.bytes: Value must be at least 1"},
		{"flush.messages", "0", "", inv + "0 for configuration flush.messages: Value must be at least 1"},
		{"segment.index.bytes", "3", "", inv + "3 for configuration segment.index.bytes: Value must be at least 4"},
		{"max.message.bytes", "-1", "", inv + "-1 for configuration max.message.bytes: Value must be at least 0"},
		{"sluice.durability", "loose", "", inv + "loose for configuration sluice.durability: String must be one of: strict, relaxed"},
	} {
		got, err := CanonicalTopic(c.name, c.value)
		checkFault(t, c.name+"="+c.value, err, 40, c.err)
		if got != c.canonical {
			t.Errorf("%s=%q: canonical %q, want %q", c.name, c.value, got, c.canonical)
		}
	}
}

// TestParseIsCanonical: what Describe gives, Alter takes back unchanged (C3).
func TestParseIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SampledFrom([][]Key{TopicKeys(), BrokerKeys()}).Draw(t, "keys")
		k := rapid.SampledFrom(keys).Draw(t, "key")
		value := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(` ?[-+]?[0-9]{1,20}(\.[0-9]+)?([eE]-?[0-9]{1,3})?[dDfF]? ?`),
			rapid.SampledFrom([]string{"true", "False", "delete , compact", "*", "0:1, 0:2", "gzip"}),
		).Draw(t, "value")
		once, err := k.Parse(value)
		if err != nil {
			return
		}
		twice, err := k.Parse(once)
		if err != nil || twice != once {
			t.Fatalf("%s: %q -> %q -> %q, %v", k.Name, value, once, twice, err)
		}
	})
}
