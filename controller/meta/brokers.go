package meta

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// maxNode is no broker's number: the next one must be a number too.
const maxNode = kafkaproto.NodeID(math.MaxInt32)

// registerBroker follows ruling 23: the data directory is the broker, the number is what it asks for.
func (e *execution) registerBroker(c RegisterBroker) (Result, error) {
	id, err := e.numberFor(c)
	if err != nil {
		return nil, err
	}
	n := Node{
		ID: id, Version: 1, Epoch: e.image.version + 1, Directory: c.Directory,
		Incarnation: c.Incarnation, Rack: c.Rack, Endpoints: slices.Clone(c.Endpoints), Peer: c.Peer,
		Features: slices.Clone(c.Features),
	}
	for _, f := range e.image.features {
		if s := n.supports(f.Name); f.Level < s.Min || f.Level > s.Max {
			return nil, kafkaproto.Faultf(kerr.UnsupportedVersion, "Unable to register because the "+
				"broker does not support finalized version %d of %s. The broker wants a version between "+
				"%d and %d, inclusive.", f.Level, f.Name, s.Min, s.Max)
		}
	}
	old := e.image.Node(id)
	if old != nil {
		n.Version, n.Draining = old.Version, old.Draining
		if old.Incarnation == c.Incarnation {
			n.Epoch = old.Epoch
		}
		if old.equal(n) {
			return BrokerRegistered{ID: id, Epoch: n.Epoch}, nil
		}
		n.Version++
	}
	e.emit(nodeRecord{n})
	return BrokerRegistered{ID: id, Epoch: n.Epoch}, nil
}

// numberFor finds a broker's number, or says why it does not get the one it asks for.
func (e *execution) numberFor(c RegisterBroker) (kafkaproto.NodeID, error) {
	if c.Directory == "" {
		return 0, kafkaproto.Faultf(kerr.InvalidRegistration, "a broker needs the uuid of its data directory")
	}
	if c.ID < -1 || c.ID == maxNode {
		return 0, kafkaproto.Faultf(kerr.InvalidRequest, "broker id %d is negative, or the last there is", c.ID)
	}
	id, known := c.ID, kafkaproto.NodeID(-1)
	if n := e.image.NodeOf(c.Directory); n != nil {
		known = n.ID
	}
	for _, d := range e.image.departed {
		if known < 0 && d.directory == c.Directory {
			known = d.id
		}
	}
	switch {
	case known >= 0 && id >= 0 && id != known:
		return 0, kafkaproto.Faultf(kerr.InvalidRegistration, "data directory %s is broker %d, not %d: "+
			"set node.id to %d, or give this broker another directory", c.Directory, known, id, known)
	case known >= 0:
		return known, nil
	case id < 0:
		if e.image.nextNode == maxNode {
			return 0, kafkaproto.Faultf(kerr.InvalidRequest, "all broker ids were given away")
		}
		return max(e.image.nextNode, 1), nil
	}
	if n := e.image.Node(id); n != nil {
		return 0, kafkaproto.Faultf(kerr.DuplicateBrokerRegistration, "broker id %d belongs to data "+
			"directory %s, not to %s: give this broker another node.id", id, n.Directory, c.Directory)
	}
	// An empty directory under the number of a lost broker would vote as one that had the data.
	if e.image.stands(id) {
		return 0, kafkaproto.Faultf(kerr.DuplicateBrokerRegistration, "broker id %d was another data "+
			"directory's, and partitions have replicas on it: give this broker another node.id, or "+
			"move them first", id)
	}
	return id, nil
}

// registered finds the broker of a command.
func (e *execution) registered(id kafkaproto.NodeID, epoch, version int64) (*Node, error) {
	n := e.image.Node(id)
	switch {
	case n == nil:
		return nil, kafkaproto.Faultf(kerr.BrokerIDNotRegistered,
			"Broker ID %d is not currently registered", id)
	case epoch > 0 && epoch != n.Epoch:
		return nil, kafkaproto.Faultf(kerr.StaleBrokerEpoch,
			"Expected broker epoch %d, but got broker epoch %d", n.Epoch, epoch)
	case version > 0 && version != n.Version:
		return nil, kafkaproto.Faultf(kerr.InvalidUpdateVersion,
			"broker %d is at version %d, the change was made for %d", id, n.Version, version)
	}
	return n, nil
}

func (e *execution) changeBroker(c ChangeBroker) (Result, error) {
	n, err := e.registered(c.ID, c.Epoch, c.IfVersion)
	if err != nil {
		return nil, err
	}
	next := *n
	switch c.Change {
	case FenceBroker, UnfenceBroker:
		next.Fenced = c.Change == FenceBroker
	case DrainBroker, UndrainBroker:
		next.Draining = c.Change == DrainBroker
	case StopBroker:
		next.Stopping = true
	default:
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "unknown change %d of a broker", c.Change)
	}
	if n.equal(next) {
		return BrokerChanged{Version: n.Version}, nil
	}
	e.emit(brokerChangeRecord{
		ID: c.ID, Version: n.Version + 1, Fenced: next.Fenced, Draining: next.Draining,
		Stopping: next.Stopping,
	})
	return BrokerChanged{Version: n.Version + 1}, nil
}

func (e *execution) unregisterBroker(c UnregisterBroker) (Result, error) {
	n, err := e.registered(c.ID, 0, c.IfVersion)
	if err != nil {
		return nil, err
	}
	if c.IfEmpty && e.image.stands(c.ID) {
		return nil, kafkaproto.Faultf(kerr.IneligibleReplica,
			"broker %d has replicas still: drain it first", c.ID)
	}
	e.emit(unregisterRecord{ID: c.ID, Version: n.Version + 1, Directory: n.Directory})
	return BrokerChanged{Version: n.Version + 1}, nil
}
