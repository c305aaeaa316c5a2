package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/controller/quorum"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/member"
	"github.com/sluicelog/sluice/replica/transport"
)

// cluster is what a broker with peers has beside the rest (N4):
//
//	listener for peers ► founding (which cluster?) ► store ► member, engine ► metadata's group ► enrolled
type cluster struct {
	seeds       []string
	peer        string // where other brokers reach this one
	incarnation uint64
	tcp         *transport.TCP
	founding    *quorum.Founding
	membership  quorum.Membership
	member      atomic.Pointer[member.Member]
	controller  atomic.Pointer[quorum.Controller]
}

// seedsOf gives the seeds; none: the broker is alone. Kafka's own keys count when they name more than
// one controller: an installation of one node names itself.
func seedsOf(s *config.Static, cfg *config.Broker) []string {
	seeds := quorum.SeedsOf(cfg.Peer.Seeds, s)
	if len(cfg.Peer.Seeds) == 0 && len(seeds) < 2 {
		return nil
	}
	return seeds
}

// peerListener is where the broker listens for its peers: by default on loopback, beside its clients.
func peerListener(cfg *config.Broker) string {
	if cfg.Peer.Listener != "" {
		return cfg.Peer.Listener
	}
	port := 0
	if p := cfg.Listeners[0].Port; p > 0 {
		port = int(p) + 1
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// join finds the cluster, or founds it; when it returns this broker has a number.
func (n *Node) join(ctx context.Context, fsys vfs.FS) error {
	cfg := n.config.Broker()
	var secret []byte
	if file := cfg.Peer.SecretFile; file != "" {
		var err error
		if secret, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("sluice.peer.secret.file: %w", err)
		}
		secret = bytes.TrimSpace(secret)
	}
	c := &cluster{seeds: seedsOf(n.o.Static, cfg), incarnation: uint64(clock.System.Now().UnixNano())}
	var err error
	c.tcp, err = transport.NewTCP(transport.Options{
		Node: transport.NoNode, Incarnation: c.incarnation, Listen: peerListener(cfg), Secret: secret,
		Clock: clock.System, Logger: n.o.Logger.With("component", "transport"),
	})
	if err != nil {
		return fmt.Errorf("listen for peers: %w", err)
	}
	if c.peer = cfg.Peer.Advertised; c.peer == "" {
		c.peer = c.tcp.Addr().String()
	}
	n.cluster = c
	c.founding, err = quorum.NewFounding(quorum.FoundOptions{
		FS: fsys, Dir: n.o.Dir, Static: n.o.Static, Seeds: c.seeds, Transport: c.tcp, Clock: clock.System,
		Logger: n.o.Logger, Peer: c.peer, Rack: cfg.Rack, Endpoints: n.endpoints(), Incarnation: c.incarnation,
	})
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	c.tcp.Start(peers{c})
	if c.membership, err = c.founding.Run(ctx); err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	return c.tcp.SetIdentity(c.membership.Identity.ClusterID, c.membership.Identity.NodeID)
}

// openCluster makes member and engine and follows the metadata until this broker is registered.
func (n *Node) openCluster(ctx context.Context, fsys vfs.FS) error {
	c := n.cluster
	self := c.membership.Identity.NodeID
	m := member.New(member.Options{
		Self: self, Incarnation: c.incarnation, Clock: clock.System, Logger: n.o.Logger,
		Random: rand.New(rand.NewPCG(c.incarnation, uint64(self))), FS: fsys, Dir: n.o.Dir, Transport: c.tcp,
		Calls: c.calls(), Streams: c.streams(), OnExit: n.o.OnFailed,
	})
	n.engine = engine.New(engine.Options{
		Store: n.store, Clock: clock.System, Logger: n.o.Logger, Self: self, Transport: c.tcp, Files: c.tcp,
		OnLeadership: func(p *engine.Partition, lead engine.Leadership) {
			m.Leadership(p, lead)
			n.led(p, lead)
		},
		OnPlaced: n.placed,
	})
	m.Attach(n.engine)
	c.member.Store(m)
	spec := c.membership.Spec(n.config.Broker().Metadata)
	if err := n.engine.Open(spec); err != nil {
		return fmt.Errorf("open the metadata: %w", err)
	}
	m.Start()
	var err error
	n.controller, err = quorum.OpenReplicated(quorum.Options{
		Store: n.store, FS: fsys, Dir: n.o.Dir, Config: n.config, Clock: clock.System, Logger: n.o.Logger,
		Endpoints: n.endpoints(),
	}, quorum.Cluster{
		Partition: n.engine.ByID(spec.ID), Transport: peerTransport{c.tcp, m, self}, Membership: c.membership,
		Peer: c.peer, Incarnation: c.incarnation,
	})
	if err != nil {
		return fmt.Errorf("open the metadata: %w", err)
	}
	c.controller.Store(n.controller)
	select {
	case <-n.controller.Enrolled():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// peerTransport is what the controller sends by; its peers are the member's too.
type peerTransport struct {
	*transport.TCP
	m    *member.Member
	self kafkaproto.NodeID
}

// SetPeers tells who the other brokers are.
func (t peerTransport) SetPeers(all map[kafkaproto.NodeID]transport.Peer) {
	others := make(map[kafkaproto.NodeID]transport.Peer, len(all))
	for id, p := range all {
		if id != t.self {
			others[id] = p
		}
	}
	t.m.SetPeers(others)
}

// controllerMethods are what the controller answers.
var controllerMethods = []uint16{quorum.MethodCommand, quorum.MethodFound, quorum.MethodJoin}

func (c *cluster) calls() map[uint16]member.Call {
	calls := make(map[uint16]member.Call)
	for _, method := range controllerMethods {
		calls[method] = func(ctx context.Context, from kafkaproto.NodeID, body []byte) ([]byte, error) {
			if ctl := c.controller.Load(); ctl != nil {
				return ctl.HandleCall(ctx, from, method, body)
			}
			return c.founding.HandleCall(ctx, from, method, body)
		}
	}
	return calls
}

func (c *cluster) streams() map[uint16]member.Stream {
	return map[uint16]member.Stream{
		quorum.MethodImage: func(ctx context.Context, from kafkaproto.NodeID, body []byte) (io.ReadCloser, error) {
			if ctl := c.controller.Load(); ctl != nil {
				return ctl.HandleStream(ctx, from, quorum.MethodImage, body)
			}
			return nil, errStarting
		},
	}
}

var errStarting = errors.New("this broker is starting")

// peers is the transport's handler: the member, and before there is one the founding.
type peers struct{ c *cluster }

func (p peers) Raft(from kafkaproto.NodeID, msgs []transport.Message) {
	if m := p.c.member.Load(); m != nil {
		m.Raft(from, msgs)
		return
	}
	for i := range msgs {
		msgs[i].Release()
	}
}

func (p peers) Liveness(from kafkaproto.NodeID, b []byte) {
	if m := p.c.member.Load(); m != nil {
		m.Liveness(from, b)
	}
}

func (p peers) Call(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	if m := p.c.member.Load(); m != nil {
		return m.Call(ctx, from, method, body)
	}
	return p.c.founding.HandleCall(ctx, from, method, body)
}

func (p peers) Stream(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	if m := p.c.member.Load(); m != nil {
		return m.Stream(ctx, from, method, body)
	}
	return nil, errStarting
}

func (p peers) PeerUp(id kafkaproto.NodeID, incarnation uint64) {
	if m := p.c.member.Load(); m != nil {
		m.PeerUp(id, incarnation)
	}
}

func (p peers) PeerDown(id kafkaproto.NodeID, err error) {
	if m := p.c.member.Load(); m != nil {
		m.PeerDown(id, err)
	}
}

func (p peers) Unreachable(to kafkaproto.NodeID, id kafkaproto.PartitionID) {
	if m := p.c.member.Load(); m != nil {
		m.Unreachable(to, id)
	}
}

// led hears of each change of a partition's leadership: the groups of a partition of __consumer_offsets
// are where its leader is.
func (n *Node) led(p *engine.Partition, lead engine.Leadership) {
	if p.TP().Topic != group.OffsetsTopic {
		return
	}
	groups := n.groupsUp.Load()
	switch {
	case groups == nil:
	case lead.Leading && lead.Ready:
		groups.Lead(p.TP().Partition)
	case !lead.Leading:
		groups.Resign(p.TP().Partition)
	}
}

// placed tells the controller that a partition is where it was to be, until the controller has taken it
// down. A new image with another target makes the leader begin again.
func (n *Node) placed(p *engine.Partition, _ []engine.Replica) {
	c := n.cluster.controller.Load()
	if c == nil {
		return
	}
	img := c.Image()
	t := img.Topic(p.TP().Topic)
	if t == nil || t.ID != p.ID().Topic || int(p.TP().Partition) >= len(t.Partitions) {
		return
	}
	part := t.Partitions[p.TP().Partition]
	if part.Settled() {
		return
	}
	members := p.Members()
	self, ok := part.ReplicaOn(n.controller.NodeID())
	if !ok {
		return
	}
	cmd := meta.CompleteReassignment{Partition: p.ID(), Version: part.Version, Leader: self.ID,
		Voters: members.Voters, Learners: members.Learners}
	c.Submit(cmd, func(_ meta.Result, err error) {
		if err != nil {
			n.o.Logger.Info("reassignment not completed yet", "partition", p.TP().String(), "err", err)
			p.TellAgain()
		}
	})
}

// replicas fills in where a partition is to be; false when it is not on this broker.
func (n *Node) replicas(s *engine.Spec, part *meta.Partition) bool {
	if n.cluster == nil {
		return true // alone: the solo form, and no directory of another replica
	}
	here := false
	for _, r := range part.Replicas {
		m := engine.Replica{ID: r.ID, Node: r.Node}
		s.Replicas = append(s.Replicas, m)
		switch r.State {
		case meta.ReplicaAdding:
			s.Adding = append(s.Adding, m)
		case meta.ReplicaRemoving, meta.ReplicaCancelled:
			s.Removing = append(s.Removing, m)
		}
		here = here || r.Node == n.controller.NodeID()
	}
	for id := range part.First {
		s.First = append(s.First, id+1)
	}
	return here
}

// endpoints are the addresses at which clients of this broker are told to come; where none is set, those
// of its listeners.
func (n *Node) endpoints() []meta.Endpoint {
	cfg := n.config.Broker()
	if es := endpoints(cfg); len(es) > 0 {
		return es
	}
	var es []meta.Endpoint
	for _, l := range cfg.Listeners {
		host := l.Host
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "localhost"
			if name, err := os.Hostname(); err == nil && len(n.seedHosts()) > 0 {
				host = name
			}
		}
		es = append(es, meta.Endpoint{Listener: l.Name, Protocol: l.Protocol, Host: host, Port: l.Port})
	}
	return es
}

// seedHosts are the seeds on other machines.
func (n *Node) seedHosts() []string {
	var far []string
	for _, s := range seedsOf(n.o.Static, n.config.Broker()) {
		host, _, err := net.SplitHostPort(s)
		if ip := net.ParseIP(host); err == nil && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			far = append(far, s)
		}
	}
	return far
}

const (
	// admittedWithin is how long a starting broker waits to hear who leads what before it serves clients
	// all the same: they are told that there is no leader then, and ask again.
	admittedWithin = 10 * time.Second
	// handOverWithin is how long a stopping broker waits for others to lead what it led.
	handOverWithin = 5 * time.Second
	lookAgain      = 20 * time.Millisecond
)

// until looks again and again until done, ctx or the bound ends it.
func until(ctx context.Context, bound time.Duration, done func() bool) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for !done() {
		wake := make(chan struct{})
		t := clock.System.AfterFunc(lookAgain, func() { close(wake) })
		select {
		case <-wake:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// awaitLeaders waits until this broker has heard from its peers who leads what (ruling 24).
func (n *Node) awaitLeaders(ctx context.Context) error {
	if n.cluster == nil {
		return nil
	}
	until(ctx, admittedWithin, n.cluster.member.Load().Admitted)
	return ctx.Err()
}

// leave hands the led partitions to others and ends all that has to do with them. The engine is closed
// behind it.
func (n *Node) leave(ctx context.Context) error {
	c := n.cluster
	var errs []error
	if n.engine != nil && n.serving {
		until(ctx, handOverWithin, func() bool { return n.engine.HandOver() == 0 })
	}
	if n.controller != nil {
		if err := n.controller.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the metadata: %w", err))
		}
	}
	if c.tcp != nil {
		errs = append(errs, c.tcp.Close())
	}
	if m := c.member.Load(); m != nil {
		m.Close()
	}
	return errors.Join(errs...)
}
