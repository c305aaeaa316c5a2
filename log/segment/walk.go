package segment

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// readFull reads len(p) bytes. A file that is too short for them has lost bytes.
func readFull(f vfs.File, p []byte, pos int64) error {
	n, err := f.ReadAt(p, pos)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return kafkaproto.Corruptf("%s: ends at %d, %d bytes at %d expected", f.Name(), pos+int64(n), len(p), pos)
	}
	return err
}

// walker reads headers, a window of the file at a time. It takes its buffer from the pool when it
// reads first, so that a lookup that needs no header costs nothing.
type walker struct {
	f    vfs.File
	pool *sync.Pool
	own  *[]byte
	buf  []byte
	at   int64 // where the window begins
	n    int   // how much of buf it fills
}

// walker is for lookups, which look at few headers.
func (s *Segment) walker(f vfs.File) walker { return walker{f: f, pool: &s.files.windows} }

// chunkWalker is for long walks.
func (s *Segment) chunkWalker(f vfs.File) walker { return walker{f: f, pool: &s.files.chunks} }

// done gives the buffer back.
func (w *walker) done() {
	if w.own != nil {
		w.pool.Put(w.own)
		w.own, w.buf, w.n = nil, nil, 0
	}
}

// header reads the header of the batch at pos, which must end at or before end. head is its bytes,
// valid until the next call.
func (w *walker) header(pos, end int64) (h batch.Header, head []byte, err error) {
	if end-pos < batch.HeaderSize {
		return h, nil, kafkaproto.Corruptf("%s: %d bytes at %d are too few for a batch", w.f.Name(), end-pos, pos)
	}
	if pos < w.at || pos+batch.HeaderSize > w.at+int64(w.n) {
		if err := w.fill(pos, end); err != nil {
			return h, nil, err
		}
	}
	head = w.buf[pos-w.at:][:batch.HeaderSize]
	h, err = batch.PeekHeader(head)
	if err != nil {
		return h, nil, kafkaproto.MarkCorrupt(errAt(w.f, pos, err))
	}
	if pos+int64(h.Size()) > end {
		return h, nil, kafkaproto.Corruptf("%s: batch at %d of %d bytes ends behind %d", w.f.Name(), pos, h.Size(), end)
	}
	return h, head, nil
}

// fill moves the window to pos. When the last header led far beyond the old window, batches are
// large, and reading a whole window for each header would read everything.
func (w *walker) fill(pos, end int64) error {
	if w.own == nil {
		w.own = w.pool.Get().(*[]byte)
		w.buf = *w.own
	}
	n := min(int64(len(w.buf)), end-pos)
	if w.n > 0 && pos-(w.at+int64(w.n)) > int64(len(w.buf)/4) {
		n = min(n, windowSize)
	}
	w.n = 0
	if err := readFull(w.f, w.buf[:n], pos); err != nil {
		return err
	}
	w.at, w.n = pos, int(n)
	return nil
}

// scanner reads whole batches one behind the other, in large reads.
type scanner struct {
	f    vfs.File
	pool *sync.Pool
	own  *[]byte
	buf  []byte
	at   int64 // where the buffer begins
	n    int
	pos  int64 // of the next batch
	end  int64
}

func (s *Segment) scanner(f vfs.File, pos, end int64) scanner {
	own := s.files.chunks.Get().(*[]byte)
	return scanner{f: f, pool: &s.files.chunks, own: own, buf: *own, at: pos, pos: pos, end: end}
}

// done gives the buffer back; a larger one that a large batch needed is left to the collector.
func (s *scanner) done() { s.pool.Put(s.own) }

// next gives the batch at pos and moves on. io.EOF at the end; io.ErrUnexpectedEOF when the bytes
// left are too few for the batch; corrupt when there is none. The batch is valid until next.
func (s *scanner) next() (batch.Batch, error) {
	if s.pos == s.end {
		return nil, io.EOF
	}
	for {
		b, err := batch.First(s.buf[s.pos-s.at : s.n])
		if err == nil {
			s.pos += int64(len(b))
			return b, nil
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) || s.at+int64(s.n) >= s.end {
			return nil, errAt(s.f, s.pos, err)
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads on behind the unread rest. A batch that is larger than the buffer gets a larger one:
// its length is at most what the file still holds, so the file proves it.
func (s *scanner) fill() error {
	rest := s.buf[s.pos-s.at : s.n]
	if len(rest) >= batch.HeaderSize {
		if h, err := batch.PeekHeader(rest); err == nil && h.Size() > len(s.buf) {
			if int64(h.Size()) > s.end-s.pos {
				return errAt(s.f, s.pos, io.ErrUnexpectedEOF)
			}
			s.buf = make([]byte, h.Size())
		}
	}
	s.n = copy(s.buf, rest)
	s.at = s.pos
	more := min(int64(len(s.buf)-s.n), s.end-s.at-int64(s.n))
	if err := readFull(s.f, s.buf[s.n:s.n+int(more)], s.at+int64(s.n)); err != nil {
		return err
	}
	s.n += int(more)
	return nil
}

// batchError is what is wrong with the bytes at a position.
type batchError struct {
	file string
	pos  int64
	err  error
}

func errAt(f vfs.File, pos int64, err error) error { return &batchError{f.Name(), pos, err} }

func (e *batchError) Error() string {
	return fmt.Sprintf("%s: at %d: %v", e.file, e.pos, e.err)
}

func (e *batchError) Unwrap() error { return e.err }

// markShort marks a batch that does not end before the end as damage, in bytes that were all
// written.
func markShort(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return kafkaproto.MarkCorrupt(err)
	}
	return err
}
