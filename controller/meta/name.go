package meta

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Kafka's internal topics.
const (
	ConsumerOffsets  = "__consumer_offsets"
	TransactionState = "__transaction_state"
	ShareGroupState  = "__share_group_state"
	// ClusterMetadata is the name of the metadata log; no topic of that name can be made.
	ClusterMetadata = "__cluster_metadata"
)

// MaxTopicName is the longest topic name, in bytes: its directory must fit a file name.
const MaxTopicName = 249

// IsInternal reports whether name is one of Kafka's internal topics.
func IsInternal(name string) bool {
	return name == ConsumerOffsets || name == TransactionState || name == ShareGroupState
}

// CheckTopicName reports what is wrong with a topic's name: kerr.InvalidTopicException.
func CheckTopicName(name string) error {
	text := ""
	switch {
	case name == "":
		text = "the empty string is not allowed"
	case name == "." || name == "..":
		text = "'" + name + "' is not allowed"
	case len(name) > MaxTopicName:
		text = "the length of '" + name + "' is longer than the max allowed length 249"
	case strings.ContainsFunc(name, func(r rune) bool { return !legal(r) }):
		text = "'" + name + "' contains one or more characters other than ASCII alphanumerics, " +
			"'.', '_' and '-'"
	default:
		return nil
	}
	return kafkaproto.Faultf(kerr.InvalidTopicException, "Topic name is invalid: %s", text)
}

func legal(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		r == '.' || r == '_' || r == '-'
}

// collides reports whether a name has characters that metric names fold into one: Kafka refuses two
// topics that differ in these only.
func collides(name string) bool { return strings.ContainsAny(name, "._") }

func folded(name string) string { return strings.ReplaceAll(name, ".", "_") }

// InternalTopic is how to make one of Kafka's internal topics by the broker's settings, for
// CreateTopics with Internal set.
func InternalTopic(name string, b *config.Broker) NewTopic {
	t := NewTopic{Name: name, Partitions: -1, Replication: -1}
	set := func(pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			t.Config = append(t.Config, ConfigValue{Name: pairs[i], Value: &pairs[i+1]})
		}
	}
	switch name {
	case ConsumerOffsets:
		t.Partitions, t.Replication = b.Offsets.Partitions, b.Offsets.Replication
		set("cleanup.policy", "compact", "compression.type", "producer",
			"segment.bytes", atLeastSegment(b.Offsets.SegmentBytes))
	case TransactionState:
		t.Partitions, t.Replication = b.Txn.Partitions, b.Txn.Replication
		set("cleanup.policy", "compact", "compression.type", "uncompressed",
			"min.insync.replicas", itoa(b.Txn.MinInsync),
			"segment.bytes", atLeastSegment(b.Txn.SegmentBytes),
			"unclean.leader.election.enable", "false")
	}
	return t
}

// atLeastSegment lifts a segment size to what a topic may have: the brokers' keys have no such
// bound.
func atLeastSegment(n int) string { return itoa(max(n, 1<<20)) }
