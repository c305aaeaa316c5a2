package store

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/producer"
)

// ErrReplicated is the answer of calls that belong to the other form of a log: one in its replicated
// form takes entries from raft and nothing else.
var ErrReplicated = errors.New("log is in its replicated form")

// Ticket numbers the writes of one log in its replicated form. An Event{Synced} with a ticket says
// that this write and all before it are durable.
type Ticket uint64

// raftState is what a log in its replicated form knows beside the writer's fields. raft reads it
// without the writer's lock.
type raftState struct {
	on     atomic.Bool
	view   atomic.Pointer[journal.GroupState] // of the journal; never changed in place
	last   atomic.Uint64                      // index of the last entry written
	commit atomic.Uint64                      // index of the last entry committed
	ring   ring

	viewMu sync.Mutex // one refresh of view at a time

	// The log's mu guards what follows.
	ticket       Ticket
	pos          journal.Pos       // of the last record of this log
	sidePos      journal.Pos       // of the last side entry that was passed (R1)
	reserved     kafkaproto.Offset // end of the batches that were proposed
	reservedTerm uint64
	cuts         uint64 // truncations so far
	told         Ticket // of the last Synced
	hinted       uint64 // the newest CommitHint
}

// StartReplica puts the log into its replicated form: entries come from raft from now on. conf is
// the group's configuration before the log's first entry; a log that has a configuration keeps its
// own. A log that was written in its solo form goes on: everything in it is committed. Appends that run
// beside it are written and committed, or get ErrReplicated.
func (l *Log) StartReplica(conf pb.ConfState) error {
	if err := l.store.syncNewDirs([]*Log{l}); err != nil {
		return err
	}
	if err := l.Flush(); err != nil { // most of it, without the lock
		return err
	}
	l.dirMu.Lock()
	l.mu.Lock()
	moved, err := l.startReplicaLocked(conf)
	end := l.SyncedOffset()
	l.mu.Unlock()
	l.dirMu.Unlock()
	if moved {
		l.tell(Event{Kind: Synced, Offset: end})
	}
	if err != nil {
		return l.readFailed(fmt.Errorf("start replica of %s: %w", l.tp, err))
	}
	return nil
}

// Replicated tells whether the log has a configuration: a broker that stopped in its replicated form
// finds it in that form, and StartSolo would begin no term.
func (l *Log) Replicated() bool {
	g, ok := l.store.journal.Group(l.id)
	return ok && replicated(g.Conf.State)
}

// startReplicaLocked is StartReplica behind the flush; moved: it has synced what came in between. The
// caller holds dirMu and mu.
func (l *Log) startReplicaLocked(conf pb.ConfState) (moved bool, err error) {
	m := &l.mu
	switch {
	case m.shut != nil:
		return false, m.shut
	case l.raft.on.Load():
		return false, nil
	}
	if l.EndOffset() != l.SyncedOffset() {
		if err := l.syncLocked(); err != nil {
			return false, err
		}
		moved = true
	}
	g, ok := l.store.journal.Group(l.id)
	if !ok {
		g = &journal.GroupState{}
	}
	if !replicated(g.Conf.State) {
		if !replicated(confFromRaft(conf)) {
			return moved, errors.New("no configuration is known")
		}
		err := l.store.journalCommit([]journal.Record{
			{Group: l.id, Body: journal.HardState{Term: max(g.HardState.Term, g.LastTerm()),
				Vote: g.HardState.Vote, Commit: m.lastIndex}},
			{Group: l.id, Body: journal.Conf{Index: m.lastIndex, State: confFromRaft(conf)}},
		})
		if err != nil {
			return moved, err
		}
		l.Commit(l.EndOffset())
	}
	l.refreshView()
	g = l.raft.view.Load()
	l.raft.last.Store(m.lastIndex)
	commit, err := l.committedIndex(g, clampCommit(g, provenCommit(g), m.lastIndex))
	if err != nil {
		return moved, err
	}
	l.raft.commit.Store(commit)
	l.raft.pos, l.raft.reserved, l.raft.reservedTerm = l.store.journal.SyncedPos(), l.EndOffset(), 0
	m.started = true
	l.raft.on.Store(true)
	return moved, nil
}

// syncLocked syncs all that was written, while the writer waits. The caller holds dirMu and mu.
func (l *Log) syncLocked() error {
	m := &l.mu
	var errs []error
	for _, seg := range append(m.unsynced[:len(m.unsynced):len(m.unsynced)], m.active) {
		errs = append(errs, unlessGone(seg.Sync()))
	}
	if err := errors.Join(append(errs, l.store.fs.SyncDir(l.dir))...); err != nil {
		return l.store.fail(fmt.Errorf("sync %s: %w", l.tp, err))
	}
	m.unsynced, m.dirDirty, m.mark = nil, false, l.markLocked()
	l.synced.Store(l.end.Load())
	return nil
}

// StopReplica puts the log back into its solo form, when this replica is the only one left: everything is
// committed, and the configuration has one voter and nobody else. Its RawNode must be gone before.
// StartSolo begins the next term; until then nothing can be appended.
func (l *Log) StopReplica() error {
	if err := l.Flush(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.shut != nil {
		return l.mu.shut
	}
	if !l.raft.on.Load() {
		return nil
	}
	c := l.raft.view.Load().Conf.State
	switch commit := l.raft.commit.Load(); {
	case len(c.Voters) != 1 || len(c.VotersOutgoing)+len(c.Learners)+len(c.LearnersNext) > 0:
		return fmt.Errorf("stop replica of %s: its configuration is %+v", l.tp, c)
	case commit != l.mu.lastIndex || l.EndOffset() != l.SyncedOffset():
		return fmt.Errorf("stop replica of %s: entries up to %d are written, %d committed", l.tp,
			l.mu.lastIndex, commit)
	}
	l.unreserveLocked(l.EndOffset())
	err := l.store.journalCommit([]journal.Record{{Group: l.id, Body: journal.Conf{Index: l.mu.lastIndex}}})
	if err != nil {
		return fmt.Errorf("stop replica of %s: %w", l.tp, err)
	}
	l.refreshView()
	l.raft.on.Store(false)
	l.raft.ring.clear()
	l.mu.started = false
	return nil
}

// committedIndex raises a commit index to the high watermark: a sidecar may have known of more. The
// caller holds mu.
func (l *Log) committedIndex(g *journal.GroupState, commit uint64) (uint64, error) {
	hw, last := l.HighWatermark(), l.mu.lastIndex
	if off, err := l.endOfPrefix(g, commit, last); err != nil || off >= hw {
		return commit, err
	}
	err := l.scanEntries(g, commit+1, last+1, func(index uint64, s slot) bool {
		if s.size == 0 {
			return true
		}
		if s.base+kafkaproto.Offset(s.span) > hw {
			return false
		}
		commit = index
		return true
	})
	return commit, err
}

// refreshView takes over what the journal knows of the log.
func (l *Log) refreshView() {
	l.raft.viewMu.Lock()
	defer l.raft.viewMu.Unlock()
	if g, ok := l.store.journal.Group(l.id); ok {
		l.raft.view.Store(g)
	}
}

// ticketLocked numbers a write. The caller holds mu.
func (l *Log) ticketLocked() Ticket {
	l.raft.ticket++
	return l.raft.ticket
}

// record appends one record of the log to the journal, without a sync.
func (l *Log) record(body journal.Body) (Ticket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.shut != nil:
		return 0, l.mu.shut
	case !l.raft.on.Load():
		return 0, fmt.Errorf("%s is in its solo form", l.tp)
	}
	pos, err := l.store.journal.Append(journal.Record{Group: l.id, Body: body})
	if err != nil {
		return 0, err
	}
	l.raft.pos = pos
	l.refreshView()
	return l.ticketLocked(), nil
}

// SaveHardState writes raft's hard state. It is durable when the ticket is: no message that rests on
// it may leave before that.
func (l *Log) SaveHardState(hs pb.HardState) (Ticket, error) {
	if hs.Term > math.MaxInt32 {
		return 0, fmt.Errorf("hard state of %s: term %d does not fit a leader epoch", l.tp, hs.Term)
	}
	t, err := l.record(journal.HardState{Term: hs.Term, Vote: hs.Vote, Commit: hs.Commit})
	if err != nil {
		return 0, fmt.Errorf("hard state of %s: %w", l.tp, err)
	}
	l.store.committer.enqueue(l)
	return t, nil
}

// SaveConf writes the configuration that is in force after the entry at index was applied. No message
// waits for it, as after a crash the change is applied again. But until the ticket is durable a crash brings
// back the configuration before it, whose members are needed then.
func (l *Log) SaveConf(index uint64, conf pb.ConfState) (Ticket, error) {
	t, err := l.record(journal.Conf{Index: index, State: confFromRaft(conf)})
	if err != nil {
		return 0, fmt.Errorf("configuration of %s: %w", l.tp, err)
	}
	l.store.committer.enqueue(l)
	return t, nil
}

// CommitEntries tells that the entries up to index are committed and written here; hw is the offset
// behind the last batch among them. Log starts among them come into force.
func (l *Log) CommitEntries(index uint64, hw kafkaproto.Offset) {
	old := l.raft.commit.Load()
	if index <= old {
		return
	}
	if last := l.raft.last.Load(); index > last || hw > l.EndOffset() {
		panic(fmt.Sprintf("store: entry %d (offset %d) of %s committed, written up to %d (%d)", index, hw,
			l.tp, last, l.EndOffset()))
	}
	l.raft.commit.Store(index)
	l.Commit(hw)
	start := logStartAt(l.raft.view.Load(), index)
	if l.raiseStart(start) {
		l.tell(Event{Kind: StartMoved, Offset: start})
		l.store.janitor.post(func() {
			if err := l.retain(l.store.nowMs()); err != nil {
				l.store.log.Warn("retention", "partition", l.tp.String(), "error", err)
			}
		})
	}
}

// logStartAt is the log start that the window and the side entries up to index give.
func logStartAt(g *journal.GroupState, index uint64) kafkaproto.Offset {
	start := g.Window.LogStart
	for _, side := range g.Sides {
		if side.Index > index {
			break
		}
		if side.Kind != journal.SideLogStart {
			continue
		}
		if at, err := journal.ParseLogStart(side.Data); err == nil {
			start = max(start, at)
		}
	}
	return start
}

// Reserve gives a batch its place before the leader of term proposes it (ruling 3): the producer
// state is asked, offset and epoch are patched in b, and nothing is written. Everything in raft's
// log that was not reserved must have been written before. A proposal that raft drops is undone by
// Unreserve.
func (l *Log) Reserve(term uint64, b batch.Batch, o AppendOptions) (Appended, error) {
	if err := l.Offline(); err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.mu.shut != nil:
		return Appended{}, l.mu.shut
	case l.store.Err() != nil:
		return Appended{}, l.store.Err()
	case !l.raft.on.Load() || term > math.MaxInt32:
		return Appended{}, fmt.Errorf("reserve in %s for term %d: not possible", l.tp, term)
	}
	if l.raft.reservedTerm != term {
		l.unreserveLocked(l.EndOffset())
		l.raft.reservedTerm = term
	}
	if o.NowMs == 0 {
		o.NowMs = l.store.nowMs()
	}
	var p producer.Batch
	if b.HasProducer() {
		var err error
		if p, err = producer.Describe(b); err != nil {
			return Appended{}, err
		}
		if d, dup, err := l.checkProducer(p, &o); dup || err != nil {
			return d, err
		}
	}
	if err := l.store.space.check(l.config.Load().Internal, len(b)); err != nil {
		return Appended{}, err
	}
	base := l.raft.reserved
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(kafkaproto.LeaderEpoch(term))
	if b.HasProducer() {
		p.BaseOffset = base
		l.prod.Lock()
		l.prod.state.Append(p, o.NowMs)
		l.publishTxnLocked()
		l.prod.Unlock()
	}
	l.raft.reserved = b.NextOffset()
	return Appended{BaseOffset: base, LastOffset: b.LastOffset(), End: b.NextOffset(), AppendTime: -1}, nil
}

// Unreserve takes back what was reserved from the batch at from on.
func (l *Log) Unreserve(from kafkaproto.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unreserveLocked(max(from, l.EndOffset()))
}

func (l *Log) unreserveLocked(from kafkaproto.Offset) {
	if l.raft.reserved <= from {
		return
	}
	l.raft.reserved = from
	l.prod.Lock()
	l.prod.state.Truncate(from)
	l.publishTxnLocked()
	l.prod.Unlock()
}
