package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

const maxEpochFile = 64 << 20

// finish puts the recovered log in place, and notes what the journal must be told.
func (r *logRecovery) finish() error {
	l := r.l
	after := r.g.Clone() // as it will be behind the RESET
	if l.store.o.knobs.off.prefix {
		r.index = max(r.index, lastSide(after))
	}
	if !r.o.lost {
		if err := after.Apply(journal.Reset{Last: r.index}); err != nil {
			return kafkaproto.Corruptf("the log ends at raft index %d: %w", r.index, err)
		}
	}
	commit := r.commitIndex(after)
	if err := r.removeOrphans(); err != nil {
		return err
	}
	start := max(logStartAt(after, commit), r.segs[0].BaseOffset())
	if start > r.end {
		return kafkaproto.Corruptf("the log starts at %d and ends at %d", start, r.end)
	}
	if r.o.lost {
		if err := r.renew(start); err != nil {
			return err
		}
	} else {
		r.record(after)
	}
	l.start.Store(int64(start))
	l.end.Store(int64(r.end))
	l.synced.Store(int64(r.end))
	l.setSegs(r.segs)
	r.setWriter(after)
	if err := r.setCommitted(after, commit); err != nil {
		return err
	}
	epochs, err := r.epochs(after, start)
	if err != nil {
		return err
	}
	if l.epochs.Store(&epochs); !r.o.clean {
		l.store.janitor.epochs(l)
	}
	if n := len(epochs); n > 0 {
		l.term.Store(int32(epochs[n-1].Epoch))
	}
	return r.producers(start)
}

// record notes the RESET (R4) and the new mark.
func (r *logRecovery) record(after *journal.GroupState) {
	if r.o.state.Groups[r.l.id] == nil {
		return // made, and never started
	}
	if !r.o.clean && !r.l.store.o.knobs.off.reset {
		r.recs = append(r.recs, journal.Record{Group: r.l.id, Body: journal.Reset{Last: r.index}})
	}
	active := r.segs[len(r.segs)-1]
	mark := journal.Synced{
		Offset: r.end, Index: r.index, Segment: active.BaseOffset(), Position: active.Size(),
	}
	if after.Synced != mark {
		r.recs = append(r.recs, journal.Record{Group: r.l.id, Body: mark})
	}
}

// renew begins a new raft log behind records whose journal is lost: they become its snapshot.
func (r *logRecovery) renew(start kafkaproto.Offset) error {
	l := r.l
	epochs, batches, err := scanEpochs(r.segs, start, math.MaxInt64)
	if err != nil {
		return err
	}
	term := r.g.HardState.Term
	last := uint64(0)
	if n := len(epochs); n > 0 {
		last = uint64(max(epochs[n-1].Epoch, 0))
	}
	r.index = max(r.g.Synced.Index, r.g.Window.FirstIndex, uint64(batches)) + 1
	if n := len(r.g.Sides); n > 0 {
		r.index = max(r.index, r.g.Sides[n-1].Index)
		term = max(term, r.g.Sides[n-1].Term)
	}
	term = max(term, last)
	active := r.segs[len(r.segs)-1]
	if active.Size() > 0 {
		seg, err := segment.Create(l.store.fs, l.dir, r.end, r.index+1, l.segmentOptions(""))
		if err != nil {
			return err
		}
		r.segs = append(r.segs, seg)
		r.changed = true
	}
	r.recs = append(r.recs,
		journal.Record{Group: l.id, Body: journal.Snap{Index: r.index, Term: last,
			NextOffset: r.end, LogStart: start}},
		journal.Record{Group: l.id, Body: journal.HardState{Term: term, Commit: r.index}},
		journal.Record{Group: l.id, Body: journal.Synced{Offset: r.end, Index: r.index,
			Segment: r.end}})
	return nil
}

// setWriter sets what the writer goes by, and has rolled segments sealed that were not.
func (r *logRecovery) setWriter(after *journal.GroupState) {
	l, m := r.l, &r.l.mu
	m.fresh = r.o.state.Groups[l.id] == nil && !r.o.lost
	m.active, m.lastIndex = r.segs[len(r.segs)-1], r.index
	m.checkpoint = m.active.Size()
	if !r.o.lost {
		for i := len(after.Sides) - 1; i >= 0 && m.lastNoop == 0; i-- {
			if after.Sides[i].Kind == journal.SideNoop {
				m.lastNoop = after.Sides[i].Index
			}
		}
	}
	now := l.store.nowMs()
	m.createdMs, m.appendedMs = now, now
	if st, err := l.store.fs.Stat(m.active.Path()); err == nil && !st.ModTime().IsZero() {
		m.appendedMs = min(now, st.ModTime().UnixMilli())
		m.createdMs = m.appendedMs
	}
	for _, seg := range r.segs[:len(r.segs)-1] {
		if !seg.Sealed() {
			l.store.janitor.seal(l, seg, sidecar{})
		}
	}
}

// epochs gives the leader epochs from start on: the no-ops, and below the window what Kafka's
// checkpoint file says, or else the batches.
func (r *logRecovery) epochs(after *journal.GroupState,
	start kafkaproto.Offset) ([]segment.EpochStart, error) {
	var out []segment.EpochStart
	bound := after.Window.FirstOffset
	if r.o.lost {
		bound = r.end
	}
	if bound >= start && bound > 0 {
		var err error
		if out, err = r.oldEpochs(start, bound, after.Window.Term); err != nil {
			return nil, err
		}
	}
	if r.o.lost {
		return out, nil
	}
	if n, e := len(out), kafkaproto.LeaderEpoch(after.Window.Term); e > 0 && (n == 0 || out[n-1].Epoch < e) {
		out = append(out, segment.EpochStart{Epoch: e, Start: bound}) // in force there, and without a batch before
	}
	for _, s := range after.Sides {
		if s.Kind != journal.SideNoop {
			continue
		}
		e := segment.EpochStart{Epoch: kafkaproto.LeaderEpoch(s.Term), Start: s.AtOffset}
		for n := len(out); n > 0 && (out[n-1].Epoch >= e.Epoch || out[n-1].Start > e.Start); n-- {
			out = out[:n-1]
		}
		out = append(out, e)
	}
	return out, nil
}

// oldEpochs gives the epochs of [start, bound), of which the journal knows nothing any more, and those up
// to term that begin at bound and have no batch.
func (r *logRecovery) oldEpochs(start, bound kafkaproto.Offset, term uint64) ([]segment.EpochStart, error) {
	b, err := vfs.ReadFile(r.l.store.fs, path.Join(r.l.dir, windowEpochs), maxEpochFile)
	if errors.Is(err, fs.ErrNotExist) { // of an imported log, or one that lost it
		b, err = vfs.ReadFile(r.l.store.fs, path.Join(r.l.dir, segment.EpochFile), maxEpochFile)
	}
	var epochs []segment.EpochStart
	if err == nil {
		epochs, err = segment.ParseEpochs(b)
	}
	if err != nil || r.o.lost || len(epochs) == 0 {
		epochs, _, err = scanEpochs(r.segs, start, bound)
		return epochs, err
	}
	if epochs[0].Start > start { // it was written when the log start was higher, which is not known to be committed
		before, _, err := scanEpochs(r.segs, start, min(epochs[0].Start, bound))
		if err != nil {
			return nil, err
		}
		for len(before) > 0 && before[len(before)-1].Epoch >= epochs[0].Epoch {
			before = before[:len(before)-1]
		}
		epochs = append(before, epochs...)
	}
	n := 0
	for n < len(epochs) && (epochs[n].Start < bound || epochs[n].Start == bound && uint64(epochs[n].Epoch) <= term) {
		n++
	}
	return epochs[:n:n], nil
}

// scanEpochs finds the leader epochs of the batches in [start, bound), and counts the batches.
func scanEpochs(segs []*segment.Segment, start, bound kafkaproto.Offset) ([]segment.EpochStart,
	int, error) {
	var out []segment.EpochStart
	batches := 0
	for _, seg := range segs {
		if seg.BaseOffset() >= bound {
			break
		}
		_, err := seg.ScanHeaders(0, func(h batch.Header, _ int64) error {
			batches++
			if n := len(out); h.LastOffset() >= start && h.BaseOffset < bound && (n == 0 ||
				out[n-1].Epoch < h.LeaderEpoch) {
				out = append(out, segment.EpochStart{Epoch: h.LeaderEpoch, Start: max(h.BaseOffset,
					start)})
			}
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return out, batches, nil
}

// producers loads the newest producer state and replays the log behind it.
func (r *logRecovery) producers(start kafkaproto.Offset) error {
	l := r.l
	state, from, ahead, err := l.loadProducers(start, r.end)
	if err == nil && from == start && r.o.lost {
		state, from, err = l.importProducers(state, start, r.end)
	}
	if err != nil {
		return err
	}
	if err := replayProducers(r.segs, state, from, r.end, l.store.nowMs()); err != nil {
		return err
	}
	if from == r.end && from > start {
		l.sidecarAt.Store(int64(r.end))
	}
	l.hw.Store(max(l.hw.Load(), int64(min(state.Committed(), r.end))))
	done := state.Commit(l.HighWatermark())
	l.prod.state = state
	for _, c := range done {
		if !c.Aborted || r.partial(findSegment(r.segs, c.LastOffset)) {
			continue
		}
		if err := l.restoreAborted(abortedEntry(c)); err != nil {
			return err
		}
	}
	if err := r.aborted(from); err != nil {
		return err
	}
	l.publishTxnLocked()
	if ahead {
		r.changed = true
		err := l.replaceSidecars(r.end, l.takeSnapshotLocked(r.end))
		if vfs.IsNoSpace(err) { // without the state rather than with a wrong one
			err = l.replaceSidecars(r.end, sidecar{})
		}
		if err != nil {
			return fmt.Errorf("replace producer state: %w", err)
		}
	}
	return nil
}

// aborted makes those lists of aborted transactions again that are damaged, or that do not reach to
// the offset from which the producer state was replayed.
func (r *logRecovery) aborted(from kafkaproto.Offset) error {
	l := r.l
	var lost []*segment.Segment
	for _, seg := range r.segs {
		to, recovered := r.txnsTo[seg]
		_, err := seg.Aborted()
		switch {
		case kafkaproto.IsCorrupt(err), recovered && to < min(seg.NextOffset(), from), r.partial(seg),
			slices.Contains(r.swapped, seg.BaseOffset()):
			lost = append(lost, seg)
		case err != nil:
			return err
		}
	}
	if err := l.rebuildAborted(lost...); err != nil {
		return err
	}
	for _, seg := range r.segs {
		list, err := seg.Aborted()
		if err != nil {
			return err
		}
		if n := len(list); n > 0 {
			l.lastAborted.Store(int64(list[n-1].LastOffset))
		}
	}
	return nil
}

// partial reports whether a sealed segment has only a part of its list. It gets the whole list in
// one piece, as what is written of a sealed segment counts as whole.
func (r *logRecovery) partial(seg *segment.Segment) bool {
	to, recovered := r.txnsTo[seg]
	return recovered && seg.Sealed() && to < seg.NextOffset()
}

// replayProducers feeds the batches of [from, to) to the state.
func replayProducers(segs []*segment.Segment, state *producer.State, from, to kafkaproto.Offset,
	nowMs int64) error {
	for _, seg := range segs {
		if seg.NextOffset() <= from || seg.Size() == 0 {
			continue
		}
		if seg.BaseOffset() >= to {
			return nil
		}
		pos, err := seg.Lookup(from)
		if err != nil {
			return err
		}
		_, err = seg.ScanHeaders(pos, func(h batch.Header, pos int64) error {
			if h.BaseOffset >= to {
				return errStop
			}
			if h.BaseOffset < from || !h.HasProducer() {
				return nil
			}
			p, err := describe(seg, h, pos)
			if err == nil {
				state.Append(p, nowMs)
			}
			return unlessMalformed(err) // of an imported log: a marker that says nothing
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
	}
	return nil
}

// describe is producer.Describe for a batch of which only the header was read; markers are read
// whole.
func describe(seg *segment.Segment, h batch.Header, pos int64) (producer.Batch, error) {
	if h.IsControl() {
		b, err := seg.ReadBatch(pos, nil)
		if err != nil {
			return producer.Batch{}, err
		}
		return producer.Describe(b)
	}
	return producer.Batch{
		Producer: h.ProducerID, Epoch: h.ProducerEpoch, BaseSequence: h.BaseSequence,
		BaseOffset:      h.BaseOffset,
		LastOffsetDelta: h.LastOffsetDelta, MaxTimestamp: h.MaxTimestamp,
		Transactional: h.IsTransactional(),
	}, nil
}

func abortedEntry(c producer.Completed) segment.AbortedTxn {
	return segment.AbortedTxn{
		ProducerID: c.Producer, FirstOffset: c.FirstOffset, LastOffset: c.LastOffset,
		LastStable: c.LastStable,
	}
}

// restoreAborted puts an entry that replay found on the list of its segment, if it is not there.
func (l *Log) restoreAborted(a segment.AbortedTxn) error {
	seg := findSegment(*l.segs.Load(), a.LastOffset)
	if seg == nil {
		return nil
	}
	if !seg.Sealed() {
		return seg.AppendAborted(a)
	}
	list, err := seg.Aborted()
	if kafkaproto.IsCorrupt(err) {
		return l.rebuildAborted(seg)
	}
	if n := len(list); err != nil || n > 0 && list[n-1].LastOffset >= a.LastOffset {
		return err
	}
	return l.setAborted(seg, append(list, a))
}

// setAborted replaces the list of a segment. That of a sealed one is durable when it returns: the
// files that it had may vouch for a shorter list, and nothing writes them again before the next
// sidecar, behind which the entries are not found any more.
func (l *Log) setAborted(seg *segment.Segment, list []segment.AbortedTxn) error {
	if err := seg.SetAborted(list); err != nil || !seg.Sealed() {
		return err
	}
	return errors.Join(seg.SyncAll(), l.store.fs.SyncDir(l.dir))
}

// rebuildAborted makes lists again that are damaged, from the batches of the whole log.
func (l *Log) rebuildAborted(segs ...*segment.Segment) error {
	if len(segs) == 0 {
		return nil
	}
	l.prod.Lock()
	defer l.prod.Unlock()
	l.store.log.Warn("lists of aborted transactions are damaged; making them again from the log",
		"partition", l.tp.String(), "segments", len(segs))
	done, err := completedTxns(*l.segs.Load(), l.StartOffset(), l.HighWatermark(), l.store.nowMs())
	if err != nil {
		return err
	}
	for _, seg := range segs {
		if err := l.setAborted(seg, abortedOf(seg, done)); err != nil {
			return err
		}
	}
	return nil
}

// completedTxns are the transactions that end in [start, hw), as the batches tell.
func completedTxns(segs []*segment.Segment, start, hw kafkaproto.Offset, nowMs int64) ([]producer.Completed,
	error) {
	state := producer.New(producer.Options{MaxProducers: math.MaxInt32})
	if err := replayProducers(segs, state, start, hw, nowMs); err != nil {
		return nil, err
	}
	return state.Commit(hw), nil
}

// abortedOf is the list of a segment: those with their marker in it.
func abortedOf(seg *segment.Segment, done []producer.Completed) (list []segment.AbortedTxn) {
	for _, c := range done {
		if c.Aborted && c.LastOffset >= seg.BaseOffset() && c.LastOffset < seg.NextOffset() {
			list = append(list, abortedEntry(c))
		}
	}
	return list
}

// abortedIn gives the list of a segment, made again when it is damaged.
func (l *Log) abortedIn(seg *segment.Segment) ([]segment.AbortedTxn, error) {
	list, err := seg.Aborted()
	if kafkaproto.IsCorrupt(err) {
		if err := l.rebuildAborted(seg); err != nil {
			return nil, err
		}
		return seg.Aborted()
	}
	return list, err
}
