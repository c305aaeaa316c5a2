package node

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/cmd/sluice/admin"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/controller/quorum"
	"github.com/sluicelog/sluice/log/store"
)

// startAdmin opens the HTTP listener, before recovery, so that /readyz can tell of it. At the
// default address a second broker on the same machine does without one, instead of not starting; an
// address that was asked for must be had.
func (n *Node) startAdmin() error {
	n.admin = admin.New(admin.Options{
		Addrs: n.config.Broker().HTTPListeners, Logger: n.o.Logger.With("component", "http"),
		Version: n.o.Version, State: n.health,
	})
	err := n.admin.Start()
	if err == nil {
		return nil
	}
	if _, _, set := n.o.Static.Lookup("sluice.http.listeners"); set {
		return err
	}
	n.o.Logger.Warn("metrics and health are not served: " + err.Error())
	return nil
}

// HTTPAddrs are the bound addresses of the HTTP listener; none when there is none.
func (n *Node) HTTPAddrs() []net.Addr { return n.admin.Addrs() }

// phase is where a broker is that does not serve.
type phase struct {
	state admin.BrokerState
	check admin.Check
}

// enter makes /readyz answer 503 and tell of the phase.
func (n *Node) enter(state admin.BrokerState, name, doing string) {
	n.phase.Store(&phase{state, admin.Check{Name: name, Problem: doing}})
}

// running ends the start: from here on every part can be asked for its health, and is counted.
func (n *Node) running() {
	n.admin.Serve(&admin.Source{
		Broker: n.broker, Groups: n.groups, Server: n.server, Connections: &n.connections,
		Store: n.store, Metadata: metadataLog(n.store), Address: n.address(),
	})
	n.phase.Store(nil)
}

func metadataLog(s *store.Store) *store.Log {
	id, _ := quorum.MetadataPartition()
	for _, l := range s.Logs() {
		if l.ID() == id {
			return l
		}
	}
	panic("node: the controller is open, but the store has no metadata log")
}

// address is where this broker is reached: as advertised, else where its first listener is bound.
func (n *Node) address() string {
	cfg := n.config.Broker()
	for _, l := range cfg.Advertised {
		if l.Host != "" {
			return net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
		}
	}
	for _, l := range cfg.Listeners {
		if a := n.listened[l.Name]; a != nil {
			return a.String()
		}
	}
	return ""
}

// health is what /readyz answers.
func (n *Node) health() admin.State {
	if p := n.phase.Load(); p != nil {
		return admin.State{Broker: p.state, Checks: []admin.Check{p.check}}
	}
	directory := ""
	if err := n.store.Err(); err != nil {
		directory = err.Error()
	}
	return admin.State{Broker: admin.Running, Checks: []admin.Check{
		{Name: "listeners"},
		{Name: "metadata"},
		{Name: "partitions", Note: n.reopen.note()},
		{Name: "offsets", Problem: n.offsetsProblem(), Note: n.offsetsNote()},
		{Name: "data directory", Problem: directory},
	}}
}

// offsetsProblem says which groups cannot be served yet. It is a matter of the start: a partition
// that is loaded again later, or is made later, answers its clients itself. One whose log is not
// usable will not be loaded, and must not keep the others from being served.
func (n *Node) offsetsProblem() string {
	if n.offsetsLoaded.Load() {
		return ""
	}
	topic := n.controller.Image().Topic(group.OffsetsTopic)
	usable := n.usable(topic)
	if loaded := n.groups.Counters().Loaded.Load(); loaded < usable {
		return fmt.Sprintf("%d of %d partitions of %s are loaded", loaded, usable, group.OffsetsTopic)
	}
	n.offsetsLoaded.Store(true)
	return ""
}

// offsetsNote names the partitions of the offsets topic that cannot be used: their groups have no
// coordinator, and the others are served.
func (n *Node) offsetsNote() string {
	topic := n.controller.Image().Topic(group.OffsetsTopic)
	if topic == nil {
		return ""
	}
	var offline []string
	for i := range topic.Partitions {
		if p := n.engine.Get(topic.Name, int32(i)); p != nil && p.Offline() != nil {
			offline = append(offline, strconv.Itoa(i))
		}
	}
	switch len(offline) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("partition %s of %s is offline", offline[0], group.OffsetsTopic)
	}
	const shown = 10
	more := ""
	if len(offline) > shown {
		more = fmt.Sprintf(" and %d more", len(offline)-shown)
	}
	return fmt.Sprintf("partitions %s%s of %s are offline", strings.Join(offline[:min(shown, len(offline))], ", "), more,
		group.OffsetsTopic)
}

// usable counts the partitions of a topic whose logs can be read.
func (n *Node) usable(t *meta.Topic) int64 {
	if t == nil {
		return 0
	}
	count := int64(0)
	for i := range t.Partitions {
		if p := n.engine.Get(t.Name, int32(i)); p != nil && p.Offline() == nil {
			count++
		}
	}
	return count
}
