package segment

import (
	"errors"
	"fmt"
	"sort"

	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// errIndex means that an index on disk is not what was written: it is made anew.
var errIndex = errors.New("index is damaged")

// Which indexes of a sealed segment had their CRC verified since Open.
const (
	provedOffsets = 1 << iota
	provedTimes
)

func (s *Segment) wrongEntry(e index.Offset, h batch.Header) error {
	return s.corruptf("%w: its entry %+v leads to the batch of offsets %d to %d",
		errIndex, e, h.BaseOffset, h.LastOffset())
}

// floorOffset is the last entry of .index whose offset and position are at most these.
func (s *Segment) floorOffset(rel, pos uint32) (index.Offset, bool, error) {
	above := func(e index.Offset) bool { return e.Rel > rel || e.Pos > pos }
	if m := s.mem.Load(); m != nil {
		e, ok := floor(m.offsets.View(), above)
		return e, ok, nil
	}
	sum := s.summary.Load()
	return floorOnDisk(s, &s.offsets, provedOffsets, sum.Offsets, index.OffsetSize, index.DecodeOffset, above)
}

// floorTime is the last entry of .timeindex whose timestamp is at most ts: the first record with a
// timestamp of at least ts is in its batch or behind it.
func (s *Segment) floorTime(ts int64) (index.Time, bool, error) {
	above := func(e index.Time) bool { return e.Timestamp > ts }
	if m := s.mem.Load(); m != nil {
		e, ok := floor(m.times.View(), above)
		return e, ok, nil
	}
	sum := s.summary.Load()
	return floorOnDisk(s, &s.times, provedTimes, sum.Times, index.TimeSize, index.DecodeTime, above)
}

// floorRaft is the last entry of .raftindex that is at most rel, or else the first batch. It is
// wanted for followers that lag, so the file is read each time; when it is damaged the first batch
// will do.
func (s *Segment) floorRaft(rel uint64) (index.Raft, error) {
	above := func(e index.Raft) bool { return uint64(e.Index) > rel }
	if m := s.mem.Load(); m != nil {
		e, _ := floor(m.rafts.View(), above)
		return e, nil
	}
	sum := s.summary.Load()
	entries, err := loadEntries(s, extRaft, index.SummarySize, index.RaftSize, sum.Rafts, index.ParseRafts)
	if err != nil {
		return index.Raft{}, unlessCorrupt(err)
	}
	e, _ := floor(entries, above)
	return e, nil
}

// floor is the last entry that is not above.
func floor[T any](entries []T, above func(T) bool) (e T, found bool) {
	i := sort.Search(len(entries), func(i int) bool { return above(entries[i]) })
	if i == 0 {
		return e, false
	}
	return entries[i-1], true
}

// floorOnDisk is floor over a file, which is read a window at a time.
func floorOnDisk[T any](s *Segment, h *handle, proof uint32, c index.Count, size int,
	decode func([]byte) T, above func(T) bool,
) (e T, found bool, err error) {
	if c.N == 0 {
		return e, false, nil
	}
	f, err := s.files.acquire(h)
	if err != nil {
		return e, false, indexError(s, err)
	}
	defer s.files.release(h)
	if err := s.prove(f, proof, c, size); err != nil {
		return e, false, err
	}
	own := s.files.windows.Get().(*[]byte)
	defer s.files.windows.Put(own)
	p := page{f: f, size: size, n: int(c.N), buf: *own}
	at := func(i int) T {
		b, fault := p.entry(i)
		if fault != nil {
			err = fault
			b = make([]byte, size)
		}
		return decode(b)
	}
	i := sort.Search(int(c.N), func(i int) bool { return err == nil && above(at(i)) })
	if i > 0 && err == nil {
		e, found = at(i-1), true
	}
	if err != nil {
		return e, false, indexError(s, err)
	}
	return e, found, nil
}

// indexError makes a missing or short index one that is made anew.
func indexError(s *Segment, err error) error {
	if unlessCorrupt(err) == nil {
		return s.corruptf("%w: %w", errIndex, err)
	}
	return err
}

// page is the window of an index file that a search looks at.
type page struct {
	f          vfs.File
	size, n    int // of an entry, of all entries
	buf        []byte
	first, end int // the entries in buf
}

func (p *page) entry(i int) ([]byte, error) {
	if i < p.first || i >= p.end {
		per := len(p.buf) / p.size
		first := i / per * per
		end := min(first+per, p.n)
		if err := readFull(p.f, p.buf[:(end-first)*p.size], int64(first)*int64(p.size)); err != nil {
			return nil, err
		}
		p.first, p.end = first, end
	}
	return p.buf[(i-p.first)*p.size:], nil
}

// prove checks the CRC of an index file before its first use since Open. Two readers may do it at
// once, to the same end.
func (s *Segment) prove(f vfs.File, proof uint32, c index.Count, size int) error {
	if s.proved.Load()&proof != 0 {
		return nil
	}
	own := s.files.chunks.Get().(*[]byte)
	defer s.files.chunks.Put(own)
	crc := uint32(0)
	for pos, end := int64(0), int64(c.N)*int64(size); pos < end; {
		b := (*own)[:min(int64(len(*own)), end-pos)]
		if err := readFull(f, b, pos); err != nil {
			return indexError(s, err)
		}
		crc = index.CRC(crc, b)
		pos += int64(len(b))
	}
	if crc != c.CRC {
		return s.corruptf("%w: CRC of %s is %08x, not %08x", errIndex, f.Name(), crc, c.CRC)
	}
	s.proved.Or(proof)
	return nil
}

// rebuildSealed makes the indexes of a sealed segment anew while readers wait or go on. Readers use
// the ones in memory until they are written. before is the number of rebuilds that the caller had
// seen when it met the damage.
func (s *Segment) rebuildSealed(before int64) error {
	s.repair.Lock()
	defer s.repair.Unlock()
	if s.rebuilds.Load() != before || s.mem.Load() != nil {
		return nil // another reader was faster, or memory serves
	}
	f, err := s.enter()
	if err != nil {
		return err
	}
	defer s.leave()
	b, err := s.rebuilt(f)
	if err != nil {
		return fmt.Errorf("rebuild index: %w", err)
	}
	s.unverified.Store(b.unverified(b.size))
	s.mem.Store(b.mem)
	s.rebuilds.Add(1)

	s.flush.Lock()
	defer s.flush.Unlock()
	s.flushed = flushed{}
	snap := snapshot{
		sum: b.summary(), offsets: b.mem.offsets.View(), times: b.mem.times.View(), rafts: b.mem.rafts.View(),
		sums: b.mem.sums.View(), keepTxns: true,
	}
	snap.sum.Txns = s.summary.Load().Txns
	_ = s.sealWith(&snap) // when it fails, memory serves, and the next start tries again
	return nil
}

// rebuilt walks a sealed segment's headers. While .sum is good, they are verified by it before; else
// it is made anew too.
func (s *Segment) rebuilt(f vfs.File) (*builder, error) {
	old := s.summary.Load()
	sums, err := s.allSums()
	if err != nil && !errors.Is(err, errIndex) {
		return nil, err
	}
	if err == nil {
		if err := s.verify(f, 0, old.LogSize); err != nil {
			return nil, err
		}
	}
	b := s.builder(0)
	w := s.chunkWalker(f)
	defer w.done()
	for b.size < old.LogSize {
		h, head, err := w.header(b.size, old.LogSize)
		if err == nil {
			err = follows(h, b.next, s.base)
		}
		if err != nil {
			return nil, err
		}
		b.add(h, head, 0)
	}
	if b.next != old.NextOffset || b.lastHeader != old.LastHeader {
		return nil, s.corruptf("the batches end at offset %d, .raftindex knows %d", b.next, old.NextOffset)
	}
	b.addTime()
	b.endBlock()
	if sums != nil {
		b.mem.sums.Set(sums)
	}
	b.baseIndex, b.lastIndex = old.BaseIndex, old.LastIndex
	rafts, err := loadEntries(s, extRaft, index.SummarySize, index.RaftSize, old.Rafts, index.ParseRafts)
	b.mem.rafts.Set(rafts)
	return &b, unlessCorrupt(err)
}
