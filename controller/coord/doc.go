// Package coord runs coordinators: one shard is one pure state machine over one partition of an
// internal topic.
//
//	Submit ──► shard queue ──► worker: Machine.Step, Step, Step … ──► one batch ──► Log.Append
//	  ▲ (bounded)                │ effects: records, replies                          │
//	  │                          ▼                                                    ▼
//	caller ◄── reply ◄── held until committed ◄──────────────────────── Log.WhenCommitted
//
// A machine decides and applies at once (Step), so that the next step sees the new state before it
// is durable. What a client is told waits: every reply, reads and errors too, is held until the
// log position that the shard had reached is committed. When an append is dropped the state above
// the log is wrong: the shard is unloaded, everyone who waits is told NOT_COORDINATOR, and the log
// is replayed.
//
// Loading replays the partition from its log start to the log end found at the start, once that
// end is committed. A short log is replayed before its first request is answered; during a long
// one requests get COORDINATOR_LOAD_IN_PROGRESS, and other shards have their turns in between.
//
// Invariants:
//
//	O1  A machine is used by one goroutine at a time.
//	O2  No reply shows state that is not committed, and every input is answered exactly once.
//	O3  Replay uses the same code as a live step, so a restart is an everyday path.
//	O4  A reply waits CommitTimeout for its commit and no longer; then its outcome is open.
//	O5  A shard's queue is bounded; an idle shard costs a timer at most, and no goroutine.
//	O6  The replies of one shard go out in the order of its steps.
//
// Not here: reading the high watermark from a majority before a read (ruling 19). The solo log
// needs none; a replicated one puts it behind Log.WhenCommitted.
//
// Goroutines: Options.Workers workers, owned by Runtime, stopped and waited for by Close. With
// Workers = 0 a shard runs on whoever submits, commits or fires the clock (tests, simulation).
package coord
