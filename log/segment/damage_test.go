package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// sample is a segment with a few blocks, and what it holds.
type sample struct {
	fs  *vfs.MemFS
	o   Options
	all []byte
	// ends are the batches' ends.
	ends []int64
	txns []AbortedTxn
}

func makeSample(t *testing.T, sealed bool) *sample {
	t.Helper()
	x := &sample{fs: vfs.Memory(), o: Options{IndexInterval: 100, Files: NewFileCache(3), block: 300}}
	s, err := Create(x.fs, "/", 0, 1, x.o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		b := makeBatch(s.NextOffset(), 3, 1+i%2, 10*i, int64(1000+10*i))
		if i == 5 {
			b = batch.Control(batch.Abort, 0, 4, 0, 1050)
			b.SetBaseOffset(s.NextOffset())
			b.SetLeaderEpoch(3)
			x.txns = []AbortedTxn{{ProducerID: 4, FirstOffset: 1, LastOffset: s.NextOffset(), LastStable: 1}}
		}
		if err := s.Append(b, uint64(1+i)); err != nil {
			t.Fatal(err)
		}
		x.all = append(x.all, b...)
		x.ends = append(x.ends, s.Size())
	}
	if err := s.AppendAborted(x.txns[0]); err != nil {
		t.Fatal(err)
	}
	if sealed {
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return x
}

// copyWith is the sample with one file replaced; nil removes it.
func (x *sample) copyWith(t *testing.T, name string, content []byte) *sample {
	t.Helper()
	c := *x
	c.fs = vfs.Memory()
	for other, b := range x.content(t) {
		if other == name {
			b = content
		}
		if b != nil {
			put(t, c.fs, other, b)
		}
	}
	return &c
}

func put(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	f, err := vfs.Create(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
}

func (x *sample) content(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	entries, err := x.fs.ReadDir("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := vfs.ReadFile(x.fs, "/"+e.Name(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = b
	}
	return out
}

// readAll reads the segment as consumers do, in small ranges, and checks every answer. It ends with
// the first error.
func (x *sample) readAll(s *Segment) error {
	var got []byte
	for off := s.BaseOffset(); off < s.NextOffset(); {
		r, err := s.ReadRange(off, 250, s.NextOffset(), true)
		if err != nil {
			return err
		}
		b := make([]byte, r.Len)
		err = readFull(r.File, b, r.Pos)
		r.Release()
		if err != nil {
			return err
		}
		got, off = append(got, b...), r.Next
	}
	if !bytes.Equal(got, x.all) {
		panic(fmt.Sprintf("wrong bytes were served: %d of %d", len(got), len(x.all)))
	}
	for i, end := range x.ends {
		ts := int64(1000 + 10*i)
		h, pos, found, err := s.FindTime(ts, 0)
		if err != nil {
			return err
		}
		if !found || pos+int64(h.Size()) != end {
			panic(fmt.Sprintf("time %d was found at %d, want the batch that ends at %d", ts, pos, end))
		}
		p, ok, err := s.LookupIndex(uint64(1 + i))
		if err != nil {
			return err
		}
		if !ok || p.Index > uint64(1+i) || p.Pos > end {
			panic(fmt.Sprintf("raft index %d was found at %+v", i+1, p))
		}
	}
	txns, err := s.Aborted()
	if err != nil {
		return err
	}
	if !slices.Equal(txns, x.txns) {
		panic(fmt.Sprintf("aborted %v", txns))
	}
	return s.Verify(func(int) error { return nil })
}

// last is the last offset.
func (x *sample) last() kafkaproto.Offset {
	h, err := batch.PeekHeader(x.all[x.ends[len(x.ends)-2]:])
	if err != nil {
		panic(err)
	}
	return h.LastOffset()
}

// readEach reads from every offset, the last first, each time as if it were the first reader, and
// checks what is served.
func (x *sample) readEach(s *Segment) (err error) {
	for off := x.last(); off >= 0; off-- {
		for _, maxBytes := range []int{1, 1 << 20} {
			s.hints.Store(&hints{})
			r, rerr := s.ReadRange(off, maxBytes, x.last()+1, true)
			if rerr != nil {
				err = rerr
				continue
			}
			b := make([]byte, r.Len)
			if rerr := readFull(r.File, b, r.Pos); rerr != nil {
				err = rerr
			} else if !bytes.Equal(b, x.all[r.Pos:][:r.Len]) {
				panic(fmt.Sprintf("wrong bytes were served for offset %d", off))
			} else if first, _ := batch.First(b); off < first.BaseOffset() || off > first.LastOffset() {
				panic(fmt.Sprintf("offset %d was looked for at %d", off, first.BaseOffset()))
			}
			r.Release()
		}
	}
	return err
}

// checkHeader knows, as the store does, what a batch's CRC does not cover: epochs from the journal,
// and that offsets are dense.
func (x *sample) checkHeader(h batch.Header, pos int64) error {
	want, err := batch.PeekHeader(x.all[pos:])
	if err != nil || h.LeaderEpoch != want.LeaderEpoch || h.BaseOffset != want.BaseOffset {
		return kafkaproto.Corruptf("epoch %d, base offset %d", h.LeaderEpoch, h.BaseOffset)
	}
	return nil
}

// open opens and recovers when needed. An error must be marked as corruption.
func (x *sample) open(sealed bool) (*Segment, error) {
	s, err := Open(x.fs, "/", 0, x.o, sealed)
	if err != nil || s.Ready() {
		return s, err
	}
	got, err := s.Recover(Recovery{From: int64(len(x.all)), BaseIndex: 1, CheckHeader: x.checkHeader})
	if err != nil {
		return nil, err
	}
	if got.TxnsTo < s.NextOffset() {
		err = s.SetAborted(x.txns)
	}
	return s, err
}

// damages gives each form of damage to a file: every bit flipped, every length, zeros, rubbish, and
// the file gone.
func damages(b []byte) map[string][]byte {
	out := map[string][]byte{
		"gone":   nil,
		"zeros":  make([]byte, len(b)),
		"longer": append(slices.Clone(b), make([]byte, 512)...),
		"twice":  append(slices.Clone(b), b...),
		"noise":  bytes.Repeat([]byte{0xa5, 0x5a, 3}, len(b)/3+1),
	}
	for bit := 0; bit < len(b)*8; bit += damageStride {
		c := slices.Clone(b)
		c[bit/8] ^= 1 << (bit % 8)
		out[fmt.Sprint("bit ", bit)] = c
	}
	for n := 0; n < len(b); n += damageStride {
		out[fmt.Sprint("length ", n)] = b[:n:n]
	}
	return out
}

// TestEveryDamageToAnIndex: damaged indexes never lead to a wrong answer or to an error; they are
// made anew (F11). Only the list of aborted transactions cannot be, and says so.
func TestEveryDamageToAnIndex(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		x := makeSample(t, sealed)
		files := x.content(t)
		for _, ext := range extensions[:5] {
			name := fileName(0, ext, "")
			if len(files[name]) == 0 {
				t.Fatalf("the sample has no %s", name)
			}
			for what, b := range damages(files[name]) {
				c := x.copyWith(t, name, b)
				s, err := c.open(sealed)
				var newer *index.NewerError
				if errors.As(err, &newer) {
					t.Fatalf("%s, %s: taken for a newer version", ext, what)
				}
				if err != nil {
					t.Fatalf("sealed %v, %s, %s: open: %v", sealed, ext, what, err)
				}
				for range 2 { // the second time from what was made anew
					err = c.readAll(s)
					if ext == extTxn && kafkaproto.IsCorrupt(err) {
						if err = s.SetAborted(c.txns); err == nil {
							err = c.readAll(s)
						}
					}
					if err != nil {
						t.Fatalf("sealed %v, %s, %s: %v", sealed, ext, what, err)
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = c.open(sealed); err == nil {
					err = c.readAll(s)
				}
				if err != nil {
					t.Fatalf("sealed %v, %s, %s, opened again: %v", sealed, ext, what, err)
				}
			}
		}
	}
}

// TestEveryDamageToTheLog: no damaged byte of what was synced is ever served (F10, F12).
func TestEveryDamageToTheLog(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		x := makeSample(t, sealed)
		for what, b := range damages(x.all) {
			if b == nil {
				continue
			}
			for _, read := range []func(*sample, *Segment) error{(*sample).readAll, (*sample).readEach} {
				c := x.copyWith(t, fileName(0, extLog, ""), b)
				s, err := c.open(sealed)
				if err == nil && bytes.HasPrefix(b, x.all) {
					if s.Size() != int64(len(x.all)) || s.fileSize != int64(len(b)) {
						t.Fatalf("sealed %v, %s: size %d of %d", sealed, what, s.Size(), s.fileSize)
					}
					continue
				}
				if err == nil {
					err = read(c, s)
				}
				if !kafkaproto.IsCorrupt(err) {
					t.Fatalf("sealed %v, %s: %v", sealed, what, err)
				}
			}
		}
	}
}

// TestRecoverEveryTornTail: above the mark, recovery ends at the last whole batch, whatever follows.
func TestRecoverEveryTornTail(t *testing.T) {
	x := makeSample(t, false)
	for what, b := range damages(x.all) {
		if b == nil {
			continue
		}
		c := x.copyWith(t, fileName(0, extLog, ""), b)
		_ = c.fs.Remove(fileName(0, extRaft, ""))
		s, err := Open(c.fs, "/", 0, c.o, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Recover(Recovery{Check: func(b batch.Batch, pos int64) error {
			if pos >= int64(len(x.all)) {
				return errors.New("too many batches")
			}
			return x.checkHeader(b.Header(), pos)
		}})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		want := int64(0)
		for _, end := range x.ends {
			if end <= int64(len(b)) && bytes.Equal(b[:end], x.all[:end]) {
				want = end
			}
		}
		if got.End != want {
			t.Fatalf("%s: recovered %+v, want %d", what, got, want)
		}
		if got.FileSize != int64(len(b)) || (got.Cause == nil) != (got.End == got.FileSize) {
			t.Fatalf("%s: recovered %+v", what, got)
		}
		if got.End < got.FileSize {
			if err := s.Append(makeBatch(s.NextOffset(), 3, 1, 1, 1), 0); !errors.Is(err, ErrStale) {
				t.Fatalf("%s: append in front of a tail: %v", what, err)
			}
		}
		if err := s.Truncate(got.End); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := s.Append(makeBatch(s.NextOffset(), 3, 1, 1, 1), 0); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestDamageBelowTheMark: what was synced is never cut; recovery says that it is damaged.
func TestDamageBelowTheMark(t *testing.T) {
	x := makeSample(t, false)
	_ = x.fs.Remove(fileName(0, extRaft, ""))
	for _, c := range []struct {
		what string
		edit func(b []byte) []byte
	}{
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }},
		{"magic", func(b []byte) []byte { b[16] = 1; return b }},
		{"length", func(b []byte) []byte { b[11]++; return b }},
		{"last offset delta of the last batch", func(b []byte) []byte { b[x.ends[len(x.ends)-2]+25]++; return b }},
		{"offset falls", func(b []byte) []byte { b[x.ends[0]+7] = 0; return b }},
	} {
		d := x.copyWith(t, fileName(0, extLog, ""), c.edit(slices.Clone(x.all)))
		s, err := Open(d.fs, "/", 0, d.o, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recover(Recovery{From: int64(len(x.all))}); !kafkaproto.IsCorrupt(err) {
			t.Errorf("%s: %v", c.what, err)
		}
		if s.Ready() {
			t.Errorf("%s: ready", c.what)
		}
	}
}

// TestBytesBelowTheMarkAreVerifiedByTheFirstRead: recovery walks headers only there, so a damaged
// payload is the first reader's to find (ruling 9).
func TestBytesBelowTheMarkAreVerifiedByTheFirstRead(t *testing.T) {
	x := makeSample(t, false)
	_ = x.fs.Remove(fileName(0, extRaft, ""))
	for i, end := range x.ends[:len(x.ends)-1] {
		b := slices.Clone(x.all)
		b[end-1] ^= 4
		c := x.copyWith(t, fileName(0, extLog, ""), b)
		s, err := c.open(false)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.readEach(s); !kafkaproto.IsCorrupt(err) {
			t.Errorf("batch %d: %v", i, err)
		}
	}
}

// TestDamageAboveTheMarkInWhatIndexesCover: indexes that were flushed before the bytes were synced
// may cover what a crash has torn.
func TestDamageAboveTheMarkInWhatIndexesCover(t *testing.T) {
	x := makeSample(t, false)
	for i := range x.ends {
		start := int64(0)
		if i > 0 {
			start = x.ends[i-1]
		}
		b := slices.Clone(x.all)
		b[start+30] ^= 1
		c := x.copyWith(t, fileName(0, extLog, ""), b)
		s, err := Open(c.fs, "/", 0, c.o, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Recover(Recovery{})
		if err != nil || got.End != start || got.Cause == nil || s.LastIndex() != uint64(i) {
			t.Fatalf("batch %d: %+v, %v", i, got, err)
		}
		txns, err := s.Aborted()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range txns {
			if a.LastOffset >= s.NextOffset() {
				t.Fatalf("batch %d: aborted transaction %+v behind the end at %d", i, a, s.NextOffset())
			}
		}
		if got.TxnsTo > s.NextOffset() {
			t.Fatalf("batch %d: %+v", i, got)
		}
	}
}

// TestRaftIndexesOfAnotherJournalAreMadeAnew: the caller's base index wins over the cached one.
func TestRaftIndexesOfAnotherJournalAreMadeAnew(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		x := makeSample(t, sealed)
		s, err := Open(x.fs, "/", 0, x.o, sealed)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Recover(Recovery{From: int64(len(x.all)), BaseIndex: 100})
		if err != nil || s.BaseIndex() != 100 || s.LastIndex() != 107 || got.Walked != int64(len(x.all)) {
			t.Fatalf("sealed %v: %+v, %v, indexes %d to %d", sealed, got, err, s.BaseIndex(), s.LastIndex())
		}
	}
}

// TestStaleIndexesArePutBack: indexes of the same log before it was cut and written again, to the same
// size or another (F12, an old copy of a file).
func TestStaleIndexesArePutBack(t *testing.T) {
	for _, c := range []struct {
		sealed  bool
		batches int
	}{{true, 8}, {true, 12}, {false, 8}, {false, 12}} {
		sealed := c.sealed
		x := makeSample(t, sealed)
		old := x.content(t)
		s, err := Open(x.fs, "/", 0, x.o, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Truncate(x.ends[3]); err != nil {
			t.Fatal(err)
		}
		x.all, x.txns = x.all[:x.ends[3]], nil
		x.ends = x.ends[:4]
		for i := 4; i < c.batches; i++ {
			// Offsets and sizes as before, other content.
			b := makeBatch(s.NextOffset(), 4, 1+i%2, 10*i, int64(1000+10*i))
			if err := s.Append(b, uint64(1+i)); err != nil {
				t.Fatal(err)
			}
			x.all = append(x.all, b...)
			x.ends = append(x.ends, s.Size())
		}
		if sealed {
			if err := s.Seal(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		delete(old, fileName(0, extLog, ""))
		// Every subset of the files.
		names := slices.Sorted(maps.Keys(old))
		for set := range 1 << len(names) {
			c := x
			for i, name := range names {
				if set&(1<<i) != 0 {
					c = c.copyWith(t, name, old[name])
				}
			}
			s, err := c.open(sealed)
			if err != nil {
				t.Fatal(err)
			}
			err = c.readAll(s)
			if kafkaproto.IsCorrupt(err) && errors.Is(s.SetAborted(nil), nil) {
				err = c.readAll(s)
			}
			if err != nil {
				t.Fatalf("sealed %v, old files %b of %v: %v", sealed, set, names, err)
			}
		}
	}
}

func TestMissingLogIsNotCorrupt(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		_, err := Open(vfs.Memory(), "/", 0, Options{}, sealed)
		if !errors.Is(err, fs.ErrNotExist) || kafkaproto.IsCorrupt(err) {
			t.Errorf("sealed %v: %v", sealed, err)
		}
	}
}

// TestNewerIndexIsRefused: a file of a later version is neither read nor made anew.
func TestNewerIndexIsRefused(t *testing.T) {
	x := makeSample(t, true)
	b := slices.Clone(x.content(t)[fileName(0, extRaft, "")])
	b[1]++
	binary.BigEndian.PutUint32(b[4:], index.CRC(index.CRC(0, b[:4]), b[8:index.SummarySize]))
	c := x.copyWith(t, fileName(0, extRaft, ""), b)
	var newer *index.NewerError
	if _, err := Open(c.fs, "/", 0, c.o, true); !errors.As(err, &newer) {
		t.Fatalf("open: %v", err)
	}
	if got := c.content(t)[fileName(0, extRaft, "")]; !bytes.Equal(got, b) {
		t.Fatal("the file was changed")
	}
}

// TestFailedReadIsNotCorruption: a disk that does not read is an operating fault.
func TestFailedReadIsNotCorruption(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		x := makeSample(t, sealed)
		for nth := 1; ; nth++ {
			e := vfs.Inject(x.fs, vfs.Rule{Op: vfs.OpRead, Nth: nth})
			c := &sample{o: x.o, all: x.all, ends: x.ends, txns: x.txns, fs: x.fs}
			c.o.Files = NewFileCache(3)
			s, err := Open(e, "/", 0, c.o, sealed)
			if err == nil {
				if s.Ready() {
					err = c.readAll(s)
				} else {
					_, err = s.Recover(Recovery{})
				}
			}
			if err == nil {
				if nth < 10 {
					t.Fatalf("only %d reads", nth)
				}
				break
			}
			if kafkaproto.IsCorrupt(err) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("sealed %v, read %d: %v", sealed, nth, err)
			}
		}
	}
}

// TestDamageAfterOpen: an index that rots while the segment is open is found by its batch.
func TestDamageAfterOpen(t *testing.T) {
	x := makeSample(t, true)
	s, err := x.open(true)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.readAll(s); err != nil {
		t.Fatal(err)
	}
	name := path.Join("/", fileName(0, extOffset, ""))
	f, err := x.fs.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var e [index.OffsetSize]byte
	if _, err := f.ReadAt(e[:], 0); err != nil {
		t.Fatal(err)
	}
	wrong := index.DecodeOffset(e[:])
	wrong.Pos = uint32(x.ends[3]) // a batch, but not the one
	if _, err := f.WriteAt(wrong.Encode(nil), 0); err != nil {
		t.Fatal(err)
	}
	s.hints.Store(&hints{})
	if err := x.readAll(s); err != nil {
		t.Fatal(err)
	}
	if got, _ := vfs.ReadFile(x.fs, name, 1000); !bytes.Equal(got[:index.OffsetSize], e[:]) {
		t.Fatal("the index was not written anew")
	}
}
