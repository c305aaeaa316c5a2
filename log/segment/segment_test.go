package segment

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

// TestOnTheMachinesFileSystem walks through a segment's life on disk.
func TestOnTheMachinesFileSystem(t *testing.T) {
	dir, files := t.TempDir(), NewFileCache(2)
	o := Options{IndexInterval: 500, Files: files}
	s, err := Create(vfs.OS(), dir, 5, 1, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for i := range 400 {
		b := makeBatch(s.NextOffset(), 2, 1+i%3, 300, int64(i))
		if err := s.Append(b, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if err := errors.Join(s.StartWriteback(0, 0), s.Sync(), s.FlushIndexes(), s.DropCache(0)); err != nil {
		t.Fatal(err)
	}
	if err := s.TruncateTo(s.NextOffset() - 1); err != nil {
		t.Fatal(err)
	}
	last := makeBatch(s.NextOffset(), 3, 1, 20, 400)
	all = append(all[:s.Size()], last...)
	if err := s.Append(last, 400); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Seal(), s.SyncAll(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(vfs.OS(), dir, 5, o, true); err != nil || !s.Ready() {
		t.Fatalf("ready %v, %v", s.Ready(), err)
	}
	if err := errors.Join(s.DropCache(0), s.Verify(func(int) error { return nil })); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for off := s.BaseOffset(); off < s.NextOffset(); {
		r, err := s.ReadRange(off, 10000, math.MaxInt64, true)
		if err != nil {
			t.Fatal(err)
		}
		if vfs.OSFile(r.File) == nil {
			t.Fatal("sendfile gets no file")
		}
		b := make([]byte, r.Len)
		if err := readFull(r.File, b, r.Pos); err != nil {
			t.Fatal(err)
		}
		got, off = append(got, b...), r.Next
		r.Release()
	}
	if !bytes.Equal(got, all) {
		t.Fatalf("%d bytes read, %d written", len(got), len(all))
	}
	if err := errors.Join(s.Delete(), s.Remove()); err != nil {
		t.Fatal(err)
	}
	if list, err := List(vfs.OS(), dir); err != nil || len(list.Segments)+len(list.Suffixed)+len(list.Orphans) > 0 {
		t.Fatalf("left behind: %+v, %v", list, err)
	}
	if files.Open() != 0 {
		t.Fatalf("%d handles open", files.Open())
	}
}

// TestScans: headers and whole batches come in order, a scan ends with the caller's error at the
// batch that it refused, and large batches are stepped over.
func TestScans(t *testing.T) {
	s, err := Create(vfs.Memory(), "/", 0, 1, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want []int64
	for i := range 40 {
		want = append(want, s.Size())
		value := []int{10, 3000, 400_000, 2_000_000}[i%4]
		if err := s.Append(makeBatch(s.NextOffset(), 0, 1, value, 1), uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("enough")
	for name, scan := range map[string]func(from int64, fn func(h batch.Header, pos int64) error) (int64, error){
		"headers": s.ScanHeaders,
		"whole": func(from int64, fn func(h batch.Header, pos int64) error) (int64, error) {
			return s.ScanFrom(from, func(b batch.Batch, pos int64) error { return fn(b.Header(), pos) })
		},
	} {
		i := 7
		end, err := scan(want[i], func(h batch.Header, pos int64) error {
			if pos != want[i] || int(h.BaseOffset) != i {
				t.Fatalf("%s: batch of offset %d at %d, want %d at %d", name, h.BaseOffset, pos, i, want[i])
			}
			if i++; i == 33 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || end != want[32] {
			t.Fatalf("%s: ended at %d, %v; want %d", name, end, err, want[32])
		}
	}
}

// TestIndexSizes: the index says when it is full, one entry before Kafka's bound, and the sizes it
// gives are those of the files.
func TestIndexSizes(t *testing.T) {
	m := vfs.Memory()
	s, err := Create(m, "/", 0, 1, Options{IndexInterval: 1, IndexBytes: 10 * index.TimeSize, block: 300})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; !s.IndexFull(); n++ {
		if err := s.Append(makeBatch(s.NextOffset(), 0, 1, 10, int64(n)), uint64(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	if n != 10 { // the first batch has no entry, and one place is left for Seal
		t.Fatalf("full after %d batches", n)
	}
	before := s.IndexSize()
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, ext := range extensions[:5] {
		if st, err := m.Stat(s.path(ext)); err == nil {
			sum += st.Size()
		}
	}
	// Seal closes the open block, and has no new timestamp to add.
	if after := s.IndexSize(); after != sum || after != before+index.SumSize || !s.IndexFull() {
		t.Fatalf("index size %d, then %d; the files have %d", before, after, sum)
	}
}

// TestReadAt reads a tail that recovery refused.
func TestReadAt(t *testing.T) {
	x := makeSample(t, false)
	c := x.copyWith(t, fileName(0, extLog, ""), append(bytes.Clone(x.all), "torn"...))
	s, err := Open(c.fs, "/", 0, c.o, false)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if n, err := s.ReadAt(b, int64(len(x.all))); n != 4 || string(b) != "torn" {
		t.Fatalf("%q, %v", b[:n], err)
	}
	if _, err := s.ReadRange(0, 100, 100, true); !errors.Is(err, ErrStale) {
		t.Fatalf("read before recovery: %v", err)
	}
}

// TestReplayInsideRecovery: the caller replays transactions while Recover gives it the batches.
func TestReplayInsideRecovery(t *testing.T) {
	x := makeSample(t, false)
	_ = x.fs.Remove(fileName(0, extRaft, ""))
	s, err := Open(x.fs, "/", 0, x.o, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Recover(Recovery{Check: func(b batch.Batch, pos int64) error {
		if _, err := s.ReadAt(make([]byte, 10), pos); err != nil {
			t.Error(err)
		}
		if b.IsControl() {
			return s.AppendAborted(x.txns[0])
		}
		return nil
	}})
	if err != nil || got.TxnsTo != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if txns, err := s.Aborted(); err != nil || len(txns) != 1 || txns[0] != x.txns[0] {
		t.Fatalf("%v, %v", txns, err)
	}
}
