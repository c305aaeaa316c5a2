package meta

import (
	"iter"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Image is the whole metadata at one version. It never changes; a commit makes a new one that
// shares what did not change.
type Image struct{}

// Empty is the image before the first record.
func Empty() *Image { panic("todo") }

// Version counts the records applied so far.
func (i *Image) Version() int64 { panic("todo") }

// ClusterID is the cluster's identity, 22 characters.
func (i *Image) ClusterID() string { panic("todo") }

// Topic finds a topic by name; nil when there is none.
func (i *Image) Topic(name string) *Topic { panic("todo") }

// TopicByID finds a topic by id; nil when there is none.
func (i *Image) TopicByID(id kafkaproto.TopicID) *Topic { panic("todo") }

// Topics goes over all topics in the order of their names.
func (i *Image) Topics() iter.Seq[*Topic] { panic("todo") }

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { panic("todo") }

// Node finds a registered broker; nil when there is none.
func (i *Image) Node(id kafkaproto.NodeID) *Node { panic("todo") }

// Nodes gives the registered brokers in the order of their ids.
func (i *Image) Nodes() []*Node { panic("todo") }

// BrokerConfig gives the dynamic settings of a broker; "" names the cluster-wide defaults. The map
// must not be changed.
func (i *Image) BrokerConfig(name string) map[string]string { panic("todo") }

// FeaturesEpoch is the epoch that ApiVersions answers beside the finalized features.
func (i *Image) FeaturesEpoch() int64 { panic("todo") }

// Features gives the finalized features with a level above 0, sorted by name.
func (i *Image) Features() []Feature { panic("todo") }

// Topic is one topic; it never changes.
type Topic struct {
	Name       string
	ID         kafkaproto.TopicID
	Partitions []Partition
	Config     map[string]string // overrides only
	Internal   bool
	Version    int64 // counts changes of this topic, from 1
}

// Settings is the typed view of the topic's configuration, remembered until a layer changes.
func (t *Topic) Settings(r *config.Resolver) *config.Topic { panic("todo") }

// Partition is one partition; its index is its number.
type Partition struct {
	Replicas []kafkaproto.NodeID // the first is the preferred leader
}

// Leader is the preferred leader.
func (p Partition) Leader() kafkaproto.NodeID { return p.Replicas[0] }

// Node is one registered broker.
type Node struct {
	ID        kafkaproto.NodeID
	Directory string // uuid of the data directory: the node's identity (ruling 23)
	Rack      string // "" when not set
	Endpoints []Endpoint
}

// Endpoint is where a listener of a broker is reached.
type Endpoint struct {
	Listener, Protocol string
	Host               string
	Port               int32
}

// Feature is a finalized feature level (KIP-584).
type Feature struct {
	Name  string
	Level int16
}

// Supported is a feature this build knows, with its range.
type Supported struct {
	Name     string
	Min, Max int16
}

// SupportedFeatures lists what ApiVersions shows as supported.
func SupportedFeatures() []Supported { panic("todo") }

// IsInternal reports whether name is one of Kafka's internal topics.
func IsInternal(name string) bool { panic("todo") }

// Change is one difference between two images.
type Change struct{ Old, New *Topic } // Old nil: created; New nil: deleted

// TopicChanges lists what differs between two images, without walking what they share. A topic made
// anew under its old name is a deletion followed by a creation.
func TopicChanges(old, new *Image) []Change { panic("todo") }
