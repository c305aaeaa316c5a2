package meta

import (
	"bytes"
	"iter"
	"slices"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Image is the whole metadata at one version. It never changes; Apply makes a new one that shares
// what did not change.
type Image struct {
	version       int64
	clusterID     string
	byName        tree[string, *Topic]
	byID          tree[kafkaproto.TopicID, *Topic]
	byFold        tree[string, []string] // folded name -> names, for names that collide
	nodes         []*Node                // by id
	brokers       map[string]*brokerConfig
	features      []Feature // by name
	featuresEpoch int64
	nextProducer  kafkaproto.ProducerID
}

// brokerConfig is the dynamic settings of one broker, or of the cluster. It never changes.
type brokerConfig struct {
	version int64
	values  map[string]string
}

// Empty is the image before the first record.
func Empty() *Image {
	return &Image{
		byName: newTree[string, *Topic](),
		byID: tree[kafkaproto.TopicID, *Topic]{
			compare: func(a, b kafkaproto.TopicID) int { return bytes.Compare(a[:], b[:]) },
		},
		byFold:        newTree[string, []string](),
		featuresEpoch: -1,
	}
}

// Version counts the records applied so far.
func (i *Image) Version() int64 { return i.version }

// ClusterID is the cluster's identity, 22 characters; "" before the first record.
func (i *Image) ClusterID() string { return i.clusterID }

// Topic finds a topic by name; nil when there is none.
func (i *Image) Topic(name string) *Topic {
	t, _ := i.byName.Get(name)
	return t
}

// TopicByID finds a topic by id; nil when there is none.
func (i *Image) TopicByID(id kafkaproto.TopicID) *Topic {
	t, _ := i.byID.Get(id)
	return t
}

// Topics goes over all topics in the order of their names.
func (i *Image) Topics() iter.Seq[*Topic] { return i.byName.All() }

// TopicCount is the number of topics.
func (i *Image) TopicCount() int { return i.byName.Len() }

// Node finds a registered broker; nil when there is none.
func (i *Image) Node(id kafkaproto.NodeID) *Node {
	at, ok := i.nodeAt(id)
	if !ok {
		return nil
	}
	return i.nodes[at]
}

func (i *Image) nodeAt(id kafkaproto.NodeID) (at int, ok bool) {
	return slices.BinarySearchFunc(i.nodes, id, func(n *Node, id kafkaproto.NodeID) int {
		return int(n.ID) - int(id)
	})
}

// Nodes gives the registered brokers in the order of their ids. The slice must not be changed.
func (i *Image) Nodes() []*Node { return i.nodes }

// BrokerConfig gives the dynamic settings of a broker by its id in decimal; "" names the
// cluster-wide defaults. The map must not be changed.
func (i *Image) BrokerConfig(name string) map[string]string {
	if c := i.brokers[name]; c != nil {
		return c.values
	}
	return nil
}

// NextProducerID is the first producer id that no block has given away.
func (i *Image) NextProducerID() kafkaproto.ProducerID { return i.nextProducer }

// FeaturesEpoch is the epoch that ApiVersions answers beside the finalized features: the version of
// the last change of one; -1 when there are none.
func (i *Image) FeaturesEpoch() int64 { return i.featuresEpoch }

// Features gives the finalized features with a level above 0, sorted by name.
func (i *Image) Features() []Feature { return i.features }

// Feature gives a feature's finalized level; 0 when it is not finalized.
func (i *Image) Feature(name string) int16 {
	for _, f := range i.features {
		if f.Name == name {
			return f.Level
		}
	}
	return 0
}

// Node is one registered broker; it never changes.
type Node struct {
	ID kafkaproto.NodeID `json:"brokerId"`
	// Directory is the uuid of the data directory: the node's identity (ruling 23).
	Directory string     `json:"directoryId"`
	Rack      string     `json:"rack,omitempty"`
	Endpoints []Endpoint `json:"endPoints"`
}

// Endpoint is where a listener of a broker is reached.
type Endpoint struct {
	Listener string `json:"name"`
	Protocol string `json:"securityProtocol"`
	Host     string `json:"host"`
	Port     int32  `json:"port"`
}

// Feature is a finalized feature level (KIP-584).
type Feature struct {
	Name  string `json:"name"`
	Level int16  `json:"featureLevel"`
}

// Supported is a feature this build knows, with its range.
type Supported struct {
	Name     string
	Min, Max int16
	// Level is what a new cluster finalizes.
	Level int16
}

// SupportedFeatures lists what ApiVersions shows as supported, sorted by name (ruling 21). Kafka's
// UIs tell the release by metadata.version; transaction.version 2 keeps producers from learning
// another protocol when transactions are served. The others come when they are served.
func SupportedFeatures() []Supported {
	return []Supported{
		{Name: "metadata.version", Min: 7, Max: 33, Level: 33},
		{Name: "transaction.version", Min: 0, Max: 2, Level: 2},
	}
}

// setFeature keeps the list sorted and without levels of 0.
func (i *Image) setFeature(f Feature) {
	next := slices.DeleteFunc(slices.Clone(i.features), func(x Feature) bool {
		return x.Name == f.Name
	})
	if f.Level > 0 {
		next = append(next, f)
	}
	slices.SortFunc(next, func(a, b Feature) int { return strings.Compare(a.Name, b.Name) })
	i.features = next
}
