package group

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/transport"
)

// Role is what this replica is to its partition.
type Role struct {
	Leader uint64 // replica id of the leader; 0: not known
	Term   uint64
	// Leading: it is this replica; Ready: and its term's no-op is committed (P4).
	Leading, Ready bool
}

// Config says how a group runs. Ticks are the driver's.
type Config struct {
	Log    *store.Log // in its replicated form
	Self   uint64     // own replica id
	Logger *slog.Logger
	// ElectionTicks is after how many ticks without a leader an election begins, up to twice that;
	// 0: 10. HeartbeatTicks is how often a leader is heard; 0: 3.
	ElectionTicks, HeartbeatTicks int
}

// Outgoing is a message to another replica.
type Outgoing struct {
	To      uint64
	Message transport.Message
}

// Output is what a step came to. The driver hands it on, without the group's lock, in this order.
type Output struct {
	Messages []Outgoing
	// Snapshots are for replicas that have fallen behind the window: the driver ships files, then
	// calls ReportSnapshot.
	Snapshots []pb.Message
	// Truncated: batches from this offset on are gone; -1: none.
	Truncated kafkaproto.Offset
	// HighWatermark, and whether it or the commit index moved.
	HighWatermark kafkaproto.Offset
	Committed     bool
	Role          Role
	RoleChanged   bool
	Conf          *pb.ConfState // the configuration that came into force
	Reads         [][]byte      // what was given to ReadIndex, and is so
}

// Group is one replica of one partition.
type Group struct {
	log  *store.Log
	id   kafkaproto.PartitionID
	self uint64
	rn   *raft.RawNode
	out  *Output

	logger *slog.Logger

	proposed  []batch.Batch            // reserved, and not yet seen in a storage message
	arrived   map[entryKey]batch.Batch // of the messages stepped since the last flush
	hard      pb.HardState             // what was saved last
	conf      pb.ConfState
	confAt    store.Ticket // of the write of conf
	confIndex uint64       // of the entry that made it
	role      Role
	hw        kafkaproto.Offset

	staged *store.Staging // files of a snapshot that was stepped

	last    store.Ticket // of the last write
	durable store.Ticket // writes up to this one are
	waiting []waiting    // answers, in the order of their tickets (P1)
	blocked []*pb.Message
	held    map[entryKey]batch.Batch // batches of blocked, copied (P5)
	blockEr error
}

type entryKey struct{ index, term uint64 }

type waiting struct {
	ticket    store.Ticket
	responses []pb.Message
}

const (
	maxEntryBytes  = 8 << 10 // of descriptors in one message: about 250 batches
	maxInflight    = 64
	maxReadyCommit = 1 << 20
)

// New makes the group over a log that is in its replicated form.
func New(c Config) (*Group, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	st := c.Log.RaftStorage()
	hs, conf, err := st.InitialState()
	if err != nil {
		return nil, fmt.Errorf("group of %s: %w", c.Log.TP(), err)
	}
	g := &Group{
		log: c.Log, id: c.Log.ID(), self: c.Self, logger: c.Logger, hard: hs, conf: conf,
		arrived: make(map[entryKey]batch.Batch), hw: c.Log.HighWatermark(),
		role: Role{Term: hs.Term},
	}
	g.out = &Output{Truncated: -1}
	g.rn, err = raft.NewRawNode(&raft.Config{
		ID: c.Self, ElectionTick: orElse(c.ElectionTicks, 10), HeartbeatTick: orElse(c.HeartbeatTicks, 3),
		Storage: st, Applied: st.Applied(), AsyncStorageWrites: true, MaxSizePerMsg: maxEntryBytes,
		MaxCommittedSizePerReady: maxReadyCommit, MaxInflightMsgs: maxInflight,
		CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe,
		Logger: newLogger(c.Logger, c.Log.TP(), c.Self), DisableProposalForwarding: true, StepDownOnRemoval: true,
	})
	if err != nil {
		return nil, fmt.Errorf("group of %s: %w", c.Log.TP(), err)
	}
	return g, nil
}

func orElse(n, other int) int {
	if n == 0 {
		return other
	}
	return n
}

// Role is what this replica is now.
func (g *Group) Role() Role { return g.role }

// HighWatermark is the offset behind the last committed batch.
func (g *Group) HighWatermark() kafkaproto.Offset { return g.hw }

// Conf is the configuration in force.
func (g *Group) Conf() pb.ConfState { return g.conf }

// ConfDurable tells whether a restart here finds Conf, or a later one. Until then the members of the
// configuration before may be needed for it, and must not be taken away.
func (g *Group) ConfDurable() bool { return g.confAt <= g.durable }

// Self is the own replica id.
func (g *Group) Self() uint64 { return g.self }

// Blocked is why writes are held up, or nil.
func (g *Group) Blocked() error { return g.blockEr }

// Propose reserves the batch's place in the log and proposes it. What it returns counts once Flush has
// returned: the batch is written then, unless Blocked says otherwise. After an error nothing of it is
// in any log.
func (g *Group) Propose(b batch.Batch, o store.AppendOptions) (store.Appended, error) {
	if !g.role.Leading {
		return store.Appended{}, g.notLeader()
	}
	if g.blockEr != nil {
		return store.Appended{}, fmt.Errorf("writes of %s wait: %w", g.log.TP(), g.blockEr)
	}
	a, err := g.log.Reserve(g.role.Term, b, o)
	if err != nil || a.Duplicate {
		return a, err
	}
	data := store.DescribeBatch(b).Append(make([]byte, 0, 17))
	err = g.rn.Step(pb.Message{Type: pb.MsgProp, From: g.self, Entries: []pb.Entry{{Data: data}}})
	if err != nil {
		g.log.Unreserve(a.BaseOffset)
		if errors.Is(err, raft.ErrProposalDropped) {
			return store.Appended{}, g.notLeader() // leadership is being handed over
		}
		return store.Appended{}, fmt.Errorf("propose to %s: %w", g.log.TP(), err)
	}
	g.proposed = append(g.proposed, b)
	return a, nil
}

func (g *Group) notLeader() error {
	return kafkaproto.Faultf(kerr.NotLeaderForPartition, "this broker does not lead %s", g.log.TP())
}

// ProposeLogStart proposes that the log begins at start (DeleteRecords and retention).
func (g *Group) ProposeLogStart(start kafkaproto.Offset) error {
	if !g.role.Leading {
		return g.notLeader()
	}
	err := g.rn.Propose(store.LogStartProposal(start))
	if errors.Is(err, raft.ErrProposalDropped) {
		return g.notLeader()
	}
	return err
}

// ProposeConf proposes a change of the configuration. raft takes one at a time: a second one becomes
// an empty entry, so the caller looks at Conf for what came of it.
func (g *Group) ProposeConf(cc pb.ConfChangeV2) error {
	if !g.role.Leading {
		return g.notLeader()
	}
	err := g.rn.ProposeConfChange(cc)
	if errors.Is(err, raft.ErrProposalDropped) {
		return g.notLeader()
	}
	return err
}

// Step takes a message of another replica. A message that breaks the protocol is an error, and nothing
// has happened: who sent it is not to be trusted.
func (g *Group) Step(m *transport.Message) error {
	if m.Raft.To != g.self || raft.IsLocalMsg(m.Raft.Type) || m.Raft.From == g.self {
		return nil // of an earlier replica of ours, which is gone
	}
	if m.Raft.Type == pb.MsgSnap {
		return fmt.Errorf("snapshot for %s without its files", g.log.TP())
	}
	if m.Raft.Type == pb.MsgApp && len(m.Raft.Entries) > 0 {
		if err := g.takePayload(m); err != nil {
			return err
		}
	}
	if err := g.rn.Step(m.Raft); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) &&
		!errors.Is(err, raft.ErrProposalDropped) {
		return fmt.Errorf("message %v for %s: %w", m.Raft.Type, g.log.TP(), err)
	}
	return nil
}

// StepSnapshot takes a snapshot whose files are staged. raft may have no use for it: the files are
// discarded by the next Flush then.
func (g *Group) StepSnapshot(m pb.Message, staged *store.Staging) error {
	if g.staged != nil || len(g.blocked) > 0 {
		return errors.Join(fmt.Errorf("snapshot for %s: another one is being installed", g.log.TP()), staged.Discard())
	}
	g.staged = staged
	if err := g.rn.Step(m); err != nil {
		return fmt.Errorf("snapshot for %s: %w", g.log.TP(), err)
	}
	return nil
}

// takePayload checks the batches of a message and keeps them until raft asks for them (P2).
func (g *Group) takePayload(m *transport.Message) error {
	var parts [][]byte
	if m.Payload != nil {
		var err error
		// A received payload lies in memory: its buffer lives until the next Flush has returned.
		if parts, _, err = m.Payload.Load(); err != nil {
			return fmt.Errorf("payload for %s: %w", g.log.TP(), err)
		}
	}
	if len(parts) > 1 {
		return fmt.Errorf("payload for %s comes in %d parts", g.log.TP(), len(parts))
	}
	var rest []byte
	if len(parts) == 1 {
		rest = parts[0]
	}
	for i := range m.Raft.Entries {
		e := &m.Raft.Entries[i]
		ent, d, err := store.EntryOf(*e)
		if err != nil {
			return err
		}
		if ent.Kind != store.EntryData {
			continue
		}
		if uint32(len(rest)) < d.Size {
			return kafkaproto.Corruptf("entry %d of %s: %d bytes for a batch of %d", e.Index, g.log.TP(), len(rest), d.Size)
		}
		b, err := batch.First(rest[:d.Size])
		switch {
		case err != nil:
		case uint32(len(b)) != d.Size || b.BaseOffset() != d.Base || b.NextOffset() != d.Next() || uint64(b.LeaderEpoch()) != e.Term:
			err = kafkaproto.Corruptf("the batch is at offset %d with epoch %d, its entry says %d with %d",
				b.BaseOffset(), b.LeaderEpoch(), d.Base, e.Term)
		default:
			err = b.VerifyCRC()
		}
		if err != nil {
			return fmt.Errorf("entry %d of %s: %w", e.Index, g.log.TP(), err)
		}
		g.arrived[entryKey{e.Index, e.Term}] = b
		rest = rest[d.Size:]
	}
	if len(rest) > 0 {
		return kafkaproto.Corruptf("%d bytes behind the batches of a message for %s", len(rest), g.log.TP())
	}
	return nil
}

// Observe takes what the log tells: the driver passes it on, Synced under its lock, and Truncated at
// once, as that comes in the midst of a Flush.
func (g *Group) Observe(ev store.Event) {
	switch ev.Kind {
	case store.Synced:
		g.synced(ev.Ticket)
	case store.Truncated:
		if g.out.Truncated < 0 || ev.Offset < g.out.Truncated {
			g.out.Truncated = ev.Offset
		}
	}
}

// synced tells that writes up to the ticket are durable.
func (g *Group) synced(t store.Ticket) { g.durable = max(g.durable, t) }

// Tick tells that one tick of time has passed.
func (g *Group) Tick() {
	if g.confAt == notSaved {
		g.saveConf()
	}
	g.rn.Tick()
}

// Campaign begins an election now. A leader that is known is forgotten first: its lease would make the
// others refuse.
func (g *Group) Campaign() error { return g.rn.Campaign() }

// ForgetLeader ends the lease of a leader whose broker is known to be dead, so that votes are given.
func (g *Group) ForgetLeader() error { return g.rn.ForgetLeader() }

// TransferLeader asks the leader, when it is this replica, to hand over to another.
func (g *Group) TransferLeader(to uint64) { g.rn.TransferLeader(to) }

// ReadIndex asks the others whether this replica leads still; Output.Reads has ctx once they say so, and
// never when they do not. It is for a leader that is Ready.
func (g *Group) ReadIndex(ctx []byte) { g.rn.ReadIndex(ctx) }

// ReportUnreachable tells that messages to a replica were lost.
func (g *Group) ReportUnreachable(id uint64) { g.rn.ReportUnreachable(id) }

// ReportSnapshot tells how the shipping of files to a replica has ended.
func (g *Group) ReportSnapshot(id uint64, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	g.rn.ReportSnapshot(id, status)
}

// Progress is how far a replica is known to be, to a leader.
type Progress struct {
	Match         uint64 // index up to which it has all entries, durably
	Active        bool   // it was heard of within the last election timeout
	Learner       bool
	Snapshotting  bool
	Replicating   bool   // entries flow without waiting for answers
	Commit        uint64 // the commit index here, which heartbeats have told it
	LastIndexHere uint64
}

// Progress visits what a leader knows of each replica, itself included.
func (g *Group) Progress(visit func(id uint64, p Progress)) {
	last, _ := g.log.RaftStorage().LastIndex()
	commit := g.rn.BasicStatus().Commit
	g.rn.WithProgress(func(id uint64, typ raft.ProgressType, pr raftProgress) {
		visit(id, Progress{
			Match: pr.Match, Active: pr.RecentActive || id == g.self, Learner: typ == raft.ProgressTypeLearner,
			Snapshotting: isSnapshotting(pr), Replicating: isReplicating(pr), Commit: commit, LastIndexHere: last,
		})
	})
}
