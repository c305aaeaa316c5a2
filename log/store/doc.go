// Package store keeps all logs of one data directory: it opens and recovers them, appends and
// reads, makes them durable in groups, deletes what is too old and compacts.
//
//	Append --> segment file --> end offset            (under the log's lock)
//	               |
//	           committer: one sync for every dirty log (one goroutine per store, no timer)
//	               |
//	           synced offset --> Event{Synced} --> the engine's high watermark
//
//	data dir   LOCK  sluice.format  journal/
//	           orders-0/  00000000000000000000.log .index .timeindex .raftindex ...
//
// Invariants:
//
//	S1  Offsets of a log are dense at append: a batch begins where the one before it ended.
//	S2  A failed write leaves nothing: file, indexes, producer state and offsets are as before.
//	S3  The synced offset never passes bytes that a sync has not covered.
//	S4  Bytes below the synced mark are never cut. Damage there takes the log offline.
//	S5  The log start only moves up, and is durable before it is seen.
//	S6  What the journal says of a log (no-op, window, swap) is durable before the bytes that
//	    depend on it are written, renamed or removed.
//	S7  Reading never takes the lock of the writer.
//
// Lock order: Store.mu, then Log.mu, then segment locks. Observers are called with none of them.
package store
