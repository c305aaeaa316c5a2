package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"

	"github.com/sluicelog/sluice/kafkaproto/tier"
)

// steps is how long a world lives.
const steps = 700

// TestPast runs the seeds that have failed once.
func TestPast(t *testing.T) {
	text, err := os.ReadFile("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		seed, why, _ := strings.Cut(strings.TrimSpace(line), " ")
		if seed == "" || seed == "#" {
			continue
		}
		number, err := strconv.ParseUint(seed, 10, 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n++
		t.Run(seed, func(t *testing.T) {
			t.Log(strings.TrimSpace(why))
			live(t, number)
		})
	}
	if n == 0 {
		t.Error("no seeds")
	}
}

// TestWorlds runs worlds of fresh seeds.
func TestWorlds(t *testing.T) {
	run := tier.Of(t, 200, 0)
	Verbose = run.Amount == 1
	var sum Stats
	for seed := range run.Seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { sum.Add(live(t, seed).Stats) })
	}
	if sum.Acked < int(run.Amount)*50 {
		t.Errorf("only %d writes were acknowledged", sum.Acked)
	}
	run.Report(t, "%+v", sum)
}

func live(t *testing.T, seed uint64) *World {
	cryptotest.SetGlobalRandom(t, seed) // raft draws its election timeouts from it
	w := New(t, seed)
	w.Run(steps)
	t.Logf("digest %016x", w.digest.Sum64())
	return w
}

// TestSeedRepeats: one seed gives one history, to the last packet.
func TestSeedRepeats(t *testing.T) {
	seeds := []uint64{3072} // the order in which leads are handed over
	for seed := range uint64(2 * len(Moods)) {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		var history [2][]string
		var digest [2]uint64
		for i := range digest {
			t.Run(fmt.Sprint(seed, ".", i), func(t *testing.T) {
				w := live(t, seed)
				history[i], digest[i] = w.history, w.digest.Sum64()
			})
		}
		if digest[0] == digest[1] {
			continue
		}
		for i := range min(len(history[0]), len(history[1])) {
			if history[0][i] != history[1][i] {
				t.Fatalf("seed %d: %q, and then %q", seed, history[0][i], history[1][i])
			}
		}
		t.Fatalf("seed %d gives two histories", seed)
	}
}
