package transport

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// Network is the in-memory twin of TCP for simulations: a queue of packets that its caller steps. It
// has no goroutine, no lock and no randomness; everything happens inside Step, Call and OpenStream,
// on the caller's goroutine, and equal calls give equal runs. Messages go through the codec of the
// wire and are split into pieces as there.
type Network struct {
	clock clock.Clock
	nodes map[kafkaproto.NodeID]*Endpoint
	cut   map[[2]kafkaproto.NodeID]bool
	queue packets
	seq   uint64

	// Fate decides what becomes of a packet when it is sent; nil delivers everything at once, in order.
	Fate func(p Packet) Fate
	// PieceSize replaces the most payload of one frame (1 MiB).
	PieceSize int64
}

// Packet is what Fate is asked about.
type Packet struct {
	From, To kafkaproto.NodeID
	Kind     PacketKind
	Message  *Message // of PacketRaft: before it is encoded
}

// PacketKind says what a packet carries.
type PacketKind uint8

// The kinds of packets. Calls, answers and streams are not queued: their delays are not looked at.
const (
	PacketRaft PacketKind = iota + 1
	PacketLiveness
	PacketCall   // dropped: ErrUnreachable
	PacketAnswer // dropped: ErrLost, and the call was carried out
	PacketStream
)

// Fate is what becomes of a packet.
type Fate struct {
	// Delays has one element for each copy that arrives, with the time it takes: none drops the packet,
	// two duplicate it, different ones reorder.
	Delays []time.Duration
	// Late loads the payload when the packet arrives, as if it had waited in the sender's queue all the
	// time; else it is loaded at once, as if it had been on the wire.
	Late bool
	// Refused drops the packet as a full backlog does: the sender is told by Unreachable.
	Refused bool
}

// delivered is one thing to happen at a node.
type delivered struct {
	due      time.Time
	seq      uint64
	from, to kafkaproto.NodeID
	target   *Endpoint // the start of the node that it is for
	source   *Endpoint
	kind     PacketKind // 0: do
	body     []byte
	payload  Payload
	do       func()
}

// NewNetwork makes a network without nodes, whose time is c's.
func NewNetwork(c clock.Clock) *Network {
	return &Network{clock: c, nodes: map[kafkaproto.NodeID]*Endpoint{}, cut: map[[2]kafkaproto.NodeID]bool{}}
}

// Endpoint is the Transport of one start of a node.
type Endpoint struct {
	net         *Network
	id          kafkaproto.NodeID
	incarnation uint64
	handler     Handler
	peers       map[kafkaproto.NodeID]Peer
	closed      bool
}

// Join starts a node. Its Transport lives until Close, which stands for the process's end.
func (n *Network) Join(id kafkaproto.NodeID, incarnation uint64, h Handler) *Endpoint {
	if n.nodes[id] != nil {
		panic(fmt.Sprintf("transport: node %d joins twice", id))
	}
	e := &Endpoint{net: n, id: id, incarnation: incarnation, handler: h, peers: map[kafkaproto.NodeID]Peer{}}
	n.nodes[id] = e
	for _, o := range slices.Sorted(maps.Keys(n.nodes)) {
		other := n.nodes[o]
		if _, ok := other.peers[id]; ok && !n.cut[[2]kafkaproto.NodeID{o, id}] {
			n.do(other, func() { other.handler.PeerUp(id, incarnation) })
		}
	}
	return e
}

// Cut loses everything that from sends to to, without a word: what is on its way too.
func (n *Network) Cut(from, to kafkaproto.NodeID) { n.cut[[2]kafkaproto.NodeID{from, to}] = true }

// Break is Cut with a connection that notices: from hears PeerDown.
func (n *Network) Break(from, to kafkaproto.NodeID) {
	n.Cut(from, to)
	if e := n.nodes[from]; e != nil {
		n.down(e, to, ErrLost)
	}
}

// Heal ends a Cut or Break; from hears PeerUp if to lives.
func (n *Network) Heal(from, to kafkaproto.NodeID) {
	way := [2]kafkaproto.NodeID{from, to}
	if !n.cut[way] {
		return
	}
	delete(n.cut, way)
	n.connect(n.nodes[from], to)
}

// Next is when the first packet is due; false when there is none.
func (n *Network) Next() (time.Time, bool) {
	if len(n.queue) == 0 {
		return time.Time{}, false
	}
	return n.queue[0].due, true
}

// Step delivers the first packet that is due; false when there is none.
func (n *Network) Step() bool {
	for len(n.queue) > 0 && !n.queue[0].due.After(n.clock.Now()) {
		d := heap.Pop(&n.queue).(*delivered)
		if d.target.closed || d.kind != 0 && n.cut[[2]kafkaproto.NodeID{d.from, d.to}] {
			continue
		}
		n.deliver(d)
		return true
	}
	return false
}

func (n *Network) deliver(d *delivered) {
	h := d.target.handler
	switch d.kind {
	case PacketRaft:
		m := make([]Message, 1)
		if err := parseRaft(d.body, &m[0]); err != nil {
			panic(fmt.Sprintf("transport: the codec does not take what it made: %v", err))
		}
		if d.payload != nil {
			b, err := load(d.payload)
			if err != nil {
				n.refuse(d.source, d.to, m[0].Group)
				return
			}
			m[0].Payload = b
		}
		h.Raft(d.from, m)
	case PacketLiveness:
		h.Liveness(d.from, d.body)
	default:
		d.do()
	}
}

// load copies a payload, so that nobody shares memory with its sender.
func load(p Payload) (Bytes, error) {
	parts, release, err := p.Load()
	if err != nil {
		return nil, err
	}
	defer release()
	out := make(Bytes, 0, p.Size())
	for _, b := range parts {
		out = append(out, b...)
	}
	if int64(len(out)) != p.Size() {
		return nil, errors.New("a payload does not have the size it said")
	}
	return out, nil
}

// do queues a call of a node's own Handler.
func (n *Network) do(e *Endpoint, f func()) {
	n.push(&delivered{target: e, do: f}, 0)
}

func (n *Network) push(d *delivered, delay time.Duration) {
	n.seq++
	d.due, d.seq = n.clock.Now().Add(delay), n.seq
	heap.Push(&n.queue, d)
}

func (n *Network) refuse(e *Endpoint, to kafkaproto.NodeID, group kafkaproto.PartitionID) {
	n.do(e, func() { e.handler.Unreachable(to, group) })
}

func (n *Network) down(e *Endpoint, peer kafkaproto.NodeID, err error) {
	if _, ok := e.peers[peer]; ok {
		n.do(e, func() { e.handler.PeerDown(peer, err) })
	}
}

func (n *Network) connect(e *Endpoint, to kafkaproto.NodeID) {
	other := n.nodes[to]
	if e == nil || other == nil || n.cut[[2]kafkaproto.NodeID{e.id, to}] {
		return
	}
	if _, ok := e.peers[to]; ok {
		n.do(e, func() { e.handler.PeerUp(to, other.incarnation) })
	}
}

func (n *Network) fate(p Packet) Fate {
	if n.Fate == nil {
		return Fate{Delays: make([]time.Duration, 1)}
	}
	return n.Fate(p)
}

// reach gives the peer as e can reach it now.
func (e *Endpoint) reach(to kafkaproto.NodeID) (*Endpoint, error) {
	other := e.net.nodes[to]
	if _, ok := e.peers[to]; !ok || e.closed || other == nil {
		return nil, fmt.Errorf("node %d: %w", to, ErrUnreachable)
	}
	return other, nil
}

// Send is Transport's.
func (e *Endpoint) Send(to kafkaproto.NodeID, m Message) {
	if e.closed {
		return
	}
	n := e.net
	other, err := e.reach(to)
	if err != nil {
		n.refuse(e, to, m.Group)
		return
	}
	f := n.fate(Packet{From: e.id, To: to, Kind: PacketRaft, Message: &m})
	if f.Refused {
		n.refuse(e, to, m.Group)
		return
	}
	all, release, err := pieces(m, cmp.Or(n.PieceSize, pieceSize))
	if err != nil {
		n.refuse(e, to, m.Group)
		return
	}
	if release != nil {
		defer release()
		f.Late = false // the pieces share one load
	}
	for i := range all {
		body, err := appendRaft(nil, m.Group, &all[i].Raft)
		payload := all[i].Payload
		if err == nil && payload != nil && !f.Late {
			payload, err = load(payload)
		}
		if err != nil {
			n.refuse(e, to, m.Group)
			return
		}
		for _, delay := range f.Delays {
			n.push(&delivered{from: e.id, to: to, source: e, target: other, kind: PacketRaft, body: body,
				payload: payload}, delay)
		}
	}
}

// SendLiveness is Transport's.
func (e *Endpoint) SendLiveness(to kafkaproto.NodeID, b []byte) {
	other, err := e.reach(to)
	if err != nil {
		return
	}
	for _, delay := range e.net.fate(Packet{From: e.id, To: to, Kind: PacketLiveness}).Delays {
		e.net.push(&delivered{from: e.id, to: to, source: e, target: other, kind: PacketLiveness, body: slices.Clone(b)}, delay)
	}
}

// passes asks whether a packet that is not queued gets through.
func (e *Endpoint) passes(from, to kafkaproto.NodeID, k PacketKind) bool {
	if e.net.cut[[2]kafkaproto.NodeID{from, to}] {
		return false
	}
	return len(e.net.fate(Packet{From: from, To: to, Kind: k}).Delays) > 0
}

// Call is Transport's. The other side's Handler runs inside it. A Handler that must wait for packets
// before it can answer needs a goroutine of the caller's.
func (e *Endpoint) Call(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	other, err := e.reach(to)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxCall {
		return nil, fmt.Errorf("transport: a call of %d bytes, more than %d", len(body), MaxCall)
	}
	if !e.passes(e.id, to, PacketCall) {
		return nil, fmt.Errorf("node %d: %w", to, ErrUnreachable)
	}
	out, err := other.handler.Call(ctx, e.id, method, slices.Clone(body))
	if !e.passes(to, e.id, PacketAnswer) {
		return nil, fmt.Errorf("node %d: %w", to, ErrLost)
	}
	if err != nil {
		code, text := status(err)
		return nil, remoteError(to, code, []byte(text))
	}
	return slices.Clone(out), nil
}

// OpenStream is Transport's. What the other side's Handler gives is read as the caller reads.
func (e *Endpoint) OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	other, err := e.reach(to)
	if err != nil {
		return nil, err
	}
	if !e.passes(e.id, to, PacketStream) {
		return nil, fmt.Errorf("node %d: %w", to, ErrUnreachable)
	}
	r, err := other.handler.Stream(ctx, e.id, method, slices.Clone(body))
	if err != nil {
		code, text := status(err)
		return nil, remoteError(to, code, []byte(text))
	}
	return &twinStream{ReadCloser: r, e: e, other: other}, nil
}

// twinStream breaks when one of its ends does, or the way from the other side.
type twinStream struct {
	io.ReadCloser
	e, other *Endpoint
}

// Read asks Fate for each part.
func (s *twinStream) Read(b []byte) (int, error) {
	if s.e.closed || s.other.closed || !s.e.passes(s.other.id, s.e.id, PacketStream) {
		return 0, fmt.Errorf("node %d: %w", s.other.id, ErrLost)
	}
	return s.ReadCloser.Read(b[:min(len(b), chunkSize)])
}

// SetPeers is Transport's.
func (e *Endpoint) SetPeers(peers map[kafkaproto.NodeID]Peer) {
	old := e.peers
	e.peers = maps.Clone(peers)
	delete(e.peers, e.id)
	for _, id := range slices.Sorted(maps.Keys(old)) {
		if _, ok := e.peers[id]; !ok && e.net.nodes[id] != nil {
			e.net.do(e, func() { e.handler.PeerDown(id, errNoPeer) })
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.peers)) {
		if _, ok := old[id]; !ok {
			e.net.connect(e, id)
		}
	}
}

// Close ends the node as kill -9 does: what it had sent may still arrive, its peers hear PeerDown.
func (e *Endpoint) Close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	delete(e.net.nodes, e.id)
	for _, id := range slices.Sorted(maps.Keys(e.net.nodes)) {
		other := e.net.nodes[id]
		if !e.net.cut[[2]kafkaproto.NodeID{id, e.id}] {
			e.net.down(other, e.id, ErrLost)
		}
	}
	return nil
}

// packets is a heap by due time, then by the order of sending.
type packets []*delivered

func (p packets) Len() int { return len(p) }
func (p packets) Less(i, j int) bool {
	if c := p[i].due.Compare(p[j].due); c != 0 {
		return c < 0
	}
	return p[i].seq < p[j].seq
}
func (p packets) Swap(i, j int) { p[i], p[j] = p[j], p[i] }

// Push is heap.Interface's.
func (p *packets) Push(x any) { *p = append(*p, x.(*delivered)) }

// Pop is heap.Interface's.
func (p *packets) Pop() any {
	old := *p
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*p = old[:len(old)-1]
	return x
}

var (
	_ Transport = (*TCP)(nil)
	_ Transport = (*Endpoint)(nil)
)
