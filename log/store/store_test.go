package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

func TestAppendReadReopen(t *testing.T) {
	fsys, clk := vfs.Memory(), clock.NewManual(testStart)
	cfg := Config{SegmentBytes: 2000, Strict: true}
	var want []string
	for run := range 4 {
		s := openStore(t, testOptions(t, fsys, clk))
		l := openLog(t, s, 1, cfg)
		synced := make(chan kafkaproto.Offset, 1000)
		l.Observe(func(ev Event) {
			if ev.Kind == Synced {
				synced <- ev.Offset
			}
		})
		if got := int(l.EndOffset()); got != len(want) {
			t.Fatalf("run %d: end is %d, want %d", run, got, len(want))
		}
		if got, wantTerm := int(l.Term()), max(run, 1); run > 0 && got != run+1 || run == 0 &&
			got != wantTerm {
			t.Fatalf("run %d: term %d", run, got)
		}
		for i := range 50 {
			a, b := fmt.Sprint("v", run, "-", i), fmt.Sprint("w", run, "-", i)
			got := appendTo(t, l, values(clock.Millis(testStart)+int64(i), a, b))
			if int(got.BaseOffset) != len(want) || int(got.End) != len(want)+2 {
				t.Fatalf("appended at %+v, want base %d", got, len(want))
			}
			want = append(want, a, b)
			for off := kafkaproto.Offset(0); off < got.End; {
				off = <-synced
			}
			if l.SyncedOffset() != got.End || l.HighWatermarkBound() != got.End {
				t.Fatalf("synced %d, want %d", l.SyncedOffset(), got.End)
			}
			l.Commit(l.HighWatermarkBound())
		}
		wantValues(t, readAll(t, l, 0), 0, want)
		wantValues(t, readAll(t, l, 31), 31, want[31:])
		if l.Segments() < 2 {
			t.Fatalf("only %d segments", l.Segments())
		}
		closeStore(t, s)
		if _, err := l.Append(values(1, "x"), AppendOptions{}); !errors.Is(err, ErrClosed) {
			t.Fatalf("append after close: %v", err)
		}
	}
	// A run without a write adds no no-op.
	for range 3 {
		s := openStore(t, testOptions(t, fsys, clk))
		if got := openLog(t, s, 1, cfg).Term(); got != 5 {
			t.Fatalf("term %d", got)
		}
		closeStore(t, s)
	}
}

func TestReadBounds(t *testing.T) {
	s := openStore(t, testOptions(t, vfs.Memory(), clock.NewManual(testStart)))
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{})
	for i := range 10 {
		appendTo(t, l, values(1, fmt.Sprint(i), "second"))
	}
	for _, off := range []kafkaproto.Offset{-1, 21} {
		if _, err := l.Read(off, 100, 20, true); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("read at %d: %v", off, err)
		}
	}
	one := len(values(1, "0", "second"))
	for _, c := range []struct {
		off   kafkaproto.Offset
		max   int
		limit kafkaproto.Offset
		one   bool
		first kafkaproto.Offset
		n     int
	}{
		{0, 1 << 20, 20, true, 0, 10},
		{3, 1 << 20, 20, true, 2, 9},
		{3, 1, 20, true, 2, 1},
		{3, 1, 20, false, 0, 0},
		{3, 2*one - 1, 20, false, 2, 1},
		{3, 2 * one, 20, false, 2, 2},
		{3, 1 << 20, 7, true, 2, 2}, // the batch with 6 and 7 is not below 7
		{3, 1 << 20, 3, true, 0, 0},
		{20, 1 << 20, 20, true, 0, 0},
		{20, 1 << 20, 100, true, 0, 0},
	} {
		r, err := l.Read(c.off, c.max, c.limit, c.one)
		if err != nil || r.Len != c.n*one || c.n > 0 && r.First != c.first {
			t.Errorf("read %+v: %d bytes (%d batches) from %d, %v", c, r.Len, r.Len/one, r.First,
				err)
		}
		r.Release()
	}
}
