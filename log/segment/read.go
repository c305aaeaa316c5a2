package segment

import (
	"errors"
	"sync/atomic"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// Range is whole batches of one segment. Release must be called exactly once; of an empty range it
// need not be.
type Range struct {
	File vfs.File
	Pos  int64
	Len  int
	// First is the base offset of the first batch. Next is where to read on: behind the last batch.
	First, Next kafkaproto.Offset

	s *Segment
}

// Release lets the segment and its file handle go.
func (r *Range) Release() {
	if r.s != nil {
		r.s.files.release(&r.s.log)
		r.s.Release()
		r.s, r.File = nil, nil
	}
}

// AtEnd reports whether the range ends where the segment does now: what follows is in another one,
// or not written yet.
func (r *Range) AtEnd() bool { return r.s != nil && r.Next >= r.s.NextOffset() }

// hints remember where ranges ended, since a consumer reads on there. Each is the next offset,
// relative to the base, and the position, in one word; 0 is empty. Truncate replaces the whole, so a
// reader that was on its way puts its hint where nobody looks.
type hints struct {
	slots [4]atomic.Uint64
	turn  atomic.Uint32
}

func (h *hints) find(rel uint32) (pos int64, slot int, ok bool) {
	for i := range h.slots {
		if v := h.slots[i].Load(); v != 0 && uint32(v>>32) == rel {
			return int64(uint32(v)), i, true
		}
	}
	return 0, -1, false
}

// put replaces the hint that was used, or else the one whose turn it is.
func (h *hints) put(slot int, rel uint32, pos int64) {
	if slot < 0 {
		slot = int(h.turn.Add(1)) % len(h.slots)
	}
	h.slots[slot].Store(uint64(rel)<<32 | uint64(pos))
}

// ReadRange finds the bytes of whole batches from the one that holds off on: at most maxBytes bytes,
// all below limit (exclusive). With minOne the first batch is given whole even when it is larger
// than maxBytes, if it is below limit. Len 0: there is nothing to give. The blocks it covers have been
// verified once since Open (ruling 9); damage is a corruption error.
func (s *Segment) ReadRange(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset,
	minOne bool,
) (Range, error) {
	f, err := s.enter()
	if err != nil {
		return Range{}, err
	}
	r := Range{File: f, s: s}
	err = s.undisturbed(func() error { return s.readRange(&r, off, maxBytes, limit, minOne) })
	if err != nil || r.Len == 0 {
		r.Release()
		return Range{}, err
	}
	return r, nil
}

// enter keeps the segment and its .log open until leave.
func (s *Segment) enter() (vfs.File, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	f, err := s.files.acquire(&s.log)
	if err != nil {
		s.Release()
		return nil, s.errorf("%w", err)
	}
	return f, nil
}

func (s *Segment) leave() {
	s.files.release(&s.log)
	s.Release()
}

// undisturbed calls read, and again when it failed while a truncation took bytes away, or because
// an index on disk was damaged and has been made anew.
func (s *Segment) undisturbed(read func() error) error {
	for attempt := 0; ; {
		cuts, rebuilds := s.cuts.Load(), s.rebuilds.Load()
		err := read()
		if err == nil {
			return nil
		}
		s.mu.Lock() // waits until a truncation is done
		now := s.cuts.Load()
		s.mu.Unlock()
		if now != cuts {
			continue
		}
		if !errors.Is(err, errIndex) || attempt == 2 {
			return err
		}
		attempt++
		if rebuild := s.rebuildSealed(rebuilds); rebuild != nil {
			return rebuild
		}
	}
}

func (s *Segment) readRange(r *Range, off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset,
	minOne bool,
) error {
	hints := s.hints.Load()
	next, size := s.published()
	limit, off = min(limit, next), max(off, s.base)
	if off >= limit || maxBytes < 0 {
		return nil
	}
	w := s.walker(r.File)
	defer w.done()
	pos, slot, known := hints.find(uint32(off - s.base))
	if known && !s.gaps.Load() {
		r.First = off
	} else if known {
		h, err := s.header(&w, pos, size)
		if err != nil {
			return err
		}
		r.First = h.BaseOffset
	} else {
		at, h, err := s.seek(&w, off, size)
		if err != nil {
			return err
		}
		pos, r.First = at, h.BaseOffset
	}
	b := bounds{pos: pos, max: int64(maxBytes), limit: limit, next: next, size: size, minOne: minOne}
	if err := s.boundary(&w, r, b); err != nil {
		return err
	}
	if r.Len > 0 {
		if err := s.verify(r.File, pos, pos+int64(r.Len)); err != nil {
			return err
		}
		hints.put(slot, uint32(r.Next-s.base), pos+int64(r.Len))
	}
	return nil
}

// bounds are what a range may hold.
type bounds struct {
	pos, max    int64
	limit, next kafkaproto.Offset
	size        int64
	minOne      bool
}

// boundary finds where the range that begins at pos ends: from the last index entry that is below
// all bounds it walks on over headers.
func (s *Segment) boundary(w *walker, r *Range, b bounds) error {
	r.Pos = b.pos
	if b.limit == b.next && b.size-b.pos <= b.max {
		r.Len, r.Next = int(b.size-b.pos), b.next
		return nil
	}
	end := b.pos + min(b.max, b.size-b.pos)
	entry, found, err := s.floorOffset(uint32(b.limit-s.base-1), uint32(end))
	if err != nil {
		return err
	}
	p := b.pos
	if found && int64(entry.Pos) > p {
		p = int64(entry.Pos)
	} else {
		found = false
	}
	for r.Next = b.next; p < b.size; {
		h, err := s.header(w, p, b.size)
		if err != nil {
			return err
		}
		if found && h.LastOffset() != s.base+kafkaproto.Offset(entry.Rel) {
			return s.wrongEntry(entry, h)
		}
		found = false
		if h.LastOffset() >= b.limit || p+int64(h.Size()) > end && (p > b.pos || !b.minOne) {
			r.Next = h.BaseOffset
			break
		}
		p += int64(h.Size())
	}
	r.Len = int(p - b.pos)
	return nil
}

// header reads a header from a block that was verified: one that is damaged might lead past the
// batch that is looked for.
func (s *Segment) header(w *walker, pos, end int64) (batch.Header, error) {
	if err := s.verify(w.f, pos, pos+1); err != nil {
		return batch.Header{}, err
	}
	h, _, err := w.header(pos, end)
	return h, err
}

// seek finds the first batch that ends at or behind off, which must be below the end.
func (s *Segment) seek(w *walker, off kafkaproto.Offset, size int64) (int64, batch.Header, error) {
	entry, found, err := s.floorOffset(uint32(off-s.base), MaxSize)
	if err != nil {
		return 0, batch.Header{}, err
	}
	for pos := int64(entry.Pos); pos < size; {
		h, err := s.header(w, pos, size)
		if err != nil {
			return 0, h, err
		}
		if found && h.LastOffset() != s.base+kafkaproto.Offset(entry.Rel) {
			return 0, h, s.wrongEntry(entry, h)
		}
		found = false
		if h.LastOffset() >= off {
			return pos, h, nil
		}
		pos += int64(h.Size())
	}
	return 0, batch.Header{}, s.errorf("offset %d: %w", off, ErrNotFound)
}

// Lookup is the position of the first batch that ends at or behind off. ErrNotFound when off is
// at or behind NextOffset.
func (s *Segment) Lookup(off kafkaproto.Offset) (int64, error) {
	f, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer s.leave()
	var pos int64
	err = s.undisturbed(func() error {
		next, size := s.published()
		if off >= next {
			return s.errorf("offset %d of %d: %w", off, next, ErrNotFound)
		}
		w := s.walker(f)
		defer w.done()
		var err error
		pos, _, err = s.seek(&w, max(off, s.base), size)
		return err
	})
	return pos, err
}

// FindTime finds the first batch that ends at or behind from and has, by its header, a record with a
// timestamp of at least ts. When no record inside qualifies, go on with from = h.NextOffset().
func (s *Segment) FindTime(ts int64, from kafkaproto.Offset) (h batch.Header, pos int64, found bool,
	err error,
) {
	f, err := s.enter()
	if err != nil {
		return h, 0, false, err
	}
	defer s.leave()
	err = s.undisturbed(func() error {
		var err error
		h, pos, found, err = s.findTime(f, ts, max(from, s.base))
		return err
	})
	return h, pos, found, err
}

func (s *Segment) findTime(f vfs.File, ts int64, from kafkaproto.Offset) (batch.Header, int64, bool, error) {
	largest := s.largest.Load() // before the end, so that it belongs to it or to an earlier one
	next, size := s.published()
	if from >= next || ts > largest && ts > s.largest.Load() {
		return batch.Header{}, 0, false, nil
	}
	entry, _, err := s.floorTime(ts)
	if err != nil {
		return batch.Header{}, 0, false, err
	}
	w := s.walker(f)
	defer w.done()
	start := max(from, s.base+kafkaproto.Offset(entry.Rel))
	if start >= next {
		return batch.Header{}, 0, false, nil
	}
	pos, h, err := s.seek(&w, start, size)
	for err == nil && h.MaxTimestamp < ts {
		if pos += int64(h.Size()); pos >= size {
			return batch.Header{}, 0, false, nil
		}
		h, err = s.header(&w, pos, size)
	}
	return h, pos, err == nil, err
}

// RaftPosition is where a raft index is, or the closest one before it that the index knows.
type RaftPosition struct {
	Index  uint64
	Offset kafkaproto.Offset // base offset of the batch with that index
	Pos    int64
}

// LookupIndex finds the last entry of .raftindex at or before raftIndex, the first batch at least;
// false when raft indexes are not kept, or raftIndex is before the first.
func (s *Segment) LookupIndex(raftIndex uint64) (RaftPosition, bool, error) {
	if err := s.usable(); err != nil {
		return RaftPosition{}, false, err
	}
	defer s.Release()
	base := s.baseIndex.Load()
	if base == 0 || raftIndex < base || s.Size() == 0 {
		return RaftPosition{}, false, nil
	}
	entry, err := s.floorRaft(raftIndex - base)
	if err != nil {
		return RaftPosition{}, false, err
	}
	return RaftPosition{
		Index: base + uint64(entry.Index), Offset: s.base + kafkaproto.Offset(entry.Rel), Pos: int64(entry.Pos),
	}, true, nil
}

// ReadBatch reads the batch at pos into buf, which grows when needed, and verifies it.
func (s *Segment) ReadBatch(pos int64, buf []byte) (batch.Batch, error) {
	f, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer s.leave()
	var b batch.Batch
	err = s.undisturbed(func() error {
		w := s.walker(f)
		defer w.done()
		h, err := s.header(&w, pos, s.Size())
		if err != nil {
			return err
		}
		if cap(buf) < h.Size() {
			buf = make([]byte, h.Size())
		}
		buf = buf[:h.Size()]
		if err := readFull(f, buf, pos); err != nil {
			return err
		}
		b = batch.Batch(buf)
		if err := b.VerifyCRC(); err != nil {
			return kafkaproto.MarkCorrupt(errAt(f, pos, err))
		}
		return nil
	})
	return b, err
}

// ReadAt reads raw bytes, also behind Size and before Recover: for saving a tail that is to be cut.
func (s *Segment) ReadAt(p []byte, pos int64) (int, error) {
	if !s.Acquire() {
		return 0, s.errorf("%w", ErrGone)
	}
	defer s.Release()
	f, err := s.files.acquire(&s.log)
	if err != nil {
		return 0, s.errorf("%w", err)
	}
	defer s.files.release(&s.log)
	return f.ReadAt(p, pos)
}

// ScanFrom reads whole batches from pos to Size, in large sequential reads, without verifying
// their CRC, until fn returns an error. It gives the position behind the last batch that fn took.
// b is valid during the call.
func (s *Segment) ScanFrom(pos int64, fn func(b batch.Batch, pos int64) error) (int64, error) {
	f, err := s.enter()
	if err != nil {
		return pos, err
	}
	defer s.leave()
	sc := s.scanner(f, pos, s.Size())
	defer sc.done()
	for sc.pos < sc.end {
		at := sc.pos
		b, err := sc.next()
		if err != nil {
			return at, markShort(err)
		}
		if err := fn(b, at); err != nil {
			return at, err
		}
	}
	return sc.pos, nil
}

// ScanHeaders is ScanFrom for headers only; it skips over large payloads.
func (s *Segment) ScanHeaders(pos int64, fn func(h batch.Header, pos int64) error) (int64, error) {
	f, err := s.enter()
	if err != nil {
		return pos, err
	}
	defer s.leave()
	w := s.chunkWalker(f)
	defer w.done()
	for size := s.Size(); pos < size; {
		h, _, err := w.header(pos, size)
		if err != nil {
			return pos, err
		}
		if err := fn(h, pos); err != nil {
			return pos, err
		}
		pos += int64(h.Size())
	}
	return pos, nil
}

// Sync makes the .log file's bytes durable.
func (s *Segment) Sync() error { return s.withLog(vfs.File.Sync) }

// DropCache drops the clean pages from pos on from the page cache, so that what is read next comes
// from the disk (ruling 5). Before Recover too.
func (s *Segment) DropCache(pos int64) error {
	return s.withLog(func(f vfs.File) error { return f.DropCache(pos, 0) })
}

// DropRange drops the clean pages in [pos, pos+n) from the page cache.
func (s *Segment) DropRange(pos, n int64) error {
	return s.withLog(func(f vfs.File) error { return f.DropCache(pos, n) })
}

// StartWriteback begins to write [pos, pos+n) to disk, without a promise.
func (s *Segment) StartWriteback(pos, n int64) error {
	return s.withLog(func(f vfs.File) error { return f.StartWriteback(pos, n) })
}

func (s *Segment) withLog(fn func(vfs.File) error) error {
	if !s.Acquire() {
		return s.errorf("%w", ErrGone)
	}
	defer s.Release()
	f, err := s.files.acquire(&s.log)
	if err != nil {
		return s.errorf("%w", err)
	}
	defer s.files.release(&s.log)
	return fn(f)
}
