package meta

import (
	"github.com/sluicelog/sluice/kafkaproto"
)

// Command is a wish to change the metadata. The types below are all there are.
type Command interface{ command() }

// Result is the answer to a command: CreateTopicsResult for CreateTopics, and so on.
type Result interface{ result() }

// CreateTopics makes topics (CreateTopics API, auto-creation, internal topics).
type CreateTopics struct {
	Topics       []NewTopic
	ValidateOnly bool
	// Internal is for the broker's own topics: they get 3 replicas where 3 are wanted and there are
	// 3 brokers, else 1 (ruling 14).
	Internal bool
}

// NewTopic is one topic to make.
type NewTopic struct {
	Name        string
	Partitions  int32 // -1: num.partitions, or given by Assignment
	Replication int16 // -1: default.replication.factor, or given by Assignment
	Assignment  []Assignment
	Config      []ConfigValue
}

// Assignment places one partition by hand.
type Assignment struct {
	Partition int32
	Replicas  []kafkaproto.NodeID
}

// ConfigValue is a key with its value; a nil value means null.
type ConfigValue struct {
	Name  string
	Value *string
}

// CreateTopicsResult answers CreateTopics, one row per name in the order asked.
type CreateTopicsResult struct{ Topics []CreatedTopic }

// CreatedTopic is the outcome for one topic; Err carries the Kafka code and sentence.
type CreatedTopic struct {
	Name        string
	Err         error
	ID          kafkaproto.TopicID
	Partitions  int32
	Replication int16
	// Config is the topic's overrides in canonical spelling, for config.Resolver.DescribeTopic.
	Config map[string]string
}

// DeleteTopics removes topics, each by name or by id.
type DeleteTopics struct{ Topics []TopicRef }

// TopicRef names a topic by name or, when ID is not zero, by id.
type TopicRef struct {
	Name string
	ID   kafkaproto.TopicID
}

// DeleteTopicsResult answers DeleteTopics, one row per topic in the order asked.
type DeleteTopicsResult struct{ Topics []DeletedTopic }

// DeletedTopic is the outcome for one reference, with both name and id when it was deleted.
type DeletedTopic struct {
	Name string
	ID   kafkaproto.TopicID
	Err  error
}

// CreatePartitions grows topics.
type CreatePartitions struct {
	Topics       []GrowTopic
	ValidateOnly bool
}

// GrowTopic sets a topic's new total number of partitions.
type GrowTopic struct {
	Name       string
	Count      int32
	Assignment [][]kafkaproto.NodeID // nil: chosen
}

// CreatePartitionsResult answers CreatePartitions, one row per topic in the order asked.
type CreatePartitionsResult struct{ Topics []GrownTopic }

// GrownTopic is the outcome for one topic.
type GrownTopic struct {
	Name string
	Err  error
}

// ResourceType is a config resource's type, with the numbers of DescribeConfigs.
type ResourceType int8

// The resource types that hold settings here.
const (
	ResourceTopic  ResourceType = 2
	ResourceBroker ResourceType = 4
)

// Op is what IncrementalAlterConfigs does to a key.
type Op int8

// The operations of IncrementalAlterConfigs.
const (
	OpSet      Op = 0
	OpDelete   Op = 1
	OpAppend   Op = 2
	OpSubtract Op = 3
)

// AlterConfigs changes settings: incrementally (API 44) or, with Replace, as a whole (API 33).
type AlterConfigs struct {
	Resources    []AlterResource
	ValidateOnly bool
	Replace      bool
}

// AlterResource changes one resource's settings, all or nothing.
type AlterResource struct {
	Type ResourceType
	Name string // topic name, broker id, or "" for the cluster-wide broker defaults
	Ops  []AlterOp
	// IfVersion, when above 0, refuses the change with kerr.InvalidUpdateVersion unless the topic
	// is at this version.
	IfVersion int64
}

// AlterOp changes one key; with AlterConfigs.Replace the Op is ignored.
type AlterOp struct {
	Name  string
	Op    Op
	Value *string
}

// AlterConfigsResult answers AlterConfigs, one row per resource in the order asked.
type AlterConfigsResult struct{ Resources []AlteredResource }

// AlteredResource is the outcome for one resource.
type AlteredResource struct {
	Type ResourceType
	Name string
	Err  error
}

// AllocateProducerIDs takes the next block of producer ids for a broker.
type AllocateProducerIDs struct{ Node kafkaproto.NodeID }

// ProducerIDBlockSize is how many ids a block holds.
const ProducerIDBlockSize = 1000

// ProducerIDBlock answers AllocateProducerIDs: First up to First+Count-1 belong to the asker.
type ProducerIDBlock struct {
	First kafkaproto.ProducerID
	Count int64
}

// InitCluster names a new cluster and finalizes the features of this release; on a cluster that
// has its name it only finalizes features that nobody decided about, once all brokers know them.
type InitCluster struct{ ClusterID string }

// ClusterInitialized answers InitCluster.
type ClusterInitialized struct{ ClusterID string }

func (CreateTopics) command()        {}
func (DeleteTopics) command()        {}
func (CreatePartitions) command()    {}
func (AlterConfigs) command()        {}
func (AllocateProducerIDs) command() {}
func (InitCluster) command()         {}

func (CreateTopicsResult) result()     {}
func (DeleteTopicsResult) result()     {}
func (CreatePartitionsResult) result() {}
func (AlterConfigsResult) result()     {}
func (ProducerIDBlock) result()        {}
func (ClusterInitialized) result()     {}
