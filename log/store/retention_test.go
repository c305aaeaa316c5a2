package store

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

func logFiles(t testing.TB, fsys vfs.FS, l *Log, suffix string) int {
	t.Helper()
	entries, err := fsys.ReadDir(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		if len(e.Name()) >= len(suffix) && e.Name()[len(e.Name())-len(suffix):] == suffix {
			n++
		}
	}
	return n
}

func TestRetentionByTime(t *testing.T) {
	fsys, clk := vfs.Memory(), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	s := openStore(t, o)
	l := openLog(t, s, 1, Config{SegmentBytes: 400, RetentionAge: time.Hour})
	moved := make(chan kafkaproto.Offset, 100)
	l.Observe(func(ev Event) {
		if ev.Kind == StartMoved {
			moved <- ev.Offset
		}
	})
	for i := range 20 {
		appendTo(t, l, values(clock.Millis(clk.Now()), fmt.Sprint(i)))
		clk.Advance(10 * time.Minute)
	}
	retain := func() {
		t.Helper()
		settle(s)
		s.janitor.post(func() {
			if err := l.retain(s.nowMs()); err != nil {
				t.Error(err)
			}
		})
		settle(s)
	}
	retain()
	if l.StartOffset() != 0 {
		t.Fatalf("start %d before anything was committed", l.StartOffset())
	}
	commitAll(t, l)
	retain()
	start := l.StartOffset()
	if start == 0 || start > 14 { // the first record younger than an hour is 14
		t.Fatalf("start %d", start)
	}
	if got := <-moved; got != start {
		t.Fatalf("told %d, start is %d", got, start)
	}
	if _, err := l.Read(start-1, 100, l.EndOffset(), true); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Fatalf("read below the start: %v", err)
	}
	if got := logFiles(t, fsys, l, ".log"); got != l.Segments() {
		t.Fatalf("%d files, %d segments", got, l.Segments())
	}
	checkIndexes(t, l)
	closeStore(t, s)
	s = openStore(t, o)
	defer func() { closeStore(t, s) }()
	l = openLog(t, s, 1, Config{SegmentBytes: 400, RetentionAge: time.Hour})
	if l.StartOffset() != start {
		t.Fatalf("start %d after a restart, want %d", l.StartOffset(), start)
	}
	checkIndexes(t, l)
	// The active segment goes as well when it is old enough, without a write (ruling 15).
	clk.Advance(3 * time.Hour)
	retain()
	if l.StartOffset() != 20 || l.EndOffset() != 20 || l.Size() != 0 {
		t.Fatalf("start %d, end %d, %d bytes", l.StartOffset(), l.EndOffset(), l.Size())
	}
	if a := appendTo(t, l, values(1, "x")); a.BaseOffset != 20 {
		t.Fatalf("appended at %d", a.BaseOffset)
	}
	checkIndexes(t, l)
	closeStore(t, s)
	s = openStore(t, o)
	l = openLog(t, s, 1, Config{})
	if l.StartOffset() != 20 || l.EndOffset() != 21 {
		t.Fatalf("start %d, end %d after a restart", l.StartOffset(), l.EndOffset())
	}
	checkIndexes(t, l)
}

// TestRetentionFuture deletes segments by the broker's clock when timestamps lie in the future.
func TestRetentionFuture(t *testing.T) {
	clk := clock.NewManual(testStart)
	s := openStore(t, testOptions(t, vfs.Memory(), clk))
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{SegmentAge: 30 * time.Minute, RetentionAge: time.Hour})
	future := clock.Millis(testStart.Add(10000 * time.Hour))
	for i := range 12 {
		appendTo(t, l, values(future, fmt.Sprint(i)))
		clk.Advance(10 * time.Minute)
	}
	if l.Segments() < 3 {
		t.Fatalf("%d segments: not rolled by the broker's clock", l.Segments())
	}
	commitAll(t, l)
	clk.Advance(time.Hour)
	if err := l.retain(s.nowMs()); err != nil {
		t.Fatal(err)
	}
	if l.StartOffset() != 12 {
		t.Fatalf("start %d", l.StartOffset())
	}
}

func TestRetentionBySize(t *testing.T) {
	clk := clock.NewManual(testStart)
	s := openStore(t, testOptions(t, vfs.Memory(), clk))
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{SegmentBytes: 500, RetentionBytes: 1500})
	for i := range 60 {
		appendTo(t, l, values(1, fmt.Sprint(i)))
		commitAll(t, l)
		if err := l.retain(s.nowMs()); err != nil {
			t.Fatal(err)
		}
		if l.Size() > 1500+500 {
			t.Fatalf("%d bytes", l.Size())
		}
		if n := len(readAll(t, l, l.StartOffset())); n != int(l.EndOffset()-l.StartOffset()) {
			t.Fatalf("%d records in [%d, %d)", n, l.StartOffset(), l.EndOffset())
		}
	}
	if l.Size() < 1500-500 || l.StartOffset() == 0 {
		t.Fatalf("%d bytes from %d on", l.Size(), l.StartOffset())
	}
}

func TestDeleteRecords(t *testing.T) {
	fsys, clk := vfs.Memory(), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	s := openStore(t, o)
	l := openLog(t, s, 1, Config{SegmentBytes: 400})
	for i := range 20 {
		appendTo(t, l, values(1, fmt.Sprint(i)))
	}
	commitAll(t, l)
	if err := l.DeleteRecords(21); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Fatalf("beyond the end: %v", err)
	}
	for _, to := range []kafkaproto.Offset{3, 3, 2, 11, 20} {
		want := max(to, l.StartOffset())
		if err := l.DeleteRecords(to); err != nil {
			t.Fatal(err)
		}
		settle(s)
		if l.StartOffset() != want {
			t.Fatalf("start %d, want %d", l.StartOffset(), want)
		}
		appended := appendTo(t, l, values(1, fmt.Sprint("after", to)))
		commitAll(t, l)
		checkIndexes(t, l)
		closeStore(t, s)
		s = openStore(t, o)
		l = openLog(t, s, 1, Config{SegmentBytes: 400})
		if l.StartOffset() != want || l.EndOffset() != appended.End {
			t.Fatalf("after a restart [%d, %d), want [%d, %d)", l.StartOffset(), l.EndOffset(),
				want, appended.End)
		}
		checkIndexes(t, l)
		if got := readAll(t, l, want); len(got) != int(appended.End-want) || got[0].off != want {
			t.Fatalf("%d records", len(got))
		}
	}
	if l.Segments() > 3 {
		t.Fatalf("%d segments: those below the start are still there", l.Segments())
	}
	closeStore(t, s)
}

// TestTimeLookup compares lookups with a walk over all records, inside compressed batches and over
// segments, with times that go back and forth.
func TestTimeLookup(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	s := openStore(t, testOptions(t, vfs.Memory(), clock.NewManual(testStart)))
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{SegmentBytes: 900, IndexInterval: 100})
	for range 80 {
		o := batch.BuilderOptions{Codec: batch.Codec(rng.IntN(5))}
		if rng.IntN(4) == 0 {
			o.TimestampType, o.AppendTime = batch.LogAppendTime, int64(rng.IntN(500))
		}
		b := batch.NewBuilder(o)
		for range 1 + rng.IntN(6) {
			b.Add(batch.Record{Timestamp: int64(rng.IntN(500)), Value: []byte("some value")})
		}
		appendTo(t, l, must(b.Build()))
	}
	commitAll(t, l)
	all := readAll(t, l, 0)
	for _, start := range []kafkaproto.Offset{0, 17, 100} {
		if err := l.DeleteRecords(start); err != nil {
			t.Fatal(err)
		}
		settle(s)
		for range 300 {
			limit := kafkaproto.Offset(rng.IntN(int(l.EndOffset()) + 2))
			ts := int64(rng.IntN(510))
			var want, largest TimedOffset
			for _, r := range all {
				if r.off < start || r.off >= limit {
					continue
				}
				if !want.Found && r.ts >= ts {
					want = TimedOffset{Offset: r.off, Timestamp: r.ts, Epoch: 1, Found: true}
				}
				if !largest.Found || r.ts > largest.Timestamp {
					largest = TimedOffset{Offset: r.off, Timestamp: r.ts, Epoch: 1, Found: true}
				}
			}
			if got, err := l.OffsetForTime(ts, limit); err != nil || got != want {
				t.Fatalf("offset for time %d below %d: %+v %v, want %+v", ts, limit, got, err, want)
			}
			if got, err := l.MaxTimestamp(limit); err != nil || got != largest {
				t.Fatalf("max timestamp in [%d, %d): %+v %v, want %+v", start, limit, got, err,
					largest)
			}
		}
	}
}

func TestDeleteLog(t *testing.T) {
	fsys, clk, warned := vfs.Memory(), clock.NewManual(testStart), &warnings{}
	o := testOptions(t, fsys, clk)
	o.Logger = slog.New(warned)
	s := openStore(t, o)
	l := openLog(t, s, 1, Config{FileDeleteDelay: time.Minute})
	appendTo(t, l, values(1, "a"))
	commitAll(t, l)
	r, err := l.Read(0, 1000, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteLog(l.ID()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, r.Len)
	if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
		t.Fatalf("a reader lost its bytes: %v", err)
	}
	r.Release()
	if _, err := l.Append(values(1, "b"), AppendOptions{}); !errors.Is(err,
		kerr.UnknownTopicOrPartition) {
		t.Fatalf("append: %v", err)
	}
	if _, err := l.Read(0, 1000, 1, true); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Fatalf("read: %v", err)
	}
	if err := s.DeleteLog(l.ID()); err == nil {
		t.Fatal("deleted twice")
	}
	if len(warned.lines) != 0 {
		t.Fatalf("a deletion is no reason to warn: %q", warned.lines)
	}
	// The same name again, at once, under another id.
	l, err = s.OpenLog(testID(9), testTP(1), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartSolo(l); err != nil {
		t.Fatal(err)
	}
	if a := appendTo(t, l, values(1, "new")); a.BaseOffset != 0 || l.Term() != 1 {
		t.Fatalf("%+v term %d", a, l.Term())
	}
	dirs := func() int {
		entries, _ := fsys.ReadDir("/data")
		n := 0
		for _, e := range entries {
			if _, gone, ok := partitionDir(e.Name()); gone && ok {
				n++
			}
		}
		return n
	}
	settle(s)
	if dirs() != 1 {
		t.Fatalf("%d directories wait, want 1", dirs())
	}
	clk.Advance(2 * time.Minute)
	settle(s)
	if dirs() != 0 {
		t.Fatal("the directory is still there")
	}
	if err := s.DeleteLog(l.ID()); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s = openStore(t, o)
	defer closeStore(t, s)
	settle(s)
	if len(s.Logs()) != 0 || dirs() != 0 {
		t.Fatalf("%d logs, %d directories", len(s.Logs()), dirs())
	}
}

// TestDeleteLogIsForgotten: once a deletion has returned, no power loss brings back what the journal knew of
// the log: the same id is given again to a later replica, and nothing is missed in it.
func TestDeleteLogIsForgotten(t *testing.T) {
	for seed := range uint64(20) {
		power, clk := vfs.PowerLoss(seed), clock.NewManual(testStart)
		o := testOptions(t, power, clk)
		o.Manual = true
		s := openStore(t, o)
		l := openLog(t, s, 1, Config{Strict: true})
		for range 3 { // the journal hears of what was synced with the next sync
			appendTo(t, l, values(1, "a"))
			s.Step()
			clk.Advance(time.Minute)
		}
		if err := s.DeleteLog(l.ID()); err != nil {
			t.Fatal(err)
		}
		clk.Advance(time.Minute)
		s.janitor.pass() // the files go
		o.FS = power.Crash(vfs.PowerCrash)
		_ = s.Close() // it has no disk any more
		s = openStore(t, o)
		l, err := s.OpenLog(testID(1), testTP(1), Config{})
		if err != nil || l.Offline() != nil {
			t.Fatalf("seed %d: %v, %v", seed, err, l.Offline())
		}
		closeStore(t, s)
	}
}

// TestPartitionDir reads directory names, also those of long topics that were deleted.
func TestPartitionDir(t *testing.T) {
	long := make([]byte, 249)
	for i := range long {
		long[i] = 'x'
	}
	for _, topic := range []string{"a", "a-1", "-", "a.b-delete", string(long)} {
		tp := kafkaproto.TopicPartition{Topic: topic, Partition: 12}
		if got, gone, ok := partitionDir(tp.String()); got != tp || gone || !ok {
			t.Errorf("%s is read as %v %v %v", tp, got, gone, ok)
		}
		name, err := deletedDir(rand.NewChaCha8([32]byte{}), "", tp)
		if err != nil || len(name) > maxNameBytes {
			t.Fatalf("%d bytes, %v", len(name), err)
		}
		if _, gone, ok := partitionDir(name); !gone || !ok {
			t.Errorf("%s is not read as deleted", name)
		}
	}
	for _, name := range []string{"journal", "a-", "-1", "a--1", "a-01", "a-+1", "a-99999999999",
		"a.x-delete"} {
		if tp, gone, ok := partitionDir(name); ok && !(name == "a--1" && tp.Topic == "a-") {
			t.Errorf("%s is read as %v %v", name, tp, gone)
		}
	}
}
