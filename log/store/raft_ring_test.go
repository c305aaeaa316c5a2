package store

import (
	"math/rand/v2"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TestRing: the ring gives what was put in, never anything else, keeps all that is not committed and
// at least ringKept of the rest, and does not grow.
func TestRing(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var r ring
	var want []slot // by index
	committed, most, floor := 0, 0, 0
	for range 30_000 {
		switch n := rng.IntN(1000); {
		case n < 992:
			if len(r.slots) == 0 {
				floor = len(want)
			}
			s := slot{base: kafkaproto.Offset(rng.Int64()), span: 1, size: rng.Uint32()}
			r.add(uint64(len(want)), s, uint64(committed))
			want = append(want, s)
			most = max(most, len(r.slots)-(len(want)-committed))
			if int(r.first) > max(floor, committed) {
				t.Fatalf("the ring begins at %d, %d are committed", r.first, committed)
			}
		case n < 996:
			committed += rng.IntN(len(want) - committed + 1)
		case n < 999:
			at := max(committed, len(want)-rng.IntN(50))
			r.cut(uint64(at))
			want = want[:min(len(want), at)]
		case rng.IntN(20) == 0:
			r.clear()
		}
		lo := rng.IntN(len(want) + 1)
		hi := lo + rng.IntN(len(want)+2-lo)
		got, ok := r.get(make([]slot, 0, hi-lo), uint64(lo), uint64(hi))
		if !ok {
			if lo >= int(r.first) && hi <= len(want) && len(r.slots) > 0 {
				t.Fatalf("[%d, %d) is not in a ring of %d from %d", lo, hi, len(r.slots), r.first)
			}
			continue
		}
		for i, s := range got {
			if len(got) != hi-lo || s != want[lo+i] {
				t.Fatalf("%d of [%d, %d): entry %d is %+v, want %+v", len(got), lo, hi, lo+i, s, want[lo+i])
			}
		}
	}
	if most < ringKept || most > 2*ringKept {
		t.Errorf("the ring held up to %d committed entries", most)
	}
}
