package segment

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// Append writes b, one or several whole batches, at the end; raftIndex is the raft index of the
// first of them and the others follow it without gaps; 0: raft indexes are not kept. After an error
// nothing has changed (ruling 6): what was written is cut off again. ErrFull: roll and append to the
// next segment. An error that vfs.IsNoSpace knows may pass; after any other the segment is broken.
func (s *Segment) Append(b []byte, raftIndex uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(); err != nil {
		return s.errorf("append: %w", err)
	}
	first, err := s.check(b)
	if err != nil || len(b) == 0 {
		return err
	}
	if n, err := s.log.file.WriteAt(b, s.w.size); err != nil || n < len(b) {
		if err == nil {
			err = io.ErrShortWrite
		}
		return s.undo(err)
	}
	s.fileSize += int64(len(b))
	for h := first; ; {
		s.w.add(h, b, raftIndex)
		if b = b[h.Size():]; len(b) == 0 {
			break
		}
		h, _ = batch.PeekHeader(b) // check has seen it
		if raftIndex != 0 {
			raftIndex++
		}
	}
	s.publish()
	return nil
}

// writable says why nothing can be written; the caller holds mu.
func (s *Segment) writable() error {
	switch {
	case s.closed.Load():
		return ErrGone
	case s.sealed.Load() || s.sealing:
		return ErrSealed
	case !s.ready.Load():
		return ErrStale
	case s.broken.Load():
		return ErrBroken
	case s.fileSize != s.w.size:
		return fmt.Errorf("%d bytes behind the end at %d must be cut first: %w",
			s.fileSize-s.w.size, s.w.size, ErrStale)
	}
	return nil
}

// check looks at the headers in b before anything is written. It gives the first.
func (s *Segment) check(b []byte) (first batch.Header, err error) {
	next := s.w.next
	for pos := 0; pos < len(b); {
		h, err := batch.PeekHeader(b[pos:])
		if err == nil && pos+h.Size() > len(b) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return first, s.errorf("append: batch at %d of %d bytes: %w", pos, len(b), err)
		}
		if h.BaseOffset < next {
			return first, s.errorf("append: batch begins at offset %d, the log is at %d", h.BaseOffset, next)
		}
		if h.LastOffset()-s.base > math.MaxInt32 {
			return first, s.errorf("append: offset %d: %w", h.LastOffset(), ErrFull)
		}
		if pos == 0 {
			first = h
		}
		next = h.NextOffset()
		pos += h.Size()
	}
	if s.w.size+int64(len(b)) > MaxSize {
		return first, s.errorf("append: %d bytes at %d: %w", len(b), s.w.size, ErrFull)
	}
	return first, nil
}

// undo cuts off what a failed write left. The caller holds mu.
func (s *Segment) undo(err error) error {
	if cut := s.log.file.Truncate(s.w.size); cut != nil {
		s.broken.Store(true)
		return s.errorf("append: %w: %w; and cutting it back: %w", ErrBroken, err, cut)
	}
	if !vfs.IsNoSpace(err) && !errors.Is(err, io.ErrShortWrite) {
		s.broken.Store(true)
		return s.errorf("append: %w: %w", ErrBroken, err)
	}
	return s.errorf("append: %w", err)
}

// Truncate cuts the segment to pos bytes, a batch boundary, and cuts its indexes. Not synced.
func (s *Segment) Truncate(pos int64) error {
	s.flush.Lock()
	defer s.flush.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.truncateLocked(pos)
}

func (s *Segment) truncateLocked(pos int64) error {
	switch err := s.truncatable(); {
	case err != nil:
		return err
	case pos < 0 || pos > s.w.size:
		return s.errorf("truncate: position %d of %d", pos, s.w.size)
	case pos == s.fileSize:
		return nil
	}
	w := s.walker(s.log.file)
	defer w.done()
	b := s.w
	if pos < s.w.size {
		var err error
		if b, err = s.w.cut(&w, pos); err != nil {
			return s.errorf("truncate to %d: %w", pos, err)
		}
		if b.size != pos {
			return s.errorf("truncate: position %d is inside the batch at %d", pos, b.lastPos)
		}
	}
	// Readers that meet bytes which go away look at the counter, and try again.
	s.cuts.Add(1)
	defer s.cuts.Add(1)
	if err := s.forgetIndexes(); err != nil {
		return s.errorf("truncate: %w", err)
	}
	if err := s.log.file.Truncate(pos); err != nil {
		s.broken.Store(true)
		return s.errorf("truncate: %w: %w", ErrBroken, err)
	}
	s.fileSize = pos
	s.w = b
	s.publish()
	s.w.cutLists()
	s.hints.Store(&hints{})
	if u := s.unverified.Load(); u != nil {
		s.unverified.Store(u.cut(&s.w))
	}
	s.dropTxns(s.w.next)
	return nil
}

// truncatable is writable, but for a tail that is to be cut.
func (s *Segment) truncatable() error {
	if err := s.writable(); err != nil && !(errors.Is(err, ErrStale) && s.ready.Load()) {
		return s.errorf("truncate: %w", err)
	}
	return nil
}

// TruncateTo cuts the batch that holds off and all behind it. Not synced.
func (s *Segment) TruncateTo(off kafkaproto.Offset) error {
	s.flush.Lock()
	defer s.flush.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.truncatable(); err != nil || off >= s.w.next {
		return err
	}
	w := s.walker(s.log.file)
	defer w.done()
	pos, _, err := s.seek(&w, max(off, s.base), s.w.size)
	if err != nil {
		return s.errorf("truncate to offset %d: %w", off, err)
	}
	return s.truncateLocked(pos)
}
