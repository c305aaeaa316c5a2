package segment

import (
	"errors"
	"io"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// unverified knows which blocks have been verified since Open (ruling 9). Blocks that begin at or
// behind until were written or read whole since, so they need not be.
type unverified struct {
	until int64
	bits  []atomic.Uint64
	left  atomic.Int64
	// sums is the list that bits belongs to. That of a sealed segment is loaded with the first read,
	// and goes with the last block.
	sums atomic.Pointer[[]index.Sum]
	load sync.Mutex
	// open is the CRC of the block without a sum that ends at until, when that is known: the one that
	// the summary keeps for a block that is not complete.
	open      uint32
	openKnown bool
}

// newUnverified is nil when there is nothing to verify. sums is nil when they are to be loaded.
func newUnverified(until int64, blocks int, sums []index.Sum) *unverified {
	if until == 0 {
		return nil
	}
	u := &unverified{until: until, bits: make([]atomic.Uint64, (blocks+63)/64)}
	u.left.Store(int64(blocks))
	if sums != nil {
		u.sums.Store(&sums)
	}
	return u
}

func (u *unverified) verified(block int) bool { return u.bits[block/64].Load()&(1<<(block%64)) != 0 }

// mark notes that a block is good. It tells whether none is left.
func (u *unverified) mark(block int) bool {
	bit := uint64(1) << (block % 64)
	if u.bits[block/64].Or(bit)&bit != 0 {
		return false
	}
	return u.left.Add(-1) == 0
}

// cut is u for a builder that was cut; nil: nothing is left. What is left of a good block is good.
func (u *unverified) cut(b *builder) *unverified {
	until := min(u.until, b.size)
	out := b.unverified(until)
	for i := 0; out != nil && i < b.blocks(until); i++ {
		if u.verified(i) {
			out.mark(i)
		}
	}
	return out
}

// unverified is for blocks that begin below until.
func (b *builder) unverified(until int64) *unverified {
	sums := b.mem.sums.View()
	if sums == nil {
		sums = []index.Sum{}
	}
	u := newUnverified(until, b.blocks(until), sums)
	if u != nil && until == b.size {
		u.open, u.openKnown = b.blockCRC, true
	}
	return u
}

// verify reads those blocks in [pos, end) that were not verified yet. Damage is a corruption error.
func (s *Segment) verify(f vfs.File, pos, end int64) error {
	u := s.unverified.Load()
	if u == nil || pos >= u.until {
		return nil
	}
	sums, err := s.sumsOf(u)
	if err != nil {
		return err
	}
	i := sort.Search(len(sums), func(i int) bool { return int64(sums[i].End) > pos })
	for end = min(end, u.until); pos < end; i++ {
		b := blockAt(sums, i, u.until)
		if !b.summed && u.openKnown {
			b.crc, b.summed = u.open, true
		}
		if !u.verified(i) {
			if err := s.verifyBlock(f, b); err != nil {
				return err
			}
			if u.mark(i) {
				s.unverified.CompareAndSwap(u, nil)
			}
		}
		pos = b.end
	}
	return nil
}

// block is a run of whole batches; without a sum it is the open one at the end.
type block struct {
	start, end int64
	crc        uint32
	summed     bool
}

func blockAt(sums []index.Sum, i int, until int64) block {
	b := block{end: until}
	if i > 0 {
		b.start = int64(sums[i-1].End)
	}
	if i < len(sums) {
		b.end, b.crc, b.summed = int64(sums[i].End), sums[i].CRC, true
	}
	return b
}

func (s *Segment) sumsOf(u *unverified) ([]index.Sum, error) {
	if p := u.sums.Load(); p != nil {
		return *p, nil
	}
	u.load.Lock()
	defer u.load.Unlock()
	if p := u.sums.Load(); p != nil {
		return *p, nil
	}
	sums, err := s.loadSums(s.summary.Load())
	if err != nil {
		return nil, indexError(s, err)
	}
	u.sums.Store(&sums)
	return sums, nil
}

// allSums is the list of all blocks, but for the open one.
func (s *Segment) allSums() ([]index.Sum, error) {
	if m := s.mem.Load(); m != nil {
		return m.sums.View(), nil
	}
	sums, err := s.loadSums(s.summary.Load())
	if err != nil {
		return nil, indexError(s, err)
	}
	return sums, nil
}

// verifyBlock reads a block and checks each batch by its CRC, and what that does not cover by the
// block's sum.
func (s *Segment) verifyBlock(f vfs.File, b block) error {
	sc := s.scanner(f, b.start, b.end)
	defer sc.done()
	crc := uint32(0)
	for {
		bt, err := sc.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = bt.VerifyCRC()
		}
		if err != nil {
			return s.damaged(b, err)
		}
		crc = index.CRC(crc, bt[:prefixSize])
	}
	if b.summed && crc != b.crc {
		return s.corruptf("block at %d to %d: sum is %08x, not %08x", b.start, b.end, crc, b.crc)
	}
	return nil
}

// damaged words what is wrong with a block; a failed read stays what it is.
func (s *Segment) damaged(b block, err error) error {
	if unlessCorrupt(markShort(err)) == nil {
		return s.corruptf("block at %d to %d: %w", b.start, b.end, err)
	}
	return s.errorf("block at %d to %d: %w", b.start, b.end, err)
}

// Verify reads the whole segment from disk and checks every byte against batch CRCs and block
// sums; pace is called before each block with its size and may wait, or end it by an error.
func (s *Segment) Verify(pace func(bytes int) error) error {
	f, err := s.enter()
	if err != nil {
		return err
	}
	defer s.leave()
	return s.undisturbed(func() error {
		size := s.Size() // before the sums: an open block ends there, or later
		sums, err := s.allSums()
		if err != nil {
			return err
		}
		for i, pos := 0, int64(0); pos < size; i++ {
			b := blockAt(sums, i, size)
			if err := pace(int(b.end - b.start)); err != nil {
				return err
			}
			if err := s.verifyBlock(f, b); err != nil {
				return err
			}
			pos = b.end
		}
		return nil
	})
}
