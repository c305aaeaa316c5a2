package transport

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
)

// peer is a broker that is sent to: four links, of which control leads. The others are dialled while
// control is up, and end with it: a peer is reachable or it is not.
type peer struct {
	Peer
	t      *TCP
	id     kafkaproto.NodeID
	ctx    context.Context
	cancel context.CancelFunc
	links  [roleJoin]*link
	// before is done once the links to an earlier address have ended: PeerUp and PeerDown of one peer
	// don't overlap.
	before <-chan struct{}
	done   chan struct{}
	kick   chan struct{} // the peer was heard of: dial now

	running atomic.Int32 // links that have not ended

	bytes    [2]atomic.Int64 // backlog of control, data
	messages [2]atomic.Int64

	mu struct {
		sync.Mutex
		session context.Context // while control is up; else nil
		changed chan struct{}   // closed when session changes
	}
}

func (t *TCP) newPeer(id kafkaproto.NodeID, addr Peer, before *peer) *peer {
	p := &peer{Peer: addr, t: t, id: id, done: make(chan struct{}), kick: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(t.ctx)
	if before != nil {
		p.before = before.done
	}
	p.mu.changed = make(chan struct{})
	for r := range p.links {
		p.links[r] = newLink(p, role(r))
	}
	p.running.Store(int32(len(p.links)))
	for _, l := range p.links {
		t.wg.Add(1)
		go func() {
			defer t.wg.Done()
			l.run()
			if p.running.Add(-1) == 0 {
				close(p.done)
			}
		}()
	}
	return p
}

// route is the connection of a message (W3).
func route(m *Message) role {
	if m.Raft.Type != pb.MsgApp && m.Raft.Type != pb.MsgSnap {
		return roleControl
	}
	h := uint32(m.Group.Partition)*0x9e3779b1 ^ uint32(m.Group.Topic[15]) ^ uint32(m.Group.Topic[0])<<8
	return roleData0 + role((h>>16^h)&1)
}

func (p *peer) send(m Message) bool {
	return p.links[route(&m)].enqueue(item{msg: m})
}

// reserve takes room in the backlog.
func (p *peer) reserve(r role, bytes int64) bool {
	class := 0
	if r.data() {
		class = 1
	}
	if p.messages[class].Add(1) > int64(p.t.opt.BacklogMessages) {
		p.messages[class].Add(-1)
		return false
	}
	if have := p.bytes[class].Add(bytes); have > p.t.opt.BacklogBytes && have > bytes {
		p.unreserve(r, bytes)
		return false
	}
	return true
}

func (p *peer) unreserve(r role, bytes int64) {
	class := 0
	if r.data() {
		class = 1
	}
	p.messages[class].Add(-1)
	p.bytes[class].Add(-bytes)
}

// setSession tells the other links that control came up, or, with nil, went down.
func (p *peer) setSession(s context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.session = s
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// up reports whether control is up.
func (p *peer) up() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.session != nil
}

// session waits for control to be up; nil when the peer ended.
func (p *peer) session() context.Context {
	for {
		p.mu.Lock()
		s, changed := p.mu.session, p.mu.changed
		p.mu.Unlock()
		if s != nil {
			return s
		}
		select {
		case <-changed:
		case <-p.ctx.Done():
			return nil
		}
	}
}

// heard tells that the peer has just dialled us: it is worth a try.
func (p *peer) heard() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

var errNoPeer = errors.New("it is not among the peers")
