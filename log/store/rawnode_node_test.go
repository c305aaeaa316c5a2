package store

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// rnode is one replica: raft's RawNode over a log on a disk that loses what was not synced. What it does
// with the log is what an engine does (see "For the engine").
type rnode struct {
	c    *rcluster
	id   uint64
	fs   *vfs.PowerFS
	boot int
	trip int // calls that change the disk until the process dies; below zero: it lives on
	dead bool

	s       *Store
	l       *Log
	rn      *raft.RawNode // nil: the node is down
	durable atomic.Uint64
	last    Ticket
	hard    pb.HardState
	waiting []rwaiting
	// Payloads of entries that raft has not handed back yet.
	arrived  map[entryID]batch.Batch
	proposed map[kafkaproto.Offset]batch.Batch
	stage    *Staging // finished: it waits for raft to take the snapshot
}

type rwaiting struct {
	ticket Ticket
	resp   []pb.Message
}

// rmessage is a message on its way, with the batches of its entries, or the files of its snapshot.
type rmessage struct {
	pb.Message
	batches []batch.Batch
	files   *Export
}

var errDropped = errors.New("dropped")

// disk is the file system as this process sees it.
func (n *rnode) disk() vfs.FS {
	n.dead = false
	under := n.fs
	fsys := vfs.Inject(under)
	fsys.Hook(func(op vfs.Op, _ string) error {
		if under != n.fs {
			return errDied
		}
		if op&mutating != 0 && n.trip >= 0 && !n.dead {
			n.trip--
			n.dead = n.trip < 0
		}
		if n.dead {
			return errDied
		}
		return nil
	})
	return fsys
}

func (n *rnode) open() error {
	o := testOptions(n.c.t, n.disk(), n.c.clk)
	o.Logger = nil
	o.BootID = fmt.Sprint("boot", n.boot)
	o.Random = rand.NewChaCha8([32]byte{byte(n.c.rng.Uint32())})
	o.knobs = knobs{manual: true, journal: n.c.journal}
	s, err := Open(o)
	if err != nil {
		return err
	}
	n.s = s
	if n.l, err = s.OpenLog(testID(1), testTP(1), n.c.cfg); err != nil {
		return err
	}
	return n.l.Offline()
}

// start boots raft over what is on disk. conf is of a group that has no entry yet.
func (n *rnode) start(conf pb.ConfState) error {
	if err := n.open(); err != nil {
		return err
	}
	n.durable.Store(0)
	n.l.Observe(func(ev Event) {
		if ev.Kind == Synced {
			n.durable.Store(max(n.durable.Load(), uint64(ev.Ticket)))
		}
	})
	if err := n.l.StartReplica(conf); err != nil {
		return err
	}
	n.last, n.waiting, n.stage = 0, nil, nil
	n.arrived, n.proposed = map[entryID]batch.Batch{}, map[kafkaproto.Offset]batch.Batch{}
	st := n.l.RaftStorage()
	var err error
	if n.hard, _, err = st.InitialState(); err != nil {
		return err
	}
	n.rn, err = raft.NewRawNode(&raft.Config{
		ID: n.id, ElectionTick: 1 << 20, HeartbeatTick: 1, Storage: st, Applied: st.Applied(),
		AsyncStorageWrites: true, MaxSizePerMsg: 300, MaxInflightMsgs: 8, MaxCommittedSizePerReady: 500,
		DisableProposalForwarding: true, Logger: n.c.quiet,
	})
	return err
}

// crash ends the process.
func (n *rnode) crash(kind vfs.CrashKind) {
	if n.rn != nil {
		n.c.seen.crashes++
	}
	if kind == vfs.PowerCrash {
		n.boot++
	}
	n.rn, n.trip = nil, -1
	n.fs = n.fs.Crash(kind)
	if n.s != nil {
		_ = n.s.Close() // it can do nothing any more
		n.s = nil
	}
}

// do runs a step of the node, which may die of it.
func (n *rnode) do(what string, step func() error) (ok bool) {
	defer func() {
		p := recover()
		n.trip = -1
		if p != nil && !n.dead {
			panic(p)
		}
		if n.dead {
			n.c.seen.deaths++
			n.crash(n.c.kind())
			ok = false
		}
	}()
	if n.rn != nil && n.c.rng.IntN(n.c.lives) == 0 {
		n.trip = n.c.rng.IntN(12)
	}
	if err := step(); err != nil && !n.dead {
		n.c.t.Fatalf("node %d: %s: %v", n.id, what, err)
	}
	return true
}

// flush does what raft wants done.
func (n *rnode) flush() error {
	for {
		for len(n.waiting) > 0 && uint64(n.waiting[0].ticket) <= n.durable.Load() {
			resp := n.waiting[0].resp
			n.waiting = n.waiting[1:]
			if err := n.respond(resp); err != nil {
				return err
			}
		}
		if !n.rn.HasReady() {
			return nil
		}
		rd := n.rn.Ready()
		var send []pb.Message
		for _, m := range rd.Messages {
			var err error
			switch m.To {
			case raft.LocalAppendThread:
				err = n.storageAppend(m)
			case raft.LocalApplyThread:
				err = n.apply(m)
			default:
				send = append(send, m)
			}
			if err != nil {
				return err
			}
		}
		for _, m := range send { // behind the write: batches come from the file
			n.send(m)
		}
	}
}

func (n *rnode) respond(resp []pb.Message) error {
	for _, m := range resp {
		if m.To != n.id {
			n.send(m)
		} else if err := n.rn.Step(m); err != nil {
			return err
		}
	}
	return nil
}

func (n *rnode) storageAppend(m pb.Message) error {
	if m.Snapshot != nil && !raft.IsEmptySnap(*m.Snapshot) {
		if n.stage == nil {
			return errors.New("a snapshot without files")
		}
		t, err := n.l.InstallSnapshot(*m.Snapshot, n.stage)
		if err != nil {
			return err
		}
		n.last, n.stage = t, nil
		n.c.seen.installs++
	}
	var ents []Entry
	for _, re := range m.Entries {
		e, d, err := EntryOf(re)
		if err != nil {
			return err
		}
		if e.Kind == EntryData {
			id := entryID{e.Index, e.Term}
			if e.Batch = n.arrived[id]; e.Batch == nil {
				e.Batch = n.proposed[d.Base]
				delete(n.proposed, d.Base)
			}
			delete(n.arrived, id)
		}
		ents = append(ents, e)
	}
	if len(ents) > 0 {
		t, err := n.l.AppendEntries(ents)
		if err != nil {
			return err
		}
		n.last = t
	}
	if m.Term > 0 && (m.Term != n.hard.Term || m.Vote != n.hard.Vote) {
		n.hard = pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		t, err := n.l.SaveHardState(n.hard)
		if err != nil {
			return err
		}
		n.last = t
	}
	if len(m.Responses) > 0 {
		n.waiting = append(n.waiting, rwaiting{n.last, m.Responses})
	}
	return nil
}

func (n *rnode) apply(m pb.Message) error {
	hw := n.l.HighWatermark()
	for _, re := range m.Entries {
		e, d, err := EntryOf(re)
		if err != nil {
			return err
		}
		var b batch.Batch
		switch e.Kind {
		case EntryData:
			hw = max(hw, d.Next())
			if b, err = n.batchAt(d, e.Term); err != nil && !n.c.cfg.Compact {
				return fmt.Errorf("committed entry %d: %w", e.Index, err)
			}
		case EntryConf, EntryConfV2:
			if err := n.applyConf(re); err != nil {
				return err
			}
		}
		n.c.commit(n, e, d, b)
	}
	if k := len(m.Entries); k > 0 {
		n.l.CommitEntries(m.Entries[k-1].Index, hw)
	}
	return n.respond(m.Responses)
}

func (n *rnode) applyConf(e pb.Entry) error {
	var change pb.ConfChangeI
	var err error
	if e.Type == pb.EntryConfChange {
		var v1 pb.ConfChange
		err, change = v1.Unmarshal(e.Data), v1
	} else {
		var v2 pb.ConfChangeV2
		err, change = v2.Unmarshal(e.Data), v2
	}
	if err != nil {
		return err
	}
	_, err = n.l.SaveConf(e.Index, *n.rn.ApplyConfChange(change))
	return err
}

// batchAt reads the batch that an entry stands for.
func (n *rnode) batchAt(d Descriptor, term uint64) (batch.Batch, error) {
	r, err := n.l.ReadEntries(d.Base, int(d.Size), d.Next())
	if err != nil {
		return nil, err
	}
	defer r.Release()
	if r.Len < int(d.Size) {
		return nil, errDropped
	}
	buf := make([]byte, d.Size)
	if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
		return nil, err
	}
	b, err := batch.First(buf)
	if err != nil || b.BaseOffset() != d.Base || uint64(b.LeaderEpoch()) != term || len(b) != int(d.Size) {
		return nil, errDropped // it was cut off, or cleaned
	}
	return b, nil
}

// send puts a message on its way; one whose payload is not there is lost.
func (n *rnode) send(m pb.Message) {
	w := rmessage{Message: m}
	for _, re := range m.Entries {
		e, d, err := EntryOf(re)
		if err != nil {
			panic(err)
		}
		var b batch.Batch
		if e.Kind == EntryData {
			if b, err = n.batchAt(d, e.Term); err != nil {
				return
			}
		}
		w.batches = append(w.batches, b)
	}
	if m.Type == pb.MsgSnap {
		x, err := n.l.Export()
		if err != nil {
			n.rn.ReportSnapshot(m.To, raft.SnapshotFailure)
			return
		}
		w.files = x
		w.Snapshot = &x.Snapshot
	}
	n.c.net = append(n.c.net, w)
}

// receive takes a message but for snapshots.
func (n *rnode) receive(w rmessage) error {
	for i, b := range w.batches {
		if b != nil {
			n.arrived[entryID{w.Entries[i].Index, w.Entries[i].Term}] = b.Clone()
		}
	}
	if err := n.rn.Step(w.Message); err != nil && !errors.Is(err, raft.ErrProposalDropped) &&
		!errors.Is(err, raft.ErrStepPeerNotFound) {
		return err
	}
	err := n.flush()
	clear(n.arrived)
	return err
}

// transfer is a snapshot whose files are on their way.
type transfer struct {
	rmessage
	stage *Staging
	i     int
	pos   int64
}

// more ships the next piece; done: raft has been told of the snapshot.
func (n *rnode) more(x *transfer) (done bool, err error) {
	if x.stage == nil {
		m, err := ParseManifest(x.files.Manifest.Append(nil))
		if err != nil {
			return false, err
		}
		x.stage, err = n.l.Stage(m)
		return false, err
	}
	if segs := x.stage.m.Segments; x.i < len(segs) {
		p := make([]byte, 1+n.c.rng.IntN(900))
		k, err := x.files.ReadAt(x.i, p, x.pos)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, errDropped // the sender is gone
		}
		if k > 0 {
			if err := x.stage.Write(x.i, p[:k]); err != nil {
				return false, err
			}
		}
		if x.pos += int64(k); x.pos == segs[x.i].Size {
			x.i, x.pos = x.i+1, 0
		}
		return false, nil
	}
	if err := x.stage.Finish(); err != nil {
		return false, err
	}
	n.stage = x.stage
	if err = n.rn.Step(x.Message); err == nil {
		err = n.flush()
	}
	if n.stage != nil { // raft had no use for it
		err = errors.Join(err, n.stage.Discard())
		n.stage = nil
	}
	return true, err
}

// propose gives a batch to raft, if the node leads.
func (n *rnode) propose(b batch.Batch) error {
	st := n.rn.BasicStatus()
	if st.RaftState != raft.StateLeader || st.Term > math.MaxInt32 {
		return nil
	}
	a, err := n.l.Reserve(st.Term, b, AppendOptions{})
	if err != nil || a.Duplicate {
		return n.unlessRefused(err)
	}
	n.proposed[a.BaseOffset] = b
	err = n.rn.Step(pb.Message{Type: pb.MsgProp, From: n.id,
		Entries: []pb.Entry{{Data: DescribeBatch(b).Append(nil)}}})
	if errors.Is(err, raft.ErrProposalDropped) {
		n.l.Unreserve(a.BaseOffset)
		delete(n.proposed, a.BaseOffset)
		return nil
	}
	return errors.Join(err, n.flush())
}
