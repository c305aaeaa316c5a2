package segment

import (
	"bytes"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// TestReadersBesideTheWriter: readers below a limit see right bytes while the writer appends, cuts
// what lies above the limit, flushes, seals, renames and deletes.
func TestReadersBesideTheWriter(t *testing.T) {
	m := vfs.Memory()
	files := NewFileCache(1)
	s, err := Create(m, "/", 0, 1, Options{IndexInterval: 200, Files: files, block: 2000})
	if err != nil {
		t.Fatal(err)
	}
	var limit atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := range 4 {
		wg.Go(func() {
			for off := kafkaproto.Offset(g); ; {
				select {
				case <-stop:
					return
				default:
				}
				lim := kafkaproto.Offset(limit.Load())
				next, err := readSome(s, off, lim)
				if errors.Is(err, ErrGone) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if off = next; off >= lim {
					off = kafkaproto.Offset(g)
				}
			}
		})
	}
	for i := range 300 {
		if err := s.Append(makeBatch(s.NextOffset(), 0, 1+i%3, i%200, int64(i)), uint64(i+1)); err != nil {
			t.Fatal(err)
		}
		switch {
		case i%10 == 7:
			if err := s.TruncateTo(kafkaproto.Offset(limit.Load())); err != nil {
				t.Fatal(err)
			}
		case i%10 == 3:
			limit.Store(int64(s.NextOffset()))
		case i%50 == 1:
			if err := s.FlushIndexes(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if _, err := readSome(s, kafkaproto.Offset(i), math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		if err := s.Rename([]string{Swap, ""}[i%2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	wg.Wait()
	if n := files.Open(); n != 0 {
		t.Fatalf("%d handles are left open", n)
	}
}

// readSome reads a range and looks at every batch in it; the bytes of a value say its base offset.
func readSome(s *Segment, off, limit kafkaproto.Offset) (kafkaproto.Offset, error) {
	r, err := s.ReadRange(off, 700, limit, true)
	if err != nil || r.Len == 0 {
		return limit, err
	}
	defer r.Release()
	b := make([]byte, r.Len)
	if err := readFull(r.File, b, r.Pos); err != nil {
		return 0, err
	}
	next := r.First
	_, err = batch.Scan(b, func(_ int, x batch.Batch) (bool, error) {
		if x.BaseOffset() != next || x.NextOffset() > limit {
			return false, kafkaproto.Corruptf("batch %d to %d, expected %d below %d", x.BaseOffset(), x.LastOffset(), next, limit)
		}
		next = x.NextOffset()
		err := x.VerifyCRC()
		if err == nil {
			err = x.Each(1<<20, func(r *batch.Record) (bool, error) {
				if !bytes.Equal(r.Value, bytes.Repeat([]byte{byte(x.BaseOffset())}, len(r.Value))) {
					return false, kafkaproto.Corruptf("value at %d", r.Offset)
				}
				return true, nil
			})
		}
		return true, err
	})
	if err == nil && (r.First > off || next != r.Next) {
		err = kafkaproto.Corruptf("range %d to %d for %d", r.First, r.Next, off)
	}
	return next, err
}

// TestTruncationUnderAReader: a reader whose bytes go away, at any of its reads, answers for what is
// left, and never says that the log is damaged.
func TestTruncationUnderAReader(t *testing.T) {
	for nth := 1; ; nth++ {
		x := makeSample(t, false)
		e := vfs.Inject(x.fs)
		s, err := Open(e, "/", 0, x.o, false)
		if err != nil {
			t.Fatal(err)
		}
		reads := 0
		e.Hook(func(op vfs.Op, name string) error {
			if reads++; op == vfs.OpRead && reads == nth {
				e.Clear()
				if err := s.Truncate(x.ends[1]); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		r, err := s.ReadRange(x.last(), 1<<20, math.MaxInt64, true)
		if err != nil {
			t.Fatalf("read %d: %v", nth, err)
		}
		r.Release()
		if s.Size() != x.ends[1] {
			if nth < 2 {
				t.Fatal("the reader made no read")
			}
			return
		}
	}
}

// TestHandlesAreBounded: many sealed segments read by many readers, few handles.
func TestHandlesAreBounded(t *testing.T) {
	m := vfs.Memory()
	files := NewFileCache(4)
	var all []*Segment
	for i := range 20 {
		s, err := Create(m, "/", kafkaproto.Offset(i*10), 0, Options{IndexInterval: 1, Files: files})
		if err != nil {
			t.Fatal(err)
		}
		for j := range 5 {
			if err := s.Append(makeBatch(kafkaproto.Offset(i*10+j*2), 0, 2, 10, int64(j)), 0); err != nil {
				t.Fatal(err)
			}
		}
		if files.Open() > 4 {
			t.Fatalf("%d handles open: active ones must not count", files.Open())
		}
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 200 {
				s := all[(i*7+g)%len(all)]
				if _, err := readSome(s, s.BaseOffset()+3, math.MaxInt64); err != nil {
					t.Error(err)
				}
				if _, _, found, err := s.FindTime(3, 0); !found || err != nil {
					t.Error(found, err)
				}
			}
		})
	}
	wg.Wait()
	if n := files.Open(); n > 4 {
		t.Fatalf("%d handles open", n)
	}
	// Ranges that are held keep theirs, over the bound.
	var held []Range
	for _, s := range all {
		r, err := s.ReadRange(s.BaseOffset(), 100, math.MaxInt64, true)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, r)
	}
	if n := files.Open(); n != len(all) {
		t.Fatalf("%d handles open for %d ranges", n, len(all))
	}
	for i := range held {
		if err := readFull(held[i].File, make([]byte, held[i].Len), held[i].Pos); err != nil {
			t.Fatal(err)
		}
		held[i].Release()
		held[i].Release() // a second one does nothing
	}
	if n := files.Open(); n > 4 {
		t.Fatalf("%d handles open", n)
	}
	for _, s := range all {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := files.Open(); n != 0 {
		t.Fatalf("%d handles open at the end", n)
	}
}

// TestRebuildBesideReaders: many readers meet a damaged index at once; one of them makes it anew.
func TestRebuildBesideReaders(t *testing.T) {
	for range 20 {
		x := makeSample(t, true)
		if err := x.fs.Remove(fileName(0, extOffset, "")); err != nil {
			t.Fatal(err)
		}
		s, err := x.open(true)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := x.readAll(s); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := x.fs.Stat(fileName(0, extOffset, "")); err != nil {
			t.Fatal(err)
		}
	}
}
