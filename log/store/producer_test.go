package store

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/vfs"
)

// produced builds a batch of an idempotent producer, or of its transaction.
func produced(pid kafkaproto.ProducerID, seq int32, txn bool, vals ...string) batch.Batch {
	b := batch.NewBuilder(batch.BuilderOptions{
		Producer: &batch.Producer{ID: pid, BaseSequence: seq}, Transactional: txn,
	})
	for _, v := range vals {
		b.Add(batch.Record{Timestamp: 1, Key: []byte("key" + v), Value: []byte(v)})
	}
	return must(b.Build())
}

func mark(t testing.TB, l *Log, kind batch.ControlKind, pid kafkaproto.ProducerID) Appended {
	t.Helper()
	a, err := l.Append(batch.Control(kind, 0, pid, 0, 1),
		AppendOptions{Producer: producer.CheckOptions{Origin: producer.Coordinator}})
	if err != nil {
		t.Fatalf("append marker: %v", err)
	}
	return a
}

// restart is a way for a log to come back.
type restart struct {
	name string
	do   func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS
}

var restarts = []restart{
	{"clean", func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS {
		closeStore(t, s)
		return fsys
	}},
	{"kill", func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS {
		fsys = fsys.Crash(vfs.KillCrash)
		_ = s.Close()
		return fsys
	}},
	{"power", func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS {
		fsys = fsys.Crash(vfs.PowerCrash)
		_ = s.Close()
		return fsys
	}},
	{"clean, sidecars garbled", func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS {
		closeStore(t, s)
		garble(t, fsys, sidecarExt)
		return fsys
	}},
	{"kill, sidecars gone", func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS {
		fsys = fsys.Crash(vfs.KillCrash)
		_ = s.Close()
		eachFile(t, fsys, sidecarExt, func(name string) {
			if err := fsys.Remove(name); err != nil {
				t.Fatal(err)
			}
		})
		return fsys
	}},
	{"clean, all indexes garbled", func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS {
		closeStore(t, s)
		for _, ext := range indexExts {
			garble(t, fsys, ext)
		}
		return fsys
	}},
	{"clean, all indexes gone", func(t *testing.T, s *Store, fsys *vfs.PowerFS) *vfs.PowerFS {
		closeStore(t, s)
		for _, ext := range indexExts {
			eachFile(t, fsys, ext, func(name string) {
				if ext == ".txnindex" {
					return // without it and its summary nobody can know that it was there
				}
				if err := fsys.Remove(name); err != nil {
					t.Fatal(err)
				}
			})
		}
		return fsys
	}},
}

// eachFile visits the files of all logs whose names end with ext.
func eachFile(t testing.TB, fsys vfs.FS, ext string, fn func(name string)) {
	t.Helper()
	dirs, err := fsys.ReadDir("/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if !d.IsDir() || d.Name() == journalDir {
			continue
		}
		files, err := fsys.ReadDir(path.Join("/data", d.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), ext) {
				fn(path.Join("/data", d.Name(), f.Name()))
			}
		}
	}
}

// garble flips bytes all over the files.
func garble(t testing.TB, fsys vfs.FS, ext string) {
	eachFile(t, fsys, ext, func(name string) {
		b, err := vfs.ReadFile(fsys, name, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for i := range b {
			if i%7 == 3 {
				b[i] ^= 0x5a
			}
		}
		if err := vfs.WriteFileAtomic(fsys, name, b); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFiveBatches finds a retry of each of a producer's last five batches after every kind of
// restart, also over rolls (lesson 4).
func TestFiveBatches(t *testing.T) {
	for _, how := range restarts {
		for _, roll := range []int{0, 1, 3} {
			t.Run(fmt.Sprint(how.name, " roll ", roll), func(t *testing.T) {
				fsys, clk := vfs.PowerLoss(3), clock.NewManual(testStart)
				s := openStore(t, testOptions(t, fsys, clk))
				l := openLog(t, s, 1, Config{Strict: true})
				var first []Appended
				for i := range 9 {
					first = append(first, appendTo(t, l, produced(7, int32(2*i), false, "a", "b")))
					if roll > 0 && i%roll == 0 {
						if err := l.Roll(); err != nil {
							t.Fatal(err)
						}
						commitAll(t, l)
						settle(s)
					}
				}
				commitAll(t, l)
				settle(s)
				fsys = how.do(t, s, fsys)
				s = openStore(t, testOptions(t, fsys, clk))
				defer func() { closeStore(t, s) }()
				l = openLog(t, s, 1, Config{})
				for i := 4; i < 9; i++ {
					a, err := l.Append(produced(7, int32(2*i), false, "a", "b"), AppendOptions{})
					if err != nil || !a.Duplicate || a.BaseOffset != first[i].BaseOffset ||
						a.LastOffset != first[i].LastOffset || a.AppendTime != 1 {
						t.Fatalf("retry of batch %d: %+v %v, was %+v", i, a, err, first[i])
					}
				}
				for _, seq := range []int32{6, 17, 19} {
					if a, err := l.Append(produced(7, seq, false, "a", "b"),
						AppendOptions{}); err == nil {
						t.Fatalf("sequence %d was taken: %+v", seq, a)
					}
				}
				if a := appendTo(t, l, produced(7, 18, false, "c")); a.Duplicate ||
					a.BaseOffset != 18 {
					t.Fatalf("next batch: %+v", a)
				}
			})
		}
	}
}

// TestTransactions keeps last stable offset and aborted list over restarts.
func TestTransactions(t *testing.T) {
	for _, how := range restarts {
		for _, size := range []int{1 << 20, 300} {
			t.Run(fmt.Sprint(how.name, " segments of ", size), func(t *testing.T) {
				fsys, clk := vfs.PowerLoss(3), clock.NewManual(testStart)
				s := openStore(t, testOptions(t, fsys, clk))
				cfg := Config{Strict: true, SegmentBytes: size}
				l := openLog(t, s, 1, cfg)
				at := map[string]kafkaproto.Offset{}
				data := func(name string, pid kafkaproto.ProducerID, seq int32) {
					at[name] = appendTo(t, l, produced(pid, seq, true, name)).BaseOffset
				}
				data("a1", 1, 0)
				data("b1", 2, 0)
				appendTo(t, l, produced(3, 0, false, "plain"))
				if l.LastStable(l.EndOffset()) != at["a1"] {
					t.Fatalf("last stable %d", l.LastStable(l.EndOffset()))
				}
				at["a abort"] = mark(t, l, batch.Abort, 1).BaseOffset
				if l.LastStable(l.EndOffset()) != at["a1"] {
					t.Fatal("a pending marker moved the last stable offset (ruling 17)")
				}
				commitAll(t, l)
				settle(s)
				if l.LastStable(l.EndOffset()) != at["b1"] {
					t.Fatalf("last stable %d, want %d", l.LastStable(l.EndOffset()), at["b1"])
				}
				data("a2", 1, 1)
				data("b2", 2, 1)
				at["b abort"] = mark(t, l, batch.Abort, 2).BaseOffset
				at["a commit"] = mark(t, l, batch.Commit, 1).BaseOffset
				data("c1", 4, 0)
				appendTo(t, l, produced(3, 1, false, "plain"))
				commitAll(t, l)
				settle(s)
				check := func(when string) {
					t.Helper()
					end := l.EndOffset()
					if got := l.LastStable(end); got != at["c1"] {
						t.Fatalf("%s: last stable %d, want %d", when, got, at["c1"])
					}
					a, b := AbortedTxn{1, at["a1"]}, AbortedTxn{2, at["b1"]}
					for _, c := range []struct {
						from, to kafkaproto.Offset
						want     []AbortedTxn
					}{
						{0, end, []AbortedTxn{a, b}},
						{at["a abort"], end, []AbortedTxn{a, b}},
						{at["a abort"] + 1, end, []AbortedTxn{b}},
						{at["b abort"], at["b abort"] + 1, []AbortedTxn{b}},
						{at["b abort"] + 1, end, nil},
						{0, at["b1"], []AbortedTxn{a}},
					} {
						got, err := l.Aborted(c.from, c.to)
						if err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
							t.Fatalf("%s: aborted [%d, %d) are %v %v, want %v", when, c.from, c.to,
								got, err, c.want)
						}
					}
				}
				check("before")
				for round := range 2 {
					fsys = how.do(t, s, fsys)
					s = openStore(t, testOptions(t, fsys, clk))
					l = openLog(t, s, 1, cfg)
					check(fmt.Sprint("round ", round))
				}
				// The open transaction goes on.
				data("c2", 4, 1)
				mark(t, l, batch.Commit, 4)
				commitAll(t, l)
				if l.LastStable(l.EndOffset()) != l.EndOffset() {
					t.Fatal("a transaction is still open")
				}
				closeStore(t, s)
			})
		}
	}
}

func TestProducerRules(t *testing.T) {
	clk := clock.NewManual(testStart)
	s := openStore(t, testOptions(t, vfs.Memory(), clk))
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{ProducerExpiry: time.Hour})
	appendTo(t, l, produced(1, 0, false, "a"))
	if _, err := l.Append(produced(1, 5, false, "b"), AppendOptions{}); !errors.Is(err,
		kerr.OutOfOrderSequenceNumber) {
		t.Fatalf("gap: %v", err)
	}
	if l.EndOffset() != 1 {
		t.Fatalf("end %d", l.EndOffset())
	}
	a, err := l.Append(produced(1, 0, false, "a"), AppendOptions{})
	if err != nil || !a.Duplicate || a.End != 1 {
		t.Fatalf("duplicate of a pending batch: %+v %v", a, err)
	}
	if n := len(l.Producers()); n != 1 {
		t.Fatalf("%d producers", n)
	}
	commitAll(t, l)
	clk.Advance(2 * time.Hour)
	if err := l.retain(s.nowMs()); err != nil {
		t.Fatal(err)
	}
	if n := len(l.Producers()); n != 0 {
		t.Fatalf("%d producers after their expiry", n)
	}
}

// TestCompactTransactions drops aborted data and, in time, the markers of empty transactions; what
// read_committed sees does not change, and neither do sequences.
func TestCompactTransactions(t *testing.T) {
	fsys, clk := vfs.Memory(), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	cfg := compactConfig
	cfg.SegmentBytes = 400
	s := openStore(t, o)
	l := openLog(t, s, 1, cfg)
	seq := map[kafkaproto.ProducerID]int32{}
	data := func(pid kafkaproto.ProducerID, v string) {
		appendTo(t, l, produced(pid, seq[pid], true, v))
		seq[pid]++
	}
	fill := func() {
		for i := range 8 {
			appendTo(t, l, produced(9, seq[9], false, fmt.Sprint("fill", i)))
			seq[9]++
		}
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		commitAll(t, l)
		settle(s)
	}
	appendTo(t, l, produced(8, 0, false, "y", "x2")) // what the aborted records must not supersede
	seq[8] = 2
	data(1, "x")
	data(2, "y")
	mark(t, l, batch.Commit, 1)
	data(1, "x2")
	mark(t, l, batch.Abort, 2)
	mark(t, l, batch.Abort, 1)
	fill()
	count := func() (records, markers int) {
		for _, seg := range *l.segs.Load() {
			_, err := seg.ScanHeaders(0, func(h batch.Header, _ int64) error {
				if h.IsControl() {
					markers++
				} else if h.IsTransactional() {
					records++
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return records, markers
	}
	pass := func() {
		t.Helper()
		if !s.cleaner.cleanFilthiest() {
			t.Fatal("nothing was cleaned")
		}
	}
	pass()
	if r, m := count(); r != 1 || m != 3 {
		t.Fatalf("%d transactional batches, %d markers after the first pass; want 1 and 3", r, m)
	}
	kept := map[string]bool{}
	for _, r := range readAll(t, l, 0) {
		kept[r.val] = true
	}
	if !kept["y"] || !kept["x2"] || !kept["x"] {
		t.Fatalf("kept %v", kept)
	}
	if got, err := l.Aborted(0, l.EndOffset()); err != nil || len(got) != 2 {
		t.Fatalf("aborted %v %v", got, err)
	}
	closeStore(t, s)
	s = openStore(t, o)
	l = openLog(t, s, 1, cfg)
	fill()
	pass() // the aborted transactions are empty now: their markers get a horizon
	if r, m := count(); r != 1 || m != 3 {
		t.Fatalf("%d transactional batches, %d markers after the second pass; want 1 and 3", r, m)
	}
	clk.Advance(2 * time.Hour)
	fill()
	pass()
	if r, m := count(); r != 1 || m != 1 {
		t.Fatalf("%d transactional batches, %d markers after the horizon; want 1 and 1", r, m)
	}
	closeStore(t, s)
	s = openStore(t, o)
	defer func() { closeStore(t, s) }()
	l = openLog(t, s, 1, cfg)
	for pid, next := range seq {
		if _, err := l.Append(produced(pid, next+1, pid < 8, "gap"),
			AppendOptions{}); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
			t.Errorf("producer %d: a gap was not seen: %v", pid, err)
		}
		if a := appendTo(t, l, produced(pid, next, pid < 8, "next")); a.Duplicate {
			t.Errorf("producer %d: %+v", pid, a)
		}
	}
}
