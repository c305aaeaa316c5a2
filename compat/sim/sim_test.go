package sim

import (
	"fmt"
	"testing"
	"testing/cryptotest"

	"github.com/sluicelog/sluice/kafkaproto/tier"
)

// TestWorlds runs worlds of fresh seeds, and those that have failed once.
func TestWorlds(t *testing.T) {
	run := tier.Of(t, 40, 0)
	Verbose = run.Amount == 1
	var sum Stats
	for seed := range run.Seeds() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			cryptotest.SetGlobalRandom(t, seed)
			w := New(t, seed)
			w.Run(800)
			sum.Add(w.Stats)
		})
	}
	if sum.Acked < int(run.Amount)*50 {
		t.Errorf("only %d writes were acknowledged", sum.Acked)
	}
	run.Report(t, "%+v", sum)
}
