package engine

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
)

// Partition is one partition of which this broker has a replica.
type Partition struct {
	id   kafkaproto.PartitionID
	tp   kafkaproto.TopicPartition
	log  *store.Log
	self []kafkaproto.NodeID // this broker: who is in sync in the solo form

	rep  atomic.Pointer[replicated] // nil in the solo form
	form sync.RWMutex               // held by appends in the solo form, so that it can be left

	hw        atomic.Int64
	minInSync atomic.Int32          // min.insync.replicas
	cuts      atomic.Uint64         // how often a tail was cut off; it moves with mu held
	replica   atomic.Uint64         // the id of the replica here; 0: not known, in the solo form
	gone      atomic.Pointer[error] // why it is out of service for good; set with mu held

	mu struct {
		sync.Mutex
		waits    []commitWait // ascending by end
		watchers []*Watcher
		cutAt    []kafkaproto.Offset // of the last cuts
	}
}

type commitWait struct {
	end kafkaproto.Offset
	fn  func(error)
}

func newPartition(l *store.Log, self kafkaproto.NodeID) *Partition {
	return &Partition{id: l.ID(), tp: l.TP(), log: l, self: []kafkaproto.NodeID{self}}
}

// ID is the partition's identity.
func (p *Partition) ID() kafkaproto.PartitionID { return p.id }

// TP is the partition's name.
func (p *Partition) TP() kafkaproto.TopicPartition { return p.tp }

// Leadership is who leads the partition.
func (p *Partition) Leadership() Leadership {
	if r := p.rep.Load(); r != nil {
		return *r.lead.Load()
	}
	return Leadership{Leader: p.self[0], Epoch: p.log.Term(), Leading: true, Ready: true, InSync: p.self}
}

// isReplica tells whether the replica here is the one with this id, where both are known.
func (p *Partition) isReplica(id uint64) bool {
	was := p.replica.Load()
	if was == 0 && id > 0 {
		p.replica.Store(id)
	}
	return was == 0 || id == 0 || was == id
}

// Alone tells whether the partition is in its solo form.
func (p *Partition) Alone() bool { return p.rep.Load() == nil }

// LeaderEpoch is the term in which this broker leads, or follows.
func (p *Partition) LeaderEpoch() kafkaproto.LeaderEpoch { return p.Leadership().Epoch }

// HighWatermark is the first offset that readers may not see yet.
func (p *Partition) HighWatermark() kafkaproto.Offset { return kafkaproto.Offset(p.hw.Load()) }

// LastStable is the first offset that read_committed readers may not see yet (row 24).
func (p *Partition) LastStable() kafkaproto.Offset { return p.log.LastStable(p.HighWatermark()) }

// LogStart is the first offset kept.
func (p *Partition) LogStart() kafkaproto.Offset { return p.log.StartOffset() }

// LogEnd is the offset of the next record to be appended.
func (p *Partition) LogEnd() kafkaproto.Offset { return p.log.EndOffset() }

// Size is the bytes of the partition's segments.
func (p *Partition) Size() int64 { return p.log.Size() }

// Log gives the log below, for inspection by admin surfaces.
func (p *Partition) Log() *store.Log { return p.log }

// SetConfig applies a changed topic configuration.
func (p *Partition) SetConfig(c store.Config) {
	p.log.SetConfig(c)
	if p.rep.Load() != nil {
		return
	}
	p.advance() // strict to relaxed makes written records visible at once
}

// SetMinInSync applies a changed min.insync.replicas.
func (p *Partition) SetMinInSync(n int32) { p.minInSync.Store(n) }

// Offline says why the partition does not serve: nil when it does.
func (p *Partition) Offline() error {
	if gone := p.gone.Load(); gone != nil {
		return *gone
	}
	if err := p.log.Offline(); err != nil {
		return errOffline(p.tp, err)
	}
	return nil
}

// AppendOptions says how a batch is appended.
type AppendOptions struct {
	NowMs int64 // broker time, milliseconds since 1970
	// Epoch, when above 0, has the append refused unless this broker leads in that term: who has worked
	// out a batch from what the log holds knows then that nothing has come between. Groups only.
	Epoch kafkaproto.LeaderEpoch
	// All: the answer waits for WhenCommitted (acks=all), so that too few replicas in sync are a reason to
	// refuse.
	All bool
}

// AppendResult is what an append came to.
type AppendResult struct {
	BaseOffset kafkaproto.Offset // of the original batch when Duplicate
	End        kafkaproto.Offset // give it to WhenCommitted; for a duplicate the original's end
	AppendTime int64             // of the original when Duplicate, else -1
	LogStart   kafkaproto.Offset
	Duplicate  bool
	Cuts       uint64 // how often the log had been cut off before; WhenAppended asks for it
}

// Append writes one admitted batch at the log end, patching its base offset and leader epoch in
// place. When it returns the batch is written; it is visible and durable when WhenCommitted says
// so. Errors carry Kafka codes; after an error nothing of the batch is in the log.
func (p *Partition) Append(b batch.Batch, o AppendOptions) (AppendResult, error) {
	if err := p.Offline(); err != nil {
		return AppendResult{}, err
	}
	if r := p.rep.Load(); r != nil && o.All {
		if err := r.enough(); err != nil {
			return AppendResult{}, err
		}
	}
	a, cuts, err := p.append(b, o)
	if err != nil {
		return AppendResult{}, errOffline(p.tp, err)
	}
	return AppendResult{
		BaseOffset: a.BaseOffset, End: a.End, AppendTime: a.AppendTime,
		LogStart: p.log.StartOffset(), Duplicate: a.Duplicate, Cuts: cuts,
	}, nil
}

func (p *Partition) append(b batch.Batch, o AppendOptions) (a store.Appended, cuts uint64, err error) {
	if r := p.rep.Load(); r != nil {
		if a, cuts, err := r.append(b, o); !errors.Is(err, errSolo) {
			return a, cuts, err
		}
	}
	p.form.RLock()
	if p.rep.Load() != nil {
		p.form.RUnlock()
		return p.append(b, o)
	}
	cuts = p.cuts.Load()
	a, err = p.log.Append(b, store.AppendOptions{NowMs: o.NowMs})
	p.form.RUnlock()
	if err == nil && !a.Duplicate {
		p.advance() // relaxed: what is written is visible
	}
	return a, cuts, err
}

// WhenAppended calls fn once what was appended is committed (E3), at once when it is; with an error once it
// is known that it was cut off, or will not be committed here.
func (p *Partition) WhenAppended(a AppendResult, fn func(error)) { p.WhenPassed(a.End, a.Cuts, fn) }

// WhenCommitted is WhenAppended for who has seen the log up to end just now.
func (p *Partition) WhenCommitted(end kafkaproto.Offset, fn func(error)) {
	p.WhenPassed(end, p.cuts.Load(), fn)
}

// Cuts is how often a tail of the log was cut off since it was opened.
func (p *Partition) Cuts() uint64 { return p.cuts.Load() }

// WhenPassed is WhenCommitted for who saw the log up to end when it had been cut off cuts times (Cuts):
// that the high watermark has passed an offset says nothing of records that another leader has replaced.
func (p *Partition) WhenPassed(end kafkaproto.Offset, cuts uint64, fn func(error)) {
	// The high watermark is asked first: it passes what replaces a tail only after the cut is counted.
	if p.HighWatermark() >= end && p.cuts.Load() == cuts {
		fn(nil)
		return
	}
	p.mu.Lock()
	if p.cutSinceLocked(cuts) < end {
		p.mu.Unlock()
		fn(errCut(p.tp, end))
		return
	}
	// Both are asked again under the lock: who sets them takes it before it looks at the waits.
	if p.HighWatermark() >= end {
		p.mu.Unlock()
		fn(nil)
		return
	}
	if gone := p.gone.Load(); gone != nil {
		p.mu.Unlock()
		fn(*gone)
		return
	}
	w := p.mu.waits
	i := len(w)
	for i > 0 && w[i-1].end > end { // appends arrive in order, so this seldom moves
		i--
	}
	w = append(w, commitWait{})
	copy(w[i+1:], w[i:])
	w[i] = commitWait{end: end, fn: fn}
	p.mu.waits = w
	p.mu.Unlock()
	if err := p.log.Offline(); err != nil {
		p.fail(errOffline(p.tp, err))
	}
}

// observe is called by the log when something about it moved.
func (p *Partition) observe(ev store.Event) {
	switch ev.Kind {
	case store.Failed:
		p.fail(errOffline(p.tp, ev.Err))
	case store.StartMoved:
		p.wake()
	default:
		p.advance()
	}
}

// advance moves the high watermark to what the durability mode allows and wakes who waits (E1).
func (p *Partition) advance() {
	bound := p.log.HighWatermarkBound()
	if bound <= p.HighWatermark() {
		return
	}
	// The log goes first: when the new high watermark shows, the transactions that end below it are
	// closed and on the aborted list.
	p.log.Commit(bound)
	for {
		hw := p.hw.Load()
		if int64(bound) <= hw {
			return
		}
		if p.hw.CompareAndSwap(hw, int64(bound)) {
			break
		}
	}
	var few [8]commitWait
	for _, w := range p.takeDue(bound, few[:0]) {
		w.fn(nil)
	}
	p.wake()
}

// takeDue appends to due the waits for offsets up to hw, and forgets them.
func (p *Partition) takeDue(hw kafkaproto.Offset, due []commitWait) []commitWait {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.mu.waits) && p.mu.waits[n].end <= hw {
		n++
	}
	due = append(due, p.mu.waits[:n]...)
	p.mu.waits = slices.Delete(p.mu.waits, 0, n) // clears what it leaves behind
	return due
}

// fail answers every pending wait with err; the log itself may serve again later (a full disk).
func (p *Partition) fail(err error) {
	p.mu.Lock()
	due := p.mu.waits
	p.mu.waits = nil
	p.mu.Unlock()
	for _, w := range due {
		w.fn(err)
	}
	p.wake()
}

// shut takes the partition out of service for good.
func (p *Partition) shut(err error) {
	p.mu.Lock()
	p.gone.CompareAndSwap(nil, &err)
	p.mu.Unlock()
	if r := p.rep.Load(); r != nil {
		r.end(err)
	}
	p.fail(err)
}

// Roll begins a new segment, so that what lies below can be removed.
func (p *Partition) Roll() error {
	if err := p.Offline(); err != nil {
		return err
	}
	return p.log.Roll()
}

// DeleteRecords moves the log start to off, -1 standing for the high watermark, and returns it
// (row 46). It is durable before it returns.
func (p *Partition) DeleteRecords(off kafkaproto.Offset) (kafkaproto.Offset, error) {
	if err := p.Offline(); err != nil {
		return -1, err
	}
	hw := p.HighWatermark()
	if off == -1 {
		off = hw
	}
	if off < 0 || off > hw {
		return -1, kafkaproto.Faultf(kerr.OffsetOutOfRange,
			"cannot delete records of %s up to offset %d: its high watermark is %d", p.tp, off, hw)
	}
	var err error
	if r := p.rep.Load(); r != nil {
		err = r.deleteRecords(off)
	} else {
		err = p.log.DeleteRecords(off)
	}
	if err != nil {
		return -1, errOffline(p.tp, err)
	}
	return p.log.StartOffset(), nil
}
