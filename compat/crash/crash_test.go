package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicelog/sluice/compat/cluster"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// TestKillUnderLoad is faults F1 and F3: the broker is killed at seeded moments under load, now and
// then again while it recovers, and is sometimes stopped in order. The tier's amount is how often,
// its seed which moments.
func TestKillUnderLoad(t *testing.T) {
	run := tier.Of(t, 40, uint64(time.Now().Unix()))
	r := &killRun{t: t, rng: rand.New(rand.NewPCG(run.Seed, 1)), b: cluster.Start(t, cluster.Options{Overrides: []string{
		"sluice.durability=strict", "auto.create.topics.enable=false", "log.segment.bytes=1048576",
		"offsets.topic.segment.bytes=1048576", "log.cleaner.backoff.ms=1000", "group.initial.rebalance.delay.ms=0",
	}})}
	began := time.Now()
	places := r.topics()
	r.l = startLoad(r.b.Address(), places, run.Seed, 4, 2)
	r.progress(50)
	for uint64(r.kills) < run.Amount && !t.Failed() {
		r.round()
	}
	h := r.finish()
	found := Check(h)
	for i, v := range found {
		if i == 20 {
			t.Errorf("and %d more", len(found)-i)
			break
		}
		t.Error(v)
	}
	r.verify()
	run.Report(t, "%d kills, %d records acknowledged, %d in flight at the kills, %d violations, %s",
		r.kills, r.l.r.acked.Load(), r.inFlight, len(found), time.Since(began).Round(time.Second))
	if r.inFlight < r.kills {
		t.Errorf("%d records in flight over %d kills: the load is too thin to prove anything", r.inFlight, r.kills)
	}
}

// killRun is a broker, its load and the moments that are still to come.
type killRun struct {
	t        *testing.T
	rng      *rand.Rand
	b        *cluster.Broker
	l        *load
	kills    int
	inFlight int // records without an answer, summed over the kills
}

// topics makes one topic that syncs before it acknowledges and one that does not: what kill -9
// leaves is the page cache, and so both keep everything.
func (r *killRun) topics() []Place {
	r.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.b.Address()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer cl.Close()
	var places []Place
	for _, mode := range []string{"strict", "relaxed"} {
		config := map[string]*string{"sluice.durability": &mode}
		if _, err := kadm.NewClient(cl).CreateTopic(r.t.Context(), 4, 1, config, mode); err != nil {
			r.t.Fatal(err)
		}
		for p := range int32(4) {
			places = append(places, Place{mode, p})
		}
	}
	return places
}

// progress waits until n more records are acknowledged: a broker that came back without serving is
// a failure too.
func (r *killRun) progress(n int) {
	r.t.Helper()
	want, deadline := r.l.r.acked.Load()+int64(n), time.Now().Add(30*time.Second)
	for r.l.r.acked.Load() < want {
		if time.Now().After(deadline) {
			r.t.Errorf("no %d records acknowledged within 30 s", n)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// round lets the load run for a while, then ends the broker in one of three ways and starts it.
func (r *killRun) round() {
	r.t.Helper()
	r.progress(1 + r.rng.IntN(300))
	time.Sleep(time.Duration(r.rng.IntN(500)) * time.Millisecond)
	switch n := r.rng.IntN(20); {
	case n == 0:
		if err := r.b.Stop(); err != nil {
			r.t.Error(err)
		}
	case n < 4:
		r.kill()
		if err := r.b.Launch(); err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(time.Duration(r.rng.IntN(60)) * time.Millisecond)
		r.kill()
	default:
		r.kill()
	}
	r.b.Restart()
}

func (r *killRun) kill() {
	r.inFlight += r.l.r.inFlight()
	r.kills++
	r.b.Kill()
}

// finish lets every record get its answer, kills the broker once more so that what is read comes
// from the disk, and reads it.
func (r *killRun) finish() *History {
	r.t.Helper()
	r.l.stopWriters()
	r.progress(0)
	r.kill()
	r.b.Restart()
	time.Sleep(300 * time.Millisecond) // members and auditors see the broker once more
	for _, err := range r.l.stop() {
		r.t.Error(err)
	}
	final, err := r.l.readFinal()
	if err != nil {
		r.t.Error(fmt.Errorf("read the logs: %w", err))
	}
	r.l.r.history.Final = final
	return &r.l.r.history
}

// verify reads the files of the stopped broker: no batch may be damaged.
func (r *killRun) verify() {
	r.t.Helper()
	if err := r.b.Stop(); err != nil {
		r.t.Error(err)
	}
	logs, err := store.Verify(vfs.OS(), r.b.DataDir())
	if err != nil {
		r.t.Error(err)
	}
	if len(logs) < 8 {
		r.t.Errorf("%d logs in the data directory", len(logs))
	}
	for _, l := range logs {
		for _, problem := range l.Problems {
			r.t.Errorf("%s: %s", l.Dir, problem)
		}
	}
}
