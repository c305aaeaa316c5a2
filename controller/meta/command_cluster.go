package meta

import "github.com/sluicelog/sluice/kafkaproto"

// RegisterBroker makes a broker known, or replaces what it told before. A new Incarnation takes back
// Fenced and Stopping, not Draining.
type RegisterBroker struct {
	// ID is the number that the broker asks for; -1: the one it has, or the next that never was.
	ID          kafkaproto.NodeID
	Directory   string
	Incarnation uint64
	Rack        string
	Endpoints   []Endpoint
	Peer        string
	Features    []FeatureRange
}

// BrokerRegistered answers RegisterBroker. DUPLICATE_BROKER_REGISTRATION: the number belongs to
// another data directory. INVALID_REGISTRATION: the directory has another number.
// UNSUPPORTED_VERSION: a finalized feature is beyond the broker.
type BrokerRegistered struct {
	ID    kafkaproto.NodeID
	Epoch int64
}

// BrokerChange is what ChangeBroker does.
type BrokerChange int8

const (
	// FenceBroker says that a broker was not heard of for some time.
	FenceBroker BrokerChange = iota + 1
	// UnfenceBroker says that it is back.
	UnfenceBroker
	// StopBroker begins a controlled shutdown; it ends when the broker registers again.
	StopBroker
	// DrainBroker has the broker's replicas and leaders go elsewhere.
	DrainBroker
	// UndrainBroker takes DrainBroker back.
	UndrainBroker
)

// ChangeBroker changes what is to be thought of a broker. One that is not there is refused with
// BROKER_ID_NOT_REGISTERED.
type ChangeBroker struct {
	ID     kafkaproto.NodeID
	Change BrokerChange
	// Epoch, when above 0, refuses with STALE_BROKER_EPOCH a broker that was started anew meanwhile.
	Epoch int64
	// IfVersion, when above 0, refuses with INVALID_UPDATE_VERSION unless the registration is at this
	// version.
	IfVersion int64
}

// BrokerChanged answers ChangeBroker and UnregisterBroker, with the registration's version after it.
type BrokerChanged struct{ Version int64 }

// UnregisterBroker forgets a broker. Like Kafka it does so also when replicas stand on it, unless
// IfEmpty: then it is refused with INELIGIBLE_REPLICA.
type UnregisterBroker struct {
	ID        kafkaproto.NodeID
	IfVersion int64
	IfEmpty   bool
}

// AlterPartitionReassignments says which brokers are to keep partitions (KIP-455).
type AlterPartitionReassignments struct {
	Partitions []ReassignPartition
	// KeepFactor refuses a change of the number of replicas.
	KeepFactor bool
}

// ReassignPartition is a partition's new assignment.
type ReassignPartition struct {
	Topic     string
	Partition int32
	Replicas  []kafkaproto.NodeID // the preferred leader first; nil: take back what is under way
	// IfVersion, when above 0, refuses with INVALID_UPDATE_VERSION unless the partition is at this
	// version: what an administrator or the balancer decided on is no longer so.
	IfVersion int64
}

// PartitionsReassigned answers AlterPartitionReassignments, rows in the order asked, and
// GrowInternalTopics, with a row for each partition that grows.
type PartitionsReassigned struct{ Partitions []ReassignedPartition }

// ReassignedPartition is the outcome for one partition; Version is that after the command.
type ReassignedPartition struct {
	Topic     string
	Partition int32
	Version   int64
	Err       error
}

// CompleteReassignment is what a partition's leader reached: the members of its raft group after a
// change was applied. A group in a joint state has nothing to report.
type CompleteReassignment struct {
	Partition kafkaproto.PartitionID
	// Version is the partition's version that the leader worked on. Any other is refused with
	// INVALID_UPDATE_VERSION: the leader looks at the new assignment and goes on from there.
	Version          int64
	Leader           uint64 // the replica id of the leader, one of Voters
	Voters, Learners []uint64
}

// ReassignmentCompleted answers CompleteReassignment; Version is that after the command. UNKNOWN_TOPIC_ID
// and UNKNOWN_TOPIC_OR_PARTITION: the partition is gone. INVALID_REQUEST: no such replicas.
type ReassignmentCompleted struct{ Version int64 }

// GrowInternalTopics gives internal topics of one replica three (ruling 14), where the settings ask
// for three and three brokers are there. At most Max partitions at once; 0: all.
type GrowInternalTopics struct{ Max int }

// FeatureUpgradeType says whether a level may become lower, with the numbers of UpdateFeatures.
type FeatureUpgradeType int8

// The upgrade types.
const (
	FeatureUpgrade         FeatureUpgradeType = 1
	FeatureSafeDowngrade   FeatureUpgradeType = 2
	FeatureUnsafeDowngrade FeatureUpgradeType = 3
)

// UpdateFeatures finalizes features (KIP-584), all or none: INVALID_UPDATE_VERSION. IfEpoch, when
// above 0, must be the epoch of the features.
type UpdateFeatures struct {
	Updates      []FeatureUpdate
	ValidateOnly bool
	IfEpoch      int64
}

// FeatureUpdate is one feature's new level; 0 takes it back.
type FeatureUpdate struct {
	Name  string
	Level int16
	Type  FeatureUpgradeType
}

// FeaturesUpdated answers UpdateFeatures.
type FeaturesUpdated struct{}

func (RegisterBroker) command()              {}
func (ChangeBroker) command()                {}
func (UnregisterBroker) command()            {}
func (AlterPartitionReassignments) command() {}
func (CompleteReassignment) command()        {}
func (GrowInternalTopics) command()          {}
func (UpdateFeatures) command()              {}

func (BrokerRegistered) result()      {}
func (BrokerChanged) result()         {}
func (PartitionsReassigned) result()  {}
func (ReassignmentCompleted) result() {}
func (FeaturesUpdated) result()       {}
