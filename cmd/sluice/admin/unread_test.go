package admin

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
)

const now = 1_700_000_000_000

// partition is one partition in memory.
func partition(t *testing.T, c store.Config) *engine.Partition {
	t.Helper()
	logger, clk := slog.New(slog.DiscardHandler), clock.NewManual(time.UnixMilli(now))
	s, err := store.Open(store.Options{
		FS: vfs.Memory(), Dir: "/data", Clock: clk, Logger: logger, BootID: "boot",
	})
	if err != nil {
		t.Fatal(err)
	}
	e := engine.New(engine.Options{Store: s, Clock: clk, Logger: logger})
	t.Cleanup(func() {
		e.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	id := kafkaproto.PartitionID{Topic: kafkaproto.TopicID{7}}
	if err := e.Open(engine.Spec{ID: id, TP: kafkaproto.TopicPartition{Topic: "t"}, Config: c}); err != nil {
		t.Fatal(err)
	}
	return e.ByID(id)
}

// write appends a batch whose records have the given timestamps.
func write(t *testing.T, p *engine.Partition, o batch.BuilderOptions, timestamps ...int64) {
	t.Helper()
	b := batch.NewBuilder(o)
	for _, ts := range timestamps {
		b.Add(batch.Record{Timestamp: ts, Value: []byte("some value")})
	}
	made, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	appendBatch(t, p, made)
}

func appendBatch(t *testing.T, p *engine.Partition, b batch.Batch) {
	t.Helper()
	if _, err := p.Append(b, engine.AppendOptions{NowMs: now}); err != nil {
		t.Fatal(err)
	}
}

// TestFirstUnread: the timestamp is that of the very record, wherever in a batch it is and however
// the batch is written (M2).
func TestFirstUnread(t *testing.T) {
	p := partition(t, store.Config{})
	var want []int64 // by offset
	for i, o := range []batch.BuilderOptions{
		{}, {Codec: batch.Gzip}, {Codec: batch.Zstd}, {Codec: batch.LZ4}, {Codec: batch.Snappy},
	} {
		base := int64(now - 1000*(i+1))
		// Timestamps need not rise.
		stamps := []int64{base, base + 7, base - 3, base + 20}
		write(t, p, o, stamps...)
		want = append(want, stamps...)
	}
	var u unread
	for off, ts := range want {
		s := u.begin()
		got, found, ok := s.firstUnread(p, kafkaproto.Offset(off))
		if !ok || !found || got != ts {
			t.Errorf("offset %d: %d, found %v, ok %v; want %d", off, got, found, ok, ts)
		}
	}
	if _, found, ok := u.begin().firstUnread(p, kafkaproto.Offset(len(want))); found || !ok {
		t.Errorf("behind the last record: found %v, ok %v", found, ok)
	}
}

// TestFirstUnreadBelowLogStart: what was deleted is not waited for; the first record that is left is
// the first unread one.
func TestFirstUnreadBelowLogStart(t *testing.T) {
	p := partition(t, store.Config{})
	write(t, p, batch.BuilderOptions{}, now-50, now-40, now-30)
	if _, err := p.DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	var u unread
	if ts, found, ok := u.begin().firstUnread(p, 0); ts != now-30 || !found || !ok {
		t.Errorf("%d, found %v, ok %v", ts, found, ok)
	}
}

// TestFirstUnreadLogAppendTime: the broker's time counts where the topic says so.
func TestFirstUnreadLogAppendTime(t *testing.T) {
	p := partition(t, store.Config{})
	write(t, p, batch.BuilderOptions{TimestampType: batch.LogAppendTime, AppendTime: now - 9}, now-100, now-90, now-80)
	var u unread
	for off := range kafkaproto.Offset(3) {
		if ts, found, ok := u.begin().firstUnread(p, off); ts != now-9 || !found || !ok {
			t.Errorf("offset %d: %d, found %v, ok %v", off, ts, found, ok)
		}
	}
}

// TestFirstUnreadSkipsMarkers: control batches are lag but no records.
func TestFirstUnreadSkipsMarkers(t *testing.T) {
	p := partition(t, store.Config{})
	write(t, p, batch.BuilderOptions{Producer: &batch.Producer{ID: 5}, Transactional: true}, now-100)
	appendBatch(t, p, batch.Control(batch.Commit, 0, 5, 0, now-90))
	var u unread
	if _, found, ok := u.begin().firstUnread(p, 1); found || !ok {
		t.Errorf("a marker alone: found %v, ok %v", found, ok)
	}
	write(t, p, batch.BuilderOptions{}, now-80)
	if ts, found, ok := u.begin().firstUnread(p, 1); ts != now-80 || !found || !ok {
		t.Errorf("a record behind a marker: %d, found %v, ok %v", ts, found, ok)
	}
}

// TestScrapeBounds: a scrape stops looking at its bound and says so; what it has found is known to
// the next, which comes further (M1).
func TestScrapeBounds(t *testing.T) {
	p := partition(t, store.Config{})
	for i := range int64(10) {
		write(t, p, batch.BuilderOptions{}, now-i)
	}
	var u unread
	for round := 1; round <= 3; round++ {
		s := u.begin()
		s.looks = 4
		answered := 0
		for off := range kafkaproto.Offset(10) {
			if ts, found, ok := s.firstUnread(p, off); ok {
				answered++
				if !found || ts != now-int64(off) {
					t.Errorf("offset %d: %d, %v", off, ts, found)
				}
			}
		}
		u.end(s)
		if want := min(4*round, 10); answered != want {
			t.Errorf("scrape %d answered %d, want %d", round, answered, want)
		}
	}
	s := u.begin()
	u.end(s)
	if len(u.known) != 0 {
		t.Errorf("%d timestamps are kept that nobody asked for", len(u.known))
	}
	s = u.begin()
	s.bytes = 0
	if _, _, ok := s.firstUnread(p, 0); ok {
		t.Error("a look without bytes left")
	}
}

// TestCompactedNotKept: compaction can take the first unread record away, so each scrape looks.
func TestCompactedNotKept(t *testing.T) {
	p := partition(t, store.Config{Compact: true})
	write(t, p, batch.BuilderOptions{}, now-5)
	var u unread
	s := u.begin()
	if ts, found, ok := s.firstUnread(p, 0); ts != now-5 || !found || !ok {
		t.Errorf("%d, %v, %v", ts, found, ok)
	}
	if len(s.used) != 0 {
		t.Error("kept")
	}
}

// TestThinnedBatch: in a batch with holes the record behind the hole is the first unread one, and
// behind the last record of the batch it is that of the next.
func TestThinnedBatch(t *testing.T) {
	p := partition(t, store.Config{})
	horizon := int64(now + 1000)
	b := batch.NewBuilder(batch.BuilderOptions{KeepOffsets: true})
	b.Add(batch.Record{OffsetDelta: 1, Timestamp: now - 60})
	b.Add(batch.Record{OffsetDelta: 3, Timestamp: now - 40})
	b.SetLastOffsetDelta(4)
	holes, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	appendBatch(t, p, holes)
	write(t, p, batch.BuilderOptions{DeleteHorizon: &horizon}, now-20)
	var u unread
	for off, want := range []int64{now - 60, now - 60, now - 40, now - 40, now - 20, now - 20} {
		if ts, found, ok := u.begin().firstUnread(p, kafkaproto.Offset(off)); ts != want || !found || !ok {
			t.Errorf("offset %d: %d, %v, %v; want %d", off, ts, found, ok, want)
		}
	}
}
