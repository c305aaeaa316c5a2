package store

import (
	"errors"
	"fmt"
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/segment"
)

// cleanBuffer is how many bytes of kept batches are written at once.
const cleanBuffer = 1 << 20

// pass is one run of the cleaner over one log.
type pass struct {
	c     *cleaner
	log   *Log
	segs  []*segment.Segment // the closed segments to rewrite, from the first on
	after int64
	// before and after are bytes of batches.
	before int64
	from   kafkaproto.Offset // first dirty offset
	end    kafkaproto.Offset // behind the last offset that is in the map
	last   kafkaproto.Offset // the record in front of the active segment; -1: not in this pass
	keys   *offsetMap
	txns   cleanTxns
	nowMs  int64
	// horizonMs is delete.retention.ms from now: what batches with tombstones or markers of empty
	// transactions get as their delete horizon.
	horizonMs int64
	builder   *batch.Builder
	out       *segment.Segment
	buf       []byte

	unread                  int // batches that were kept without being read
	firstUnread, lastUnread kafkaproto.Offset
	unreadWhy               error
}

func newPass(c *cleaner, j job) (*pass, error) {
	p := &pass{
		c: c, log: j.log, from: j.from, end: j.to, last: -1, nowMs: c.s.nowMs(),
		keys: newOffsetMap(c.s.o.Cleaner.DedupeBytes, int64(j.to-j.from)),
	}
	p.horizonMs = p.nowMs + j.log.config.Load().DeleteRetention.Milliseconds()
	for _, seg := range *j.log.segs.Load() {
		if seg.BaseOffset() < j.to {
			p.segs = append(p.segs, seg)
		}
	}
	return p, nil
}

// fillMap reads the keys of the dirty part. When the map is full the pass ends there.
func (p *pass) fillMap() error {
	txns, err := p.abortedTxns()
	if err != nil {
		return err
	}
	p.txns.begin(txns)
	full := false
	for _, seg := range p.segs {
		if seg.NextOffset() <= p.from {
			continue
		}
		_, err := seg.ScanFrom(0, func(b batch.Batch, _ int64) error {
			if full || b.BaseOffset() >= p.end {
				return errStop
			}
			if err := p.take(b); err != nil {
				return err
			}
			var err error
			full, err = p.mapBatch(b)
			return err
		})
		if err != nil && (!errors.Is(err, errStop) || !full) {
			return err
		}
	}
	if full {
		p.end = p.keys.latest + 1
		if p.end <= p.from {
			return fmt.Errorf("log.cleaner.dedupe.buffer.size of %d bytes holds only %d keys",
				p.c.s.o.Cleaner.DedupeBytes, p.keys.max)
		}
	}
	n := sort.Search(len(p.segs), func(i int) bool { return p.segs[i].BaseOffset() >= p.end })
	p.segs = p.segs[:n]
	p.keepLast()
	p.txns.begin(txns)
	return nil
}

// take pays for the reading of a batch, and verifies it: damage must not be copied.
func (p *pass) take(b batch.Batch) error {
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	return p.c.pace.take(len(b))
}

// mapBatch puts the keys of a batch of committed records into the map; full: not all.
func (p *pass) mapBatch(b batch.Batch) (full bool, err error) {
	if b.IsControl() {
		_, err := p.txns.marker(b)
		return false, unlessMalformed(err)
	}
	if p.txns.data(b) {
		return false, nil
	}
	// First of all it is read whole: a record that nobody can read must not supersede one that can be.
	if _, err := p.judge(b, nil); err != nil {
		return false, unlessMalformed(err)
	}
	err = b.Each(p.log.maxExpanded(), func(r *batch.Record) (bool, error) {
		if r.Offset < p.from || r.Offset >= p.end {
			return true, nil
		}
		if r.Key != nil && !p.keys.put(r.Key, r.Offset) {
			full = true
			return false, nil
		}
		p.keys.latest = r.Offset
		return true, nil
	})
	return full, err
}

// keepLast finds the last record of the pass when the active segment, or one that may not be
// cleaned
// yet, follows.
func (p *pass) keepLast() {
	if n := len(p.segs); n > 0 {
		p.last = p.segs[n-1].NextOffset() - 1
	}
}

// abortedTxns lists the aborted transactions with data in the pass, by first offset.
func (p *pass) abortedTxns() ([]segment.AbortedTxn, error) {
	var out []segment.AbortedTxn
	for _, seg := range *p.log.segs.Load() {
		list, err := p.log.abortedIn(seg)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if a.FirstOffset < p.end {
				out = append(out, a)
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].FirstOffset < out[j].FirstOffset })
	return out, nil
}

// cleanGroup writes one segment in the place of a run of segments.
func (p *pass) cleanGroup(group []*segment.Segment) (err error) {
	l, base := p.log, group[0].BaseOffset()
	if err := segment.RemoveFiles(p.c.s.fs, l.dir, base, segment.Cleaned); err != nil {
		return err
	}
	if p.out, err = segment.Create(p.c.s.fs, l.dir, base, 0,
		l.segmentOptions(segment.Cleaned)); err != nil {
		return err
	}
	for _, seg := range group {
		p.before += seg.Size()
		if _, err = seg.ScanFrom(0, func(b batch.Batch,
			_ int64) error {
			return p.filter(b)
		}); err != nil {
			break
		}
	}
	if err == nil {
		err = p.write()
	}
	if err == nil {
		err = p.out.Seal()
	}
	if err == nil {
		p.after += p.out.Size()
		err = l.swap(group, p.out)
	}
	if err != nil && !errors.Is(err, errSwapped) {
		return errors.Join(err, p.out.Close(), segment.RemoveFiles(p.c.s.fs, l.dir, base,
			segment.Cleaned))
	}
	return err
}

// write appends the buffered batches to the new segment.
func (p *pass) write() error {
	if len(p.buf) == 0 {
		return nil
	}
	if err := p.c.pace.take(len(p.buf)); err != nil {
		return err
	}
	err := p.out.Append(p.buf, 0)
	p.buf = p.buf[:0]
	return err
}

func (p *pass) keep(b []byte) error {
	if len(p.buf)+len(b) > cleanBuffer {
		if err := p.write(); err != nil {
			return err
		}
	}
	p.buf = append(p.buf, b...)
	return nil
}

// filter keeps of a batch what must stay: Kafka's Cleaner.cleanInto and MemoryRecords.filterTo.
func (p *pass) filter(b batch.Batch) error {
	if err := p.take(b); err != nil {
		return err
	}
	discard, empty := false, false
	horizon, hasHorizon := b.DeleteHorizon()
	if b.IsControl() {
		m, err := p.txns.marker(b)
		if err != nil {
			return p.keepUnread(b, err)
		}
		empty = m.empty
		discard = empty && hasHorizon && horizon <= p.nowMs
		if m.aborted != nil {
			if err := p.out.AppendAborted(*m.aborted); err != nil {
				return err
			}
		}
	} else {
		discard = p.txns.data(b)
	}
	if discard {
		if b.LastOffset() != p.last {
			return nil
		}
		if !b.IsControl() { // the marker of aborted data follows it, so it is never last
			return p.keep(b)
		}
	}
	return p.rewrite(b, empty && !hasHorizon)
}

// verdict is what becomes of one batch's records.
type verdict struct {
	kept, all  int
	tombstones bool // one of the kept is a tombstone
}

// rewrite drops superseded records, and sets the delete horizon of what will go later.
func (p *pass) rewrite(b batch.Batch, horizon bool) error {
	v, err := p.judge(b, nil)
	if err != nil {
		return p.keepUnread(b, err)
	}
	_, has := b.DeleteHorizon()
	horizon = horizon || v.tombstones && !has
	switch {
	case v.kept == 0:
		return nil
	case v.kept == v.all && !horizon:
		return p.keep(b)
	}
	return p.rebuild(b, horizon)
}

// judge asks of each record whether it stays, and gives those to keep. Offsets that do not ascend
// within the batch make it malformed: what a record of it supersedes is anybody's guess.
func (p *pass) judge(b batch.Batch, keep func(r *batch.Record)) (verdict, error) {
	var v verdict
	horizon, has := b.DeleteHorizon()
	gone := has && horizon <= p.nowMs // tombstones have been seen long enough
	control, next := b.IsControl(), b.BaseOffset()
	err := b.Each(p.log.maxExpanded(), func(r *batch.Record) (bool, error) {
		if r.Offset < next || r.Offset > b.LastOffset() {
			return false, fmt.Errorf("%w: record %d of the batch at %d has offset %d", batch.ErrMalformed,
				v.all, b.BaseOffset(), r.Offset)
		}
		next = r.Offset + 1
		v.all++
		if !control && r.Offset != p.last && !p.stays(r, gone) {
			return true, nil
		}
		v.kept++
		v.tombstones = v.tombstones || !control && r.Value == nil
		if keep != nil {
			keep(r)
		}
		return true, nil
	})
	return v, err
}

// stays says whether a record is the newest of its key, and if a tombstone, not yet due. Records
// without a key have no place in a compacted log.
func (p *pass) stays(r *batch.Record, gone bool) bool {
	switch {
	case r.Offset >= p.end: // not in the map's range
		return true
	case r.Key == nil:
		return false
	case r.Value == nil && gone:
		return false
	}
	return r.Offset >= p.keys.get(r.Key)
}

// rebuild writes the batch anew with the records that stay; offsets, header and codec are kept.
func (p *pass) rebuild(b batch.Batch, horizon bool) error {
	o := batch.BuilderOptions{
		Codec: b.Codec(), BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(),
		Transactional: b.IsTransactional(), Control: b.IsControl(),
		TimestampType: b.TimestampType(),
		AppendTime:    b.MaxTimestamp(), KeepOffsets: true,
	}
	if b.HasProducer() {
		o.Producer = &batch.Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch(),
			BaseSequence: b.BaseSequence()}
	}
	if h, ok := b.DeleteHorizon(); ok {
		o.DeleteHorizon = &h
	} else if horizon {
		o.DeleteHorizon = &p.horizonMs
	}
	if p.builder == nil {
		p.builder = batch.NewBuilder(o)
	} else {
		p.builder.Reset(o)
	}
	if _, err := p.judge(b, func(r *batch.Record) { p.builder.Add(*r) }); err != nil {
		return err
	}
	p.builder.SetLastOffsetDelta(b.LastOffsetDelta())
	out, err := p.builder.Build()
	if err != nil {
		return err
	}
	return p.keep(out)
}
