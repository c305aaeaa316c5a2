package kafkaproto

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
)

// Offset is the position of a record in one partition's log. Log end offsets and high watermarks
// are exclusive: the next offset to be written, the first one not yet visible.
type Offset int64

// LeaderEpoch counts the leaderships of a partition; it equals the raft term (KIP-101, KIP-320).
type LeaderEpoch int32

// NoEpoch stands for "not known" in requests and answers.
const NoEpoch LeaderEpoch = -1

// NodeID is a broker's number in the cluster.
type NodeID int32

// ProducerID identifies an idempotent producer (KIP-98).
type ProducerID int64

// NoProducerID marks a batch written without idempotence.
const NoProducerID ProducerID = -1

// ProducerEpoch fences older instances of the same producer id.
type ProducerEpoch int16

// TopicID is a topic's identity, never reused; the zero value is "none" (KIP-516).
type TopicID [16]byte

// NewTopicID draws a random version 4 UUID whose text does not begin with '-', as Kafka's
// Uuid.randomUuid does, so that it can stand on a command line.
func NewTopicID(random io.Reader) (TopicID, error) {
	if random == nil {
		random = rand.Reader
	}
	for {
		var id TopicID
		if _, err := io.ReadFull(random, id[:]); err != nil {
			return TopicID{}, fmt.Errorf("draw topic id: %w", err)
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id.String()[0] != '-' {
			return id, nil
		}
	}
}

// IsZero reports whether the id stands for "none".
func (t TopicID) IsZero() bool { return t == TopicID{} }

// String gives Kafka's spelling: URL-safe base64 without padding, 22 characters.
func (t TopicID) String() string { return base64.RawURLEncoding.EncodeToString(t[:]) }

// ParseTopicID reads the spelling that String gives.
func ParseTopicID(s string) (TopicID, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) != 16 {
		return TopicID{}, fmt.Errorf("topic id %q is not 22 characters of URL-safe base64", s)
	}
	return TopicID(raw), nil
}

// TopicPartition names a partition by its topic's name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String gives the name of the partition's directory, as Kafka spells it: topic-partition.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// PartitionID names a partition for good: it survives a rename and differs after a re-creation.
type PartitionID struct {
	Topic     TopicID
	Partition int32
}

// String gives topicid-partition; the last '-' separates, as topic ids may hold '-' themselves.
func (p PartitionID) String() string {
	return p.Topic.String() + "-" + strconv.Itoa(int(p.Partition))
}
