// Package producer is the idempotence and transaction state of one partition as a pure machine:
// which producers wrote here, their last five batches, which transactions are open. It has no
// clock, disk or goroutine; the log's lock guards it.
//
//	Check(batch) --> append | duplicate of ... | Kafka's error          changes nothing
//	   |
//	Append(batch with offsets) --> tip  +  pending [b1 b2 b3 ...]       written, not committed
//	                                          |         |
//	Commit(hw)  <-- the front becomes committed         |
//	   markers among it close transactions: LSO moves, .txnindex grows
//	Truncate(off)  <--------------------- the back is undone, the newest first
//
// The state a client sees is the tip: what is committed plus what is pending. Each pending batch
// keeps what its producer was before it, so that truncation needs no rescan (ruling 17) and a
// snapshot can tell the two apart.
//
// Invariants:
//
//	P1  Append, Commit and Truncate are functions of the log's batches and offsets: replay gives
//	    the state that was live, followers keep the same. Only idleness (Expire) goes by a clock,
//	    the broker's own: a batch's timestamp is its client's word.
//	P2  Truncate(off) gives the state in which nothing at or above off was ever appended.
//	P3  A transaction is open from its first batch until its marker has committed. The last
//	    stable offset never passes one.
//	P4  A retry of any of the last five batches of the same epoch is a duplicate with the numbers
//	    of the original, pending or committed, also after a restart.
//	P5  Bytes of a snapshot never panic, and never allocate more than they prove.
//
// # Compacted logs
//
// The state of a compacted log cannot be rebuilt from the log: the cleaner takes batches, and the
// five that a producer may repeat are gone with them (ruling 16). There the sidecar that Snapshot
// writes is the authority:
//
//   - Before a cleaned segment is swapped in, a sidecar taken at or above the segment's end is
//     synced. From then on replay below the sidecar's end is not allowed to replace it.
//   - Replay begins at the sidecar's end, where nothing was cleaned yet.
//   - A log with cleaned segments and no sidecar that loads gives its producers a fresh start: what
//     replay of the remains tells is still right for epochs, fencing and open transactions, but a
//     retry from before the loss may be taken for new. Unknown state accepts any first sequence;
//     a gap that replay sees is not an error, as Append never refuses.
//   - Kafka's .snapshot holds one batch per producer and is written for Kafka's tools only. It is
//     read when a directory comes from Kafka.
package producer
