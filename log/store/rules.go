package store

import "github.com/sluicelog/sluice/log/journal"

// knobs are for tests of this package: they make a store's steps repeatable, and switch the rules
// off that a log's recovery rests on, one by one, to prove that each is needed. The zero value is the only one that anybody else has.
type knobs struct {
	// manual: the committer and the janitor run when the test says so.
	manual  bool
	journal journal.Options
	off     rules
}

// rules are what must be durable before what, by their names in the design; true switches one off.
type rules struct {
	sideFirst  bool // R1: a side record is durable before a later batch is written
	prefix     bool // R2: recovery drops side records beyond the contiguous prefix
	epoch      bool // a batch has the epoch of the term in force
	truncFirst bool // R3: TRUNC durable, then cut, then sync, then new writes
	truncCheck bool // R3 in recovery: the entry at the last TRUNC's index has another term
	reset      bool // R4: a durable RESET before a recovered log writes anything
	syncFound  bool // R5: what was found is synced before it counts as stable
}
