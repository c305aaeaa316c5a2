package transport

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TCP is the transport of a broker.
//
// Goroutines, all of which Close stops and waits for: one that accepts; per peer and connection one
// that dials and writes and one that reads; per accepted connection one that reads, with one per call
// and per stream that it serves; one that reports Unreachable.
type TCP struct {
	opt      Options
	handler  Handler // set by Start, before any goroutine
	listener net.Listener
	ctx      context.Context // of everything
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	slabs    slabs
	budget   budget
	sendRate bucket
	recvRate bucket
	dropped  drops
	strays   strays

	mu struct {
		sync.Mutex
		cluster string
		node    kafkaproto.NodeID
		peers   map[kafkaproto.NodeID]*peer
		waiting map[*inbound]struct{} // in their handshake, at most maxWaiting
		order   []*inbound            // of waiting, the oldest first
		inbound map[inboundKey]*inbound
		latest  map[kafkaproto.NodeID]uint64 // incarnation
		joins   int
		closed  bool
	}
}

// NewTCP binds the listener. Nothing is accepted or dialled before Start.
func NewTCP(opt Options) (*TCP, error) {
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	t := &TCP{opt: opt, listener: opt.listener}
	if t.listener == nil {
		lc := net.ListenConfig{KeepAliveConfig: keepAlive, Control: t.opt.control(0)}
		ln, err := lc.Listen(context.Background(), "tcp", t.opt.Listen)
		if err != nil {
			return nil, fmt.Errorf("transport: %w", err)
		}
		t.listener = ln
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.budget.limit = opt.ReceiveBytes
	t.sendRate.clock, t.recvRate.clock = opt.Clock, opt.Clock
	t.SetStreamRate(opt.StreamRate)
	t.dropped.wake = make(chan struct{}, 1)
	t.strays.clock = opt.Clock
	t.mu.cluster, t.mu.node = opt.ClusterID, opt.Node
	t.mu.peers = map[kafkaproto.NodeID]*peer{}
	t.mu.waiting = map[*inbound]struct{}{}
	t.mu.inbound = map[inboundKey]*inbound{}
	t.mu.latest = map[kafkaproto.NodeID]uint64{}
	return t, nil
}

// Start begins to accept. It is called once, before everything else but Addr.
func (t *TCP) Start(h Handler) {
	t.handler = h
	t.wg.Add(2)
	go t.acceptLoop()
	go t.reportDrops()
}

// Addr is where the listener is bound.
func (t *TCP) Addr() net.Addr { return t.listener.Addr() }

// SetIdentity tells who this node is, once it has joined.
func (t *TCP) SetIdentity(cluster string, node kafkaproto.NodeID) error {
	if cluster == "" || len(cluster) > clusterMax || node < 0 {
		return fmt.Errorf("transport: node %d of cluster %q is no identity", node, cluster)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.node >= 0 && (t.mu.node != node || t.mu.cluster != cluster) {
		return fmt.Errorf("transport: this is node %d of cluster %q, not %d of %q", t.mu.node, t.mu.cluster, node, cluster)
	}
	t.mu.cluster, t.mu.node = cluster, node
	return nil
}

// SetStreamRate bounds the bytes/s of streams, sent and received each; 0 lifts the bound.
func (t *TCP) SetStreamRate(rate int64) {
	t.sendRate.set(rate)
	t.recvRate.set(rate)
}

func (t *TCP) party() party {
	t.mu.Lock()
	defer t.mu.Unlock()
	return party{cluster: t.mu.cluster, node: t.mu.node, incarnation: t.opt.Incarnation, secret: t.opt.Secret,
		random: t.opt.random}
}

// SetPeers is Transport's. This node itself may be among the peers; it is left out.
func (t *TCP) SetPeers(peers map[kafkaproto.NodeID]Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	gone := map[kafkaproto.NodeID]*peer{}
	for id, p := range t.mu.peers {
		if want, ok := peers[id]; !ok || want != p.Peer || id == t.mu.node {
			p.cancel()
			gone[id] = p
			delete(t.mu.peers, id)
		}
	}
	for id, want := range peers {
		if id != t.mu.node && t.mu.peers[id] == nil {
			t.mu.peers[id] = t.newPeer(id, want, gone[id])
		}
	}
}

func (t *TCP) peer(id kafkaproto.NodeID) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.peers[id]
}

// Send is Transport's.
func (t *TCP) Send(to kafkaproto.NodeID, m Message) {
	p := t.peer(to)
	if p == nil || !p.send(m) {
		t.dropped.add(to, m.Group)
	}
}

// SendLiveness is Transport's.
func (t *TCP) SendLiveness(to kafkaproto.NodeID, b []byte) {
	if p := t.peer(to); p != nil && len(b) <= maxLiveness && p.up() {
		p.links[roleControl].enqueue(item{frame: newFrame(kindLiveness, len(b), func(f []byte) []byte {
			return append(f, b...)
		})})
	}
}

// Close is Transport's. The Handler is not called any more once it returns; it must not be called
// with locks held that the Handler takes.
func (t *TCP) Close() error {
	t.mu.Lock()
	if t.mu.closed {
		t.mu.Unlock()
		t.wg.Wait()
		return nil
	}
	t.mu.closed = true
	t.cancel()
	err := t.listener.Close()
	for in := range t.mu.waiting {
		in.close()
	}
	for _, in := range t.mu.inbound {
		in.close()
	}
	peers := maps.Clone(t.mu.peers)
	clear(t.mu.peers)
	t.mu.Unlock()
	for _, p := range peers {
		p.cancel()
	}
	t.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// drops are the groups of which messages to a peer were dropped and not reported yet.
type drops struct {
	wake chan struct{}

	mu struct {
		sync.Mutex
		set   map[drop]struct{}
		order []drop
	}
}

type drop struct {
	to    kafkaproto.NodeID
	group kafkaproto.PartitionID
}

func (d *drops) add(to kafkaproto.NodeID, group kafkaproto.PartitionID) {
	x := drop{to, group}
	d.mu.Lock()
	if _, ok := d.mu.set[x]; !ok {
		if d.mu.set == nil {
			d.mu.set = map[drop]struct{}{}
		}
		d.mu.set[x] = struct{}{}
		d.mu.order = append(d.mu.order, x)
	}
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *drops) take() []drop {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.mu.order
	d.mu.order, d.mu.set = nil, nil
	return out
}

// reportDrops calls Unreachable, which senders must not be called back with.
func (t *TCP) reportDrops() {
	defer t.wg.Done()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-t.dropped.wake:
		}
		for _, x := range t.dropped.take() {
			t.handler.Unreachable(x.to, x.group)
		}
	}
}
