// Package segment is one segment of a partition: a .log file of whole batches, back to back, and
// the indexes beside it, in Kafka's formats and names; and the two text files of a partition
// directory. ../FORMAT.md draws them all, and numbers the steps of a recovery.
//
//	Append --> write(2) --> lists in memory --> end published --> readers
//	                             |
//	                  FlushIndexes, Seal, Close
//	                             v
//	     .index .timeindex .txnindex .sum, and .raftindex, whose summary vouches for them
//
//	Create -> active --Seal--> sealed --Delete--> .deleted --Remove--> gone
//	            ^ |               |
//	    Open    | | Truncate      | Open as active
//	            +-+---------------+
//
// When to roll, to sync, to delete and to compact is the store's business; here is how.
//
// Invariants:
//
//	SG1  Readers see whole batches only: size and next offset are published in one word, after the
//	     bytes are written and the indexes know them.
//	SG2  A failed append leaves nothing behind (ruling 6), or the segment is broken and takes no more.
//	SG3  An index is proved before it is used: by the CRC in the summary, and each entry by the batch
//	     it leads to. A damaged one is made anew, and never leads to a wrong answer.
//	SG4  Bytes that were on disk before Open are verified before their first read is served
//	     (ruling 9), headers that a lookup walks over included.
//	SG5  One builder makes the entries for appends, recovery and rebuilding alike.
//	SG6  Nothing below the synced mark is ever cut; damage there is a corruption error.
//	SG7  Files stay open until the last reader has left, and no more than the cache's bound of sealed
//	     ones beyond those in use.
//
// Errors: bytes that are not what was written are marked as corruption (kafkaproto.IsCorrupt); an
// error of the disk is not.
//
// This package starts no goroutine. Appends, truncations, flushes and seals take turns by
// themselves; readers take no lock, but for opening a file of a sealed segment.
package segment
