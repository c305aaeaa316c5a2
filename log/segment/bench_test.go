package segment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// benchSegment is a segment on disk with batches of the given size.
func benchSegment(b *testing.B, size, batches int, sealed bool) *Segment {
	b.Helper()
	s, err := Create(vfs.OS(), b.TempDir(), 0, 1, Options{})
	if err != nil {
		b.Fatal(err)
	}
	x := makeBatch(0, 1, 1, size, 1)
	for i := range batches {
		x.SetBaseOffset(kafkaproto.Offset(i))
		if err := s.Append(x, uint64(i+1)); err != nil {
			b.Fatal(err)
		}
	}
	if sealed {
		if err := s.Seal(); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x := makeBatch(0, 1, 1, size, 1)
			s, err := Create(vfs.OS(), b.TempDir(), 0, 1, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			b.SetBytes(int64(len(x)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !s.Fits(s.NextOffset(), len(x)) || s.Size() > 256<<20 {
					b.StopTimer()
					if err := s.Truncate(0); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
				x.SetBaseOffset(s.NextOffset())
				if err := s.Append(x, uint64(i+1)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadRange(b *testing.B) {
	for _, c := range []struct {
		name   string
		sealed bool
		off    func(i, n int) int
	}{
		{"active tail", false, func(_, n int) int { return n - 1 }},
		{"active random", false, func(_, n int) int { return rand.IntN(n) }},
		{"sealed random", true, func(_, n int) int { return rand.IntN(n) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			const n = 20000
			s := benchSegment(b, 4<<10, n, c.sealed)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				r, err := s.ReadRange(kafkaproto.Offset(c.off(i, n)), 64<<10, math.MaxInt64, true)
				if err != nil {
					b.Fatal(err)
				}
				r.Release()
			}
		})
	}
	for _, sealed := range []bool{false, true} {
		b.Run(fmt.Sprint("sequential sealed=", sealed), func(b *testing.B) {
			s := benchSegment(b, 4<<10, 20000, sealed)
			b.ReportAllocs()
			for off := kafkaproto.Offset(0); b.Loop(); {
				r, err := s.ReadRange(off, 64<<10, math.MaxInt64, true)
				if err != nil {
					b.Fatal(err)
				}
				if off = r.Next; off >= s.NextOffset() {
					off = 0
				}
				r.Release()
			}
		})
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, sealed := range []bool{false, true} {
		b.Run(fmt.Sprint("sealed=", sealed), func(b *testing.B) {
			const n = 20000
			s := benchSegment(b, 4<<10, n, sealed)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Lookup(kafkaproto.Offset(rand.IntN(n))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecover(b *testing.B) {
	for _, from := range []string{"headers", "whole"} {
		b.Run(from, func(b *testing.B) {
			s := benchSegment(b, 16<<10, 4000, false)
			size := s.Size()
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				r := Recovery{Rebuild: true, BaseIndex: 1}
				if from == "headers" {
					r.From = size
				}
				if _, err := s.Recover(r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	s := benchSegment(b, 16<<10, 4000, false)
	b.SetBytes(s.Size())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ScanFrom(0, func(batch.Batch, int64) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
