package store

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"path"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
)

// EventKind says what an Event tells.
type EventKind uint8

// The kinds of events.
const (
	// Synced: the synced offset moved to Event.Offset.
	Synced EventKind = iota + 1
	// StartMoved: the log start moved to Event.Offset.
	StartMoved
	// Rolled: a new segment begins at Event.Offset.
	Rolled
	// Failed: the log is offline; Event.Err says why.
	Failed
	// StartDue, in the replicated form: retention asks for a log that begins at Event.Offset.
	StartDue
	// Truncated: what lay at Event.Offset and behind it is cut off. It is told within AppendEntries,
	// before anything else is written there.
	Truncated
)

// Event is told to a log's observer.
type Event struct {
	Kind   EventKind
	Offset kafkaproto.Offset
	// Ticket, of Synced in the replicated form: writes up to this one are durable.
	Ticket Ticket
	Err    error
}

// Log is one partition's records.
type Log struct {
	store *Store
	id    kafkaproto.PartitionID
	tp    kafkaproto.TopicPartition
	dir   string

	config   atomic.Pointer[Config]
	observer atomic.Pointer[func(Event)]
	offline  atomic.Pointer[error]

	// What readers look at. segs is replaced as a whole, never changed in place.
	segs                   atomic.Pointer[[]*segment.Segment]
	epochs                 atomic.Pointer[[]segment.EpochStart]
	start, end, synced, hw atomic.Int64
	term                   atomic.Int32
	sealedSize             atomic.Int64 // of all segments but the active one
	openTxn                atomic.Int64 // first offset of the first open transaction, or MaxInt64
	sidecarAt              atomic.Int64 // log end of the newest producer sidecar, or -1
	lastAborted            atomic.Int64 // highest marker offset of an aborted transaction, or -1

	epochsQueued atomic.Bool           // leader-epoch-checkpoint is not up to date
	epochsSynced *[]segment.EpochStart // what of it is durable; dirMu guards it

	readAt, readMs atomic.Int64 // offset and time of a reader behind the others; see pages

	queued  atomic.Bool // waits in the committer's queue
	relaxed atomic.Bool // waits in the committer's list for background syncs

	// mu is the writer's lock.
	mu struct {
		sync.Mutex
		shut       error // closed or deleted: nothing is written any more
		fresh      bool  // made by this process, directory not yet synced
		started    bool  // StartSolo has been called
		active     *segment.Segment
		createdMs  int64                      // age of the active segment, by the broker's clock
		appendedMs int64                      // when it was last appended to
		rolledMs   map[*segment.Segment]int64 // appendedMs of the segments rolled by this process
		unsynced   []*segment.Segment         // rolled, and not covered by a sync yet
		dirDirty   bool                       // a file was made since the last sync
		lastIndex  uint64                     // raft index of the last entry
		lastNoop   uint64                     // raft index of the last no-op, 0 for none
		checkpoint int64                      // size of the active segment at its last flush
		mark       journal.Synced             // what the newest sync has covered
		markQueued bool                       // the committer will write it
		noted      pageRange                  // of the active segment, not yet told to pages
	}

	// prod guards the producer state.
	prod struct {
		sync.Mutex
		state *producer.State
	}

	// dirMu is held while segments are renamed or replaced, and while the directory moves away.
	dirMu sync.Mutex

	pins    atomic.Int64 // exports that read the segments: none may be taken away
	staging atomic.Bool  // a snapshot is being staged

	clean cleanState // the cleaner's
	raft  raftState  // of the replicated form
}

func newLog(s *Store, id kafkaproto.PartitionID, tp kafkaproto.TopicPartition) *Log {
	l := &Log{store: s, id: id, tp: tp, dir: path.Join(s.o.Dir, tp.String())}
	l.prod.state = producer.New(producer.Options{})
	l.SetConfig(Config{})
	l.segs.Store(new([]*segment.Segment))
	l.epochs.Store(new([]segment.EpochStart))
	l.openTxn.Store(math.MaxInt64)
	l.lastAborted.Store(-1)
	l.sidecarAt.Store(-1)
	l.readMs.Store(neverRead)
	l.mu.rolledMs = make(map[*segment.Segment]int64)
	return l
}

// segmentOptions are what every segment of the log gets.
func (l *Log) segmentOptions(suffix string) segment.Options {
	c := l.config.Load()
	return segment.Options{
		IndexInterval: c.IndexInterval, IndexBytes: c.IndexBytes, Files: l.store.files,
		Suffix: suffix,
	}
}

// createFirst makes the first segment of a log that has none.
func (l *Log) createFirst(base kafkaproto.Offset, index uint64) error {
	seg, err := segment.Create(l.store.fs, l.dir, base, index, l.segmentOptions(""))
	if err != nil {
		return err
	}
	l.mu.active, l.mu.fresh, l.mu.lastIndex = seg, true, index-1
	l.mu.createdMs = l.store.nowMs()
	l.mu.appendedMs = l.mu.createdMs
	l.segs.Store(&[]*segment.Segment{seg})
	l.start.Store(int64(base))
	l.end.Store(int64(base))
	l.synced.Store(int64(base))
	l.hw.Store(int64(base))
	return nil
}

// ID is the partition's identity.
func (l *Log) ID() kafkaproto.PartitionID { return l.id }

// TP is the partition's name.
func (l *Log) TP() kafkaproto.TopicPartition { return l.tp }

// Dir is the partition's directory.
func (l *Log) Dir() string { return l.dir }

// Config is the configuration in force, with defaults filled in.
func (l *Log) Config() Config { return *l.config.Load() }

// SetConfig changes the configuration. Index sizes hold from the next segment on.
func (l *Log) SetConfig(c Config) {
	c = c.withDefaults()
	l.config.Store(&c)
	l.prod.Lock()
	l.prod.state.SetExpiration(c.ProducerExpiry.Milliseconds())
	l.prod.Unlock()
	if c.Strict && l.EndOffset() > l.SyncedOffset() {
		l.store.committer.enqueue(l)
	}
}

// Observe sets the observer, once, before the first append. It is called without locks, from the
// committer, the janitor or a caller, and must not wait for a sync: no Flush, no DeleteRecords.
func (l *Log) Observe(fn func(Event)) { l.observer.Store(&fn) }

func (l *Log) tell(ev Event) {
	if fn := l.observer.Load(); fn != nil {
		(*fn)(ev)
	}
}

// Offline is why the log cannot be used, or nil.
func (l *Log) Offline() error {
	if p := l.offline.Load(); p != nil {
		return *p
	}
	return nil
}

// goOffline takes the log out of use; the first reason stays. The caller holds no lock.
func (l *Log) goOffline(err error) {
	if !l.offline.CompareAndSwap(nil, &err) {
		return
	}
	// What was deleted is gone because somebody asked for it.
	level := slog.LevelError
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		level = slog.LevelDebug
	}
	l.store.log.Log(context.Background(), level, "log is offline", "partition", l.tp.String(), "error", err)
	l.tell(Event{Kind: Failed, Offset: l.EndOffset(), Err: err})
}

// Term is the leader epoch that appended batches get.
func (l *Log) Term() kafkaproto.LeaderEpoch { return kafkaproto.LeaderEpoch(l.term.Load()) }

// StartOffset is the first offset that may be read.
func (l *Log) StartOffset() kafkaproto.Offset { return kafkaproto.Offset(l.start.Load()) }

// EndOffset is the end of what was written, exclusive.
func (l *Log) EndOffset() kafkaproto.Offset { return kafkaproto.Offset(l.end.Load()) }

// SyncedOffset is the end of what a sync has covered, exclusive.
func (l *Log) SyncedOffset() kafkaproto.Offset { return kafkaproto.Offset(l.synced.Load()) }

// HighWatermark is the highest offset that Commit was told.
func (l *Log) HighWatermark() kafkaproto.Offset { return kafkaproto.Offset(l.hw.Load()) }

// HighWatermarkBound is how far the high watermark of a log with one voter may go: the synced
// offset in strict mode, else the end (ruling 2).
func (l *Log) HighWatermarkBound() kafkaproto.Offset {
	if l.config.Load().Strict {
		return l.SyncedOffset()
	}
	return l.EndOffset()
}

// Size is the bytes of all segments' batches.
func (l *Log) Size() int64 {
	segs := *l.segs.Load()
	if len(segs) == 0 {
		return 0
	}
	return l.sealedSize.Load() + segs[len(segs)-1].Size()
}

// Segments is the number of segments.
func (l *Log) Segments() int { return len(*l.segs.Load()) }

// setSegs publishes a new list. The caller holds mu.
func (l *Log) setSegs(segs []*segment.Segment) {
	var size int64
	for _, s := range segs[:len(segs)-1] {
		size += s.Size()
	}
	l.segs.Store(&segs)
	l.sealedSize.Store(size)
}

// startSoloLocked gives the records that begin the log's next term, or nil when the term that is in
// force can go on: nothing was written since its no-op (ruling 7). The caller holds mu.
func (l *Log) startSoloLocked() []journal.Record {
	m := &l.mu
	if m.shut != nil || l.Offline() != nil {
		return nil
	}
	g, ok := l.store.journal.Group(l.id)
	if !ok {
		g = &journal.GroupState{}
	}
	if replicated(g.Conf.State) {
		return nil // its terms are raft's
	}
	if m.lastNoop != 0 && m.lastNoop == m.lastIndex {
		m.started = true
		return nil
	}
	term := max(g.HardState.Term, g.LastTerm(), uint64(max(l.term.Load(), 0))) + 1
	if term > math.MaxInt32 {
		l.store.log.Error("leader epochs are used up", "partition", l.tp.String())
		return nil
	}
	hard := journal.HardState{Term: term, Vote: g.HardState.Vote, Commit: max(g.HardState.Commit,
		m.lastIndex)}
	noop := journal.Side{Index: m.lastIndex + 1, Term: term, Kind: journal.SideNoop,
		AtOffset: l.EndOffset()}
	return []journal.Record{{Group: l.id, Body: hard}, {Group: l.id, Body: noop}}
}

// soloStartedLocked puts the term in force that startSoloLocked began.
func (l *Log) soloStartedLocked(err error) {
	if err != nil {
		return
	}
	g, ok := l.store.journal.Group(l.id)
	if !ok || len(g.Sides) == 0 {
		panic("store: no-op of " + l.tp.String() + " is not in the journal")
	}
	noop := g.Sides[len(g.Sides)-1]
	l.mu.lastIndex, l.mu.lastNoop, l.mu.started = noop.Index, noop.Index, true
	l.term.Store(int32(noop.Term))
	l.addEpoch(segment.EpochStart{Epoch: kafkaproto.LeaderEpoch(noop.Term), Start: noop.AtOffset})
}

// shut ends the log's life in this process: waiting and later callers get err. Readers that hold a
// range finish it.
func (l *Log) shut(err error) {
	l.mu.Lock()
	if l.mu.shut != nil {
		l.mu.Unlock()
		return
	}
	l.mu.shut = err
	segs := *l.segs.Load()
	l.mu.Unlock()
	if !errors.Is(err, ErrClosed) {
		l.goOffline(err)
	} else {
		l.offline.CompareAndSwap(nil, &err)
	}
	for _, s := range segs {
		if err := s.Close(); err != nil {
			l.store.log.Warn("close segment", "partition", l.tp.String(), "error", err)
		}
	}
}
