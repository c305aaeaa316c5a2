package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/vfs"
)

// crashRun is one seed of the crash test: appends to a few logs, with crashes in between, against
// lists of what was written and of what a strict log has acknowledged.
type crashRun struct {
	t           *testing.T
	rng         *rand.Rand
	fs          *vfs.PowerFS
	clk         *clock.Manual
	boot, kills int

	s      *Store
	logs   []*Log
	strict []bool
	wrote  [][]string // by log: the value of each offset, as written
	acked  []*atomic.Int64
}

func (r *crashRun) open() {
	o := testOptions(r.t, r.fs, r.clk)
	o.BootID = fmt.Sprint("boot", r.boot)
	o.Random = rand.NewChaCha8([32]byte{byte(r.rng.Uint32())})
	r.s = openStore(r.t, o)
	r.logs = nil
	for i := range r.strict {
		l, err := r.s.OpenLog(testID(byte(i)), testTP(byte(i)), Config{SegmentBytes: 700,
			Strict: r.strict[i]})
		if err == nil {
			err = l.Offline()
		}
		if err != nil {
			r.t.Fatalf("open log %d: %v", i, err)
		}
		acked := r.acked[i]
		l.Observe(func(ev Event) {
			if ev.Kind == Synced {
				acked.Store(max(acked.Load(), int64(ev.Offset)))
				l.Commit(l.HighWatermarkBound())
			}
		})
		r.logs = append(r.logs, l)
	}
	if err := r.s.StartSolo(r.logs...); err != nil {
		r.t.Fatalf("start: %v", err)
	}
}

// check compares what is there with what was written: a prefix, at least as long as least.
func (r *crashRun) check(i int, least int64, boot string) {
	l := r.logs[i]
	got := readAll(r.t, l, 0)
	if int64(len(got)) < least || len(got) > len(r.wrote[i]) {
		r.t.Fatalf("log %d (strict %v) after %s: %d records, %d were written, %d must be there",
			i, r.strict[i], boot, len(got), len(r.wrote[i]), least)
	}
	wantValues(r.t, got, 0, r.wrote[i][:len(got)])
	if int(l.EndOffset()) != len(got) {
		r.t.Fatalf("log %d ends at %d, has %d records", i, l.EndOffset(), len(got))
	}
	r.wrote[i] = r.wrote[i][:len(got)]
	checkIndexes(r.t, l)
}

func (r *crashRun) append(i int) {
	var vals []string
	for range 1 + r.rng.IntN(4) {
		vals = append(vals, fmt.Sprint(i, "-", r.boot, "-", r.rng.Uint64()))
	}
	_, err := r.logs[i].Append(values(clock.Millis(r.clk.Now()), vals...), AppendOptions{})
	if err != nil {
		r.t.Fatalf("append: %v", err)
	}
	r.wrote[i] = append(r.wrote[i], vals...)
}

func (r *crashRun) step() {
	i := r.rng.IntN(len(r.logs))
	switch n := r.rng.IntN(40); {
	case n < 30:
		r.append(i)
	case n < 32:
		r.clk.Advance(time.Duration(r.rng.IntN(3000)) * time.Millisecond)
	case n < 34:
		if err := r.logs[i].Flush(); err != nil {
			r.t.Fatalf("flush: %v", err)
		}
	case n < 35:
		if err := r.logs[i].Roll(); err != nil {
			r.t.Fatalf("roll: %v", err)
		}
	case n < 36:
		closeStore(r.t, r.s)
		r.open()
		for i := range r.logs {
			r.check(i, int64(len(r.wrote[i])), "a clean stop")
		}
	case n < 38:
		r.crash(vfs.KillCrash, "a kill")
	default:
		r.crash(vfs.PowerCrash, "a power cut")
	}
}

func (r *crashRun) crash(kind vfs.CrashKind, what string) {
	least := make([]int64, len(r.logs))
	for i := range r.logs {
		least[i] = r.acked[i].Load()
		if kind == vfs.KillCrash {
			least[i] = int64(len(r.wrote[i]))
		}
	}
	old := r.s
	r.fs = r.fs.Crash(kind)
	if err := old.Close(); err == nil && kind == vfs.PowerCrash {
		_ = err // nothing was written since the last sync
	}
	if kind == vfs.PowerCrash {
		r.boot++
	} else {
		r.kills++
	}
	for i := range r.acked {
		r.acked[i] = new(atomic.Int64)
	}
	r.open()
	for i := range r.logs {
		r.check(i, least[i], what)
		r.acked[i].Store(int64(r.logs[i].EndOffset())) // what was found is durable now
	}
}

func TestCrash(t *testing.T) {
	run := tier.Of(t, 40, 0)
	cuts, kills := 0, 0
	for seed := range run.Seeds() {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			r := &crashRun{
				t: t, rng: rand.New(rand.NewPCG(seed, 7)), fs: vfs.PowerLoss(seed),
				clk: clock.NewManual(testStart), strict: []bool{true, false, true},
			}
			for range r.strict {
				r.wrote, r.acked = append(r.wrote, nil), append(r.acked, new(atomic.Int64))
			}
			r.open()
			for range 120 {
				r.step()
			}
			if err := r.s.Close(); err != nil && !errors.Is(err, vfs.ErrCrashed) {
				t.Fatal(err)
			}
			cuts, kills = cuts+r.boot, kills+r.kills
		})
	}
	run.Report(t, "%d power cuts, %d kills", cuts, kills)
}
