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
// own. A log that was written in its solo form goes on: everything in it is committed.
func (l *Log) StartReplica(conf pb.ConfState) error {
	if err := l.store.syncNewDirs([]*Log{l}); err != nil {
		return err
	}
	if err := l.Flush(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &l.mu
	switch {
	case m.shut != nil:
		return m.shut
	case l.raft.on.Load():
		return nil
	case l.EndOffset() != l.SyncedOffset():
		return fmt.Errorf("start replica of %s: it is written to", l.tp)
	}
	g, ok := l.store.journal.Group(l.id)
	if !ok {
		g = &journal.GroupState{}
	}
	if !replicated(g.Conf.State) {
		if !replicated(confFromRaft(conf)) {
			return fmt.Errorf("start replica of %s: no configuration is known", l.tp)
		}
		err := l.store.journalCommit([]journal.Record{
			{Group: l.id, Body: journal.HardState{Term: max(g.HardState.Term, g.LastTerm()),
				Vote: g.HardState.Vote, Commit: m.lastIndex}},
			{Group: l.id, Body: journal.Conf{Index: m.lastIndex, State: confFromRaft(conf)}},
		})
		if err != nil {
			return fmt.Errorf("start replica of %s: %w", l.tp, err)
		}
		l.Commit(l.EndOffset())
	}
	l.refreshView()
	g = l.raft.view.Load()
	l.raft.last.Store(m.lastIndex)
	l.raft.commit.Store(clampCommit(g, g.HardState.Commit, m.lastIndex))
	l.raft.pos, l.raft.reserved = l.store.journal.SyncedPos(), l.EndOffset()
	m.started = true
	l.raft.on.Store(true)
	return nil
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

// SaveConf writes the configuration that is in force after the entry at index was applied. Nothing
// waits for it: after a crash the change is applied again.
func (l *Log) SaveConf(index uint64, conf pb.ConfState) error {
	if _, err := l.record(journal.Conf{Index: index, State: confFromRaft(conf)}); err != nil {
		return fmt.Errorf("configuration of %s: %w", l.tp, err)
	}
	l.store.committer.enqueue(l)
	return nil
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
