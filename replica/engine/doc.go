// Package engine leads partitions. A partition with one voter runs in "solo" form: what is
// locally durable is committed, so the states reached are those that raft would reach, on the
// same disk format, without a RawNode.
//
//	Append ──► store.Log (checks, offset, write) ──► committer (group sync)
//	                                                      │ Synced
//	WhenCommitted ◄── commit waits ◄── high watermark ◄───┘
//	Watch         ◄── watchers     ◄──┘
//
// Invariants:
//
//	E1  The high watermark never goes back and never passes what the durability mode allows:
//	    the synced offset (strict) or the written offset (relaxed); ruling 2.
//	E2  Nothing at or above the high watermark is read by anybody.
//	E3  Every function given to WhenCommitted is called exactly once, without locks held: with
//	    nil when the offset is committed, or with an error when it never will be here.
//	E4  A watcher is told of every move it could miss: it registers first and reads after.
//
// Lock order: Partition.mu, then the log's own. No lock is held over disk or a callback.
//
// This package starts no goroutine: it runs on its callers' and on the store's committer.
package engine
