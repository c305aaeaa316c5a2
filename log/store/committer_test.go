package store

import (
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

// appendTogether appends to all logs and has one round take them all.
func appendTogether(t *testing.T, s *Store, logs []*Log) {
	t.Helper()
	s.committer.mu.Lock()
	for _, l := range logs {
		l.queued.Store(true)
		s.committer.mu.queue = append(s.committer.mu.queue, l)
	}
	for _, l := range logs {
		if _, err := l.Append(values(1, "a"), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.committer.mu.Unlock()
	s.committer.kick()
	for _, l := range logs {
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if l.SyncedOffset() != l.EndOffset() {
			t.Fatalf("synced %d of %d", l.SyncedOffset(), l.EndOffset())
		}
	}
}

// TestCommitterChooses one syncfs for many files, and goes over to single syncs while syncfs is
// slow
// (ruling 11).
func TestCommitterChooses(t *testing.T) {
	fsys, clk := vfs.Inject(vfs.Memory()), clock.NewManual(testStart)
	s := openStore(t, testOptions(t, fsys, clk))
	defer closeStore(t, s)
	var logs []*Log
	for n := range byte(8) {
		logs = append(logs, openLog(t, s, n, Config{Strict: true}))
	}
	var syncFS, sync atomic.Int32
	var slow atomic.Bool
	fsys.Hook(func(op vfs.Op, name string) error {
		switch {
		case op == vfs.OpSyncFS:
			syncFS.Add(1)
			if slow.Load() {
				clk.Advance(300 * time.Millisecond)
			}
		case op == vfs.OpSync && path.Ext(name) == ".log":
			sync.Add(1)
			clk.Advance(time.Millisecond)
		}
		return nil
	})
	rounds0, took0 := s.Syncs()
	appendTogether(t, s, logs[:1])
	if n, took := s.Syncs(); n != rounds0+1 || took != took0+time.Millisecond {
		t.Errorf("one round of 1 ms is counted as %d rounds of %v", n-rounds0, took-took0)
	}
	if syncFS.Load() != 0 || sync.Load() != 1 {
		t.Fatalf("one log: %d syncfs, %d syncs", syncFS.Load(), sync.Load())
	}
	appendTogether(t, s, logs)
	if syncFS.Load() != 1 || sync.Load() != 1 {
		t.Fatalf("8 logs: %d syncfs, %d syncs", syncFS.Load(), sync.Load())
	}
	slow.Store(true)
	rounds := 3 * retryRounds
	for range rounds {
		appendTogether(t, s, logs)
	}
	if n := int(syncFS.Load()); n < 3 || n > 8 {
		t.Fatalf("%d syncfs in %d rounds although each is slow", n, rounds)
	}
	slow.Store(false)
	before := syncFS.Load()
	for range rounds {
		appendTogether(t, s, logs)
	}
	if n := int(syncFS.Load() - before); n < rounds/2 {
		t.Fatalf("%d syncfs in %d rounds now that it is quick again", n, rounds)
	}
}

// TestRelaxedWindow syncs a relaxed log by flush.messages, by flush.ms, and in the background.
func TestRelaxedWindow(t *testing.T) {
	clk := clock.NewManual(testStart)
	s := openStore(t, testOptions(t, vfs.Memory(), clk))
	defer closeStore(t, s)
	synced := make(chan kafkaproto.Offset, 100)
	observe := func(l *Log) *Log {
		l.Observe(func(ev Event) {
			if ev.Kind == Synced {
				synced <- ev.Offset
			}
		})
		return l
	}
	l := observe(openLog(t, s, 1, Config{FlushMessages: 3}))
	for i := range 2 {
		appendTo(t, l, values(1, "a"))
		if l.HighWatermarkBound() != kafkaproto.Offset(i+1) {
			t.Fatalf("bound %d", l.HighWatermarkBound())
		}
	}
	if l.SyncedOffset() != 0 {
		t.Fatalf("synced %d before flush.messages", l.SyncedOffset())
	}
	appendTo(t, l, values(1, "a"))
	if got := <-synced; got != 3 {
		t.Fatalf("synced %d", got)
	}
	l = observe(openLog(t, s, 2, Config{FlushInterval: 700 * time.Millisecond}))
	appendTo(t, l, values(1, "a"))
	clk.Advance(600 * time.Millisecond)
	settle(s)
	if l.SyncedOffset() != 0 {
		t.Fatalf("synced %d before flush.ms", l.SyncedOffset())
	}
	clk.Advance(200 * time.Millisecond)
	if got := <-synced; got != 1 {
		t.Fatalf("synced %d", got)
	}
	l = observe(openLog(t, s, 3, Config{}))
	appendTo(t, l, values(1, "a"))
	for range 6 {
		clk.Advance(time.Second)
		settle(s)
	}
	if got := <-synced; got != 1 {
		t.Fatalf("synced %d", got)
	}
	l.SetConfig(Config{Strict: true})
	appendTo(t, l, values(1, "a"))
	if got := <-synced; got != 2 {
		t.Fatalf("synced %d", got)
	}
}

// TestMarks writes synced marks to the journal within about a second, also when no more syncs come.
func TestMarks(t *testing.T) {
	clk := clock.NewManual(testStart)
	s := openStore(t, testOptions(t, vfs.Memory(), clk))
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{Strict: true})
	appendTo(t, l, values(1, "a", "b"))
	commitAll(t, l)
	mark := func() kafkaproto.Offset {
		g, _ := s.journal.Group(l.id)
		return g.Synced.Offset
	}
	for range 30 { // the committer's timer, and its round, are not ours to wait for
		clk.Advance(markSync / 4)
		settle(s)
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if mark() == 2 && !s.journal.Dirty() {
			return
		}
	}
	t.Fatalf("mark %d, journal dirty %v", mark(), s.journal.Dirty())
}
