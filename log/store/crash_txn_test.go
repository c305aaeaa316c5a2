package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/vfs"
)

// txnEvent is one batch of a transaction, or its marker.
type txnEvent struct {
	off    kafkaproto.Offset
	pid    kafkaproto.ProducerID
	marker bool
	abort  bool
	bytes  batch.Batch
}

// txnRun is one seed: transactions of a few producers, with rolls and crashes in between, against
// the list of what was written.
type txnRun struct {
	t      *testing.T
	rng    *rand.Rand
	fs     *vfs.PowerFS
	clk    *clock.Manual
	cfg    Config
	s      *Store
	l      *Log
	events []txnEvent
}

func (r *txnRun) open() {
	r.s = openStore(r.t, testOptions(r.t, r.fs, r.clk))
	r.l = openLog(r.t, r.s, 1, r.cfg)
}

// openTxn is whether the producer has a transaction open, and its next sequence.
func (r *txnRun) openTxn(pid kafkaproto.ProducerID) (open bool, seq int32) {
	for _, e := range r.events {
		if e.pid != pid {
			continue
		}
		if open = !e.marker; open {
			seq++
		}
	}
	return open, seq
}

func (r *txnRun) step() {
	pid := kafkaproto.ProducerID(1 + r.rng.IntN(3))
	open, seq := r.openTxn(pid)
	switch n := r.rng.IntN(40); {
	case n < 16:
		b := produced(pid, seq, true, fmt.Sprint("v", len(r.events)))
		a := appendTo(r.t, r.l, b)
		r.events = append(r.events, txnEvent{off: a.BaseOffset, pid: pid, bytes: b})
	case n < 26 && open:
		kind := batch.ControlKind(r.rng.IntN(2))
		a := mark(r.t, r.l, kind, pid)
		r.events = append(r.events, txnEvent{off: a.BaseOffset, pid: pid, marker: true, abort: kind == batch.Abort})
	case n < 28 && !r.cfg.Strict:
		r.l.Commit(r.l.EndOffset())
		settle(r.s)
		r.check()
	case n < 30:
		commitAll(r.t, r.l)
		settle(r.s)
		r.check()
	case n < 33:
		if err := r.l.Roll(); err != nil {
			r.t.Fatal(err)
		}
	case n < 35:
		if err := r.l.checkpoint(); err != nil {
			r.t.Fatal(err)
		}
	case n < 36:
		r.l.mu.checkpoint = -2 * checkpointBytes // so that the next checkpoint is due
	case n < 37:
		closeStore(r.t, r.s)
		r.open()
		r.check()
	case n < 39:
		r.crash(vfs.KillCrash)
	default:
		r.crash(vfs.PowerCrash)
	}
}

func (r *txnRun) crash(kind vfs.CrashKind) {
	synced := r.l.SyncedOffset()
	if kind == vfs.KillCrash {
		synced = r.l.EndOffset()
	}
	r.fs = r.fs.Crash(kind)
	_ = r.s.Close()
	r.open()
	end := r.l.EndOffset()
	if end < synced {
		r.t.Fatalf("end %d, %d was durable", end, synced)
	}
	for n := len(r.events); n > 0 && r.events[n-1].off >= end; n-- {
		r.events = r.events[:n-1]
	}
	r.check()
}

// check compares last stable offset, aborted lists and the producers' last batches, when all of
// the log is committed.
func (r *txnRun) check() {
	end := r.l.EndOffset()
	if r.l.HighWatermark() != end {
		return
	}
	first := map[kafkaproto.ProducerID]kafkaproto.Offset{}
	type aborted struct {
		AbortedTxn
		last kafkaproto.Offset
	}
	var txns []aborted
	for _, e := range r.events {
		at, open := first[e.pid]
		switch {
		case e.marker && e.abort:
			txns = append(txns, aborted{AbortedTxn{e.pid, at}, e.off})
			fallthrough
		case e.marker:
			delete(first, e.pid)
		case !open:
			first[e.pid] = e.off
		}
	}
	stable := end
	for _, at := range first {
		stable = min(stable, at)
	}
	if got := r.l.LastStable(end); got != stable {
		r.t.Fatalf("last stable %d, want %d of %d", got, stable, end)
	}
	for range 5 {
		from := kafkaproto.Offset(r.rng.Int64N(int64(end) + 1))
		to := from + kafkaproto.Offset(r.rng.Int64N(int64(end-from)+1))
		var want []AbortedTxn
		for _, a := range txns {
			if a.last >= from && a.FirstOffset < to {
				want = append(want, a.AbortedTxn)
			}
		}
		got, err := r.l.Aborted(from, to)
		if err != nil || !slices.Equal(got, want) {
			r.t.Fatalf("aborted [%d, %d): %v %v, want %v", from, to, got, err, want)
		}
	}
	r.retries()
}

// retries sends each producer's last batches again.
func (r *txnRun) retries() {
	left := map[kafkaproto.ProducerID]int{}
	for _, e := range slices.Backward(r.events) {
		if e.marker {
			continue
		}
		if left[e.pid]++; left[e.pid] > producer.Retained {
			continue
		}
		a, err := r.l.Append(slices.Clone(e.bytes), AppendOptions{})
		if err != nil || !a.Duplicate || a.BaseOffset != e.off {
			r.t.Fatalf("retry of %d's batch at %d: %+v %v", e.pid, e.off, a, err)
		}
	}
}

func TestCrashTransactions(t *testing.T) {
	run := tier.Of(t, 60, 0)
	found := []uint64{1796096200, 1796096630, 1796097016} // faults, once
	for _, seed := range append(slices.Collect(run.Seeds()), found...) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			r := &txnRun{
				t: t, rng: rand.New(rand.NewPCG(seed, 9)), fs: vfs.PowerLoss(seed),
				clk: clock.NewManual(testStart), cfg: Config{SegmentBytes: 700, Strict: seed%3 > 0},
			}
			r.open()
			for range 150 {
				r.step()
			}
			closeStore(t, r.s)
		})
	}
	run.Report(t, "transactions over kills and power cuts")
}

// TestAbortedListOfARolledSegment: a marker that was committed after its segment's indexes were
// written, and before the segment could be sealed, is known again behind a newer sidecar. The
// sidecar does not name it any more, so that the list on disk must.
func TestAbortedListOfARolledSegment(t *testing.T) {
	fsys, clk := vfs.PowerLoss(1), clock.NewManual(testStart)
	s := openStore(t, testOptions(t, fsys, clk))
	l := openLog(t, s, 1, Config{SegmentBytes: 1 << 20, Strict: true})
	checkpoint := func() {
		t.Helper()
		l.mu.checkpoint = -2 * checkpointBytes
		if err := l.checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(t, l, produced(1, 0, true, "aborted"))
	mark(t, l, batch.Abort, 1)
	checkpoint() // before the marker is committed
	commitAll(t, l)
	appendTo(t, l, produced(2, 0, true, "open")) // keeps the segment from being sealed
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	appendTo(t, l, produced(2, 1, true, "open"))
	checkpoint()
	next := fsys.Crash(vfs.KillCrash)
	_ = s.Close() // it has crashed
	s = openStore(t, testOptions(t, next, clk))
	l = openLog(t, s, 1, Config{SegmentBytes: 1 << 20, Strict: true})
	got, err := l.Aborted(0, l.EndOffset())
	if want := []AbortedTxn{{1, 0}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("aborted %v %v, want %v", got, err, want)
	}
	closeStore(t, s)
}
