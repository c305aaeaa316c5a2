package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// snapshotSource is a leader's log: a few segments with transactions in them, some open, a log start inside
// of the first, and entries at the end that are not committed.
func snapshotSource(t *testing.T) (*Store, *Log) {
	t.Helper()
	s, l := replicaOf(t, vfs.Memory(), clock.NewManual(testStart), Config{SegmentBytes: 700, Strict: true})
	index, term, end := uint64(1), uint64(3), kafkaproto.Offset(0)
	put := func(e Entry) {
		e.Index, e.Term = index, term
		if e.Kind == EntryData {
			e.Batch.SetBaseOffset(end)
			e.Batch.SetLeaderEpoch(kafkaproto.LeaderEpoch(term))
			end = e.Batch.NextOffset()
		}
		appendEntries(t, l, []Entry{e})
		index++
	}
	put(Entry{Kind: EntryNoop})
	for i := range 30 {
		put(Entry{Kind: EntryData, Batch: produced(2, int32(i), true, fmt.Sprint("value", i))})
		if i%7 == 6 {
			kind := batch.Abort
			if i%2 == 0 {
				kind = batch.Commit
			}
			put(Entry{Kind: EntryData, Batch: batch.Control(kind, 0, 2, 0, testStart.UnixMilli())})
		}
		if i == 12 {
			term = 5
			put(Entry{Kind: EntryNoop})
		}
	}
	put(Entry{Kind: EntryLogStart, Data: LogStartProposal(2)[1:]})
	put(Entry{Kind: EntryData, Batch: produced(2, 30, true, "not committed")})
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	l.CommitEntries(index-2, end-1)
	s.janitor.pass()
	return s, l
}

// take stages what x exports.
func take(l *Log, x *Export, change func(i int, p []byte)) (*Staging, error) {
	m, err := ParseManifest(x.Manifest.Append(nil))
	if err != nil {
		return nil, err
	}
	st, err := l.Stage(m)
	if err != nil {
		return nil, err
	}
	for i, s := range m.Segments {
		p := make([]byte, s.Size)
		if _, err := x.ReadAt(i, p, 0); err != nil {
			return st, err
		}
		if change != nil {
			change(i, p)
		}
		if err := errors.Join(st.Write(i, p[:s.Size/3]), st.Write(i, p[s.Size/3:])); err != nil {
			return st, err
		}
	}
	return st, st.Finish()
}

func mustExport(t *testing.T, l *Log) *Export {
	t.Helper()
	x, err := l.Export()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// sameAsSource holds a log that a snapshot was installed in against the one it came from.
func sameAsSource(t *testing.T, l, from *Log, x *Export) {
	t.Helper()
	m := &x.Manifest
	first, _ := l.RaftStorage().FirstIndex()
	last, _ := l.RaftStorage().LastIndex()
	term, err := l.RaftStorage().Term(last)
	if first != m.Index+1 || last != m.Index || term != m.Term || err != nil {
		t.Fatalf("entries %d to %d of term %d (%v), want the snapshot of %d, %d", first, last, term, err, m.Index, m.Term)
	}
	if l.StartOffset() != m.LogStart || l.EndOffset() != m.Next || l.HighWatermark() != m.Next ||
		l.SyncedOffset() != m.Next {
		t.Fatalf("log [%d, %d), committed %d, synced %d, want %+v", l.StartOffset(), l.EndOffset(), l.HighWatermark(),
			l.SyncedOffset(), m)
	}
	if got, want := readAll(t, l, m.LogStart), readAll(t, from, m.LogStart); !slices.Equal(got, want[:len(got)]) ||
		len(got) != len(want)-1 {
		t.Fatalf("%d records, want %d", len(got), len(want)-1)
	}
	got, err := l.Aborted(m.LogStart, m.Next)
	want, err2 := from.Aborted(m.LogStart, m.Next)
	if err := errors.Join(err, err2); err != nil || len(want) == 0 || !slices.Equal(got, want) {
		t.Fatalf("aborted %v, want %v, %v", got, want, err)
	}
	if !slices.Equal(l.keptEpochs(), from.keptEpochs()) {
		t.Fatalf("epochs %v, want %v", l.keptEpochs(), from.keptEpochs())
	}
	state, _, err := producer.Load(m.Producers, producer.Options{})
	if err != nil || producer.Diff(l.prod.state, state) != "" || l.LastStable(m.Next) == m.Next {
		t.Fatalf("producers: %s, %v; last stable %d", producer.Diff(l.prod.state, state), err, l.LastStable(m.Next))
	}
}

// TestInstallCrash stops the follower's machine at every call that changes its disk, from the staging to the
// end of the install. What it finds then is the old log or the new one, whole, and nothing beside it.
func TestInstallCrash(t *testing.T) {
	s, from := snapshotSource(t)
	defer closeStore(t, s)
	x := mustExport(t, from)
	defer x.Close()
	run := tier.Of(t, 1, 0)
	for _, kind := range []vfs.CrashKind{vfs.KillCrash, vfs.PowerCrash} {
		seeds, step, ops, installed := min(run.Amount, 10), 3, 0, 0
		if seeds > 1 {
			step = 1
		}
		if testing.Short() {
			step = 9
		}
		for hit := true; hit; ops += step {
			for seed := range seeds {
				var new bool
				hit, new = installCrash(t, from, x, kind, ops, run.Seed+seed)
				if new && hit {
					installed++
				}
			}
		}
		if ops < 60 || installed < 5 {
			t.Fatalf("%d operations, %d crashes behind the point of no return", ops, installed)
		}
	}
	run.Report(t, "at every operation of an install")
}

const oldEntries = 50

func installCrash(t *testing.T, from *Log, x *Export, kind vfs.CrashKind, op int, seed uint64) (hit, installed bool) {
	power := vfs.PowerLoss(uint64(op)*10 + seed)
	fsys, clk := vfs.Inject(power), clock.NewManual(testStart)
	cfg := Config{SegmentBytes: 400, Strict: true}
	s, l := replicaOf(t, fsys, clk, cfg)
	// Another leader's entries, more than the snapshot has, of which one is committed. The clean stop leaves
	// a producer state of their end.
	appendEntries(t, l, entriesFrom(l, 1, 1, 0, oldEntries-1))
	l.CommitEntries(1, 0)
	closeStore(t, s)
	s, l = replicaOf(t, fsys, clk, cfg)
	l.CommitEntries(1, 0)
	var left atomic.Int64
	left.Store(int64(op))
	fsys.Hook(func(o vfs.Op, _ string) error {
		if o&mutating != 0 && left.Add(-1) < 0 {
			return vfs.ErrCrashed
		}
		return nil
	})
	st, err := take(l, x, nil)
	if err == nil {
		_, err = l.InstallSnapshot(x.Snapshot, st)
	}
	hit = left.Load() < 0
	if !hit && err != nil {
		t.Fatal(err)
	}
	if !hit {
		sameAsSource(t, l, from, x)
	}
	power = power.Crash(kind)
	_ = s.Close() // it has crashed
	defer func() {
		if t.Failed() {
			t.Logf("crash kind %d at operation %d, seed %d", kind, op, seed)
		}
	}()
	s, l = replicaOf(t, power, clk, cfg)
	if last, _ := l.RaftStorage().LastIndex(); last == x.Manifest.Index {
		installed = true
	} else if last != oldEntries || l.EndOffset() != oldEntries-1 {
		t.Fatalf("entries up to %d, offsets up to %d: neither the old log nor the new one", last, l.EndOffset())
	} else if !hit {
		t.Fatal("the snapshot is lost")
	}
	nothingStaged(t, l)
	if !installed { // and it can be done again
		st, err := take(l, x, nil)
		if err == nil {
			_, err = l.InstallSnapshot(x.Snapshot, st)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sameAsSource(t, l, from, x)
	goOn(t, l, x)
	closeStore(t, s)
	s, l = replicaOf(t, power, clk, cfg)
	if l.EndOffset() != x.Manifest.Next+3 || l.raft.last.Load() != x.Manifest.Index+4 {
		t.Fatalf("after a restart: entries up to %d, offsets up to %d", l.raft.last.Load(), l.EndOffset())
	}
	checkIndexes(t, l)
	closeStore(t, s)
	return hit, installed
}

// nothingStaged: no file is left that nobody will ask for.
func nothingStaged(t *testing.T, l *Log) {
	t.Helper()
	entries, err := l.store.fs.ReadDir(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), segment.Swap) || strings.HasSuffix(e.Name(), segment.Deleted) {
			t.Fatalf("%s is left", e.Name())
		}
	}
}

// goOn appends entries of a new leader behind the snapshot.
func goOn(t *testing.T, l *Log, x *Export) {
	t.Helper()
	appendEntries(t, l, entriesFrom(l, x.Manifest.Index+1, x.Manifest.Term+1, x.Manifest.Next, 3))
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, l)
}

// TestInstallRefuses: what a peer sends is checked before anything of the log is touched.
func TestInstallRefuses(t *testing.T) {
	src, from := snapshotSource(t)
	defer closeStore(t, src)
	x := mustExport(t, from)
	defer x.Close()
	s, l := replicaOf(t, vfs.Memory(), clock.NewManual(testStart), Config{Strict: true})
	defer func() { closeStore(t, s) }()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		st, err := take(l, x, func(i int, p []byte) {
			if i == len(x.Manifest.Segments)/2 {
				p[rng.IntN(len(p))] ^= 1 << rng.IntN(8)
			}
		})
		if !kafkaproto.IsCorrupt(err) {
			t.Fatalf("a flipped bit was taken: %v", err)
		}
		if _, err := l.InstallSnapshot(x.Snapshot, st); err == nil {
			t.Fatal("an unfinished staging was installed")
		}
		if err := st.Discard(); err != nil {
			t.Fatal(err)
		}
		nothingStaged(t, l)
	}
	short := *x
	short.Manifest.Producers = short.Manifest.Producers[:20]
	if st, err := take(l, &short, nil); err == nil || errors.Join(st.Discard()) != nil {
		t.Fatalf("producer state was not looked at: %v", err)
	}
	st, err := take(l, x, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Stage(&x.Manifest); err == nil {
		t.Fatal("two stagings at a time")
	}
	other := x.Snapshot
	other.Metadata.Index++
	if _, err := l.InstallSnapshot(other, st); err == nil {
		t.Fatal("installed under another index")
	}
	ticket, err := l.InstallSnapshot(x.Snapshot, st)
	if err != nil || ticket == 0 {
		t.Fatal(ticket, err)
	}
	sameAsSource(t, l, from, x)
	if st, err = take(l, x, nil); err == nil {
		_, err = l.InstallSnapshot(x.Snapshot, st)
	}
	if err == nil {
		t.Fatal("a snapshot of what is committed was installed")
	}
	if err := st.Discard(); err != nil {
		t.Fatal(err)
	}
}

// TestExportPins: while a snapshot is shipped nothing of the log goes away, and afterwards it does.
func TestExportPins(t *testing.T) {
	s, l := snapshotSource(t)
	defer closeStore(t, s)
	x := mustExport(t, l)
	n := l.Segments()
	index := l.raft.last.Load() + 1
	appendEntries(t, l, []Entry{{Index: index, Term: 5, Kind: EntryLogStart, Data: LogStartProposal(20)[1:]}})
	l.CommitEntries(index, l.EndOffset())
	for range 2 {
		s.janitor.pass()
		if err := l.retain(s.nowMs()); err != nil || l.Segments() < n {
			t.Fatalf("%d segments of %d are left, %v", l.Segments(), n, err)
		}
	}
	x.Close()
	x.Close()
	if err := l.retain(s.nowMs()); err != nil || l.Segments() >= n {
		t.Fatalf("%d segments of %d are left, %v", l.Segments(), n, err)
	}
	if _, err := l.SaveConf(index, pb.ConfState{Voters: []uint64{1, 2, 3}}); err != nil {
		t.Fatal(err)
	}
	appendEntries(t, l, []Entry{{Index: index + 1, Term: 5, Kind: EntryConfV2}})
	l.CommitEntries(index+1, l.EndOffset())
	if _, err := l.Export(); !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
		t.Fatalf("exported with a configuration that is not known: %v", err)
	}
}

// TestManifest: what was encoded is read again; cut short or changed it is refused or as good as another.
func TestManifest(t *testing.T) {
	s, l := snapshotSource(t)
	defer closeStore(t, s)
	x := mustExport(t, l)
	defer x.Close()
	b := x.Manifest.Append(nil)
	for n := range b {
		if _, err := ParseManifest(b[:n]); !kafkaproto.IsCorrupt(err) {
			t.Fatalf("%d bytes of %d: %v", n, len(b), err)
		}
	}
	if _, err := ParseManifest(append(b[:len(b):len(b)], 0)); !kafkaproto.IsCorrupt(err) {
		t.Fatal("a byte too much")
	}
	for at := range b {
		c := bytes.Clone(b)
		c[at] ^= 0x80
		if m, err := ParseManifest(c); err == nil && !bytes.Equal(m.Append(nil), c) {
			t.Fatalf("byte %d changed: read as another", at)
		}
	}
	if m, err := ParseManifest(b); err != nil || !bytes.Equal(m.Append(nil), b) || len(m.Segments) < 3 {
		t.Fatalf("%+v %v", m, err)
	}
}
