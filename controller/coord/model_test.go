package coord_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/coord/coordtest"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// TestModel drives a shard through commits, lost tails, failing appends and restarts, and checks
// O2 and O3: an answered write is kept and seen by every later read, a read never shows what is
// not committed, everything is answered once, and a replay ends in the state of the live machine.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, nil)
		defer r.rt.Close()
		durable := map[string]int{} // least value that reads must show
		written := 0
		var all []*answer
		submit := func(words ...string) *answer {
			a := r.do(words...)
			all = append(all, a)
			return a
		}
		key := rapid.SampledFrom([]string{"a", "b", "c"})
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				written++
				n := written
				a := &answer{}
				all = append(all, a)
				r.rt.Submit(0, cmd{words: []string{"set", k, fmt.Sprint(n)}}, func(out string, err error) {
					a.n, a.out, a.err = a.n+1, out, err
					if err == nil {
						durable[k] = max(durable[k], n)
					}
				})
			},
			"get": func(rt *rapid.T) {
				k := key.Draw(rt, "key")
				floor := durable[k]
				r.rt.Submit(0, cmd{words: []string{"get", k}}, func(out string, err error) {
					got := 0
					fmt.Sscan(out, &got)
					if err == nil && got < floor {
						rt.Fatalf("read %d of %s after %d was answered", got, k, floor)
					}
					if err == nil {
						durable[k] = max(durable[k], got) // shown: may not go back
					}
				})
			},
			"park":    func(rt *rapid.T) { submit("park", key.Draw(rt, "key")) },
			"commit":  func(*rapid.T) { r.log(0).Commit() },
			"fail":    func(*rapid.T) { r.log(0).Fail(errDisk) },
			"lose":    func(*rapid.T) { r.log(0).Lose(errDisk) },
			"advance": func(*rapid.T) { r.clock.Advance(time.Second) },
			"some": func(rt *rapid.T) {
				if ends := r.log(0).Ends(); len(ends) > 0 {
					r.log(0).CommitTo(rapid.SampledFrom(ends).Draw(rt, "end"))
				}
			},
			"unload": func(*rapid.T) { r.rt.Unload(0, errSomebodyElse) },
		})
		r.log(0).Fail() // no more
		for range 10 {
			r.log(0).Commit()
			r.clock.Advance(10 * time.Second)
		}
		r.rt.Load(0)
		var live map[string]string
		r.rt.Inspect(0, func(m coord.Machine[cmd, string]) {
			live = maps.Clone(m.(*register).values)
		}, func(bool) {})
		again := newRig(t, nil)
		defer again.rt.Close()
		again.logs[0] = r.log(0).Crashed(r.log(0).LogEnd())
		again.do("get", "a")
		again.rt.Inspect(0, func(m coord.Machine[cmd, string]) {
			if got := m.(*register).values; !maps.Equal(got, live) {
				rt.Fatalf("replayed %v, live %v", got, live)
			}
		}, func(bool) {})
		r.rt.Close()
		for i, a := range all {
			if a.n != 1 {
				rt.Fatalf("input %d: %v", i, a)
			}
		}
	})
}

// TestManyCallers runs shards on workers under the race detector: everything is answered once, and
// nothing is left running.
func TestManyCallers(t *testing.T) {
	defer goleak.VerifyNone(t)
	const shards, callers, each = 3, 8, 200
	logs := make([]*coordtest.Log, shards)
	for i := range logs {
		logs[i] = coordtest.NewLog(false)
	}
	r := newRig(t, func(o *coord.Options[cmd, string]) {
		o.Workers, o.Clock = 2, clock.System
		o.Open = func(p int32) (coord.Log, error) { return logs[p], nil }
	})
	stop := make(chan struct{})
	var committer, clients sync.WaitGroup
	committer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				for i, l := range logs {
					if rand.IntN(500) == 0 {
						l.Fail(errDisk)
					}
					l.Commit()
					_ = i
				}
			}
		}
	})
	for c := range callers {
		clients.Go(func() {
			last := 0
			for i := 1; i <= each; i++ {
				done := make(chan struct{}, 2)
				k := fmt.Sprint("c", c)
				p := int32(c % shards)
				r.rt.Submit(p, cmd{words: []string{"set", k, fmt.Sprint(i)}}, func(_ string, err error) {
					if err == nil {
						last = i
					}
					done <- struct{}{}
				})
				<-done
				r.rt.Submit(p, cmd{words: []string{"get", k}}, func(out string, err error) {
					got := 0
					fmt.Sscan(out, &got)
					if err == nil && got < last {
						t.Errorf("read %d after %d was answered", got, last)
					}
					done <- struct{}{}
				})
				<-done
			}
		})
	}
	clients.Wait()
	close(stop)
	committer.Wait()
	r.rt.Close()
	if n := r.rt.Counters.Waiting.Load(); n != 0 {
		t.Fatalf("%d inputs count as waiting", n)
	}
}
