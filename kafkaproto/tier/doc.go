// Package tier says how much of a proof runs. A proof by seeds is never finished: a bounded part of
// it runs with the other tests, and the whole amount by `make soak`, which sets the environment and
// keeps what Report prints.
//
//	go test ──▶ Of(t, 40, 0) ──▶ 40 seeds from 0
//	make soak ─ SLUICE_SOAK_AMOUNT=1000, SLUICE_SOAK_SEED=5000 ─▶ 1,000 seeds from 5000 ─▶ Report
//
// Invariants:
//
//	T1  The same environment gives the same seeds.
//	T2  A number that cannot be read fails the test: a soak that ran less than was asked for would be
//	    worth nothing.
//
// Only tests import this package. Goroutines: none.
package tier
