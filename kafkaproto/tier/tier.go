package tier

import (
	"fmt"
	"iter"
	"os"
	"strconv"
	"testing"
)

// The environment of the soak tier.
const (
	AmountVar = "SLUICE_SOAK_AMOUNT"
	SeedVar   = "SLUICE_SOAK_SEED"
)

// ReportMark opens the line that Report logs.
const ReportMark = "SOAK "

// Run is the part of a proof that is to run.
type Run struct {
	// Amount counts seeds, or what else the proof counts: kills, for one.
	Amount uint64
	// Seed is the only or the first seed.
	Seed uint64
}

// Of is the part that the environment asks for. Without an environment it is amount from seed, and a
// tenth of that, but 2 at least, with -short.
func Of(t testing.TB, amount, seed uint64) Run {
	t.Helper()
	if testing.Short() {
		amount = min(amount, max(2, amount/10))
	}
	return Run{number(t, AmountVar, amount), number(t, SeedVar, seed)}
}

func number(t testing.TB, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a number", name, text)
	}
	return n
}

// Seeds are Amount seeds from Seed upwards.
func (r Run) Seeds() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range r.Amount {
			if !yield(r.Seed + i) {
				return
			}
		}
	}
}

// Report logs what was run, in words that the ledger shows. A test calls it last, and only then does
// its run count.
func (r Run) Report(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Logf("%samount=%d seed=%d %s", ReportMark, r.Amount, r.Seed, fmt.Sprintf(format, args...))
}
