package store

import (
	"fmt"
	"path"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// wantEpochFile compares leader-epoch-checkpoint with Kafka's format, byte for byte.
func wantEpochFile(t *testing.T, l *Log, when, want string) {
	t.Helper()
	if l.store.o.knobs.manual {
		l.store.janitor.pass()
	} else {
		settle(l.store)
	}
	got, err := vfs.ReadFile(l.store.fs, path.Join(l.dir, segment.EpochFile), 1<<10)
	if err != nil || string(got) != want {
		t.Fatalf("%s: leader-epoch-checkpoint is %q (%v), want %q", when, got, err, want)
	}
}

// TestEpochFile: the file follows starts, new epochs, truncation and the log start, while the log is
// open, since Kafka's tools and whoever copies the directory read it.
func TestEpochFile(t *testing.T) {
	fsys, clk := vfs.PowerLoss(1), clock.NewManual(testStart)
	start := func() (*Store, *Log) {
		s := openStore(t, testOptions(t, fsys, clk))
		return s, openLog(t, s, 1, Config{SegmentBytes: 1 << 20, Strict: true})
	}
	s, l := start()
	wantEpochFile(t, l, "first start", "0\n1\n1 0\n")
	appendTo(t, l, values(1, "a", "b"))
	closeStore(t, s)
	s, l = start()
	wantEpochFile(t, l, "second start", "0\n2\n1 0\n2 2\n")
	appendTo(t, l, values(1, "c", "d"))
	commitAll(t, l)
	fsys = fsys.Crash(vfs.KillCrash)
	_ = s.Close() // it has crashed
	s, l = start()
	wantEpochFile(t, l, "start after a kill", "0\n3\n1 0\n2 2\n3 4\n")
	if err := l.DeleteRecords(3); err != nil {
		t.Fatal(err)
	}
	wantEpochFile(t, l, "log start", "0\n2\n2 3\n3 4\n")
	closeStore(t, s)
	name := path.Join(l.dir, segment.EpochFile)
	if err := fsys.Remove(name); err != nil {
		t.Fatal(err)
	}
	s, l = start()
	closeStore(t, s)
	if _, err := fsys.Stat(name); err != nil {
		t.Errorf("it was not made again: %v", err)
	}
}

// replicaOf opens the log in its replicated form, with steps run by the test.
func replicaOf(t *testing.T, fsys vfs.FS, clk *clock.Manual, cfg Config) (*Store, *Log) {
	t.Helper()
	o := testOptions(t, fsys, clk)
	o.knobs = knobs{manual: true}
	s := openStore(t, o)
	l := must(s.OpenLog(testID(1), testTP(1), cfg))
	if err := l.StartReplica(pb.ConfState{Voters: []uint64{1, 2, 3}}); err != nil {
		t.Fatal(err)
	}
	return s, l
}

// entriesFrom makes entries behind the log's last one: a no-op of the term, and n batches.
func entriesFrom(l *Log, index, term uint64, at kafkaproto.Offset, n int) []Entry {
	out := []Entry{{Index: index, Term: term, Kind: EntryNoop}}
	for i := range n {
		b := values(1, fmt.Sprint("term ", term))
		b.SetBaseOffset(at + kafkaproto.Offset(i))
		b.SetLeaderEpoch(kafkaproto.LeaderEpoch(term))
		out = append(out, Entry{Index: index + 1 + uint64(i), Term: term, Kind: EntryData, Batch: b})
	}
	return out
}

func appendEntries(t *testing.T, l *Log, ents []Entry) {
	t.Helper()
	if _, err := l.AppendEntries(ents); err != nil {
		t.Fatal(err)
	}
}

// TestEpochFileOfReplica: epochs that were cut off leave the file, and are not found again below the
// window, where the file is all that tells of epochs: whatever of it a power cut takes back.
func TestEpochFileOfReplica(t *testing.T) {
	for seed := range uint64(40) {
		fsys, clk := vfs.PowerLoss(seed), clock.NewManual(testStart)
		cfg := Config{SegmentBytes: 1 << 20, Strict: true}
		s, l := replicaOf(t, fsys, clk, cfg)
		appendEntries(t, l, entriesFrom(l, 1, 1, 0, 3)) // offsets 0 to 2
		appendEntries(t, l, entriesFrom(l, 5, 4, 3, 1))
		wantEpochFile(t, l, "two epochs", "0\n2\n1 0\n4 3\n")
		if err := s.fs.SyncFS("/"); err != nil {
			t.Fatal(err)
		}
		appendEntries(t, l, entriesFrom(l, 4, 6, 2, 3)) // in the place of all from entry 4 on
		wantEpochFile(t, l, "truncated", "0\n2\n1 0\n6 2\n")
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		appendEntries(t, l, []Entry{{Index: 8, Term: 6, Kind: EntryLogStart, Data: journal.LogStartData(1)}})
		appendEntries(t, l, entriesFrom(l, 9, 8, 5, 1))
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.SaveHardState(pb.HardState{Term: 8, Commit: 10}); err != nil {
			t.Fatal(err)
		}
		l.CommitEntries(10, 6)
		moveWindow(t, l)
		fsys = fsys.Crash(vfs.PowerCrash)
		_ = s.Close() // it has crashed
		s, l = replicaOf(t, fsys, clk, cfg)
		for off, want := range []kafkaproto.LeaderEpoch{1: 1, 2: 6, 3: 6, 4: 6} {
			if got := l.EpochOf(kafkaproto.Offset(off)); off > 0 && got != want {
				t.Fatalf("seed %d: offset %d has epoch %d, want %d: %v", seed, off, got, want, *l.epochs.Load())
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// moveWindow makes raft's window begin at the active segment, as a cleaning of those before it does.
func moveWindow(t *testing.T, l *Log) {
	t.Helper()
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	l.mu.Lock()
	recs := l.windowLocked(l.mu.active, 0)
	l.mu.Unlock()
	if recs == nil {
		t.Fatal("the window may not move")
	}
	if err := l.commitWindow(recs); err != nil {
		t.Fatal(err)
	}
}
