// Package group is one partition on several nodes: raft's RawNode over the partition's log, as a state
// machine that its driver steps. It has no goroutine, clock or socket; the disk is the log's.
//
//	Propose --> Log.Reserve --> raft --> MsgStorageAppend --> Log.AppendEntries
//	                             ^  |                              | ticket
//	Step (from peers) -----------+  +--> Output.Messages           v
//	Observe(Synced) <------------------------------------ committer's group sync
//	    |                           +--> committed entries --> Output.HighWatermark, configuration
//	    +--> answers to peers, own acknowledgement
//
// raft sees descriptors of batches, never batches: the payload is written once, to the segment, and
// peers get it from there. Term is the leader epoch, commit the high watermark.
//
// Invariants:
//
//	P1  Nothing that rests on a write leaves before the write is durable: votes, acknowledgements and
//	    the leader's own count wait for the ticket of their storage message, in order, also when that
//	    message wrote nothing.
//	P2  A batch that comes from a peer is checked (whole, CRC, offset, epoch) before raft hears of it.
//	P3  The high watermark never goes back, and never passes what is written here.
//	P4  A leader is Ready once its no-op is committed; before that its high watermark may trail what the
//	    leader before it has shown.
//	P5  A write that failed (full disk) holds up all storage messages behind it, until it is repeated
//	    with success; batches that wait so are copied, since their buffers are not ours.
//
// The driver holds one lock around every call of a Group, and hands Output on without it.
package group
