package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"syscall"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

func newFaulty(t *testing.T) (*vfs.ErrFS, *Segment) {
	t.Helper()
	e := vfs.Inject(vfs.Memory())
	s, err := Create(e, "/", 0, 1, Options{IndexInterval: 100, block: 300})
	if err != nil {
		t.Fatal(err)
	}
	return e, s
}

func appendOne(t *testing.T, s *Segment, value int) []byte {
	t.Helper()
	b := makeBatch(s.NextOffset(), 0, 2, value, 1000)
	if err := s.Append(b, 0); err != nil {
		t.Fatal(err)
	}
	return b
}

func wantLog(t *testing.T, fsys vfs.FS, s *Segment, want []byte) {
	t.Helper()
	got, err := vfs.ReadFile(fsys, s.Path(), 1<<20)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the file holds %d bytes, %v; want %d", len(got), err, len(want))
	}
}

// TestFullDiskIsCutBack: ruling 6. Whatever part was written goes, and writing goes on when there is
// space again.
func TestFullDiskIsCutBack(t *testing.T) {
	e, s := newFaulty(t)
	want := appendOne(t, s, 50)
	b := makeBatch(s.NextOffset(), 0, 1, 200, 1001)
	for n := range len(b) {
		e.SetBudget(int64(n))
		if err := s.Append(b, 0); !vfs.IsNoSpace(err) || errors.Is(err, ErrBroken) {
			t.Fatalf("%d bytes of space: %v", n, err)
		}
		wantLog(t, e, s, want)
		if s.Size() != int64(len(want)) || s.NextOffset() != 2 {
			t.Fatalf("%d bytes of space: size %d, next %d", n, s.Size(), s.NextOffset())
		}
	}
	e.Clear()
	if err := s.Append(b, 0); err != nil {
		t.Fatal(err)
	}
	wantLog(t, e, s, append(want, b...))
}

func TestWriteFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		rules  []vfs.Rule
		broken bool
		cut    bool
	}{
		{"short write without space", []vfs.Rule{{Op: vfs.OpWrite, Short: 10, Err: syscall.ENOSPC}}, false, true},
		{"quota", []vfs.Rule{{Op: vfs.OpWrite, Err: syscall.EDQUOT}}, false, true},
		{"file size limit", []vfs.Rule{{Op: vfs.OpWrite, Short: 1, Err: syscall.EFBIG}}, false, true},
		{"input/output error", []vfs.Rule{{Op: vfs.OpWrite, Short: 10}}, true, true},
		{"cannot be cut back", []vfs.Rule{{Op: vfs.OpWrite, Short: 10, Err: syscall.ENOSPC}, {Op: vfs.OpTruncate}}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, s := newFaulty(t)
			want := appendOne(t, s, 50)
			for _, r := range c.rules {
				e.Add(r)
			}
			b := makeBatch(s.NextOffset(), 0, 1, 200, 1001)
			if err := s.Append(b, 0); errors.Is(err, ErrBroken) != c.broken || err == nil {
				t.Fatalf("append: %v", err)
			}
			if c.cut {
				wantLog(t, e, s, want)
			}
			r, err := s.ReadRange(0, 1000, math.MaxInt64, true)
			if err != nil || r.Len != len(want) {
				t.Fatalf("reads go on: %d bytes, %v", r.Len, err)
			}
			r.Release()
			if err := s.Append(b, 0); errors.Is(err, ErrBroken) != c.broken {
				t.Fatalf("append after it: %v", err)
			}
		})
	}
}

func TestFailedTruncateBreaks(t *testing.T) {
	e, s := newFaulty(t)
	appendOne(t, s, 50)
	e.Add(vfs.Rule{Op: vfs.OpTruncate, Glob: "*.log"})
	if err := s.Truncate(0); !errors.Is(err, ErrBroken) {
		t.Fatalf("truncate: %v", err)
	}
	if err := s.Append(makeBatch(2, 0, 1, 1, 1), 0); !errors.Is(err, ErrBroken) {
		t.Fatalf("append: %v", err)
	}
}

// TestSealSurvivesEveryFault: each call that sealing makes fails once; reads go on, a second Seal
// succeeds, and what it wrote is good.
func TestSealSurvivesEveryFault(t *testing.T) {
	for nth := 1; ; nth++ {
		x := makeSample(t, false)
		e := vfs.Inject(x.fs)
		s, err := Open(e, "/", 0, x.o, false)
		if err != nil || !s.Ready() {
			t.Fatalf("ready %v, %v", s.Ready(), err)
		}
		e.Add(vfs.Rule{Op: vfs.OpCreate | vfs.OpWrite | vfs.OpTruncate | vfs.OpRemove, Nth: nth, Err: syscall.ENOSPC, Short: 5})
		err = s.Seal()
		if s.Sealed() != (err == nil) {
			t.Fatalf("fault %d: sealed %v, %v", nth, s.Sealed(), err)
		}
		if err := s.Append(makeBatch(s.NextOffset(), 3, 1, 1, 1), 0); !errors.Is(err, ErrSealed) {
			t.Fatalf("fault %d: append: %v", nth, err)
		}
		if err := x.readAll(s); err != nil {
			t.Fatalf("fault %d: %v", nth, err)
		}
		if err == nil {
			if nth < 8 {
				t.Fatalf("sealing makes only %d calls", nth)
			}
			break
		}
		// The process may also end here: the next start finds a segment that is not sealed.
		again, err := x.open(false)
		if err == nil {
			err = x.readAll(again)
		}
		if err != nil {
			t.Fatalf("fault %d, opened again: %v", nth, err)
		}
		if err := s.Seal(); err != nil {
			t.Fatalf("fault %d: second seal: %v", nth, err)
		}
		sealed, err := x.open(true)
		if err == nil {
			err = x.readAll(sealed)
		}
		if err != nil {
			t.Fatalf("fault %d, sealed at last: %v", nth, err)
		}
	}
}

// TestRebuildServesFromMemory: when damaged indexes cannot be written anew, reads go on.
func TestRebuildServesFromMemory(t *testing.T) {
	x := makeSample(t, true)
	for _, ext := range []string{extOffset, extTime, extSum} {
		if err := x.fs.Remove(path.Join("/", fileName(0, ext, ""))); err != nil {
			t.Fatal(err)
		}
	}
	e := vfs.Inject(x.fs, vfs.Rule{Op: vfs.OpCreate, Times: -1, Err: syscall.ENOSPC})
	s, err := Open(e, "/", 0, x.o, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.readAll(s); err != nil {
		t.Fatal(err)
	}
	if s.mem.Load() == nil {
		t.Fatal("the indexes are said to be on disk")
	}
}

// TestAppendRefusals: what is not a run of whole batches in order is refused before a byte is
// written.
func TestAppendRefusals(t *testing.T) {
	e, s := newFaulty(t)
	want := appendOne(t, s, 5)
	good := makeBatch(2, 0, 1, 5, 1)
	bad := append(batch.Batch(nil), good...)
	bad[16] = 1
	far := makeBatch(math.MaxInt32, 0, 2, 5, 1)
	for _, c := range []struct {
		name string
		b    []byte
		err  error
	}{
		{"half a batch", good[:len(good)-1], nil},
		{"half a header", good[:30], nil},
		{"one and a half", append(append([]byte(nil), good...), makeBatch(3, 0, 1, 5, 1)[:70]...), nil},
		{"an offset that was given", makeBatch(1, 0, 1, 5, 1), nil},
		{"offsets that fall", append(append([]byte(nil), makeBatch(5, 0, 1, 5, 1)...), good...), nil},
		{"another magic", bad, nil},
		{"an offset of 32 bits", far, ErrFull},
	} {
		if err := s.Append(c.b, 0); err == nil || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		wantLog(t, e, s, want)
	}
	if s.Fits(far.LastOffset(), len(far)) || !s.Fits(math.MaxInt32, 100) || s.Fits(3, MaxSize) {
		t.Error("Fits is wrong")
	}
	if err := s.Append(nil, 0); err != nil {
		t.Errorf("nothing: %v", err)
	}
	size := s.w.size
	s.w.size, s.fileSize = MaxSize-int64(len(good))+1, MaxSize-int64(len(good))+1
	if err := s.Append(good, 0); !errors.Is(err, ErrFull) {
		t.Errorf("a byte too much: %v", err)
	}
	s.w.size, s.fileSize = size, size
	if err := s.Truncate(int64(len(want)) - 1); err == nil {
		t.Error("truncated inside a batch")
	}
	if err := s.Truncate(int64(len(want)) + 1); err == nil {
		t.Error("truncated behind the end")
	}
	wantLog(t, e, s, want)
}

func TestCreateRefusesWhatIsThere(t *testing.T) {
	x := makeSample(t, true)
	if _, err := Create(x.fs, "/", 0, 1, x.o); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("create over a segment: %v", err)
	}
	wantFile, _ := vfs.ReadFile(x.fs, fileName(0, extLog, ""), 1<<20)
	if !bytes.Equal(wantFile, x.all) {
		t.Fatal("the log was changed")
	}
}

func TestLifecycleErrors(t *testing.T) {
	e, s := newFaulty(t)
	appendOne(t, s, 5)
	if err := s.Remove(); err == nil {
		t.Error("a segment in use was removed")
	}
	if !s.Acquire() {
		t.Fatal("cannot be acquired")
	}
	if err := s.Delete(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, ErrGone) {
		t.Errorf("close after delete: %v", err)
	}
	// The reader that acquired it goes on.
	r, err := s.ReadRange(0, 1000, 10, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(); err != nil {
		t.Fatal(err)
	}
	if err := readFull(r.File, make([]byte, r.Len), r.Pos); err != nil {
		t.Fatal(err)
	}
	s.Release()
	r.Release()
	if _, err := s.ReadRange(0, 1000, 10, true); !errors.Is(err, ErrGone) {
		t.Errorf("read after the last release: %v", err)
	}
	for name, err := range map[string]error{
		"append": s.Append(makeBatch(2, 0, 1, 1, 1), 0), "sync": s.Sync(), "flush": s.FlushIndexes(),
		"verify": s.Verify(nil), "truncate": s.Truncate(0),
	} {
		if !errors.Is(err, ErrGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, _ := e.ReadDir("/"); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
	if n := s.files.Open(); n != 0 {
		t.Errorf("%d handles open", n)
	}
}

func TestListAndRename(t *testing.T) {
	m := vfs.Memory()
	for _, name := range []string{
		"00000000000000000000.log", "00000000000000000000.index", "00000000000000000007.log",
		"00000000000000000009.index", "00000000000000000005.log.deleted", "00000000000000000005.index.deleted",
		"00000000000000000006.index.cleaned", "00000000000000000008.log.swap", "0000000000000000000.log",
		"00000000000000000000.log.bak", "00000000000000000000.snapshot", "partition.metadata", "99999999999999999999.log",
	} {
		put(t, m, name, []byte(name))
	}
	if err := m.MkdirAll("00000000000000000010.log", 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := List(m, "/")
	if err != nil {
		t.Fatal(err)
	}
	want := "{[0 7] map[.cleaned:[6] .deleted:[5] .swap:[8]] [00000000000000000009.index] " +
		"[0000000000000000000.log 00000000000000000000.log.bak 00000000000000000000.snapshot " +
		"00000000000000000010.log 99999999999999999999.log partition.metadata]}"
	if fmt.Sprint(got) != want {
		t.Fatalf("list is %v, want %v", got, want)
	}
	for range 2 { // a second time, as recovery does
		if err := RenameFiles(m, "/", 5, Deleted, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveFiles(m, "/", 8, Swap); err != nil {
		t.Fatal(err)
	}
	got, _ = List(m, "/")
	if fmt.Sprint(got.Segments) != "[0 5 7]" || len(got.Suffixed) != 1 {
		t.Fatalf("list is %v", got)
	}
}

// TestCrashInsideRename: at each call a crash leaves either a .log under the old name, or the .log
// and all its indexes under the new one; a second rename finishes.
func TestCrashInsideRename(t *testing.T) {
	for nth := 1; ; nth++ {
		x := makeSample(t, true)
		files := x.content(t)
		s, err := x.open(true)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Rename(Swap); err != nil {
			t.Fatal(err)
		}
		e := vfs.Inject(x.fs, vfs.Rule{Op: vfs.OpRename, Nth: nth})
		err = RenameFiles(e, "/", 0, Swap, "")
		if list, _ := List(x.fs, "/"); len(list.Segments) > 0 && len(list.Suffixed[Swap]) > 0 {
			t.Fatalf("call %d: %v", nth, list)
		}
		if rerr := RenameFiles(x.fs, "/", 0, Swap, ""); rerr != nil {
			t.Fatal(rerr)
		}
		for name, b := range x.content(t) {
			if !bytes.Equal(files[name], b) {
				t.Fatalf("call %d: %s differs", nth, name)
			}
		}
		if err == nil {
			break
		}
	}
}

// TestCleanedSegment: raft indexes are not kept, and .txnindex is written even when empty, so that
// the swap replaces the old one.
func TestCleanedSegment(t *testing.T) {
	m := vfs.Memory()
	s, err := Create(m, "/", 10, 0, Options{Suffix: Cleaned, IndexInterval: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, off := range []kafkaproto.Offset{12, 20, 33} {
		if err := s.Append(makeBatch(off, 0, 1, 5, int64(off)), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Seal(), s.SyncAll(), s.Rename(Swap), s.Rename("")); err != nil {
		t.Fatal(err)
	}
	for _, ext := range extensions {
		if _, err := m.Stat(fileName(10, ext, "")); err != nil {
			t.Error(err)
		}
	}
	if _, ok, err := s.LookupIndex(1); ok || err != nil {
		t.Errorf("raft index: %v, %v", ok, err)
	}
	for off, want := range map[kafkaproto.Offset]kafkaproto.Offset{0: 12, 10: 12, 12: 12, 13: 20, 21: 33, 33: 33} {
		r, err := s.ReadRange(off, 0, 100, true)
		if err != nil || r.First != want || r.Len == 0 {
			t.Errorf("read %d: %+v, %v; want %d", off, r, err, want)
		}
		r.Release()
	}
	for off := kafkaproto.Offset(0); off < 34; { // a consumer that reads on, over the gaps
		r, err := s.ReadRange(off, 0, 100, true)
		want := map[kafkaproto.Offset]kafkaproto.Offset{0: 12, 13: 20, 20: 20, 21: 33, 33: 33}[off]
		if err != nil || r.First != want {
			t.Fatalf("read %d: %+v, %v; want %d", off, r, err, want)
		}
		off = r.Next
		r.Release()
	}
	if r, err := s.ReadRange(34, 0, 100, true); err != nil || r.Len != 0 {
		t.Errorf("read behind the end: %+v, %v", r, err)
	}
	again, err := Open(m, "/", 10, Options{}, true)
	if err != nil || !again.Ready() || again.NextOffset() != 34 || again.BaseIndex() != 0 {
		t.Fatalf("opened again: %v", err)
	}
}
