package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/liveness"
	"github.com/sluicelog/sluice/replica/transport"
)

// Call answers one method of transport.Call.
type Call func(ctx context.Context, from kafkaproto.NodeID, body []byte) ([]byte, error)

// Stream answers one method of transport.OpenStream.
type Stream func(ctx context.Context, from kafkaproto.NodeID, body []byte) (io.ReadCloser, error)

// Options is what a member is made of.
type Options struct {
	Self        kafkaproto.NodeID
	Incarnation uint64 // of this start of the process: the transport's
	Clock       clock.Clock
	Logger      *slog.Logger
	Random      liveness.Random
	// FS and Dir are the data directory, for the probe; without FS there is none.
	FS  vfs.FS
	Dir string

	Transport transport.Transport
	// Calls and Streams are what the layers above answer, by method.
	Calls   map[uint16]Call
	Streams map[uint16]Stream
	// OnChange is told, without locks held, that Leader, InSync or Up may answer otherwise than before.
	OnChange func()
	// OnExit is told once that the disk has hung for too long: the process must end.
	OnExit func(error)
}

// Member is this broker as one of its cluster.
type Member struct {
	o      Options
	log    *slog.Logger
	engine *engine.Engine

	mu struct {
		sync.Mutex
		machine *liveness.Machine
		timer   clock.Timer
		closed  bool
	}
	probe probe
}

// New makes a member that has no peers yet. Attach and Start follow.
func New(o Options) *Member {
	m := &Member{o: o, log: o.Logger.With("component", "member")}
	m.mu.machine = liveness.New(liveness.Config{
		Node: o.Self, Incarnation: o.Incarnation, Random: o.Random, Replicas: replicas{m},
	}, o.Clock.Now())
	return m
}

// replicas is what the machine asks the engine, which is made after the member.
type replicas struct{ m *Member }

func (r replicas) Voters(id kafkaproto.PartitionID) ([]kafkaproto.NodeID, bool) {
	return r.m.engine.Voters(id)
}
func (r replicas) Lags(id kafkaproto.PartitionID, n kafkaproto.NodeID) bool {
	return r.m.engine.Lags(id, n)
}

// Attach gives the engine, whose Options.OnLeadership is Member.Leadership. It is called once, before
// anything comes over the transport.
func (m *Member) Attach(e *engine.Engine) {
	m.engine = e
	e.SetLeaderTable(m)
}

// Start begins to beat.
func (m *Member) Start() {
	m.mu.Lock()
	m.mu.timer = m.o.Clock.AfterFunc(0, m.advance)
	m.mu.Unlock()
	m.probe.start(m)
}

// Close ends the beats and the probe. Transport and engine are closed by who made them.
func (m *Member) Close() {
	m.mu.Lock()
	m.mu.closed = true
	timer := m.mu.timer
	m.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	m.probe.close()
}

// with calls f with the machine and hands on what comes of it (B1).
func (m *Member) with(f func(*liveness.Machine)) {
	m.mu.Lock()
	if m.mu.closed {
		m.mu.Unlock()
		return
	}
	f(m.mu.machine)
	out := m.mu.machine.Take()
	m.handOn(&out)
	if m.mu.timer != nil {
		m.mu.timer.Reset(max(0, m.mu.machine.Deadline().Sub(m.o.Clock.Now())))
	}
	m.mu.Unlock()
	if m.o.OnChange != nil && len(out.Changed)+len(out.Peers) > 0 {
		m.o.OnChange()
	}
	if out.Exit && m.o.OnExit != nil {
		m.o.OnExit(errors.New("no sync of the data directory has ended for 20 s"))
	}
}

// handOn does what the machine says. The caller holds mu.
func (m *Member) handOn(out *liveness.Output) {
	for _, f := range out.Send {
		m.o.Transport.SendLiveness(f.To, f.Body)
	}
	for _, p := range out.Peers {
		if p.Up {
			m.log.Info("broker is up", "node", p.Node)
			m.engine.BrokerUp(p.Node)
		} else {
			m.log.Warn("broker is down", "node", p.Node, "reason", p.Reason.String())
			m.engine.BrokerDown(p.Node)
		}
	}
	for _, c := range out.Campaigns {
		m.engine.Campaign(c.Group)
	}
	for _, w := range out.Wakes {
		m.engine.Wake(w.Group)
	}
	switch out.Quorum {
	case liveness.QuorumLost:
		m.log.Warn("less than a majority of the brokers can be reached")
	case liveness.QuorumBack:
		m.log.Info("a majority of the brokers can be reached")
	}
	switch out.Disk {
	case liveness.DiskStalled:
		m.log.Error("the disk hangs: other brokers take over", "directory", m.o.Dir)
	case liveness.DiskBack:
		m.log.Info("the disk answers again", "directory", m.o.Dir)
	}
}

func (m *Member) advance() {
	m.with(func(l *liveness.Machine) { l.Advance(m.o.Clock.Now()) })
}

// SetPeers says who the other brokers are.
func (m *Member) SetPeers(peers map[kafkaproto.NodeID]transport.Peer) {
	m.o.Transport.SetPeers(peers)
	nodes := make([]kafkaproto.NodeID, 0, len(peers))
	for n := range peers {
		nodes = append(nodes, n)
	}
	m.with(func(l *liveness.Machine) { l.SetPeers(m.o.Clock.Now(), nodes) })
}

// Leadership takes the engine's news of a partition (engine.Options.OnLeadership).
func (m *Member) Leadership(p *engine.Partition, lead engine.Leadership) {
	m.with(func(l *liveness.Machine) {
		now := m.o.Clock.Now()
		if lead.Leading && lead.Ready {
			l.Lead(now, p.ID(), lead.Epoch, lead.InSync)
		} else if !lead.Leading {
			if at, ok := l.Leader(p.ID()); ok && at.Node == m.o.Self && at.Live {
				l.Resign(now, p.ID(), at.Term)
			}
		}
	})
}

// DropTopic forgets the leaders of a topic that was deleted.
func (m *Member) DropTopic(id kafkaproto.TopicID) {
	m.with(func(l *liveness.Machine) { l.DropTopic(m.o.Clock.Now(), id) })
}

// Leader is who leads a partition, and its epoch; false when nobody is known to.
func (m *Member) Leader(id kafkaproto.PartitionID) (liveness.Leader, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lead, ok := m.mu.machine.Leader(id)
	return lead, ok && lead.Live
}

// LeaderOf implements engine.LeaderTable.
func (m *Member) LeaderOf(id kafkaproto.PartitionID) (n kafkaproto.NodeID, epoch kafkaproto.LeaderEpoch, live, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lead, known := m.mu.machine.Leader(id)
	return lead.Node, lead.Term, lead.Live, known
}

// Up tells whether a broker lives.
func (m *Member) Up(n kafkaproto.NodeID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.machine.Up(n)
}

// Admitted tells whether clients may be served: the leaders are known (ruling 24).
func (m *Member) Admitted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.machine.Admitted()
}

// Quorum tells whether a majority of the brokers can be reached.
func (m *Member) Quorum() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.machine.Quorum()
}

// Raft implements transport.Handler.
func (m *Member) Raft(from kafkaproto.NodeID, msgs []transport.Message) { m.engine.Raft(from, msgs) }

// Unreachable implements transport.Handler.
func (m *Member) Unreachable(to kafkaproto.NodeID, id kafkaproto.PartitionID) {
	m.engine.Unreachable(to, id)
}

// Liveness implements transport.Handler.
func (m *Member) Liveness(from kafkaproto.NodeID, b []byte) {
	m.with(func(l *liveness.Machine) {
		if err := l.Receive(m.o.Clock.Now(), from, b); err != nil {
			m.log.Warn("beat refused", "from", from, "error", err)
		}
	})
}

// PeerUp implements transport.Handler.
func (m *Member) PeerUp(n kafkaproto.NodeID, incarnation uint64) {
	m.with(func(l *liveness.Machine) { l.Connected(m.o.Clock.Now(), n, incarnation) })
}

// PeerDown implements transport.Handler.
func (m *Member) PeerDown(n kafkaproto.NodeID, err error) {
	m.with(func(l *liveness.Machine) {
		if errors.Is(err, syscall.ECONNREFUSED) {
			l.Refused(m.o.Clock.Now(), n)
		} else {
			l.Disconnected(m.o.Clock.Now(), n)
		}
	})
}

// Call implements transport.Handler.
func (m *Member) Call(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	call := m.o.Calls[method]
	if call == nil {
		return nil, fmt.Errorf("call %d is not known here", method)
	}
	return call(ctx, from, body)
}

// Stream implements transport.Handler.
func (m *Member) Stream(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	if method == engine.StreamSnapshot {
		return m.engine.Stream(ctx, from, body)
	}
	stream := m.o.Streams[method]
	if stream == nil {
		return nil, fmt.Errorf("stream %d is not known here", method)
	}
	return stream(ctx, from, body)
}
