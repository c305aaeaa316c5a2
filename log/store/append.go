package store

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// AppendOptions say how to append.
type AppendOptions struct {
	// NowMs is the broker's clock, in milliseconds since 1970; 0: ask the store's.
	NowMs int64
	// Producer is what the producer state must know of the request beside the batch.
	Producer producer.CheckOptions
}

// Appended says where a batch went.
type Appended struct {
	BaseOffset, LastOffset kafkaproto.Offset
	// End is the log's end that must be committed before the batch may be acknowledged.
	End kafkaproto.Offset
	// Duplicate: the batch had been appended before, and the offsets are those of that time.
	Duplicate bool
	// AppendTime is the first copy's max timestamp for a duplicate (row 13), else -1.
	AppendTime int64
}

// Append writes a batch at the end. Base offset and leader epoch are patched in b. When it returns
// the batch is written, and the committer is on its way; after an error nothing has changed
// (rulings 3, 6).
func (l *Log) Append(b batch.Batch, o AppendOptions) (Appended, error) {
	if err := l.Offline(); err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	a, rolled, err := l.appendLocked(b, &o)
	l.mu.Unlock()
	if rolled {
		l.tell(Event{Kind: Rolled, Offset: a.BaseOffset})
	}
	if err != nil {
		return Appended{}, l.writeFailed(err)
	}
	if !a.Duplicate {
		l.wakeCommitter(&o)
	}
	return a, nil
}

// writeFailed sorts out a failed write: a full disk may pass, anything else that the segment did
// not
// survive takes the log offline.
func (l *Log) writeFailed(err error) error {
	var k *kerr.Error
	switch {
	case errors.As(err, &k):
		return err
	case errors.Is(err, segment.ErrBroken):
		l.goOffline(fmt.Errorf("append to %s: %w", l.tp, err))
	case vfs.IsNoSpace(err):
		l.store.space.exhausted()
	}
	return fmt.Errorf("append to %s: %w: %w", l.tp, kerr.KafkaStorageError, err)
}

func (l *Log) appendLocked(b batch.Batch, o *AppendOptions) (a Appended, rolled bool, err error) {
	m := &l.mu
	switch {
	case m.shut != nil:
		return a, false, m.shut
	case l.store.Err() != nil:
		return a, false, l.store.Err()
	case l.raft.on.Load():
		return a, false, ErrReplicated
	case !m.started:
		return a, false, errors.New("no term has begun: call StartSolo first")
	}
	if o.NowMs == 0 {
		o.NowMs = l.store.nowMs()
	}
	var p producer.Batch
	idempotent := b.HasProducer()
	if idempotent {
		if p, err = producer.Describe(b); err != nil {
			return a, false, err
		}
		if d, dup, err := l.checkProducer(p, o); dup || err != nil {
			return d, false, err
		}
	}
	if err := l.store.space.check(l.config.Load().Internal, len(b)); err != nil {
		return a, false, err
	}
	end := l.EndOffset()
	last := end + kafkaproto.Offset(b.LastOffsetDelta())
	if l.mustRoll(b, last, o.NowMs) {
		if err := l.rollLocked(o.NowMs); err != nil {
			return a, false, err
		}
		rolled, a.BaseOffset = true, end
	}
	b.SetBaseOffset(end)
	b.SetLeaderEpoch(l.Term())
	if err := m.active.Append(b, m.lastIndex+1); err != nil {
		return a, rolled, err
	}
	m.lastIndex++
	if m.appendedMs = o.NowMs; end == m.active.BaseOffset() {
		m.createdMs = o.NowMs // an empty segment has no age
	}
	if idempotent {
		p.BaseOffset = end
		l.prod.Lock()
		l.prod.state.Append(p, o.NowMs)
		l.publishTxnLocked()
		l.prod.Unlock()
	}
	l.end.Store(int64(last + 1))
	l.store.pages.appended(l)
	return Appended{BaseOffset: end, LastOffset: last, End: last + 1, AppendTime: -1}, rolled, nil
}

// checkProducer asks the producer state; dup: the answer is d, and nothing is to be written.
func (l *Log) checkProducer(p producer.Batch, o *AppendOptions) (d Appended, dup bool, err error) {
	l.prod.Lock()
	defer l.prod.Unlock()
	v, err := l.prod.state.Check(p, o.Producer)
	if err != nil || v.Kind != producer.Duplicate {
		return d, false, err
	}
	return Appended{
		BaseOffset: v.BaseOffset, LastOffset: v.LastOffset, End: v.LastOffset + 1,
		Duplicate: true, AppendTime: v.Timestamp,
	}, true, nil
}

// mustRoll says whether b belongs into a new segment: Kafka's LogSegment.shouldRoll, and the age by
// the broker's clock, since batches of the future would keep a segment open for ever (ruling 15).
func (l *Log) mustRoll(b batch.Batch, last kafkaproto.Offset, nowMs int64) bool {
	active := l.mu.active
	size := active.Size()
	if size == 0 {
		return last-active.BaseOffset() > math.MaxInt32
	}
	c := l.config.Load()
	if size > int64(c.SegmentBytes)-int64(len(b)) || !active.Fits(last, len(b)) ||
		active.IndexFull() {
		return true
	}
	age := c.rollAge().Milliseconds()
	first, _ := active.FirstTimestamp()
	return first >= 0 && b.MaxTimestamp()-first > age || nowMs-l.mu.createdMs > age
}

// rollLocked begins a new segment at the end of the log. The old one is sealed by the janitor, once
// every transaction marker in it is committed.
func (l *Log) rollLocked(nowMs int64) error {
	m := &l.mu
	end := l.EndOffset()
	old := m.active
	seg, err := segment.Create(l.store.fs, l.dir, end, m.lastIndex+1, l.segmentOptions(""))
	if err != nil {
		return err
	}
	segs := *l.segs.Load()
	l.setSegs(append(segs[:len(segs):len(segs)], seg))
	m.unsynced = append(m.unsynced, old)
	m.rolledMs[old] = m.appendedMs
	m.active, m.dirDirty, m.checkpoint = seg, true, 0
	m.createdMs, m.appendedMs = nowMs, nowMs
	l.prod.Lock()
	snap := l.takeSnapshotLocked(end)
	l.prod.Unlock()
	l.store.janitor.seal(l, old, snap)
	return nil
}

// Roll begins a new segment if the active one holds anything.
func (l *Log) Roll() error {
	if err := l.Offline(); err != nil {
		return err
	}
	l.mu.Lock()
	var err error
	end, did := l.EndOffset(), false
	if l.mu.shut != nil {
		err = l.mu.shut
	} else if l.mu.active.Size() > 0 {
		err = l.rollLocked(l.store.nowMs())
		did = err == nil
	}
	l.mu.Unlock()
	if err != nil {
		return l.writeFailed(err)
	}
	if did {
		l.store.committer.enqueue(l)
		l.tell(Event{Kind: Rolled, Offset: end})
	}
	return nil
}

// wakeCommitter asks for a sync: of a strict log at once, of a relaxed one when its window is full.
func (l *Log) wakeCommitter(o *AppendOptions) {
	c := l.config.Load()
	if c.Strict || c.FlushMessages > 0 && int64(l.EndOffset()-l.SyncedOffset()) >= c.FlushMessages {
		l.store.committer.enqueue(l)
		return
	}
	if l.relaxed.CompareAndSwap(false, true) {
		l.store.committer.enqueueRelaxed(l)
		if c.FlushInterval > 0 && c.FlushInterval < time.Duration(math.MaxInt64/2) {
			l.store.clock.AfterFunc(c.FlushInterval, func() { l.store.committer.enqueue(l) })
		}
	}
}

// Flush makes everything written before the call durable before it returns.
func (l *Log) Flush() error {
	if err := l.Offline(); err != nil {
		return err
	}
	return l.store.committer.flush(l)
}

// Commit tells that the high watermark moved to hw; it never moves back.
func (l *Log) Commit(hw kafkaproto.Offset) {
	for {
		old := l.hw.Load()
		if int64(hw) <= old {
			return
		}
		if l.hw.CompareAndSwap(old, int64(hw)) {
			break
		}
	}
	l.prod.Lock()
	defer l.prod.Unlock()
	hw = kafkaproto.Offset(l.hw.Load())
	if hw <= l.prod.state.Committed() {
		return
	}
	// The aborted transactions are on the list before readers may pass their markers.
	for _, c := range l.prod.state.Commit(hw) {
		if c.Aborted {
			l.addAborted(c)
		}
	}
	l.publishTxnLocked()
}

// publishTxnLocked tells readers where the first open transaction begins. The caller holds prod.
func (l *Log) publishTxnLocked() {
	first := int64(math.MaxInt64)
	if t, ok := l.prod.state.FirstOpenTxn(); ok {
		first = int64(t.FirstOffset)
	}
	l.openTxn.Store(first)
}

// addAborted puts a transaction on the list of the segment that holds its marker.
func (l *Log) addAborted(c producer.Completed) {
	seg := findSegment(*l.segs.Load(), c.LastOffset)
	if seg == nil {
		return
	}
	err := seg.AppendAborted(abortedEntry(c))
	if err != nil {
		// Without the entry aborted records would be read as committed.
		l.store.janitor.post(func() {
			l.goOffline(fmt.Errorf("list aborted transaction of %s: %w",
				l.tp, err))
		})
	}
	l.lastAborted.Store(max(l.lastAborted.Load(), int64(c.LastOffset)))
}
