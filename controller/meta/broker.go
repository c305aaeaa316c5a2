package meta

import (
	"fmt"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Node is one registered broker; it never changes.
type Node struct {
	ID kafkaproto.NodeID `json:"brokerId"`
	// Version counts the changes of this registration, from 1.
	Version int64 `json:"brokerVersion"`
	// Epoch is new with each start of the broker's process that it registers: Kafka's broker epoch.
	// It never comes again in the cluster.
	Epoch int64 `json:"brokerEpoch"`
	// Directory is the uuid of the data directory: the node's identity (ruling 23).
	Directory string `json:"directoryId"`
	// Incarnation is what the broker tells one start of its process from another by; 0: it does not.
	Incarnation uint64     `json:"incarnation,omitempty"`
	Rack        string     `json:"rack,omitempty"`
	Endpoints   []Endpoint `json:"endPoints"`
	// Peer is the address for other brokers, host:port; "" for a node without peers.
	Peer string `json:"peer,omitempty"`
	// Features are the ranges that this broker supports; nil: those of this release.
	Features []FeatureRange `json:"features,omitempty"`

	// Fenced: not heard of for some time. No new replica or leader is put there.
	Fenced bool `json:"fenced,omitempty"`
	// Draining: its replicas and leaders are to go elsewhere, until it is taken back.
	Draining bool `json:"draining,omitempty"`
	// Stopping: in controlled shutdown, its leaders are to go elsewhere, until it registers again.
	Stopping bool `json:"inControlledShutdown,omitempty"`
}

// Endpoint is where a listener of a broker is reached.
type Endpoint struct {
	Listener string `json:"name"`
	Protocol string `json:"securityProtocol"`
	Host     string `json:"host"`
	Port     int32  `json:"port"`
}

// FeatureRange is a feature that a broker supports.
type FeatureRange struct {
	Name string `json:"name"`
	Min  int16  `json:"minSupportedVersion"`
	Max  int16  `json:"maxSupportedVersion"`
}

// Endpoint finds where a listener is reached.
func (n *Node) Endpoint(listener string) (Endpoint, bool) {
	for _, e := range n.Endpoints {
		if e.Listener == listener {
			return e, true
		}
	}
	return Endpoint{}, false
}

// Active reports whether the broker can lead: neither fenced nor in controlled shutdown.
func (n *Node) Active() bool { return !n.Fenced && !n.Stopping }

// equal compares all that a registration says.
func (n *Node) equal(o Node) bool {
	return n.ID == o.ID && n.Version == o.Version && n.Epoch == o.Epoch &&
		n.Directory == o.Directory && n.Incarnation == o.Incarnation && n.Rack == o.Rack &&
		n.Peer == o.Peer && slices.Equal(n.Endpoints, o.Endpoints) &&
		slices.Equal(n.Features, o.Features) && n.Fenced == o.Fenced && n.Draining == o.Draining &&
		n.Stopping == o.Stopping
}

// supports gives the broker's range of a feature; 0 to 0 when it knows none.
func (n *Node) supports(name string) FeatureRange {
	features := n.Features
	if features == nil {
		features = ownFeatures()
	}
	for _, f := range features {
		if f.Name == name {
			return f
		}
	}
	return FeatureRange{Name: name}
}

// use counts what is wanted on a broker.
type use struct{ replicas, leaders int }

// departed is a broker that was unregistered: replicas may stand on its id still.
type departed struct {
	id        kafkaproto.NodeID
	directory string
}

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

// NodeOf finds the broker with a data directory by its uuid; nil when there is none.
func (i *Image) NodeOf(directory string) *Node {
	for _, n := range i.nodes {
		if n.Directory == directory {
			return n
		}
	}
	return nil
}

// Nodes gives the registered brokers in the order of their ids. The slice must not be changed.
func (i *Image) Nodes() []*Node { return i.nodes }

// ReplicasOn counts the replicas that are wanted on a broker, registered or not, and those of them
// that are preferred leaders. Replicas being removed do not count.
func (i *Image) ReplicasOn(id kafkaproto.NodeID) (replicas, leaders int) {
	u := i.used[id]
	return u.replicas, u.leaders
}

// stands reports whether any partition names the broker, be it to remove it.
func (i *Image) stands(id kafkaproto.NodeID) bool {
	for t := range i.Topics() {
		for _, p := range t.Partitions {
			if _, ok := p.ReplicaOn(id); ok {
				return true
			}
		}
	}
	return false
}

// putNode registers a broker, or replaces its registration.
func (i *Image) putNode(n Node) {
	at, ok := i.nodeAt(n.ID)
	next := slices.Clone(i.nodes)
	if ok {
		next[at] = &n
	} else {
		next = slices.Insert(next, at, &n)
	}
	i.nodes = next
	i.nextNode = max(i.nextNode, n.ID+1)
	i.departed = slices.DeleteFunc(slices.Clone(i.departed), func(d departed) bool {
		return d.id == n.ID || d.directory == n.Directory
	})
}

func (r nodeRecord) apply(i *Image) error {
	node := r.Node
	version := int64(0)
	if old := i.Node(r.ID); old != nil {
		version = old.Version
	} else if r.Version > 0 {
		version = r.Version - 1 // a snapshot holds any version
	}
	if r.Version == 0 { // a release that did not count them
		node.Version = version + 1
	}
	switch {
	case r.ID < 0 || r.ID == maxNode:
		return fmt.Errorf("broker id %d", r.ID)
	case node.Version != version+1:
		return fmt.Errorf("broker %d is at version %d, the record makes %d", r.ID, version, r.Version)
	}
	i.putNode(node)
	return nil
}

func (r brokerChangeRecord) apply(i *Image) error {
	old := i.Node(r.ID)
	if old == nil {
		return fmt.Errorf("no broker has id %d", r.ID)
	}
	if r.Version != old.Version+1 {
		return fmt.Errorf("broker %d is at version %d, the record makes %d", r.ID, old.Version, r.Version)
	}
	node := *old
	node.Version, node.Fenced, node.Draining, node.Stopping = r.Version, r.Fenced, r.Draining, r.Stopping
	i.putNode(node)
	return nil
}

func (r unregisterRecord) apply(i *Image) error {
	if r.ID < 0 || r.ID == maxNode {
		return fmt.Errorf("broker id %d", r.ID)
	}
	if old := i.Node(r.ID); old != nil && (r.Directory != old.Directory || r.Version != old.Version+1) {
		return fmt.Errorf("broker %d is directory %s at version %d, the record makes %s at %d", r.ID,
			old.Directory, old.Version, r.Directory, r.Version)
	} else if old == nil && r.Version != 0 { // a snapshot tells of brokers that are gone
		return fmt.Errorf("no broker has id %d", r.ID)
	}
	i.nodes = slices.DeleteFunc(slices.Clone(i.nodes), func(n *Node) bool { return n.ID == r.ID })
	i.nextNode = max(i.nextNode, r.ID+1)
	i.departed = slices.DeleteFunc(slices.Clone(i.departed), func(d departed) bool { return d.id == r.ID })
	i.departed = append(i.departed, departed{r.ID, r.Directory})
	return nil
}
