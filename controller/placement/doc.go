// Package placement decides which broker keeps which replica: of new partitions, and of those there
// are, when the brokers are loaded unevenly, drained or lost.
//
//	brokers, their use --Place--> replicas of new partitions
//	Cluster, Limits    --Plan---> the next moves, each with its reason, and why there are no more
//	Cluster            --Transfers--> leaders that go back to the preferred replica
//
// It is pure: no clock, no randomness, no input but its arguments, and the same answer for the same
// arguments whatever order they come in. The driver asks again when what it did is done.
//
// Invariants:
//
//	L1  No partition gets two replicas on one broker, nor more of them in one rack than the racks
//	    force; a move never makes the spread over racks worse.
//	L2  A move for balance is made for a measure that is out of tolerance somewhere, and makes what
//	    the brokers are out of tolerance by less: of that measure, and never more of an earlier one,
//	    in the order replicas, bytes, leaders. So plans end, and nothing moves to and fro.
//	L3  Of a later measure it makes it more only where no other move helps.
//	L4  Where all is within tolerance, nothing moves; where something is not and nothing moves, the
//	    plan says why.
//
// This package starts no goroutine.
package placement
