package meta

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Env is what a command needs beside the image.
type Env struct {
	// Static gives defaults: num.partitions, default.replication.factor, the brokers' log keys.
	Static *config.Static
	// Node is the broker that executes.
	Node kafkaproto.NodeID
	// Random draws topic ids; nil means crypto/rand.
	Random io.Reader
}

// Execute checks a command against the image and gives the records that carry it out; none when
// nothing is to change. The error is for the command as a whole; what is wrong with one topic or
// resource stands in its row of the result. The image is not changed: Apply does that.
func (i *Image) Execute(c Command, env Env) ([]Record, Result, error) {
	e := execution{
		image:  i,
		env:    env,
		layers: config.NewLayers(env.Static, i.BrokerConfig(""), i.BrokerConfig(nodeName(env.Node))),
	}
	var res Result
	var err error
	switch c := c.(type) {
	case CreateTopics:
		res, err = e.createTopics(c)
	case DeleteTopics:
		res = e.deleteTopics(c)
	case CreatePartitions:
		res = e.createPartitions(c)
	case AlterConfigs:
		res = e.alterConfigs(c)
	case AllocateProducerIDs:
		res, err = e.allocateProducerIDs(c)
	case RegisterNode:
		res, err = e.registerNode(c)
	case InitCluster:
		res, err = e.initCluster(c)
	default:
		panic(fmt.Sprintf("meta: command of type %T", c))
	}
	if err != nil {
		return nil, nil, err
	}
	return e.records, res, nil
}

// execution collects the records of one command.
type execution struct {
	image   *Image
	env     Env
	layers  *config.Layers
	records []Record
}

func (e *execution) emit(r ...Record) { e.records = append(e.records, r...) }

// number is a broker setting in force.
func (e *execution) number(name string) int64 { return e.layers.BrokerNumber(name) }

func nodeName(id kafkaproto.NodeID) string { return itoa(int(id)) }

func itoa(n int) string { return strconv.Itoa(n) }

func (e *execution) allocateProducerIDs(c AllocateProducerIDs) (Result, error) {
	first := e.image.nextProducer
	if first > math.MaxInt64-ProducerIDBlockSize {
		return nil, kafkaproto.Faultf(kerr.UnknownServerError, "all producer ids were given away")
	}
	e.emit(producerIDsRecord{Broker: c.Node, Next: first + ProducerIDBlockSize})
	return ProducerIDBlock{First: first, Count: ProducerIDBlockSize}, nil
}

func (e *execution) registerNode(c RegisterNode) (Result, error) {
	n := c.Node
	if n.ID < 0 {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "broker id %d is negative", n.ID)
	}
	old := e.image.Node(n.ID)
	if old != nil && old.Directory != n.Directory {
		return nil, kafkaproto.Faultf(kerr.DuplicateBrokerRegistration, "broker id %d belongs to "+
			"data directory %s, not to %s: give this broker another node.id", n.ID, old.Directory,
			n.Directory)
	}
	if old == nil || !old.equal(n) {
		e.emit(nodeRecord{n})
	}
	return NodeRegistered{ID: n.ID}, nil
}

func (n *Node) equal(o Node) bool {
	if n.ID != o.ID || n.Directory != o.Directory || n.Rack != o.Rack ||
		len(n.Endpoints) != len(o.Endpoints) {
		return false
	}
	for i, e := range n.Endpoints {
		if e != o.Endpoints[i] {
			return false
		}
	}
	return true
}

func (e *execution) initCluster(c InitCluster) (Result, error) {
	switch e.image.clusterID {
	case c.ClusterID:
	case "":
		e.emit(clusterRecord(c))
	default:
		return nil, fmt.Errorf("the metadata is of cluster %s, not of %s", e.image.clusterID,
			c.ClusterID)
	}
	for _, f := range SupportedFeatures() {
		if e.image.Feature(f.Name) < f.Level {
			e.emit(featureRecord{Feature{Name: f.Name, Level: f.Level}})
		}
	}
	return ClusterInitialized(c), nil
}
