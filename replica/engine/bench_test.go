package engine

import (
	"log/slog"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

func benchPartition(b *testing.B, c store.Config) *Partition {
	logger := slog.New(slog.DiscardHandler)
	s, err := store.Open(store.Options{
		FS: vfs.OS(), Dir: b.TempDir(), Clock: clock.System, Logger: logger, BootID: "boot",
	})
	if err != nil {
		b.Fatal(err)
	}
	e := New(Options{Store: s, Clock: clock.System, Logger: logger})
	if err := e.Open(Spec{ID: partitionID(1), TP: partitionName(1), Config: c}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		e.Close()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return e.ByID(partitionID(1))
}

// BenchmarkAppend appends 16 KiB batches to a relaxed partition and is told that they are committed.
func BenchmarkAppend(b *testing.B) {
	p := benchPartition(b, store.Config{SegmentBytes: 256 << 20})
	bt := records(16, 1000)
	done := func(err error) {
		if err != nil {
			b.Error(err)
		}
	}
	b.SetBytes(int64(len(bt)))
	b.ReportAllocs()
	for b.Loop() {
		res, err := p.Append(bt, AppendOptions{NowMs: testNow})
		if err != nil {
			b.Fatal(err)
		}
		p.WhenCommitted(res.End, done)
		if p.LogEnd()%(1<<20) < 16 { // keeps the directory small
			if _, err := p.DeleteRecords(-1); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkWhenCommitted registers a wait on a strict partition and has it told, without the sync.
func BenchmarkWhenCommitted(b *testing.B) {
	p := benchPartition(b, store.Config{Strict: true})
	var few [8]commitWait
	done := func(error) {}
	b.ReportAllocs()
	for end := kafkaproto.Offset(1); b.Loop(); end++ {
		p.WhenCommitted(end, done)
		for _, w := range p.takeDue(end, few[:0]) {
			w.fn(nil)
		}
	}
}

// BenchmarkRead finds a 64 KiB range, from the log start on and again.
func BenchmarkRead(b *testing.B) {
	p := benchPartition(b, store.Config{})
	for range 1000 {
		if _, err := p.Append(records(16, 1000), AppendOptions{NowMs: testNow}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	off := kafkaproto.Offset(0)
	for b.Loop() {
		rd, err := p.Read(off, 64<<10, ReadCommitted, true)
		if err != nil {
			b.Fatal(err)
		}
		if off = rd.Range.Next; off == p.LogEnd() {
			off = 0
		}
		rd.Range.Release()
	}
}
