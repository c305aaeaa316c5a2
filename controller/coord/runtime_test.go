package coord_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
)

var (
	errDisk         = fmt.Errorf("disk: %w", kerr.KafkaStorageError)
	notCoordinator  = fmt.Sprintf("error %d", kerr.NotCoordinator.Code)
	loadInProgress  = fmt.Sprintf("error %d", kerr.CoordinatorLoadInProgress.Code)
	notAvailable    = fmt.Sprintf("error %d", kerr.CoordinatorNotAvailable.Code)
	errSomebodyElse = kafkaproto.Faultf(kerr.NotCoordinator, "led elsewhere")
)

func TestRepliesWaitForTheCommitOfWhatTheySaw(t *testing.T) {
	r := newRig(t, nil)
	r.want(r.do("get", "a"), "") // nothing is written: nothing to wait for
	set := r.do("set", "a", "1")
	read := r.do("get", "a")
	other := r.do("get", "b")
	r.want(set, "waiting")
	r.want(read, "waiting")
	r.want(other, "waiting")
	end := r.log(0).LogEnd()
	later := r.do("set", "a", "2")
	r.log(0).CommitTo(end)
	r.want(set, "ok")
	r.want(read, "1")
	r.want(other, "")
	r.want(later, "waiting")
	r.log(0).Commit()
	r.want(later, "ok")
	r.want(r.do("get", "a"), "2")
	if n := r.rt.Counters.Waiting.Load(); n != 0 {
		t.Fatalf("%d inputs count as waiting", n)
	}
}

func TestRepliesKeepTheOrderOfSteps(t *testing.T) {
	r := newRig(t, nil)
	var got []string
	note := func(s string) func(string, error) {
		return func(string, error) { got = append(got, s) }
	}
	r.rt.Submit(0, cmd{words: []string{"set", "a", "1"}}, note("1"))
	r.rt.Submit(0, cmd{words: []string{"get", "a"}}, note("2"))
	r.rt.Submit(0, cmd{words: []string{"set", "a", "2"}}, note("3"))
	r.rt.Submit(0, cmd{words: []string{"get", "a"}}, note("4"))
	r.log(0).Commit()
	if want := []string{"1", "2", "3", "4"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestParkedInputIsAnsweredByALaterStep(t *testing.T) {
	r := newRig(t, nil)
	parked := r.do("park", "a")
	r.want(parked, "waiting")
	r.do("set", "a", "1")
	r.want(parked, "waiting") // the set it shows is not committed
	r.log(0).Commit()
	r.want(parked, "parked:1")
}

func TestStepsOfOneTurnShareABatch(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Auto(true)
	var sets []*answer
	r.submit(0, cmd{words: []string{"call"}, call: func() {
		for i := range 20 {
			sets = append(sets, r.do("set", fmt.Sprint("k", i), "v"))
		}
	}})
	for _, s := range sets {
		r.want(s, "ok")
	}
	if n := len(r.log(0).Batches()); n != 1 {
		t.Fatalf("20 sets made %d batches, want 1", n)
	}
}

func TestBatchesAreCutAtTheLimit(t *testing.T) {
	r := newRig(t, func(o *coord.Options[cmd, string]) { o.BatchBytes = 300 })
	r.log(0).Auto(true)
	r.want(r.submit(0, cmd{words: []string{"set", "key", "value"}, bulk: 50}), "ok")
	batches := r.log(0).Batches()
	records := 0
	for _, b := range batches {
		if len(b) > 61+300 {
			t.Errorf("a batch of %d bytes, the limit for its records is 300", len(b))
		}
		records += int(b.Count())
	}
	if records != 50 || len(batches) < 3 {
		t.Fatalf("%d records in %d batches", records, len(batches))
	}
}

func TestDroppedAppendUnloadsAndReplays(t *testing.T) {
	r := newRig(t, nil)
	r.do("set", "a", "1")
	r.log(0).Commit()
	parked := r.do("park", "a")
	pending := r.do("set", "a", "2") // written, not committed
	r.log(0).Fail(errDisk)
	dropped := r.do("set", "a", "3")
	r.want(parked, notCoordinator)
	r.want(pending, notCoordinator)
	r.want(dropped, notCoordinator)
	r.want(r.do("get", "a"), loadInProgress) // backing off
	r.clock.Advance(100 * time.Millisecond)
	r.want(r.do("get", "a"), loadInProgress) // "2" is in the log: its fate must be known first
	r.log(0).Commit()
	r.want(r.do("get", "a"), "2")
	if n := r.rt.Counters.Drops.Load(); n != 1 {
		t.Fatalf("%d drops", n)
	}
}

func TestLostCommitUnloads(t *testing.T) {
	r := newRig(t, nil)
	r.do("set", "a", "1")
	r.log(0).Commit()
	set := r.do("set", "a", "2")
	r.log(0).Lose(errDisk)
	r.want(set, notCoordinator)
	r.clock.Advance(time.Second)
	r.want(r.do("get", "a"), "1")
}

func TestLostCommitIsNoticedWithoutAReply(t *testing.T) {
	r := newRig(t, nil)
	alarm := r.do("alarm", "50")
	r.clock.Advance(50 * time.Millisecond)
	r.log(0).Commit()
	r.want(alarm, "rang")
	r.submit(0, cmd{words: []string{"call"}, call: func() {}})
	r.log(0).Fail(errDisk)
	r.do("set", "x", "1")
	r.clock.Advance(time.Second)
	if r.rt.Counters.Loaded.Load() != 1 {
		t.Fatal("the shard did not load again by itself")
	}
}

func TestBackOffDoubles(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Auto(true)
	r.do("set", "a", "1")
	for i, wait := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
		r.log(0).Fail(errDisk)
		r.want(r.do("set", "a", "2"), notCoordinator)
		r.clock.Advance(wait*time.Millisecond - 1)
		r.want(r.do("get", "a"), loadInProgress)
		r.clock.Advance(1)
		if got := r.do("get", "a"); got.String() != "1" {
			t.Fatalf("failure %d: after the wait: %v", i, got)
		}
	}
	r.want(r.do("set", "a", "3"), "ok") // an append that works ends it
	r.log(0).Fail(errDisk)
	r.do("set", "a", "4")
	r.clock.Advance(100 * time.Millisecond)
	r.want(r.do("get", "a"), "3")
}

func TestLoadReplaysShortLogsBeforeTheFirstAnswer(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Auto(true)
	r.do("set", "a", "1")
	r.do("txn", "7", "t", "yes")
	r.do("txn", "8", "u", "no")
	r.do("txn", "9", "w", "open")
	r.do("end", "7", "yes")
	r.do("end", "8", "no")
	r.do("set", "?later", "by a newer broker")
	r2 := newRig(t, nil)
	r2.logs[0] = r.log(0).Crashed(r.log(0).LogEnd())
	r2.want(r2.do("get", "a"), "1")
	r2.want(r2.do("get", "t"), "yes")
	r2.want(r2.do("get", "u"), "")
	r2.want(r2.do("get", "w"), "")
	if n := r2.rt.Counters.Skipped.Load(); n != 1 {
		t.Fatalf("%d records stepped over, want 1", n)
	}
}

func TestTransactionsHaveBatchesOfTheirOwn(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Auto(true)
	r.submit(0, cmd{words: []string{"call"}, call: func() {
		r.do("set", "a", "1")
		r.do("txn", "7", "b", "1")
		r.do("txn", "7", "c", "1")
		r.do("txn", "8", "d", "1")
		r.do("end", "7", "yes")
		r.do("set", "e", "1")
		r.do("set", "f", "1")
	}})
	var got []string
	for _, b := range r.log(0).Batches() {
		got = append(got, fmt.Sprintf("%d:%d:%v", b.ProducerID(), b.Count(), b.IsControl()))
	}
	want := []string{"-1:1:false", "7:2:false", "8:1:false", "7:1:true", "-1:2:false"}
	if !slices.Equal(got, want) {
		t.Fatalf("batches %v, want %v", got, want)
	}
}

func TestLongLoadAnswersLoadInProgress(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Auto(true)
	for i := range 100 {
		r.do("set", fmt.Sprint("k", i), "v")
	}
	r2 := newRig(t, func(o *coord.Options[cmd, string]) { o.LoadBytes = 200 })
	r2.logs[0] = r.log(0).Crashed(r.log(0).LogEnd())
	r2.want(r2.do("get", "k99"), loadInProgress)
	r2.want(r2.do("get", "k99"), "v")
}

func TestLoadWaitsForTheUncommittedTail(t *testing.T) {
	r := newRig(t, nil)
	r.do("set", "a", "1") // not committed
	r.rt.Unload(0, errSomebodyElse)
	got := r.do("get", "a")
	r.want(got, loadInProgress)
	r.log(0).Commit()
	r.want(r.do("get", "a"), "1")
}

func TestLoadThatFailsIsTriedAgain(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Auto(true)
	r.do("set", "a", "1")
	r.rt.Unload(0, errSomebodyElse)
	r.log(0).FailReads(errDisk)
	r.want(r.do("get", "a"), notAvailable)
	r.log(0).FailReads(nil)
	r.want(r.do("get", "a"), notAvailable) // backing off
	r.clock.Advance(100 * time.Millisecond)
	r.want(r.do("get", "a"), "1")
}

func TestShardOfAnotherBroker(t *testing.T) {
	r := newRig(t, nil)
	r.open = errSomebodyElse
	r.want(r.do("get", "a"), notCoordinator)
	r.open = nil
	r.want(r.do("get", "a"), "")
}

func TestUnloadAnswersEveryone(t *testing.T) {
	r := newRig(t, nil)
	parked, set := r.do("park", "a"), r.do("set", "b", "1")
	r.rt.Unload(0, errSomebodyElse)
	r.want(parked, notCoordinator)
	r.want(set, notCoordinator)
	r.log(0).Commit() // of a shard that is gone
	r.want(r.do("get", "b"), "1")
}

func TestQueueIsBounded(t *testing.T) {
	r := newRig(t, func(o *coord.Options[cmd, string]) { o.QueueLimit = 5 })
	var as []*answer
	r.submit(0, cmd{words: []string{"call"}, call: func() {
		for range 7 {
			as = append(as, r.do("get", "a"))
		}
	}})
	for i, a := range as {
		want := ""
		if i >= 5 {
			want = loadInProgress
		}
		r.want(a, want)
	}
	if n := r.rt.Counters.Refused.Load(); n != 2 {
		t.Fatalf("%d refused", n)
	}
}

func TestDeadlines(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Auto(true)
	late, early := r.do("alarm", "100"), r.do("alarm", "30")
	r.clock.Advance(29 * time.Millisecond)
	r.want(early, "waiting")
	r.clock.Advance(time.Millisecond)
	r.want(early, "rang")
	r.want(late, "waiting")
	r.clock.Advance(70 * time.Millisecond)
	r.want(late, "rang")
}

func TestCommitThatDoesNotCome(t *testing.T) {
	r := newRig(t, nil)
	set := r.do("set", "a", "1")
	r.clock.Advance(2 * time.Second)
	get := r.do("get", "a")
	r.clock.Advance(2999 * time.Millisecond)
	r.want(set, "waiting")
	r.clock.Advance(time.Millisecond)
	r.want(set, notAvailable)
	r.want(get, "waiting")
	r.log(0).Commit() // late, and yet it counts
	r.want(get, "1")
	r.want(set, notAvailable)
	if late, waiting := r.rt.Counters.Late.Load(), r.rt.Counters.Waiting.Load(); late != 1 ||
		waiting != 0 {
		t.Fatalf("%d late, %d waiting", late, waiting)
	}
}

func TestInspect(t *testing.T) {
	r := newRig(t, nil)
	var loaded []bool
	look := func() {
		r.rt.Inspect(0, func(m coord.Machine[cmd, string]) {
			if m.(*register).values["a"] != "1" {
				t.Error("inspect does not see the uncommitted set")
			}
		}, func(ok bool) { loaded = append(loaded, ok) })
	}
	look()
	r.do("set", "a", "1")
	look()
	r.rt.Close()
	look()
	if want := []bool{false, true, false}; !slices.Equal(loaded, want) {
		t.Fatalf("got %v, want %v", loaded, want)
	}
}

func TestCloseAnswersEveryone(t *testing.T) {
	r := newRig(t, nil)
	parked, set := r.do("park", "a"), r.do("set", "b", "1")
	alarm := r.do("alarm", "10")
	r.rt.Close()
	r.rt.Close()
	for _, a := range []*answer{parked, set, alarm, r.do("get", "b")} {
		r.want(a, notCoordinator)
	}
	r.clock.Advance(time.Second)
	r.log(0).Commit()
	r.want(alarm, notCoordinator)
}

func TestAnswerThatIsNotOwedPanics(t *testing.T) {
	r := newRig(t, func(o *coord.Options[cmd, string]) {
		o.NewMachine = func(int32) coord.Machine[cmd, string] { return twice{newRegister()} }
	})
	defer func() {
		if recover() == nil {
			t.Fatal("a second answer did not panic")
		}
	}()
	r.do("get", "a")
}

// twice answers everything twice.
type twice struct{ *register }

func (m twice) Step(now coord.Now, to coord.Ticket, in cmd, e *coord.Effects[string]) {
	m.register.Step(now, to, in, e)
	m.register.Step(now, to, in, e)
}

func TestErrorsCarryCodes(t *testing.T) {
	r := newRig(t, nil)
	r.log(0).Fail(errors.New("no code of its own"))
	a := r.do("set", "a", "1")
	if !errors.Is(a.err, kerr.NotCoordinator) {
		t.Fatalf("got %v", a.err)
	}
}
