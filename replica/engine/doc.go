// Package engine holds a broker's partitions. One with a single voter runs in "solo" form: what is
// locally durable is committed, so the states reached are those that raft would reach, on the
// same disk format, without a RawNode. One with several is a group (package group), run here.
//
//	solo:       Append ──► store.Log (checks, offset, write) ──► committer (group sync)
//	                                                                  │ Synced
//	            WhenCommitted ◄── commit waits ◄── high watermark ◄───┤
//	            Watch         ◄── watchers     ◄──┘                   │ commit
//	                                                                  │
//	replicated: Append ──► inbox ──► group: propose, write, send ─────┘
//	            Raft (from peers), ticks, Synced ──► inbox ──► run queue ──► workers
//
// Invariants:
//
//	E1  The high watermark never goes back and never passes what the durability mode allows:
//	    the synced offset (strict) or the written offset (relaxed), ruling 2; of a group, its commit.
//	E2  Nothing at or above the high watermark is read by anybody.
//	E3  Every function given to WhenCommitted is called exactly once, without locks held: with
//	    nil when the offset is committed, or with an error when it never will be here. A leader that
//	    was deposed does not guess: it waits until what it wrote is committed or cut off. An offset alone
//	    does not name what was written there: who asks late says when it was appended (Cuts).
//	E4  A watcher is told of every move it could miss: it registers first and reads after.
//	E5  Who holds a group's lock does all that is in its inbox: no group has a goroutine, none waits for
//	    a sync or a socket under the lock, and callers that come together are done together.
//	E6  A partition changes its form when its log is synced to its end and all of it is committed, with
//	    appends held back meanwhile.
//	E7  A replica behind raft's window gets files (ship.go), and raft hears of them when they are staged
//	    and synced.
//
//	E8  A follower goes without ticks only while its leader is known, by the leader table, to lead in its
//	    term; and a leader that is known to be dead or to have resigned is forgotten when a vote is asked for.
//	E9  A move is told as done when a restart of the leader finds it done.
//
// Lock order: Partition.form, replicated.mu, Partition.mu, the inbox, then the log's own; the leader table's
// under replicated.mu. No lock but a
// group's is held over disk, none over a callback.
//
// Goroutines: the workers that run groups and the ticker, when there is a transport, and one for each
// replica that fetches files; Close waits for all of them. All else runs on the callers' goroutines and on the store's committer.
//
// State of the work: with min.insync.replicas above a majority an answer does not wait for more than
// the majority yet.
package engine
