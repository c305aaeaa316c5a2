// Package journal is the per-broker MetaWAL: votes, terms, no-ops, configuration changes,
// truncations, windows, synced marks and swaps of all groups (partition replicas) of a data
// directory, in one stream. The segments hold the records of Kafka; this holds what raft must
// remember about them, so that ten thousand votes are one write and one sync.
//
//	             Append(records)                     Sync / NoteSynced
//	                   |                                     |
//	     +-------------v--------------+          fdatasync, directory after a roll,
//	     | one Apply: State in memory |          files before it removed, reserve made
//	     +-------------+--------------+
//	                   | one write(2)
//	                   v
//	journal/0000000000000007.wal   header | checkpoint of all groups | frames ... | zeros
//	journal/0000000000000006.wal   gone once 7 is durable
//	journal/reserve                zeros; becomes the next file when the disk is full
//
// FORMAT.md draws the bytes and numbers the steps of recovery.
//
// Invariants:
//
//	J1  One Apply serves live records, replay and checkpoints: the state in memory is the state
//	    that replay gives.
//	J2  The order in the file is the order of Apply. What a crash leaves is a prefix of it that
//	    holds everything that was synced.
//	J3  A record that could not be written leaves nothing: not in the state, not on disk.
//	J4  A file goes only when the checkpoint of a newer one is durable.
//	J5  Recovery never appends to a file it found: it begins a new one and makes it durable, so
//	    nothing can follow a torn tail.
//	J6  Only a mark ("synced up to here") behind a bad byte makes it damage; without one it is
//	    the torn end of what nobody was promised (ruling 4).
//	J7  A failed sync is final (ruling 5). A failed write is not: the next one may succeed
//	    (ruling 6).
//	J8  RESET voids the SIDE and TRUNC records past it (rules R2, R4 of replication.md §1.5), and
//	    TRUNC the SIDE records from its index on (R3), inside Apply: no reader sees them.
//
// What belongs to the store and not here: when a record must be synced before what (R1, R3, R4),
// where a log ends, and what the segments hold.
//
// Lock order: syncMu, then mu. This package starts no goroutine: Sync runs on its caller's, which
// is the store's committer.
package journal
