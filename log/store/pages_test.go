package store

import (
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluicelog/sluice/log/vfs"
)

// hintFS notes which ranges of .log files were given back and which were started to be written.
type hintFS struct {
	vfs.FS
	mu    sync.Mutex
	hints []string
}

type hintFile struct {
	vfs.File
	fs *hintFS
}

func (h *hintFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &hintFile{f, h}, nil
}

func (h *hintFS) note(what, name string, off, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hints = append(h.hints, fmt.Sprintf("%s %s %d-%d", what, name, off>>20, (off+n)>>20))
}

func (h *hintFS) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.hints = nil }()
	return h.hints
}

func (f *hintFile) DropCache(off, n int64) error {
	f.fs.note("drop", f.Name(), off, n)
	return f.File.DropCache(off, n)
}

func (f *hintFile) StartWriteback(off, n int64) error {
	f.fs.note("write", f.Name(), off, n)
	return f.File.StartWriteback(off, n)
}

func inPageTest(t *testing.T, budget int64, f func(h *hintFS, s *Store)) {
	synctest.Test(t, func(t *testing.T) {
		h := &hintFS{FS: vfs.Memory()}
		o := testOptions(t, h, nil)
		o.PageCache = budget
		s := openStore(t, o)
		h.take()
		f(h, s)
		closeStore(t, s)
	})
}

// appendMiB appends n batches of one MiB and a little.
func appendMiB(t *testing.T, l *Log, n int) {
	t.Helper()
	value := strings.Repeat("x", 1<<20)
	for range n {
		appendTo(t, l, values(1, value))
	}
}

func TestPagesBeyondTheBudgetAreGivenBack(t *testing.T) {
	inPageTest(t, 8<<20, func(h *hintFS, s *Store) {
		a, b := openLog(t, s, 1, Config{Strict: true}), openLog(t, s, 2, Config{Strict: true, SegmentBytes: 3 << 20})
		appendMiB(t, a, 6)
		appendMiB(t, b, 17)
		synctest.Wait()
		if got := h.take(); len(got) != 0 {
			t.Fatalf("given back within the budget and its slack: %q", got)
		}
		appendMiB(t, a, 3)
		synctest.Wait()
		got := h.take()
		// The six of a, oldest first, and of b what is more than 8 MiB old when the worker comes to it.
		if len(got) < 16 || got[0] != "drop /data/topic1-0/00000000000000000000.log 0-1" ||
			got[5] != "drop /data/topic1-0/00000000000000000000.log 1-6" ||
			got[6] != "drop /data/topic2-0/00000000000000000000.log 0-1" {
			t.Fatalf("given back: %q", got)
		}
		for _, hint := range got {
			if strings.Contains(hint, "-9") || strings.HasPrefix(hint, "write") {
				t.Errorf("given back: %q, which is new or strict", hint)
			}
		}
	})
}

func TestPagesOfRelaxedLogsAreWrittenSoon(t *testing.T) {
	inPageTest(t, 8<<20, func(h *hintFS, s *Store) {
		appendMiB(t, openLog(t, s, 1, Config{}), 2)
		synctest.Wait()
		if got := h.take(); len(got) == 0 || got[0] != "write /data/topic1-0/00000000000000000000.log 0-1" {
			t.Fatalf("started to write: %q", got)
		}
	})
}

func TestPagesThatAReaderComesToAreKept(t *testing.T) {
	inPageTest(t, 1<<20, func(h *hintFS, s *Store) {
		l := openLog(t, s, 1, Config{Strict: true})
		appendMiB(t, l, 10)
		r, err := l.Read(5, 1, l.EndOffset(), true)
		if err != nil {
			t.Fatal(err)
		}
		r.Release()
		appendMiB(t, l, 20)
		synctest.Wait()
		got := h.take()
		if len(got) != 5 {
			t.Fatalf("given back with a reader at offset 5: %q", got)
		}
	})
}

func TestPagesOfADeletedLogAreForgotten(t *testing.T) {
	inPageTest(t, 1<<20, func(h *hintFS, s *Store) {
		l, other := openLog(t, s, 1, Config{Strict: true}), openLog(t, s, 2, Config{Strict: true})
		appendMiB(t, l, 10)
		if err := s.DeleteLog(l.id); err != nil {
			t.Fatal(err)
		}
		appendMiB(t, other, 20)
		synctest.Wait()
		if got := h.take(); len(got) == 0 {
			t.Fatal("nothing was given back")
		}
	})
}

func TestPagesAreTheKernelsWithoutABudget(t *testing.T) {
	inPageTest(t, 0, func(h *hintFS, s *Store) {
		appendMiB(t, openLog(t, s, 1, Config{}), 40)
		synctest.Wait()
		if got := h.take(); len(got) != 0 {
			t.Fatalf("given back: %q", got)
		}
	})
}
