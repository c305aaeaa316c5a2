// Package crash kills the real broker under load, again and again, and checks what its clients saw.
//
//	writers ──produce──▶ ┌────────┐ ◀── kill -9 at seeded moments, started again at once
//	members ◀─consume──  │ sluice │
//	        ──commit───▶ └────────┘ ◀── auditors ask for committed and latest offsets
//	   └──────┬──────┘        └────── at the end every partition is read from its first offset
//	       History ──────▶ Check ──▶ violations, each with its rule
//
// The writers are idempotent franz-go producers with five requests in flight, several to each
// partition, in small batches; one of them takes a new producer id every few hundred records. The
// members of one group read everything and commit what they read.
//
// Invariants (the rules of Check, guarantees G1, G5 to G9 and G13):
//
//	K1  What was acknowledged lies at the offset that was acknowledged.
//	K2  Every record lies in the log at most once, in its writer's order, and without a hole.
//	K3  Nothing lies in the log that was not sent, or that was sent to another partition.
//	K4  Offsets are dense, from 0 to the end: no gap, none used twice.
//	K5  A record whose sending began after another was acknowledged has the higher offset.
//	K6  What any reader saw is in the log at the end, and a reader skips nothing and repeats nothing.
//	K7  A committed offset never goes back and was sent by a member; members resume from it.
//	K8  The latest offset that a client was told never goes back.
//
// Check is a pure function over histories and is itself tested by mutation: every kind of damage done
// to a good history has to be found under its own rule.
//
// Goroutines: each writer, member and auditor owns one, beside those of its franz-go client; they end
// with the run. The test's goroutine kills and starts the broker.
package crash
