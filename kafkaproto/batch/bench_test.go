package batch

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// workload is a batch of n records of size bytes each, without keys.
func workload(n, size int) []byte {
	records := make([]kmsg.Record, n)
	for i := range records {
		records[i].Value = bytes.Repeat([]byte{byte(i), 'x', 'y', byte(i * 7)}, size/4)
	}
	return newForeign(None, records...).bytes()
}

var workloads = []struct{ n, size int }{{16, 1024}, {160, 100}}

// producerCheck is what a topic with default settings demands.
func producerCheck() Check {
	return Check{
		MaxBytes: 1 << 20, SegmentBytes: 1 << 30, NowMs: 2000, BeforeMaxMs: math.MaxInt64,
		AfterMaxMs: 3_600_000, Compression: CompressionPolicy{Producer: true}, Version: 11,
	}
}

func BenchmarkAdmit(b *testing.B) {
	for _, w := range workloads {
		b.Run(fmt.Sprintf("%dx%d", w.n, w.size), func(b *testing.B) {
			raw, c := workload(w.n, w.size), producerCheck()
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if _, _, err := Admit(raw, c); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(w.n), "ns/rec")
		})
	}
}

func BenchmarkWalk(b *testing.B) {
	for _, w := range workloads {
		b.Run(fmt.Sprintf("%dx%d", w.n, w.size), func(b *testing.B) {
			one := Batch(workload(w.n, w.size))
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := walk(one.Payload(), one.Count(), one.BaseTimestamp()); !ok {
					b.Fatal("refused")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(w.n), "ns/rec")
		})
	}
}

func BenchmarkCRC(b *testing.B) {
	one := Batch(workload(16, 1024))
	b.SetBytes(int64(len(one)))
	for b.Loop() {
		if one.VerifyCRC() != nil {
			b.Fatal("wrong")
		}
	}
}

func BenchmarkEach(b *testing.B) {
	for _, codec := range allCodecs {
		b.Run(codec.String(), func(b *testing.B) {
			one := Batch(workload(160, 100))
			if codec != None {
				c := producerCheck()
				c.Compression = CompressionPolicy{Codec: codec}
				a, _, err := Admit(one, c)
				if err != nil {
					b.Fatal(err)
				}
				one = a.Batch
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := one.Each(1<<20, func(*Record) (bool, error) { return true, nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
