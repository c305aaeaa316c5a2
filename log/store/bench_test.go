package store

import (
	"crypto/rand"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

func benchStore(tb testing.TB) *Store {
	o := Options{FS: vfs.OS(), Dir: tb.TempDir(), Clock: clock.System}
	return openStore(tb, o)
}

func batch16K(producerID bool) batch.Batch {
	o := batch.BuilderOptions{}
	if producerID {
		o.Producer = &batch.Producer{ID: 1}
	}
	b := batch.NewBuilder(o)
	value := make([]byte, 1000)
	_, _ = rand.Read(value)
	for range 16 {
		b.Add(batch.Record{Timestamp: 1_700_000_000_000, Value: value})
	}
	return must(b.Build())
}

// BenchmarkAppend writes 16 KiB batches into a relaxed log: copy-free, one write each.
func BenchmarkAppend(b *testing.B) {
	s := benchStore(b)
	defer closeStore(b, s)
	l := openLog(b, s, 1, Config{SegmentBytes: 256 << 20, RetentionBytes: 512 << 20})
	bt := batch16K(false)
	b.SetBytes(int64(len(bt)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Append(bt, AppendOptions{NowMs: 1_700_000_000_000}); err != nil {
			b.Fatal(err)
		}
		l.Commit(l.EndOffset())
		if l.Size() > 1<<30 {
			_ = l.retain(1_700_000_000_000)
		}
	}
}

// BenchmarkAppendStrict waits for the sync of each batch.
func BenchmarkAppendStrict(b *testing.B) {
	s := benchStore(b)
	defer closeStore(b, s)
	l := openLog(b, s, 1, Config{SegmentBytes: 256 << 20, Strict: true})
	synced := make(chan kafkaproto.Offset, 1024)
	l.Observe(func(ev Event) {
		if ev.Kind == Synced {
			synced <- ev.Offset
		}
	})
	bt := batch16K(false)
	b.SetBytes(int64(len(bt)))
	b.ReportAllocs()
	for b.Loop() {
		a, err := l.Append(bt, AppendOptions{NowMs: 1_700_000_000_000})
		if err != nil {
			b.Fatal(err)
		}
		for <-synced < a.End {
		}
	}
}

// BenchmarkRead finds ranges of 64 KiB, one behind the other.
func BenchmarkRead(b *testing.B) {
	s := benchStore(b)
	defer closeStore(b, s)
	l := openLog(b, s, 1, Config{SegmentBytes: 32 << 20})
	bt := batch16K(false)
	for range 4000 {
		appendTo(b, l, bt)
	}
	commitAll(b, l)
	end, off := l.EndOffset(), kafkaproto.Offset(0)
	b.ReportAllocs()
	for b.Loop() {
		r, err := l.Read(off, 64<<10, end, true)
		if err != nil || r.Len == 0 {
			b.Fatal(r.Len, err)
		}
		if off = r.Next; off == end {
			off = 0
		}
		r.Release()
	}
}

// TestAppendAllocs keeps the hot path free of garbage (performance.md §5.1).
func TestAppendAllocs(t *testing.T) {
	s := openStore(t, testOptions(t, vfs.Memory(), clock.NewManual(testStart)))
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{})
	bt := values(1, "some", "values")
	n := testing.AllocsPerRun(2000, func() {
		if _, err := l.Append(bt, AppendOptions{NowMs: 1}); err != nil {
			t.Fatal(err)
		}
		l.Commit(l.EndOffset())
	})
	if n > 1 {
		t.Errorf("%v allocations per append", n)
	}
	end, off := l.EndOffset(), kafkaproto.Offset(0)
	n = testing.AllocsPerRun(500, func() {
		r, err := l.Read(off, 200, end, true)
		if err != nil {
			t.Fatal(err)
		}
		off = r.Next
		r.Release()
	})
	if n > 1 {
		t.Errorf("%v allocations per read", n)
	}
}
