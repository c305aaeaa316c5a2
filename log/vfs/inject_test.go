package vfs

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func TestInjectRules(t *testing.T) {
	e := Inject(Memory(), Rule{Op: OpWrite, Glob: "*.log", Nth: 2, Times: 2, Short: 3, Err: syscall.ENOSPC})
	log := create(t, e, "x.log", "12345") // the first write passes
	for range 2 {
		n, err := log.WriteAt([]byte("67890"), 5)
		if n != 3 || !errors.Is(err, syscall.ENOSPC) || !IsNoSpace(err) {
			t.Fatalf("write: %d, %v; want 3, ENOSPC", n, err)
		}
		wantContent(t, e, "x.log", "12345678")
	}
	if _, err := log.WriteAt([]byte("67890"), 5); err != nil {
		t.Fatal(err)
	}
	create(t, e, "x.index", "12345")
	create(t, e, "y.index", "12345")
}

// TestInjectEveryOp: each kind of call can be made to fail, does nothing then, and works again
// after Clear.
func TestInjectEveryOp(t *testing.T) {
	e := Inject(Memory())
	f := create(t, e, "a", "12345")
	calls := map[Op]func() error{
		OpOpen:     func() error { _, err := Open(e, "a"); return err },
		OpCreate:   func() error { _, err := Create(e, "b"); return err },
		OpRead:     func() error { _, err := f.ReadAt(make([]byte, 1), 0); return err },
		OpWrite:    func() error { _, err := f.WriteAt([]byte("x"), 0); return err },
		OpTruncate: func() error { return f.Truncate(3) },
		OpSync:     f.Sync,
		OpSyncDir:  func() error { return e.SyncDir("/") },
		OpSyncFS:   func() error { return e.SyncFS("/") },
		OpRename:   func() error { return e.Rename("a", "c") },
		OpRemove:   func() error { return e.RemoveAll("c") },
		OpMkdir:    func() error { return e.MkdirAll("d", 0o755) },
		OpReadDir:  func() error { _, err := e.ReadDir("/"); return err },
	}
	if len(calls) != 12 || OpAny != 1<<12-1 {
		t.Fatal("an operation is missing")
	}
	e.Add(Rule{Op: OpAny, Times: -1})
	for op, call := range calls {
		if err := call(); !errors.Is(err, syscall.EIO) {
			t.Errorf("op %b: %v, want EIO", op, err)
		}
	}
	e.Clear()
	wantContent(t, e, "a", "12345")
	if entries, _ := e.ReadDir("/"); len(entries) != 1 {
		t.Fatalf("failed calls left %v", entries)
	}
	for op := OpOpen; op < OpAny; op <<= 1 {
		if err := calls[op](); err != nil {
			t.Errorf("op %b after Clear: %v", op, err)
		}
	}
}

func TestInjectHook(t *testing.T) {
	e := Inject(Memory())
	var seen []string
	e.Hook(func(op Op, name string) error {
		seen = append(seen, name)
		if len(seen) == 3 {
			return syscall.EINTR
		}
		return nil
	})
	f, err := Create(e, "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); !errors.Is(err, syscall.EINTR) {
		t.Fatalf("the third call gives %v", err)
	}
	if strings.Join(seen, " ") != "a a a" {
		t.Fatalf("seen %q", seen)
	}
}

func TestInjectBudget(t *testing.T) {
	e := Inject(Memory())
	e.SetBudget(10)
	f := create(t, e, "a", "1234567")
	if n, err := f.WriteAt([]byte("890XY"), 7); n != 3 || !IsNoSpace(err) {
		t.Fatalf("write on a full disk: %d, %v; want 3, ENOSPC", n, err)
	}
	if n, err := f.WriteAt([]byte("abc"), 2); n != 3 || err != nil {
		t.Fatalf("overwriting needs no space: %d, %v", n, err)
	}
	if err := f.Truncate(4); err != nil {
		t.Fatal(err)
	}
	if free, _ := e.Free("/"); free != 6 {
		t.Fatalf("free is %d after cutting, want 6", free)
	}
	g := create(t, e, "b", "123456")
	if n, err := g.WriteAt([]byte("7"), 6); n != 0 || !IsNoSpace(err) {
		t.Fatalf("write on a full disk: %d, %v; want 0, ENOSPC", n, err)
	}
	if err := e.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if free, _ := e.Free("/"); free != 4 {
		t.Fatalf("free is %d after removing, want 4", free)
	}
	if err := e.Rename("b", "c"); err != nil {
		t.Fatal(err)
	}
	create(t, e, "d", "12")
	if err := e.Rename("d", "c"); err != nil {
		t.Fatal(err)
	}
	if free, _ := e.Free("/"); free != 8 {
		t.Fatalf("free is %d after replacing, want 8", free)
	}
	create(t, e, "c", "")
	if free, _ := e.Free("/"); free != 10 {
		t.Fatalf("free is %d after emptying, want 10", free)
	}
}
