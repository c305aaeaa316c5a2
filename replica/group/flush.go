package group

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/transport"
)

type raftProgress = tracker.Progress

func isSnapshotting(p raftProgress) bool { return p.State == tracker.StateSnapshot }
func isReplicating(p raftProgress) bool  { return p.State == tracker.StateReplicate }

// HasWork tells whether Flush would do anything.
func (g *Group) HasWork() bool {
	return g.rn.HasReady() || len(g.waiting) > 0 && g.waiting[0].ticket <= g.durable
}

// Flush does what the calls since the last one have asked for: writes entries, gives messages, commits.
// The output is the caller's.
func (g *Group) Flush() Output {
	for {
		g.answerDurable()
		if !g.rn.HasReady() {
			break
		}
		rd := g.rn.Ready()
		if rd.SoftState != nil {
			g.role.Leader, g.role.Leading = rd.SoftState.Lead, rd.SoftState.RaftState == raft.StateLeader
			g.roleMoved()
		}
		if !raft.IsEmptyHardState(rd.HardState) && rd.HardState.Term != g.role.Term {
			g.role.Term = rd.HardState.Term
			g.roleMoved()
		}
		for i := range rd.ReadStates {
			g.out.Reads = append(g.out.Reads, rd.ReadStates[i].RequestCtx)
		}
		var send []pb.Message
		for i := range rd.Messages {
			switch m := &rd.Messages[i]; m.To {
			case raft.LocalAppendThread:
				g.storageAppend(m)
			case raft.LocalApplyThread:
				g.apply(m)
			default:
				send = append(send, *m)
			}
		}
		for i := range send { // behind the write: the payload comes from the file
			g.send(send[i])
		}
	}
	if g.staged != nil && len(g.blocked) == 0 {
		if err := g.staged.Discard(); err != nil {
			g.logger.Warn("discard snapshot", "partition", g.log.TP().String(), "error", err)
		}
		g.staged = nil
	}
	clear(g.arrived)
	g.proposed = g.proposed[:0]
	out := *g.out
	out.HighWatermark, out.Role = g.hw, g.role
	*g.out = Output{Truncated: -1}
	return out
}

func (g *Group) roleMoved() {
	g.role.Ready = false
	g.out.RoleChanged = true
}

// answerDurable gives the answers whose writes are durable: to raft itself and to peers.
func (g *Group) answerDurable() {
	for len(g.waiting) > 0 && g.waiting[0].ticket <= g.durable {
		w := g.waiting[0]
		g.waiting[0] = waiting{}
		g.waiting = g.waiting[1:]
		g.respond(w.responses)
	}
}

func (g *Group) respond(responses []pb.Message) {
	for _, m := range responses {
		if m.To != g.self {
			g.send(m)
		} else if err := g.rn.Step(m); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {
			// A leader that was removed meanwhile does not count its own writes any more.
			panic(fmt.Sprintf("group: own message %v for %s: %v", m.Type, g.log.TP(), err))
		}
	}
}

// storageAppend writes what raft hands to its append thread, in order behind what is blocked (P5).
func (g *Group) storageAppend(m *pb.Message) {
	if len(g.blocked) == 0 {
		err := g.write(m)
		if err == nil {
			return
		}
		g.blockEr = err
	}
	g.hold(m)
}

// hold keeps a storage message for later, with copies of its batches.
func (g *Group) hold(m *pb.Message) {
	if g.held == nil {
		g.held = make(map[entryKey]batch.Batch)
	}
	for i := range m.Entries {
		k := entryKey{m.Entries[i].Index, m.Entries[i].Term}
		if b, ok := g.payload(&m.Entries[i]); ok && g.held[k] == nil {
			g.held[k] = b.Clone()
		}
	}
	g.blocked = append(g.blocked, m)
}

// RetryBlocked repeats the write that failed and those behind it. The driver calls it now and then
// while Blocked is not nil, and Flush after it.
func (g *Group) RetryBlocked() {
	for len(g.blocked) > 0 {
		if g.blockEr = g.write(g.blocked[0]); g.blockEr != nil {
			return
		}
		g.blocked[0] = nil
		g.blocked = g.blocked[1:]
	}
	g.blocked, g.held = nil, nil
}

// payload finds the batch of an entry; false for a side entry.
func (g *Group) payload(e *pb.Entry) (batch.Batch, bool) {
	ent, d, err := store.EntryOf(*e)
	if err != nil || ent.Kind != store.EntryData {
		return nil, false
	}
	k := entryKey{e.Index, e.Term}
	if b, ok := g.held[k]; ok {
		return b, true
	}
	if b, ok := g.arrived[k]; ok {
		return b, true
	}
	i, ok := slices.BinarySearchFunc(g.proposed, d.Base, func(b batch.Batch, o kafkaproto.Offset) int {
		return int(b.BaseOffset() - o)
	})
	if ok && uint64(g.proposed[i].LeaderEpoch()) == e.Term {
		return g.proposed[i], true
	}
	return nil, false
}

// write does one storage message: entries to the log, term and vote to the journal, and its answers
// into the queue.
func (g *Group) write(m *pb.Message) error {
	if m.Snapshot != nil && !raft.IsEmptySnap(*m.Snapshot) {
		if err := g.install(m.Snapshot); err != nil {
			return err
		}
	}
	if len(m.Entries) > 0 {
		ents := make([]store.Entry, len(m.Entries))
		for i := range m.Entries {
			ent, _, err := store.EntryOf(m.Entries[i])
			if err != nil {
				panic(fmt.Sprintf("group: raft's own entry: %v", err))
			}
			if ent.Kind == store.EntryData {
				b, ok := g.payload(&m.Entries[i])
				if !ok {
					panic(fmt.Sprintf("group: entry %d of term %d of %s has no payload", ent.Index, ent.Term, g.log.TP()))
				}
				ent.Batch = b
			}
			ents[i] = ent
		}
		t, err := g.log.AppendEntries(ents)
		if err != nil {
			return err
		}
		g.last = t
	}
	if hs := (pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}); !raft.IsEmptyHardState(hs) &&
		(hs.Term != g.hard.Term || hs.Vote != g.hard.Vote) {
		t, err := g.log.SaveHardState(hs)
		if err != nil {
			return err
		}
		g.hard, g.last = hs, t
	}
	if len(m.Responses) > 0 {
		g.waiting = append(g.waiting, waiting{ticket: g.last, responses: m.Responses})
	}
	return nil
}

// install puts the staged files in the place of the log.
func (g *Group) install(snap *pb.Snapshot) error {
	ref, err := store.ParseSnapshotRef(snap.Data)
	if err != nil || g.staged == nil {
		panic(fmt.Sprintf("group: snapshot %d of %s, staged %t: %v", snap.Metadata.Index, g.log.TP(), g.staged != nil, err))
	}
	t, err := g.log.InstallSnapshot(*snap, g.staged)
	if err != nil {
		return err
	}
	g.staged, g.last, g.conf, g.confAt = nil, t, snap.Metadata.ConfState, t
	g.out.Conf = &snap.Metadata.ConfState
	g.hw, g.out.Committed = max(g.hw, ref.Next), true
	return nil
}

// apply takes committed entries: the high watermark, and changes of the configuration.
func (g *Group) apply(m *pb.Message) {
	hw, last := g.hw, uint64(0)
	for i := range m.Entries {
		e := &m.Entries[i]
		ent, d, err := store.EntryOf(*e)
		if err != nil {
			panic(fmt.Sprintf("group: committed entry of %s: %v", g.log.TP(), err))
		}
		last = e.Index
		switch ent.Kind {
		case store.EntryData:
			hw = max(hw, d.Next())
		case store.EntryNoop:
			if g.role.Leading && e.Term == g.role.Term && !g.role.Ready {
				g.role.Ready = true
				g.out.RoleChanged = true
			}
		case store.EntryConf, store.EntryConfV2:
			g.applyConf(e)
		}
	}
	if last > 0 {
		g.log.CommitEntries(last, hw)
		g.hw = hw
		g.out.Committed = true
	}
	g.respond(m.Responses)
}

func (g *Group) applyConf(e *pb.Entry) {
	var cc pb.ConfChangeI
	var err error
	if e.Type == pb.EntryConfChange {
		var v1 pb.ConfChange
		err, cc = v1.Unmarshal(e.Data), v1
	} else {
		var v2 pb.ConfChangeV2
		err, cc = v2.Unmarshal(e.Data), v2
	}
	if err != nil {
		panic(fmt.Sprintf("group: configuration change %d of %s: %v", e.Index, g.log.TP(), err))
	}
	g.conf = *g.rn.ApplyConfChange(cc)
	conf := g.conf
	g.out.Conf = &conf
	g.confIndex = e.Index
	g.saveConf()
}

// notSaved is the ticket of a configuration that could not be written: Tick tries again.
const notSaved store.Ticket = math.MaxUint64

// saveConf writes the configuration. No message rests on it: after a restart the change is applied again.
func (g *Group) saveConf() {
	t, err := g.log.SaveConf(g.confIndex, g.conf)
	if err != nil {
		t = notSaved
		g.logger.Warn("save configuration", "partition", g.log.TP().String(), "error", err)
	}
	g.confAt = t
}

// send gives a message to the driver, with the way to its payload.
func (g *Group) send(m pb.Message) {
	if m.Type == pb.MsgSnap {
		g.out.Snapshots = append(g.out.Snapshots, m)
		return
	}
	msg := transport.Message{Group: g.id, Raft: m}
	if m.Type == pb.MsgApp {
		if p := payloadOf(g.log, m.Entries); p != nil {
			msg.Payload = p
		}
	}
	g.out.Messages = append(g.out.Messages, Outgoing{To: m.To, Message: msg})
}
