package segment

import (
	"errors"
	"io/fs"
	"os"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// Create makes an empty active segment. baseIndex is the raft index that its first batch is
// expected to have; 0 means that raft indexes are not kept (compacted). The directory entry is not
// synced. A .log that is there already is an error (fs.ErrExist); indexes left over from one are
// removed, and if one of the same base was deleted just before, sync the directory in between.
func Create(fsys vfs.FS, dir string, base kafkaproto.Offset, baseIndex uint64, o Options) (*Segment, error) {
	s := newSegment(fsys, dir, base, o)
	for _, ext := range []string{extRaft, extOffset, extTime, extTxn, extSum} {
		if err := fsys.Remove(s.path(ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, s.errorf("create: %w", err)
		}
	}
	f, err := fsys.OpenFile(s.path(extLog), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, s.errorf("create: %w", err)
	}
	s.files.pin(&s.log, f)
	s.w = s.builder(baseIndex)
	s.mem.Store(s.w.mem)
	s.publish()
	s.ready.Store(true)
	return s, nil
}

// Open opens a segment, sealed or active, without reading batches. When its indexes do not prove
// that they cover the file (unclean stop, damage, a directory of Kafka's), Ready is false and
// Recover must be called before anything else. An index of a newer version is an error.
//
// A segment of which any byte may not have been synced must be opened as active, also when others
// follow it: a sealed one cannot be cut.
func Open(fsys vfs.FS, dir string, base kafkaproto.Offset, o Options, sealed bool) (*Segment, error) {
	s := newSegment(fsys, dir, base, o)
	s.sealed.Store(sealed)
	var err error
	if sealed {
		err = s.openSealed()
	} else {
		err = s.openActive()
	}
	if err != nil {
		s.Release()
		return nil, s.errorf("open: %w", err)
	}
	return s, nil
}

func (s *Segment) openSealed() error {
	st, err := s.fs.Stat(s.path(extLog))
	if err != nil {
		return err
	}
	sum, err := s.loadSummary(st.Size())
	if err != nil || sum == nil {
		return err
	}
	if !sum.Sealed || sum.LogSize != st.Size() {
		return nil
	}
	f, err := s.files.acquire(&s.log)
	if err != nil {
		return err
	}
	defer s.files.release(&s.log)
	if err := s.checkLast(f, sum); err != nil {
		return unlessCorrupt(err)
	}
	s.w = s.builder(0).restored(sum, &memory{})
	s.w.mem = nil
	s.serve(sum)
	return nil
}

// serve makes a sealed segment ready, with its indexes on disk.
func (s *Segment) serve(sum *index.Summary) {
	s.summary.Store(sum)
	s.unverified.Store(newUnverified(sum.LogSize, int(sum.Sums.N), nil))
	s.publish()
	s.ready.Store(true)
}

func (s *Segment) openActive() error {
	f, err := s.fs.OpenFile(s.path(extLog), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.files.pin(&s.log, f)
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size > MaxSize {
		return kafkaproto.Corruptf("%d bytes are more than a segment can hold", size)
	}
	s.fileSize = size
	s.w = s.builder(0)
	sum, err := s.loadSummary(size)
	if err != nil || sum == nil {
		return err
	}
	b, err := s.restore(f, sum)
	if err != nil || b.size != size {
		return unlessCorrupt(err)
	}
	s.txns, err = s.loadTxns(sum)
	if s.txnsLost = err != nil; unlessCorrupt(err) != nil {
		return err
	}
	s.w = b
	s.flushed = flushedBy(sum)
	s.mem.Store(b.mem)
	s.unverified.Store(b.unverified(size))
	s.publish()
	s.ready.Store(true)
	return nil
}

// restore loads the indexes that a summary vouches for.
func (s *Segment) restore(f vfs.File, sum *index.Summary) (builder, error) {
	if err := s.checkLast(f, sum); err != nil {
		return builder{}, err
	}
	mem, err := s.loadMemory(sum)
	if err != nil {
		return builder{}, err
	}
	return s.builder(0).restored(sum, mem), nil
}

func flushedBy(sum *index.Summary) flushed {
	return flushed{
		valid: true, sealed: sum.Sealed, size: sum.LogSize, offsets: sum.Offsets, times: sum.Times,
		rafts: sum.Rafts, txns: sum.Txns, sums: sum.Sums,
	}
}

// unlessCorrupt drops corruption errors of files that can be made again.
func unlessCorrupt(err error) error {
	if kafkaproto.IsCorrupt(err) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// loadSummary reads the start of .raftindex. nil when it does not say anything about these bytes.
func (s *Segment) loadSummary(size int64) (*index.Summary, error) {
	b, err := s.readStart(extRaft, index.SummarySize)
	if err != nil {
		return nil, unlessCorrupt(err)
	}
	sum, err := index.ParseSummary(b)
	if err != nil {
		return nil, unlessCorrupt(err)
	}
	if sum.BaseOffset != s.base || sum.LogSize > size {
		return nil, nil
	}
	if sum.LogSize > 0 && sum.BaseIndex != 0 && sum.LastIndex == 0 {
		return nil, nil // flushed after a truncation: the raft indexes must be counted again
	}
	return &sum, nil
}

// checkLast reads the header of the last batch that the summary covers: it must be the very one. An
// index that outlived its log (a truncation that was followed by other batches, a file put back) is
// found out so.
func (s *Segment) checkLast(f vfs.File, sum *index.Summary) error {
	if sum.LogSize == 0 {
		return nil
	}
	head := make([]byte, batch.HeaderSize)
	if err := readFull(f, head, int64(sum.LastPos)); err != nil {
		return err
	}
	h, err := batch.PeekHeader(head)
	if err != nil {
		return err
	}
	if index.CRC(0, head) != sum.LastHeader || int64(sum.LastPos)+int64(h.Size()) != sum.LogSize ||
		h.NextOffset() != sum.NextOffset {
		return kafkaproto.Corruptf("%s: the batch at %d is not the one that .raftindex knows", f.Name(), sum.LastPos)
	}
	return nil
}

// readStart reads the first n bytes of one of the segment's files.
func (s *Segment) readStart(ext string, n int64) ([]byte, error) {
	f, err := s.openFile(ext)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size, err := f.Size(); err != nil || size < n {
		if err == nil {
			err = kafkaproto.Corruptf("%s: %d bytes, %d expected", f.Name(), size, n)
		}
		return nil, err
	}
	b := make([]byte, n)
	return b, readFull(f, b, 0)
}

// loadEntries reads the entries of a file that the count vouches for.
func loadEntries[T any](s *Segment, ext string, header, size int, c index.Count,
	parse func([]byte) ([]T, error),
) ([]T, error) {
	if c.N == 0 {
		return nil, nil
	}
	b, err := s.readStart(ext, int64(header)+int64(c.N)*int64(size))
	if err != nil {
		return nil, err
	}
	b, err = c.Take(s.path(ext), b[header:], size)
	if err != nil {
		return nil, err
	}
	return parse(b)
}

// loadMemory reads all indexes into memory, and checks that they fit each other.
func (s *Segment) loadMemory(sum *index.Summary) (*memory, error) {
	offsets, err := loadEntries(s, extOffset, 0, index.OffsetSize, sum.Offsets, index.ParseOffsets)
	if err != nil {
		return nil, err
	}
	times, err := loadEntries(s, extTime, 0, index.TimeSize, sum.Times, index.ParseTimes)
	if err != nil {
		return nil, err
	}
	rafts, err := loadEntries(s, extRaft, index.SummarySize, index.RaftSize, sum.Rafts, index.ParseRafts)
	if err != nil {
		return nil, err
	}
	sums, err := s.loadSums(sum)
	if err != nil {
		return nil, err
	}
	rel := uint32(sum.NextOffset - s.base)
	if n := len(offsets); n > 0 && (offsets[n-1].Rel >= rel || int64(offsets[n-1].Pos) >= sum.LogSize) {
		return nil, kafkaproto.Corruptf("%s: entry %+v lies behind the end", s.path(extOffset), offsets[n-1])
	}
	if n := len(times); n > 0 && times[n-1].Rel >= rel {
		return nil, kafkaproto.Corruptf("%s: entry %+v lies behind the end", s.path(extTime), times[n-1])
	}
	mem := &memory{}
	mem.offsets.Set(offsets)
	mem.times.Set(times)
	mem.rafts.Set(rafts)
	mem.sums.Set(sums)
	return mem, nil
}

// loadSums reads .sum, which must be of the same flush as the summary.
func (s *Segment) loadSums(sum *index.Summary) ([]index.Sum, error) {
	b, err := s.readStart(extSum, index.SumHeaderSize+int64(sum.Sums.N)*index.SumSize)
	if err != nil {
		return nil, err
	}
	h, sums, err := index.ParseSumFile(b)
	if err != nil {
		return nil, err
	}
	if h.BaseOffset != s.base || h.Entries != sum.Sums {
		return nil, kafkaproto.Corruptf("%s: %+v, .raftindex knows %+v", s.path(extSum), h.Entries, sum.Sums)
	}
	return sums, nil
}

// loadTxns reads .txnindex. It cannot be made again from the batches of one segment, so that it is
// missing is damage.
func (s *Segment) loadTxns(sum *index.Summary) ([]index.Txn, error) {
	txns, err := loadEntries(s, extTxn, 0, index.TxnSize, sum.Txns, index.ParseTxns)
	if errors.Is(err, fs.ErrNotExist) {
		err = kafkaproto.MarkCorrupt(err)
	}
	return txns, err
}
