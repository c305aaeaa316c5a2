package store

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/vfs"
)

// everyByte lets the power go at every byte of every file's tail, with what else is not synced there
// and gone, and lets each of these disks live on for a while. It gives how many there were, and
// those on which the log was not what it must be.
func (r *rulesRun) everyByte() (cuts int, errs []error) {
	for _, tail := range r.fs.Tails() {
		content, err := vfs.ReadFile(r.fs, tail.Name, 1<<20)
		if err != nil {
			brokenf("%v", err)
		}
		for at := tail.From; at <= tail.End; at++ {
			if at > tail.From && at < tail.End && at%512 != 0 && content[at-1] == 0 && content[at] == 0 {
				continue // inside of zeros that the journal reserves
			}
			for _, rest := range []bool{true, false} {
				torn, ok := r.fs.Torn(tail.Name, at, rest)
				if !ok {
					continue
				}
				cuts++
				if err := r.afterCut(torn, uint64(at)); err != nil {
					errs = append(errs, fmt.Errorf("%s torn at %d of [%d, %d], the rest kept: %v: %w", tail.Name, at,
						tail.From, tail.End, rest, err))
				}
			}
		}
	}
	return cuts, errs
}

// afterCut starts on a disk that a power cut left, writes a little, and starts again.
func (r *rulesRun) afterCut(disk *vfs.PowerFS, seed uint64) error {
	q := *r
	q.fs, q.s, q.l, q.kept = disk, nil, nil, 0
	q.rng = rand.New(rand.NewPCG(seed, 29))
	q.boot++
	return q.guard(func() {
		q.start()
		q.receive()
		q.elect()
		q.receive()
		q.crash()
	})
}

// byteRun takes a seed through a few places at which the power goes at every byte.
func byteRun(seed uint64, off rules, t *testing.T) (cuts int, errs []error) {
	r := newRulesRun(seed, off, t)
	err := r.guard(func() {
		r.tree.elect(nil)
		r.start()
		for range 2 {
			for range 4 + r.rng.IntN(12) {
				r.step()
			}
			n, failed := r.everyByte()
			cuts, errs = cuts+n, append(errs, failed...)
		}
	})
	if err != nil {
		errs = append(errs, err)
	}
	return cuts, errs
}

// TestRulesAtEveryByte: as TestRules, with no byte left out.
func TestRulesAtEveryByte(t *testing.T) {
	run := tier.Of(t, 1, 0)
	cuts := 0
	for seed := range run.Seeds() {
		n, errs := byteRun(seed, rules{}, t)
		if cuts += n; len(errs) > 0 {
			t.Fatalf("seed %d: %d of %d power cuts: %v", seed, len(errs), n, errs[0])
		}
	}
	if cuts == 0 {
		t.Fatal("nothing was ever unsynced")
	}
	run.Report(t, "%d power cuts, one at each byte of what was not synced", cuts)
}

// TestRulesNeededAtBytes counts at how many bytes a rule is needed. Those that are not here rest on
// what two crashes do, which TestRulesNeeded has.
func TestRulesNeededAtBytes(t *testing.T) {
	if !soaking() {
		t.Skip("counted by make soak")
	}
	for _, c := range offRules {
		t.Run(c.name, func(t *testing.T) {
			run := tier.Of(t, 2, 0)
			cuts, failed := 0, 0
			for seed := range run.Seeds() {
				n, errs := byteRun(seed, c.off, t)
				cuts, failed = cuts+n, failed+len(errs)
			}
			run.Report(t, "without %s %d of %d power cuts fail", c.name, failed, cuts)
		})
	}
}
