package segment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
	"pgregory.net/rapid"
)

// stored is a batch as the model knows it.
type stored struct {
	bytes batch.Batch
	index uint64
}

// model is a segment as a list of batches, searched from front to back.
type model struct {
	base    kafkaproto.Offset
	batches []stored
	txns    []AbortedTxn
}

func (m *model) size() int64 {
	n := int64(0)
	for _, b := range m.batches {
		n += int64(len(b.bytes))
	}
	return n
}

func (m *model) next() kafkaproto.Offset {
	if len(m.batches) == 0 {
		return m.base
	}
	return m.batches[len(m.batches)-1].bytes.NextOffset()
}

func (m *model) all() []byte {
	var b []byte
	for _, x := range m.batches {
		b = append(b, x.bytes...)
	}
	return b
}

// find is the number and position of the first batch that ends at or behind off.
func (m *model) find(off kafkaproto.Offset) (int, int64) {
	pos := int64(0)
	for i, b := range m.batches {
		if b.bytes.LastOffset() >= off {
			return i, pos
		}
		pos += int64(len(b.bytes))
	}
	return len(m.batches), pos
}

// read is what ReadRange must give.
func (m *model) read(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset, minOne bool) (pos int64, n int) {
	i, pos := m.find(off)
	if off >= limit {
		return pos, 0
	}
	for j := i; j < len(m.batches); j++ {
		b := m.batches[j].bytes
		if b.LastOffset() >= limit || n+len(b) > maxBytes && (n > 0 || !minOne) {
			break
		}
		n += len(b)
	}
	return pos, n
}

func (m *model) largest() (int64, kafkaproto.Offset) {
	ts, off := int64(-1), m.base
	for _, b := range m.batches {
		if b.bytes.MaxTimestamp() > ts {
			ts, off = b.bytes.MaxTimestamp(), b.bytes.LastOffset()
		}
	}
	return ts, off
}

func (m *model) cut(i int) {
	m.batches = slices.Clip(m.batches[:i])
	for n := len(m.txns); n > 0 && m.txns[n-1].LastOffset >= m.next(); n-- {
		m.txns = slices.Clip(m.txns[:n-1])
	}
}

// makeBatch builds a batch of n records whose values are as long as told.
func makeBatch(base kafkaproto.Offset, epoch kafkaproto.LeaderEpoch, n, value int, ts int64) batch.Batch {
	b := batch.NewBuilder(batch.BuilderOptions{BaseOffset: base, LeaderEpoch: epoch})
	for i := range n {
		b.Add(batch.Record{Timestamp: ts - int64(n-1-i), Value: bytes.Repeat([]byte{byte(base)}, value)})
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return out
}

func drawBatch(t *rapid.T, base kafkaproto.Offset, epoch kafkaproto.LeaderEpoch) batch.Batch {
	n := rapid.IntRange(1, 4).Draw(t, "records")
	ts := rapid.Int64Range(1000, 1020).Draw(t, "ts") // few, so that they meet
	return makeBatch(base, epoch, n, rapid.SampledFrom([]int{0, 10, 100, 700}).Draw(t, "value"), ts)
}

// machine drives a segment and its model side by side.
type machine struct {
	fs    vfs.FS
	o     Options
	s     *Segment
	m     model
	epoch kafkaproto.LeaderEpoch
	index uint64 // of the next batch
	gaps  bool
	// edited: a segment that was cut, or sealed and opened again as active, may have time entries
	// where a rebuilt one has none. They are right all the same.
	edited bool
}

const testBaseIndex = 5

func newMachine(t *rapid.T) *machine {
	m := &machine{
		fs:    vfs.Memory(),
		o:     Options{IndexInterval: rapid.SampledFrom([]int{1, 150, 1000}).Draw(t, "interval"), Files: NewFileCache(2), block: 600},
		gaps:  rapid.Bool().Draw(t, "gaps"),
		index: testBaseIndex,
	}
	m.m.base = kafkaproto.Offset(rapid.SampledFrom([]int64{0, 7, math.MaxInt32 + 5}).Draw(t, "base"))
	if err := m.fs.MkdirAll("p", 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := Create(m.fs, "p", m.m.base, testBaseIndex, m.o)
	if err != nil {
		t.Fatal(err)
	}
	m.s = s
	return m
}

func (m *machine) append(t *rapid.T) {
	if m.s.Sealed() || m.s.sealing {
		return
	}
	var b []byte
	next, start := m.m.next(), m.index
	for range rapid.IntRange(1, 3).Draw(t, "batches") {
		if m.gaps {
			next += kafkaproto.Offset(rapid.IntRange(0, 2).Draw(t, "gap"))
		}
		x := drawBatch(t, next, m.epoch)
		next = x.NextOffset()
		b = append(b, x...)
		m.m.batches = append(m.m.batches, stored{x, m.index})
		m.index++
	}
	if err := m.s.Append(b, start); err != nil {
		t.Fatal(err)
	}
	m.index += uint64(rapid.IntRange(0, 1).Draw(t, "side entries"))
}

// abort appends a transaction's marker, and sometimes the entry for it twice, as a replay does.
func (m *machine) abort(t *rapid.T) {
	if m.s.Sealed() || m.s.sealing {
		return
	}
	b := batch.Control(batch.Abort, 0, 9, 1, rapid.Int64Range(1000, 1020).Draw(t, "ts"))
	b.SetBaseOffset(m.m.next())
	b.SetLeaderEpoch(m.epoch)
	last := m.m.next()
	if err := m.s.Append(b, m.index); err != nil {
		t.Fatal(err)
	}
	m.m.batches = append(m.m.batches, stored{b, m.index})
	m.index++
	a := AbortedTxn{ProducerID: 9, FirstOffset: m.m.base, LastOffset: last, LastStable: last}
	m.m.txns = append(m.m.txns, a)
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		if err := m.s.AppendAborted(a); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *machine) truncate(t *rapid.T) {
	if m.s.Sealed() || m.s.sealing {
		return
	}
	i := rapid.IntRange(0, len(m.m.batches)).Draw(t, "keep")
	pos := int64(0)
	for _, b := range m.m.batches[:i] {
		pos += int64(len(b.bytes))
	}
	var err error
	if i < len(m.m.batches) && rapid.Bool().Draw(t, "by offset") {
		b := m.m.batches[i].bytes
		err = m.s.TruncateTo(b.LastOffset())
	} else {
		err = m.s.Truncate(pos)
	}
	if err != nil {
		t.Fatal(err)
	}
	if i < len(m.m.batches) {
		m.index, m.epoch = m.m.batches[i].index, m.epoch+1
	}
	m.m.cut(i)
	m.edited = true
}

// indexes is Recovery.Index out of the model, which knows the side entries.
func (m *machine) indexOf(prev uint64, h batch.Header) uint64 {
	for i, b := range m.m.batches {
		if b.bytes.BaseOffset() == h.BaseOffset {
			if before := uint64(testBaseIndex - 1); i > 0 && m.m.batches[i-1].index != prev || i == 0 && prev != before {
				return 1 << 20 // shows up as a wrong index
			}
			return b.index
		}
	}
	return 1 << 20
}

func (m *machine) reopen(t *rapid.T) {
	if err := m.s.Close(); err != nil {
		t.Fatal(err)
	}
	m.openAgain(t, m.s.Sealed() && !rapid.Bool().Draw(t, "as active"))
}

// crash leaves the segment without closing it: what was not flushed is walked again.
func (m *machine) crash(t *rapid.T) { m.openAgain(t, m.s.Sealed()) }

func (m *machine) openAgain(t *rapid.T, sealed bool) {
	if rapid.Bool().Draw(t, "lose an index") {
		ext := rapid.SampledFrom(extensions[:5]).Draw(t, "file")
		if ext != extTxn {
			_ = m.fs.Remove(m.s.path(ext))
		}
	}
	s, err := Open(m.fs, "p", m.m.base, m.o, sealed)
	if err != nil {
		t.Fatal(err)
	}
	m.s = s
	if !s.Ready() || rapid.Bool().Draw(t, "recover anyway") {
		m.recover(t, rapid.Bool().Draw(t, "rebuild"))
	}
}

func (m *machine) recover(t *rapid.T, rebuild bool) {
	i := rapid.IntRange(0, len(m.m.batches)).Draw(t, "mark")
	from := int64(0)
	for _, b := range m.m.batches[:i] {
		from += int64(len(b.bytes))
	}
	seen := from
	got, err := m.s.Recover(Recovery{
		From: from, BaseIndex: testBaseIndex, Index: m.indexOf, Rebuild: rebuild,
		Check: func(b batch.Batch, pos int64) error {
			if pos != seen || !bytes.Equal(b, m.m.all()[pos:][:len(b)]) {
				t.Fatalf("batch at %d is not the one at %d", pos, seen)
			}
			seen += int64(len(b))
			return nil
		},
	})
	if n := len(m.m.batches); n > 0 && m.s.LastIndex() != m.m.batches[n-1].index {
		t.Fatalf("last index %d after recovery, want %d", m.s.LastIndex(), m.m.batches[n-1].index)
	}
	if err != nil || got.Cause != nil || got.End != m.m.size() || got.FileSize != got.End || seen != got.End {
		t.Fatalf("recovered %+v, %v; %d bytes seen of %d", got, err, seen, m.m.size())
	}
	// The caller's replay puts back what .txnindex does not have.
	txns, err := m.s.Aborted()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range m.m.txns {
		if a.LastOffset >= got.TxnsTo && !slices.Contains(txns, a) {
			txns = append(txns, a)
		}
	}
	if err := m.s.SetAborted(txns); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) seal(t *rapid.T) {
	m.edited = true
	if err := m.s.Seal(); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) flush(t *rapid.T) {
	if err := m.s.FlushIndexes(); err != nil {
		t.Fatal(err)
	}
}

// check compares everything that readers can ask.
func (m *machine) check(t *rapid.T) {
	s := m.s
	ts, off := s.LargestTimestamp()
	wantTS, wantOff := m.m.largest()
	if s.Size() != m.m.size() || s.NextOffset() != m.m.next() || ts != wantTS || off != wantOff {
		t.Fatalf("size %d, next %d, largest %d at %d; want %d, %d, %d at %d", s.Size(), s.NextOffset(), ts, off,
			m.m.size(), m.m.next(), wantTS, wantOff)
	}
	if first, ok := s.FirstTimestamp(); ok != (len(m.m.batches) > 0) || ok && first != m.m.batches[0].bytes.MaxTimestamp() {
		t.Fatalf("first timestamp %d, %v", first, ok)
	}
	if len(m.m.batches) > 0 && s.BaseIndex() != m.m.batches[0].index {
		t.Fatalf("base index %d, want %d", s.BaseIndex(), m.m.batches[0].index)
	}
	if last := s.LastIndex(); last != 0 && last != m.m.batches[len(m.m.batches)-1].index {
		t.Fatalf("last index %d", last)
	}
	txns, err := s.Aborted()
	if err != nil || !slices.Equal(txns, m.m.txns) {
		t.Fatalf("aborted %v, %v; want %v", txns, err, m.m.txns)
	}
	if s.Acquire(); true {
		s.Release()
	}
	m.checkReads(t)
	m.checkTimes(t)
	m.checkRaft(t)
	var all []byte
	end, err := s.ScanFrom(0, func(b batch.Batch, pos int64) error { all = append(all, b...); return nil })
	if err != nil || end != m.m.size() || !bytes.Equal(all, m.m.all()) {
		t.Fatalf("scan ended at %d, %v", end, err)
	}
	if err := s.Verify(func(int) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) checkReads(t *rapid.T) {
	span := int(m.m.next() - m.m.base)
	for range 6 {
		off := m.m.base + kafkaproto.Offset(rapid.IntRange(0, span+1).Draw(t, "off"))
		limit := m.m.base + kafkaproto.Offset(rapid.IntRange(0, span+2).Draw(t, "limit"))
		maxBytes := rapid.IntRange(0, 3000).Draw(t, "max")
		minOne := rapid.Bool().Draw(t, "min one")
		i, want := m.m.find(off)
		pos, err := m.s.Lookup(off)
		if i == len(m.m.batches) {
			if !errors.Is(err, ErrNotFound) {
				t.Fatalf("lookup of %d: %d, %v", off, pos, err)
			}
		} else if err != nil || pos != want {
			t.Fatalf("lookup of %d: %d, %v; want %d", off, pos, err, want)
		}
		m.checkRead(t, off, maxBytes, limit, minOne)
	}
}

func (m *machine) checkRead(t *rapid.T, off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset, minOne bool) {
	r, err := m.s.ReadRange(off, maxBytes, limit, minOne)
	pos, n := m.m.read(off, maxBytes, limit, minOne)
	if err != nil || r.Len != n || n > 0 && r.Pos != pos {
		t.Fatalf("read %d, max %d, limit %d, min one %v: %d bytes at %d, %v; want %d at %d",
			off, maxBytes, limit, minOne, r.Len, r.Pos, err, n, pos)
	}
	if n == 0 {
		return
	}
	got := make([]byte, n)
	if err := readFull(r.File, got, r.Pos); err != nil || !bytes.Equal(got, m.m.all()[pos:][:n]) {
		t.Fatalf("bytes differ, %v", err)
	}
	r.Release()
	first, _ := batch.First(got)
	if i, _ := m.m.find(r.Next); r.First != first.BaseOffset() || func() int64 { _, p := m.m.find(r.Next); return p }() != pos+int64(n) {
		t.Fatalf("first %d, next %d (batch %d), want first %d", r.First, r.Next, i, first.BaseOffset())
	}
	b, err := m.s.ReadBatch(pos, nil)
	if err != nil || !bytes.Equal(b, first) {
		t.Fatalf("read batch at %d: %v", pos, err)
	}
	// A consumer reads on where the range ended.
	if r.Next < limit {
		m.checkRead(t, r.Next, maxBytes, limit, minOne)
	}
}

func (m *machine) checkTimes(t *rapid.T) {
	for range 3 {
		ts := rapid.Int64Range(995, 1025).Draw(t, "time")
		from := m.m.base + kafkaproto.Offset(rapid.IntRange(0, int(m.m.next()-m.m.base)).Draw(t, "from"))
		h, pos, found, err := m.s.FindTime(ts, from)
		at := int64(0)
		want := -1
		for i, b := range m.m.batches {
			if b.bytes.LastOffset() >= from && b.bytes.MaxTimestamp() >= ts {
				want = i
				break
			}
			at += int64(len(b.bytes))
		}
		if err != nil || found != (want >= 0) {
			t.Fatalf("time %d from %d: %v, %v; want batch %d", ts, from, found, err, want)
		}
		if found && (pos != at || h != m.m.batches[want].bytes.Header()) {
			t.Fatalf("time %d from %d: batch at %d, want %d", ts, from, pos, at)
		}
	}
}

func (m *machine) checkRaft(t *rapid.T) {
	want := testBaseIndex + uint64(rapid.IntRange(0, 100).Draw(t, "raft index"))
	p, ok, err := m.s.LookupIndex(want)
	if err != nil || ok != (len(m.m.batches) > 0 && want >= m.m.batches[0].index) {
		t.Fatalf("raft index %d: %v, %v", want, ok, err)
	}
	if !ok {
		return
	}
	i, pos := m.m.find(p.Offset)
	if p.Pos != pos || p.Index != m.m.batches[i].index || p.Index > want {
		t.Fatalf("raft index %d is said to be %+v, batch %d at %d has %d", want, p, i, pos, m.m.batches[i].index)
	}
}

// check runs a property more often than rapid's default, as one run takes a fraction of a millisecond.
func check(t *testing.T, property func(*rapid.T)) {
	for range checkRounds {
		rapid.Check(t, property)
	}
}

func TestSegmentAgainstModel(t *testing.T) {
	check(t, func(t *rapid.T) {
		m := newMachine(t)
		for range rapid.IntRange(1, 15).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "op") {
			case 0:
				m.truncate(t)
			case 1:
				m.flush(t)
			case 2:
				m.reopen(t)
			case 3:
				m.crash(t)
			case 4:
				if rapid.IntRange(0, 2).Draw(t, "really") == 0 {
					m.seal(t)
				}
			case 5:
				m.abort(t)
			case 6:
				if err := m.s.RebuildIndexes(m.indexOf); err != nil {
					t.Fatal(err)
				}
			default:
				m.append(t)
			}
		}
		m.check(t)
		edited := m.edited
		before := m.indexes(t)
		if err := m.s.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(m.fs, "p", m.m.base, m.o, false)
		if err != nil {
			t.Fatal(err)
		}
		m.s = s
		m.recover(t, true)
		if after := m.indexes(t); before != after && !edited {
			t.Fatalf("indexes grown one by one differ from rebuilt ones:\n%s\n%s", before, after)
		}
		m.check(t)
	})
}

// indexes prints what the files beside .log hold, after a seal.
func (m *machine) indexes(t *rapid.T) string {
	m.seal(t)
	mem, err := m.s.loadMemory(m.s.summary.Load())
	if err != nil { // a lost index is made anew when it is used
		if err := m.s.RebuildIndexes(m.indexOf); err != nil {
			t.Fatal(err)
		}
		if mem, err = m.s.loadMemory(m.s.summary.Load()); err != nil {
			t.Fatal(err)
		}
	}
	for ext, size := range map[string]int{
		extOffset: mem.offsets.Len() * index.OffsetSize,
		extTime:   mem.times.Len() * index.TimeSize,
		extRaft:   index.SummarySize + mem.rafts.Len()*index.RaftSize,
		extSum:    index.SumHeaderSize + mem.sums.Len()*index.SumSize,
	} {
		b, err := vfs.ReadFile(m.fs, m.s.path(ext), 1<<20)
		if len(b) != size || err != nil && size > 0 { // an empty one that was lost is not missed
			t.Fatalf("%s has %d bytes, %v; want %d", ext, len(b), err, size)
		}
	}
	return fmt.Sprintln(mem.offsets.View(), mem.times.View(), mem.rafts.View())
}
