package store

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

// TestNoSpace fills the disk: the batch that does not fit is undone, reads go on, and writes resume
// by themselves when there is space again (ruling 6).
func TestNoSpace(t *testing.T) {
	fsys, clk := vfs.Inject(vfs.Memory()), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	s := openStore(t, o)
	l := openLog(t, s, 1, Config{SegmentBytes: 1000})
	var want []string
	fill := func(n int) (failed int) {
		for range n {
			v := fmt.Sprint("value", len(want))
			_, err := l.Append(values(1, v), AppendOptions{})
			if err == nil {
				want = append(want, v)
				continue
			}
			failed++
			if kafkaproto.Code(err) != kerr.KafkaStorageError.Code || !vfs.IsNoSpace(err) {
				t.Fatalf("append on a full disk: %v", err)
			}
		}
		return failed
	}
	for _, budget := range []int64{0, 1, 30, 61, 75, 200, 1500} {
		fsys.SetBudget(budget)
		if fill(40) == 0 {
			t.Fatalf("budget %d: no append failed", budget)
		}
		if err := l.Offline(); err != nil {
			t.Fatalf("budget %d: %v", budget, err)
		}
		wantValues(t, readAll(t, l, 0), 0, want)
		fsys.Clear()
		if n := fill(5); n != 0 {
			t.Fatalf("budget %d: %d appends failed with space", budget, n)
		}
		wantValues(t, readAll(t, l, 0), 0, want)
		checkIndexes(t, l)
	}
	closeStore(t, s)
	s = openStore(t, o)
	defer closeStore(t, s)
	l = openLog(t, s, 1, Config{})
	wantValues(t, readAll(t, l, 0), 0, want)
	checkIndexes(t, l)
}

// TestReserve refuses appends while only the reserve is left, those of internal logs excepted.
func TestReserve(t *testing.T) {
	fsys, clk := vfs.Inject(vfs.Memory()), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	o.Reserve = 1 << 20
	fsys.SetBudget(8 << 20)
	s := openStore(t, o)
	defer closeStore(t, s)
	l, internal := openLog(t, s, 1, Config{}), openLog(t, s, 2, Config{Internal: true})
	appendTo(t, l, values(1, "a"))
	fsys.SetBudget(1000)
	settle(s)
	s.space.exhausted()
	settle(s)
	if _, err := l.Append(values(1, "b"), AppendOptions{}); !errors.Is(err,
		kerr.KafkaStorageError) || !s.LowOnSpace() {
		t.Fatalf("append into the reserve: %v, low %v", err, s.LowOnSpace())
	}
	appendTo(t, internal, values(1, "c"))
	fsys.SetBudget(8 << 20)
	settle(s)
	if s.LowOnSpace() {
		t.Error("low on space with room for 8 MiB")
	}
	appendTo(t, l, values(1, "d"))
	wantValues(t, readAll(t, l, 0), 0, []string{"a", "d"})
}

// TestWriteError takes one log offline when a failed write cannot be cut back.
func TestWriteError(t *testing.T) {
	fsys, clk := vfs.Inject(vfs.Memory()), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	s := openStore(t, o)
	l, other := openLog(t, s, 1, Config{}), openLog(t, s, 2, Config{})
	failed := make(chan Event, 10)
	l.Observe(func(ev Event) {
		if ev.Kind == Failed {
			failed <- ev
		}
	})
	appendTo(t, l, values(1, "a", "b"))
	commitAll(t, l)
	fsys.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.log", Err: syscall.EIO, Short: 20})
	fsys.Add(vfs.Rule{Op: vfs.OpTruncate, Glob: "*.log", Err: syscall.EIO})
	if _, err := l.Append(values(1, "c"),
		AppendOptions{}); kafkaproto.Code(err) != kerr.KafkaStorageError.Code {
		t.Fatalf("append: %v", err)
	}
	if ev := <-failed; ev.Err == nil || l.Offline() == nil {
		t.Fatalf("event %+v, offline %v", ev, l.Offline())
	}
	if _, err := l.Append(values(1, "c"), AppendOptions{}); err == nil {
		t.Fatal("an append to an offline log succeeded")
	}
	wantValues(t, readAll(t, l, 0), 0, []string{"a", "b"})
	appendTo(t, other, values(1, "x"))
	closeStore(t, s)
	if _, err := l.Read(0, 1<<10, 2, true); err == nil { // and not a search for segments without end
		t.Error("a broken log was read after it was closed")
	}
	if _, err := l.OffsetForTime(1, 2); err == nil {
		t.Error("a broken log was searched after it was closed")
	}
	s = openStore(t, o)
	defer closeStore(t, s)
	l = openLog(t, s, 1, Config{})
	wantValues(t, readAll(t, l, 0), 0, []string{"a", "b"})
	appendTo(t, l, values(1, "c"))
}

// TestSyncError stops the whole directory: nobody tries a sync again (rulings 5, 6).
func TestSyncError(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpSync, vfs.OpSyncFS} {
		fsys, clk := vfs.Inject(vfs.Memory()), clock.NewManual(testStart)
		o := testOptions(t, fsys, clk)
		var told atomic.Int32
		stopped := make(chan struct{})
		o.OnFailed = func(err error) {
			told.Add(1)
			close(stopped)
		}
		s := openStore(t, o)
		var logs []*Log
		for n := range byte(4) {
			logs = append(logs, openLog(t, s, n, Config{Strict: true}))
		}
		fsys.Add(vfs.Rule{Op: op, Times: -1, Err: syscall.EIO})
		var syncs atomic.Int32
		fsys.Hook(func(op vfs.Op, name string) error {
			if op == vfs.OpSync && path.Ext(name) == ".log" || op == vfs.OpSyncFS {
				syncs.Add(1)
			}
			return nil
		})
		if op == vfs.OpSync {
			_, _ = logs[0].Append(values(1, "a"), AppendOptions{})
		} else {
			s.committer.mu.Lock() // so that one round takes all of them
			for _, l := range logs {
				l.queued.Store(true)
				_, _ = l.Append(values(1, "a"), AppendOptions{})
				s.committer.mu.queue = append(s.committer.mu.queue, l)
			}
			s.committer.mu.Unlock()
			s.committer.kick()
		}
		<-stopped
		for _, l := range logs {
			if l.Offline() == nil || l.SyncedOffset() >= l.EndOffset() && l.EndOffset() > 0 {
				t.Errorf("%s: offline %v, synced %d of %d", l.TP(), l.Offline(), l.SyncedOffset(),
					l.EndOffset())
			}
			if _, err := l.Append(values(1, "b"), AppendOptions{}); err == nil {
				t.Error("append after a failed sync succeeded")
			}
			if err := l.Flush(); err == nil {
				t.Error("flush after a failed sync succeeded")
			}
		}
		before := syncs.Load()
		if err := s.Close(); err == nil || !strings.Contains(err.Error(), "stopped") {
			t.Errorf("close: %v", err)
		}
		if now := syncs.Load(); now != before || told.Load() != 1 {
			t.Errorf("%d syncs after the failed one, told %d times", now-before, told.Load())
		}
	}
}

// TestOpenRefuses what is not one data directory of this release.
func TestOpenRefuses(t *testing.T) {
	clk := clock.NewManual(testStart)
	refused := func(o Options, text string) {
		t.Helper()
		s, err := Open(o)
		if err == nil {
			closeStore(t, s)
			t.Fatalf("opened; want %q", text)
		}
		if !strings.Contains(err.Error(), text) {
			t.Fatalf("error %q does not say %q", err, text)
		}
	}
	o := testOptions(t, vfs.Memory(), clk)
	o.Dir = "/a,/b"
	refused(o, "log.dirs holds a list")

	o = testOptions(t, vfs.Memory(), clk)
	s := openStore(t, o)
	refused(o, "locked")
	closeStore(t, s)
	if err := vfs.WriteFileAtomic(o.FS, path.Join(o.Dir, formatFile),
		[]byte("version: 2\n")); err != nil {
		t.Fatal(err)
	}
	refused(o, "newer release")
	if err := vfs.WriteFileAtomic(o.FS, path.Join(o.Dir, formatFile), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	refused(o, "no format version")

	o = testOptions(t, vfs.Memory(), clk)
	s = openStore(t, o)
	openLog(t, s, 1, Config{})
	closeStore(t, s)
	if err := o.FS.Remove(path.Join(o.Dir, formatFile)); err != nil {
		t.Fatal(err)
	}
	refused(o, "sluice log import")
}
