package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func noWait() {}

// TestBudgetModel lets many frames grow step by step, hold what they have and end. All of them
// must get through (no two wait for each other), and never is more held than the limit and one
// frame besides.
func TestBudgetModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(rt *rapid.T) {
			limit := rapid.Int64Range(1, 2000).Draw(rt, "limit")
			b := &budget{limit: limit}
			frames := rapid.IntRange(1, 20).Draw(rt, "frames")
			var through atomic.Int64
			var largest int64
			type growth struct {
				steps []int64
				pause time.Duration
			}
			plans := make([]growth, frames)
			for i := range plans {
				plans[i].steps = rapid.SliceOfN(rapid.Int64Range(1, 900), 1, 5).Draw(rt, "steps")
				plans[i].pause = time.Duration(rapid.IntRange(0, 5).Draw(rt, "pause"))
				var total int64
				for _, n := range plans[i].steps {
					total += n
				}
				largest = max(largest, total)
			}
			for _, p := range plans {
				go func() {
					l := &lease{}
					for _, n := range p.steps {
						if !b.grow(l, n, false, nil, noWait) || b.inUse() > limit+largest {
							return
						}
						time.Sleep(p.pause)
					}
					b.end(l)
					b.end(l) // answered and recycled: only the first counts
					through.Add(1)
				}()
			}
			time.Sleep(time.Second)
			if n := through.Load(); n != int64(frames) {
				rt.Fatalf("%d of %d frames got through; the rest is stuck or over the limit", n, frames)
			}
			if used := b.inUse(); used != 0 {
				rt.Fatalf("%d bytes still held", used)
			}
		})
	})
}

func TestBudgetLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{limit: 100}
		var first, over, third, small lease
		b.grow(&first, 80, false, nil, noWait)
		b.grow(&over, 80, false, nil, noWait) // overdraws
		quit := make(chan struct{})
		waits := 0
		got := make(chan bool, 2)
		go func() { got <- b.grow(&third, 50, false, quit, func() { waits++ }) }()
		synctest.Wait()
		if waits != 1 || len(got) != 0 {
			t.Fatalf("the third frame waited %d times, answers %d; want it in line", waits, len(got))
		}
		if !b.grow(&over, 100, false, nil, func() { t.Error("the overdrawing frame waits") }) {
			t.Fatal("the overdrawing frame is refused")
		}
		if !b.grow(&small, 10, true, nil, func() { t.Error("a small frame waits") }) {
			t.Fatal("a small frame is refused")
		}
		// Who leaves the line lets the next one up.
		var fourth lease
		go func() { got <- b.grow(&fourth, 5, false, nil, noWait) }()
		synctest.Wait()
		close(quit)
		synctest.Wait()
		if len(got) != 1 || <-got {
			t.Fatal("the frame whose connection ended is still in line, or was granted")
		}
		b.end(&over)
		synctest.Wait()
		if len(got) != 1 || !<-got {
			t.Fatal("the fourth frame is stuck though there is room")
		}
		b.end(&first)
		b.end(&small)
		b.end(&fourth)
		b.end(&third)
		if b.inUse() != 0 {
			t.Fatalf("%d bytes held at the end", b.inUse())
		}
	})
}

// TestBudgetLineLeft: nobody passes the line, and who leaves it lets the next one up.
func TestBudgetLineLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &budget{limit: 100}
		var first, over, third, fourth lease
		b.grow(&first, 50, false, nil, noWait)
		b.grow(&over, 60, false, nil, noWait) // overdraws
		b.end(&first)
		quit := make(chan struct{})
		var thirdGot, fourthGot atomic.Int64 // 1 granted, -1 refused
		grow := func(l *lease, n int64, got *atomic.Int64) {
			if b.grow(l, n, false, quit, noWait) {
				got.Store(1)
			} else {
				got.Store(-1)
			}
		}
		go grow(&third, 50, &thirdGot)
		synctest.Wait()
		behind := make(chan struct{})
		go func() {
			if b.grow(&fourth, 5, false, behind, noWait) {
				fourthGot.Store(1)
			}
		}()
		synctest.Wait()
		if thirdGot.Load() != 0 || fourthGot.Load() != 0 {
			t.Fatalf("third %d, fourth %d; want both in line", thirdGot.Load(), fourthGot.Load())
		}
		close(quit)
		synctest.Wait()
		if thirdGot.Load() != -1 || fourthGot.Load() != 1 {
			t.Fatalf("third %d, fourth %d; want -1 and 1", thirdGot.Load(), fourthGot.Load())
		}
	})
}
