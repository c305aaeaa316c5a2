package pid

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/quorum"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

// TestRestart: on the real metadata log, over kills and power losses while callers draw, no id comes
// twice (P1).
func TestRestart(t *testing.T) {
	run := tier.Of(t, 5, 0)
	for seed := range run.Seeds() {
		rng := rand.New(rand.NewPCG(seed, 2))
		fs := vfs.PowerLoss(seed)
		var mu sync.Mutex
		seen := map[kafkaproto.ProducerID]bool{}
		for life := range 4 {
			s, c := openController(t, fs, life)
			a := New(c, c.NodeID())
			var wg sync.WaitGroup
			for range 4 {
				draws := 1 + rng.IntN(1500)
				wg.Go(func() {
					for range draws {
						id, err := a.Next()
						mu.Lock()
						if err == nil && seen[id] {
							t.Errorf("seed %d: id %d came twice", seed, id)
						}
						if err == nil {
							seen[id] = true
						}
						mu.Unlock()
					}
				})
			}
			if life == 0 || rng.IntN(2) == 0 {
				wg.Wait()
			}
			fs = fs.Crash(vfs.CrashKind(rng.IntN(2)))
			_ = c.Close()
			_ = s.Close()
			wg.Wait()
		}
		if len(seen) == 0 {
			t.Errorf("seed %d: nothing was drawn", seed)
		}
	}
	run.Report(t, "3 crashes each")
}

func openController(t *testing.T, fs vfs.FS, life int) (*store.Store, *quorum.Controller) {
	t.Helper()
	static, _, err := config.NewStatic()
	if err != nil {
		t.Fatal(err)
	}
	clk, logger := clock.NewManual(time.Unix(1_700_000_000, 0)), slog.New(slog.DiscardHandler)
	s, err := store.Open(store.Options{
		FS: fs, Dir: "data", Clock: clk, Logger: logger, BootID: fmt.Sprint("boot", life),
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := quorum.Open(quorum.Options{
		Store: s, FS: fs, Dir: "data", Config: config.NewResolver(static), Clock: clk, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}
