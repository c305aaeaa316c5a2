package crash

import (
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicelog/sluice/compat/cluster"
	"github.com/sluicelog/sluice/kafkaproto/tier"
)

// TestKillOneOfThree: three brokers under load, of which one at a time is killed, stopped in order, or
// paused for longer than its peers wait. What was acknowledged stays, and writing goes on meanwhile.
//
// It runs by make soak: a broker that is paused holds its clients until their request times out, and how
// long all of it takes depends on the machine.
func TestKillOneOfThree(t *testing.T) {
	if os.Getenv(tier.AmountVar) == "" {
		t.Skip("by make soak")
	}
	run := tier.Of(t, 15, uint64(time.Now().Unix()))
	rng := rand.New(rand.NewPCG(run.Seed, 2))
	brokers := cluster.StartSeveral(t, 3, cluster.Options{Overrides: []string{
		"auto.create.topics.enable=false", "log.segment.bytes=1048576", "offsets.topic.segment.bytes=1048576",
		"group.initial.rebalance.delay.ms=0", "default.replication.factor=3", "min.insync.replicas=2",
	}})
	var seeds []string
	for _, b := range brokers {
		seeds = append(seeds, b.Address())
	}
	r := &killRun{t: t, rng: rng, b: brokers[0]}
	places := severalTopics(t, seeds)
	r.l = startLoad(strings.Join(seeds, ","), places, run.Seed, 4, 2)
	r.progress(50)
	began := time.Now()
	kills, longest := 0, time.Duration(0)
	for uint64(kills) < run.Amount && !t.Failed() {
		victim := brokers[rng.IntN(len(brokers))]
		r.progress(1 + rng.IntN(300))
		fault := time.Now()
		paused := false
		switch n := rng.IntN(6); {
		case n == 0:
			if err := victim.Stop(); err != nil {
				t.Error(err)
			}
		case n == 1:
			victim.Signal(syscall.SIGSTOP)
			paused = true
		default:
			victim.Kill()
		}
		kills++
		r.progress(200) // with one of three away
		longest = max(longest, time.Since(fault))
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		if paused {
			victim.Signal(syscall.SIGCONT)
		} else {
			victim.Restart()
		}
	}
	r.l.stopWriters()
	r.progress(0)
	time.Sleep(time.Second)
	for _, err := range r.l.stop() {
		t.Error(err)
	}
	final, err := r.l.readFinal()
	if err != nil {
		t.Error(err)
	}
	r.l.r.history.Final = final
	found := Check(&r.l.r.history)
	for i, v := range found[:min(20, len(found))] {
		t.Error(i, v)
	}
	run.Report(t, "%d faults, %d records acknowledged, %d violations, 200 records after a fault within %s, %s",
		kills, r.l.r.acked.Load(), len(found), longest.Round(time.Millisecond), time.Since(began).Round(time.Second))
}

// severalTopics makes a topic on three brokers.
func severalTopics(t *testing.T, seeds []string) []Place {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 4, 3, nil, "strict"); err != nil {
		t.Fatal(err)
	}
	var places []Place
	for p := range int32(4) {
		places = append(places, Place{"strict", p})
	}
	return places
}
