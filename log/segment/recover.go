package segment

import (
	"errors"
	"io"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// Recovery says how to recover a segment.
type Recovery struct {
	// From is the position, on a batch boundary, from which whole batches are read, their CRC is
	// verified and Check is called. Below it only headers are walked: those bytes are known to be
	// synced (ruling 4), and are verified before their first read is served (ruling 9).
	From int64
	// BaseIndex is the raft index of the first batch, or one before it from which Index counts on;
	// 0: what .raftindex says, or not kept.
	BaseIndex uint64
	// Index gives the raft index of each batch that is walked, in order, from the index of the batch
	// before it, so that side entries are counted; prev is BaseIndex-1 for the segment's first batch.
	// nil: prev+1. It is not called when raft indexes are not kept.
	Index func(prev uint64, h batch.Header) uint64
	// CheckHeader is called for each header that is walked below From; an error is damage. It is the
	// caller who knows which epoch and which offset a batch must have.
	CheckHeader func(h batch.Header, pos int64) error
	// Check is called for each whole batch from From on; an error ends the valid prefix before
	// that batch. b is valid during the call. It may call AppendAborted of an active segment that is
	// not Ready, and nothing else but ReadAt.
	Check func(b batch.Batch, pos int64) error
	// Rebuild ignores the indexes on disk.
	Rebuild bool
}

// Recovered says what was found.
type Recovered struct {
	// End is where the valid prefix ends; the segment's Size is End afterwards.
	End int64
	// FileSize is the size of the file. When it is larger than End, call Truncate(End), after
	// saving what is cut, before the next Append; or leave it and take the partition offline.
	FileSize int64
	// Cause is why the bytes at End are not a good batch; nil when End is FileSize.
	Cause error
	// Walked is the number of bytes that the indexes had not covered.
	Walked int64
	// TxnsTo is how far .txnindex goes: aborted transactions with markers at or behind it must be
	// added: AppendAborted, or SetAborted with the whole list of a sealed segment, whose indexes are
	// not written before that.
	TxnsTo kafkaproto.Offset
}

// Recover makes the segment ready. A bad batch below r.From is returned as a corruption error, and
// one from there on in Recovered. The indexes of a sealed segment are written anew; when that fails
// they stay in memory.
func (s *Segment) Recover(r Recovery) (Recovered, error) {
	s.flush.Lock()
	defer s.flush.Unlock()
	live := s.ready.Load()
	if live { // no append may come in between
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	if !s.Acquire() {
		return Recovered{}, s.errorf("recover: %w", ErrGone)
	}
	defer s.Release()
	f, err := s.files.acquire(&s.log)
	if err != nil {
		return Recovered{}, s.errorf("recover: %w", err)
	}
	defer s.files.release(&s.log)
	if s.fileSize, err = f.Size(); err != nil {
		return Recovered{}, s.errorf("recover: %w", err)
	}
	if r.From > s.fileSize || s.fileSize > MaxSize {
		return Recovered{}, s.corruptf("recover: the file has %d bytes, %d were synced", s.fileSize, r.From)
	}
	out := Recovered{FileSize: s.fileSize}
	b, err := s.recovered(f, r, &out)
	if err != nil {
		return out, s.errorf("recover: %w", err)
	}
	if !live {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	out.TxnsTo = min(out.TxnsTo, b.next)
	s.dropTxns(b.next)
	s.finishRecovery(b, r.From, &out)
	return out, nil
}

// recovered walks the batches and gives the builder that has seen them.
func (s *Segment) recovered(f vfs.File, r Recovery, out *Recovered) (*builder, error) {
	b, txns, err := s.startRecovery(f, r)
	if err != nil {
		return nil, err
	}
	covered := b.size
	out.TxnsTo = s.base
	if !s.ready.Load() {
		s.mu.Lock()
		s.txns, s.txnsLost = txns, false
		s.mu.Unlock()
	}
	if txns != nil {
		out.TxnsTo = b.next
	}
	b.markers = false
	if err := s.walkHeaders(f, b, r); err != nil {
		return nil, err
	}
	if out.End, out.Cause, err = s.scanBatches(f, b, r); err != nil {
		return nil, err
	}
	if out.End < b.size { // damage in what the indexes cover, yet above From
		fresh := s.builder(b.baseIndex)
		fresh.baseIndex = max(fresh.baseIndex, r.BaseIndex)
		r.From, r.CheckHeader = out.End, nil
		if err := s.walkHeaders(f, &fresh, r); err != nil {
			return nil, err
		}
		fresh.markers = false
		b, s.flushed = &fresh, flushed{}
	}
	out.Walked = max(b.size-covered, 0)
	return b, nil
}

// startRecovery is a builder at the end of what the indexes on disk cover, with the aborted
// transactions up to there; or one at the start.
func (s *Segment) startRecovery(f vfs.File, r Recovery) (*builder, []index.Txn, error) {
	s.flushed = flushed{}
	fresh := s.builder(r.BaseIndex)
	sum, err := s.loadSummary(s.fileSize)
	if err != nil || sum == nil {
		return &fresh, nil, err
	}
	if r.BaseIndex == 0 {
		fresh.baseIndex = sum.BaseIndex
	}
	if r.Rebuild {
		return &fresh, nil, nil
	}
	b, err := s.restore(f, sum)
	if err != nil {
		return &fresh, nil, unlessCorrupt(err)
	}
	if same, err := s.sameIndex(f, &b, r); err != nil || !same {
		return &fresh, nil, err
	}
	s.flushed = flushedBy(sum)
	txns, err := s.loadTxns(sum)
	if err == nil && txns == nil {
		txns = []index.Txn{}
	}
	return &b, txns, unlessCorrupt(err)
}

// sameIndex asks whether the raft indexes that the builder has are those of the caller, who knows
// the journal, by the first batch.
func (s *Segment) sameIndex(f vfs.File, b *builder, r Recovery) (bool, error) {
	if r.BaseIndex == 0 || b.size == 0 {
		return r.BaseIndex == 0, nil
	}
	w := s.walker(f)
	defer w.done()
	h, _, err := w.header(0, b.size)
	if err != nil {
		return false, err
	}
	fresh := s.builder(r.BaseIndex)
	return r.index(&fresh, h) == b.baseIndex, nil
}

// walkHeaders goes on from the builder's end to From.
func (s *Segment) walkHeaders(f vfs.File, b *builder, r Recovery) error {
	if b.size >= r.From {
		return nil
	}
	w := s.chunkWalker(f)
	defer w.done()
	for b.size < r.From {
		h, head, err := w.header(b.size, r.From)
		if err != nil {
			return err
		}
		err = follows(h, b.next, s.base)
		if err == nil && r.CheckHeader != nil {
			err = r.CheckHeader(h, b.size)
		}
		if err != nil {
			return kafkaproto.MarkCorrupt(errAt(f, b.size, err))
		}
		b.add(h, head, r.index(b, h))
	}
	// The log's end, or what must follow, comes from the last header: that one is not left to the
	// first reader.
	return s.verifyBlock(f, block{start: int64(b.lastPos), end: b.size})
}

// scanBatches reads whole batches from From on, and adds those that the builder does not have. It
// gives where good batches end, and why.
func (s *Segment) scanBatches(f vfs.File, b *builder, r Recovery) (end int64, cause, err error) {
	sc := s.scanner(f, r.From, s.fileSize)
	defer sc.done()
	next := s.base
	if r.From == b.size {
		next = b.next
	}
	for {
		pos := sc.pos
		bt, err := sc.next()
		switch {
		case errors.Is(err, io.EOF):
			return pos, nil, nil
		case kafkaproto.IsCorrupt(err) || errors.Is(err, io.ErrUnexpectedEOF):
			return pos, kafkaproto.MarkCorrupt(err), nil
		case err != nil:
			return pos, nil, err
		}
		h := bt.Header()
		if err := s.checkWhole(bt, h, next, pos, r); err != nil {
			return pos, errAt(f, pos, err), nil
		}
		next = h.NextOffset()
		if pos == b.size {
			b.add(h, bt, r.index(b, h))
		} else if pos > b.size {
			return pos, nil, kafkaproto.Corruptf("%s: the indexes end inside the batch before %d", f.Name(), pos)
		}
	}
}

func (s *Segment) checkWhole(b batch.Batch, h batch.Header, next kafkaproto.Offset, pos int64, r Recovery) error {
	if err := follows(h, next, s.base); err != nil {
		return err
	}
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	if r.Check == nil {
		return nil
	}
	return r.Check(b, pos)
}

// follows checks what a header must be behind a batch that ended at next.
func follows(h batch.Header, next, base kafkaproto.Offset) error {
	if h.BaseOffset < next || h.LastOffset()-base > math.MaxInt32 {
		return kafkaproto.Corruptf("batch has offsets %d to %d, expected from %d on", h.BaseOffset, h.LastOffset(), next)
	}
	return nil
}

// index is the raft index of the batch behind the builder's end.
func (r *Recovery) index(b *builder, h batch.Header) uint64 {
	prev := b.lastIndex
	switch {
	case b.baseIndex == 0:
		return 0
	case b.size == 0:
		prev = b.baseIndex - 1
	case prev == 0:
		return 0 // a truncation has made it unknown
	}
	if r.Index == nil {
		return prev + 1
	}
	return r.Index(prev, h)
}

// finishRecovery lets readers in. The caller holds flush and mu.
func (s *Segment) finishRecovery(b *builder, from int64, out *Recovered) {
	live := s.ready.Load()
	if live || !b.markers && out.TxnsTo > s.base || !b.markers && out.Walked == b.size {
		out.TxnsTo = b.next // no marker lies behind what .txnindex covers
	}
	s.w = *b
	s.hints.Store(&hints{})
	s.unverified.Store(b.unverified(min(from, b.size)))
	done := s.sealed.Load() && s.fileSize == b.size
	if done {
		s.w.addTime()
		s.w.endBlock()
	}
	s.mem.Store(s.w.mem)
	s.publish()
	s.ready.Store(true)
	if !done {
		return
	}
	if out.TxnsTo < b.next { // a part of a list must not be vouched for: SetAborted writes the indexes
		return
	}
	snap := s.snapshotLocked()
	if sum := s.summary.Load(); live && sum != nil {
		snap.keepTxns, snap.sum.Txns = true, sum.Txns
	}
	if s.sealWith(&snap) == nil {
		s.letGoLocked()
	}
}

// RebuildIndexes makes all indexes anew from the headers of the batches, and writes those of a
// sealed segment. raftIndex is Recovery.Index.
func (s *Segment) RebuildIndexes(raftIndex func(prev uint64, h batch.Header) uint64) error {
	size := s.Size()
	if !s.ready.Load() {
		st, err := s.fs.Stat(s.path(extLog))
		if err != nil {
			return s.errorf("rebuild indexes: %w", err)
		}
		size = st.Size()
	}
	_, err := s.Recover(Recovery{From: size, BaseIndex: s.BaseIndex(), Index: raftIndex, Rebuild: true})
	return err
}
