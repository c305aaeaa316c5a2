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
	// Bytes is how much each broker stores, where it is known: new replicas go to the emptier one.
	Bytes map[kafkaproto.NodeID]int64
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
	case AlterPartitionReassignments:
		res = e.alterReassignments(c)
	case CompleteReassignment:
		res, err = e.completeReassignment(c)
	case GrowInternalTopics:
		res = e.growInternalTopics(c)
	case InitCluster:
		res, err = e.initCluster(c)
	case UpdateFeatures:
		res, err = e.updateFeatures(c)
	default:
		res, err = e.brokerCommand(c)
	}
	if err != nil {
		return nil, nil, err
	}
	return e.records, res, nil
}

func (e *execution) brokerCommand(c Command) (Result, error) {
	switch c := c.(type) {
	case RegisterBroker:
		return e.registerBroker(c)
	case ChangeBroker:
		return e.changeBroker(c)
	case UnregisterBroker:
		return e.unregisterBroker(c)
	}
	panic(fmt.Sprintf("meta: command of type %T", c))
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
