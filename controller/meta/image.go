package meta

import (
	"bytes"
	"iter"
	"maps"

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
	nextNode      kafkaproto.NodeID      // above all ids that ever were
	departed      []departed             // unregistered, and not back
	used          map[kafkaproto.NodeID]use
	brokers       map[string]*brokerConfig
	features      []Feature // by name
	allFeatures   []Feature // with those finalized at 0
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

// putTopic adds a topic, or replaces old.
func (i *Image) putTopic(old, t *Topic) {
	i.byName = i.byName.Set(t.Name, t)
	i.byID = i.byID.Set(t.ID, t)
	i.count(old, t)
}

// count keeps what ReplicasOn tells; a nil topic has no partitions.
func (i *Image) count(old, new *Topic) {
	next := maps.Clone(i.used)
	if next == nil {
		next = make(map[kafkaproto.NodeID]use)
	}
	add := func(t *Topic, sign int) {
		if t == nil {
			return
		}
		for _, p := range t.Partitions {
			for n, r := range p.Replicas {
				u := next[r.Node]
				if r.State.Wanted() {
					u.replicas += sign
				}
				if n == 0 {
					u.leaders += sign
				}
				next[r.Node] = u
			}
		}
	}
	add(old, -1)
	add(new, 1)
	maps.DeleteFunc(next, func(_ kafkaproto.NodeID, u use) bool { return u == use{} })
	i.used = next
}
