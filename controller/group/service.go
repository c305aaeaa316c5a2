package group

import (
	"io"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// OffsetsTopic is the internal topic that holds groups and offsets, by Kafka's name.
const OffsetsTopic = "__consumer_offsets"

// Config is what the operator may set; DefaultConfig gives Kafka's values.
type Config struct {
	MinSessionMs        int32 // group.min.session.timeout.ms
	MaxSessionMs        int32 // group.max.session.timeout.ms
	InitialDelayMs      int32 // group.initial.rebalance.delay.ms
	MaxSize             int   // group.max.size
	NewMemberJoinMs     int32 // Kafka's constant: 5 minutes
	OffsetRetentionMs   int64 // offsets.retention.minutes
	RetentionCheckMs    int64 // offsets.retention.check.interval.ms
	MaxMetadataBytes    int   // offset.metadata.max.bytes, counted in UTF-16 units as Kafka does
	MaxGroupRecordBytes int   // bound of a group's own record: max.message.bytes of the topic
	MaxPendingPerGroup  int   // members told to come again (KIP-394) that are kept per group
}

// DefaultConfig gives Kafka's defaults.
func DefaultConfig() Config { panic("todo") }

// Topics is one immutable generation of the cluster's topics.
type Topics interface {
	// Topic finds a topic by name.
	Topic(name string) (id kafkaproto.TopicID, partitions int32, ok bool)
	// TopicName finds a topic's name by its id.
	TopicName(id kafkaproto.TopicID) (string, bool)
}

// Client is who sends a request.
type Client struct {
	ID   string // client id
	Host string // address as Kafka prints it: /127.0.0.1
}

// Options is what a Service is made of.
type Options struct {
	Clock  clock.Clock
	Logger *slog.Logger
	Config Config
	// Topics gives the newest generation of the topics.
	Topics func() Topics
	// Open finds the log of a partition of OffsetsTopic.
	Open func(partition int32) (coord.Log, error)
	// EnsureTopic creates OffsetsTopic and returns when its partitions can be opened. It may
	// block: the service calls it on a goroutine of its own, once at a time.
	EnsureTopic func() error
	// Random draws member ids; nil is crypto/rand.
	Random io.Reader
	// Workers run the shards; 0 runs them on the caller.
	Workers int
}

// Service is the group coordinator as the API handlers see it. Every method answers through its
// reply function, exactly once, perhaps before it returns and perhaps much later on another
// goroutine. Requests may be kept until then; what the machine keeps longer it copies.
type Service struct{}

// New makes the service; Start loads what there is.
func New(o Options) *Service { panic("todo") }

// Start loads every partition of OffsetsTopic, so that sessions run out and groups are listed
// although nobody asks for them.
func (s *Service) Start() { panic("todo") }

// Close answers who waits and stops the workers.
func (s *Service) Close() { panic("todo") }

// PartitionOf is the partition of OffsetsTopic that keeps the group, as Kafka chooses it.
func PartitionOf(groupID string, partitions int32) int32 { panic("todo") }

// Ready calls done when OffsetsTopic exists, creating it if need be; an error means that it could
// not be created (COORDINATOR_NOT_AVAILABLE).
func (s *Service) Ready(done func(error)) { panic("todo") }

// Join answers JoinGroup.
func (s *Service) Join(c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) {
	panic("todo")
}

// Sync answers SyncGroup.
func (s *Service) Sync(req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {
	panic("todo")
}

// Heartbeat answers Heartbeat.
func (s *Service) Heartbeat(req *kmsg.HeartbeatRequest, reply func(*kmsg.HeartbeatResponse)) {
	panic("todo")
}

// Leave answers LeaveGroup.
func (s *Service) Leave(req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) {
	panic("todo")
}

// Describe answers DescribeGroups.
func (s *Service) Describe(
	req *kmsg.DescribeGroupsRequest, reply func(*kmsg.DescribeGroupsResponse),
) {
	panic("todo")
}

// List answers ListGroups.
func (s *Service) List(req *kmsg.ListGroupsRequest, reply func(*kmsg.ListGroupsResponse)) {
	panic("todo")
}

// Delete answers DeleteGroups.
func (s *Service) Delete(req *kmsg.DeleteGroupsRequest, reply func(*kmsg.DeleteGroupsResponse)) {
	panic("todo")
}

// OffsetCommit answers OffsetCommit.
func (s *Service) OffsetCommit(
	req *kmsg.OffsetCommitRequest, reply func(*kmsg.OffsetCommitResponse),
) {
	panic("todo")
}

// OffsetFetch answers OffsetFetch.
func (s *Service) OffsetFetch(
	req *kmsg.OffsetFetchRequest, reply func(*kmsg.OffsetFetchResponse),
) {
	panic("todo")
}

// OffsetDelete answers OffsetDelete.
func (s *Service) OffsetDelete(
	req *kmsg.OffsetDeleteRequest, reply func(*kmsg.OffsetDeleteResponse),
) {
	panic("todo")
}

// TopicDeleted removes the offsets of a deleted topic from all groups. The caller has a committed
// delete that names the id.
func (s *Service) TopicDeleted(name string, id kafkaproto.TopicID) { panic("todo") }

// Sweep removes the offsets of topics that are not in topics, which must be no older than the
// offsets: the node calls it once after a start, for deletions that a crash cut short.
func (s *Service) Sweep(topics Topics) { panic("todo") }

// GroupStats is one group as the metrics show it.
type GroupStats struct {
	Group    string
	State    string
	Protocol string // protocol type
	Members  int
	Offsets  []OffsetStats
}

// OffsetStats is one committed offset.
type OffsetStats struct {
	Topic     string
	Partition int32
	Offset    kafkaproto.Offset
	Committed int64 // milliseconds since 1970
}

// Stats copies what the loaded shards hold; done is called once.
func (s *Service) Stats(done func([]GroupStats)) { panic("todo") }
