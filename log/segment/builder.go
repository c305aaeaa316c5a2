package segment

import (
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
)

// blockSize is the least a block of .sum holds; it ends with the batch that reaches it.
const blockSize = 64 << 10

// raftStride is how many index intervals lie between two entries of .raftindex: it is searched only
// for followers that lag, and headers are walked from the entry on.
const raftStride = 16

// prefixSize is the part of a batch's header in front of its attributes. It holds what the batch's
// CRC does not cover, and the CRC itself.
const prefixSize = 21

// builder makes the indexes while batches go by. It is the same for live appends, recovery and
// rebuilding, so that all three give the same entries.
type builder struct {
	base            kafkaproto.Offset
	interval, block int64
	mem             *memory

	size                 int64
	next                 kafkaproto.Offset
	baseIndex, lastIndex uint64
	largest, first       int64
	largestOff           kafkaproto.Offset
	gaps                 bool
	markers              bool // a transaction marker was added; recovery asks
	lastPos, lastHeader  uint32
	blockStart           int64
	blockCRC             uint32
}

func newBuilder(base kafkaproto.Offset, baseIndex uint64, interval int64) builder {
	return builder{
		base: base, interval: interval, block: blockSize, mem: &memory{}, next: base, baseIndex: baseIndex,
		largest: -1, largestOff: base, first: -1,
	}
}

// add takes the batch at the end. head is its header's bytes; raftIndex is 0 when it
// is unknown.
//
// Offset and time entries come where Kafka's LogSegment.append puts them: a batch gets an entry
// when more than the interval lies between its start and the start of the last batch with one.
func (b *builder) add(h batch.Header, head []byte, raftIndex uint64) {
	pos := uint32(b.size)
	rel := uint32(h.LastOffset() - b.base)
	if b.size == 0 {
		b.first, b.baseIndex = h.MaxTimestamp, raftIndex
	}
	if h.MaxTimestamp > b.largest {
		b.largest, b.largestOff = h.MaxTimestamp, h.LastOffset()
	}
	if last, _ := b.mem.offsets.Last(); int64(pos)-int64(last.Pos) > b.interval {
		b.mem.offsets.Append(index.Offset{Rel: rel, Pos: pos})
		b.addTime()
	}
	if last, _ := b.mem.rafts.Last(); raftIndex != 0 && int64(pos)-int64(last.Pos) > raftStride*b.interval {
		b.mem.rafts.Append(index.Raft{
			Rel: uint32(h.BaseOffset - b.base), Index: uint32(raftIndex - b.baseIndex), Pos: pos,
		})
	}
	b.markers = b.markers || h.IsControl()
	b.gaps = b.gaps || h.BaseOffset != b.next
	b.lastIndex = raftIndex
	b.next = h.NextOffset()
	b.size += int64(h.Size())
	b.lastPos, b.lastHeader = pos, index.CRC(0, head[:batch.HeaderSize])
	b.blockCRC = index.CRC(b.blockCRC, head[:prefixSize])
	if b.size-b.blockStart >= b.block {
		b.endBlock()
	}
}

// addTime adds the largest timestamp so far if it is new, as Kafka's TimeIndex.maybeAppend does.
func (b *builder) addTime() {
	last, ok := b.mem.times.Last()
	if !ok {
		last.Timestamp = -1
	}
	if b.largest > last.Timestamp {
		b.mem.times.Append(index.Time{Timestamp: b.largest, Rel: uint32(b.largestOff - b.base)})
	}
}

// endBlock closes the open block, if it holds anything.
func (b *builder) endBlock() {
	if b.size > b.blockStart {
		b.mem.sums.Append(index.Sum{End: uint32(b.size), CRC: b.blockCRC})
		b.blockStart, b.blockCRC = b.size, 0
	}
}

// blocks is the number of blocks, whole or open, that begin below pos.
func (b *builder) blocks(pos int64) int {
	sums := b.mem.sums.View()
	n := sort.Search(len(sums), func(i int) bool { return int64(sums[i].End) >= pos })
	if pos > 0 {
		n++
	}
	return n
}

// summary is what goes to disk, but for the counts of entries.
func (b *builder) summary() index.Summary {
	return index.Summary{
		BaseOffset: b.base, BaseIndex: b.baseIndex, LastIndex: b.lastIndex, NextOffset: b.next,
		LogSize: b.size, LargestTimestamp: b.largest, LargestOffset: b.largestOff, FirstTimestamp: b.first,
		Gaps: b.gaps, LastPos: b.lastPos, LastHeader: b.lastHeader, BlockCRC: b.blockCRC,
	}
}

// restored goes on where a summary ended, with the lists that belong to it.
func (b builder) restored(s *index.Summary, mem *memory) builder {
	b = builder{
		base: s.BaseOffset, interval: b.interval, block: b.block, mem: mem, size: s.LogSize, next: s.NextOffset,
		baseIndex: s.BaseIndex, lastIndex: s.LastIndex, largest: s.LargestTimestamp,
		largestOff: s.LargestOffset, first: s.FirstTimestamp, gaps: s.Gaps,
		lastPos: s.LastPos, lastHeader: s.LastHeader, blockCRC: s.BlockCRC,
	}
	if last, ok := mem.sums.Last(); ok {
		b.blockStart = int64(last.End)
	}
	return b
}

// resume is where a walk over headers must begin to find the state at cut: at an entry of each list
// that lies before it, or at the start.
func (b *builder) resume(cut int64) int64 {
	sums, offsets := b.mem.sums.View(), b.mem.offsets.View()
	i := sort.Search(len(sums), func(i int) bool { return int64(sums[i].End) > cut })
	j := sort.Search(len(offsets), func(j int) bool { return int64(offsets[j].Pos) >= cut })
	if i == 0 || j == 0 {
		return 0
	}
	return min(int64(sums[i-1].End), int64(offsets[j-1].Pos))
}

// cut is the builder as it was when the segment had cut bytes; b itself stays as it is until
// cutLists. The raft index of the last batch is not known then.
func (b *builder) cut(w *walker, cut int64) (builder, error) {
	out := newBuilder(b.base, b.baseIndex, b.interval)
	out.mem, out.gaps, out.block = b.mem, b.gaps, b.block
	if cut == 0 {
		return out, nil
	}
	out.first = b.first
	sums := b.mem.sums.View()
	if i := sort.Search(len(sums), func(i int) bool { return int64(sums[i].End) > cut }); i > 0 {
		out.blockStart = int64(sums[i-1].End)
	}
	for out.size = b.resume(cut); out.size < cut; {
		h, head, err := w.header(out.size, cut)
		if err != nil {
			return out, err
		}
		if h.MaxTimestamp > out.largest {
			out.largest, out.largestOff = h.MaxTimestamp, h.LastOffset()
		}
		if out.size >= out.blockStart {
			out.blockCRC = index.CRC(out.blockCRC, head[:prefixSize])
		}
		out.lastPos, out.lastHeader = uint32(out.size), index.CRC(0, head)
		out.next = h.NextOffset()
		out.size += int64(h.Size())
	}
	// What lies before the walk is in the last time entry: it was made at or behind the walk's start.
	if e, ok := floorTimeBefore(b.mem.times.View(), uint32(out.next-b.base)); ok && e.Timestamp >= out.largest {
		out.largest, out.largestOff = e.Timestamp, b.base+kafkaproto.Offset(e.Rel)
	}
	return out, nil
}

// floorTimeBefore is the last entry of a batch that ends before rel.
func floorTimeBefore(times []index.Time, rel uint32) (index.Time, bool) {
	i := sort.Search(len(times), func(i int) bool { return times[i].Rel >= rel })
	if i == 0 {
		return index.Time{}, false
	}
	return times[i-1], true
}

// cutLists takes the entries away that lie behind the builder's end.
func (b *builder) cutLists() {
	rel := uint32(b.next - b.base)
	offsets, times := b.mem.offsets.View(), b.mem.times.View()
	rafts, sums := b.mem.rafts.View(), b.mem.sums.View()
	b.mem.offsets.Cut(sort.Search(len(offsets), func(i int) bool { return int64(offsets[i].Pos) >= b.size }))
	b.mem.times.Cut(sort.Search(len(times), func(i int) bool { return times[i].Rel >= rel }))
	b.mem.rafts.Cut(sort.Search(len(rafts), func(i int) bool { return int64(rafts[i].Pos) >= b.size }))
	b.mem.sums.Cut(sort.Search(len(sums), func(i int) bool { return int64(sums[i].End) > b.size }))
}
