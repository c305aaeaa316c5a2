// Package store keeps all logs of one data directory: it opens and recovers them, appends and
// reads, makes them durable in groups, deletes what is too old and compacts.
//
//	Append --> segment file --> end offset            (under the log's lock)
//	               |
//	           committer: one sync for every log that was written to meanwhile
//	               |
//	           synced offset --> Event{Synced} --> the engine's high watermark
//	                                                   |
//	           producer state, aborted lists  <-- Commit
//
//	data dir   LOCK                       held while the broker runs
//	           sluice.format              "version: 1": the layout of the directory
//	           journal/                   log/journal
//	           cleaner-offset-checkpoint  Kafka's: how far logs are cleaned
//	           orders-0/                  log/FORMAT.md, and of ours:
//	             <end>.producers          producer state at log end <end>; <end>.snapshot is Kafka's
//	             <base>.<pos>.cut         bytes that a recovery has cut off, for a human to look at
//
// Invariants:
//
//	S1  Offsets of a log are dense at append: a batch begins where the one before it ended.
//	S2  A failed write leaves nothing: file, indexes, producer state and offsets are as before.
//	S3  The synced offset never passes bytes that a sync has not covered.
//	S4  Bytes below the synced mark are never cut. Damage there takes the log offline, and only it.
//	S5  The log start only moves up, and is durable before it is seen.
//	S6  What the journal says of a log (no-op, window, swap) is durable before the bytes that
//	    depend on it are written, renamed or removed.
//	S7  Reading never takes the lock of the writer.
//	S8  A sync that failed is never tried again: the whole directory stops (rulings 5, 6).
//	S9  Each batch has one raft index, counted from the journal's window over side entries and
//	    batches; below the window, where compaction has been, there are none.
//	S10 From every offset in [start, end) a reader can advance to the end: compaction keeps the
//	    last record in front of what it may not touch, and no empty batches.
//
// Lock order: Store.mu, Log.dirMu, Log.mu, Log.prod, the segments' own. Observers are called with
// none of them. StartSolo alone holds the mu of several logs, in the order of their names.
//
// Goroutines, each started by Open and ended by Close: the committer (syncs, events), the janitor
// (sealing, retention, removal, background syncs, free space), pages (what stays in the page cache),
// the cleaner and the scrubber when they are enabled. Timers are the clock's, and only wake these.
//
// Not here: when something is committed (replica/engine), what a config key means
// (controller/config), the bytes of a segment or of the journal (their packages).
package store
