// Package group is the coordinator of consumer groups in the classic protocol, and the keeper of
// committed offsets.
//
//	api handler ──► Service ──► coord.Runtime ──► Machine ──► __consumer_offsets
//	   ▲              │ checks that need no group,    │ one per partition, pure
//	   │              │ names and ids of topics       │
//	   └── reply ◄────┴── parts of one answer ◄───────┘
//
//	Machine
//	  join.go rebalance.go   members, generations, assignments
//	  offsets.go             commits, transactions' pending commits, expiry
//	  queries.go             describe, list, delete
//	  records.go wire.go     Kafka's record formats
//	  timers.go              deadlines: sessions, phases, the look for expired offsets
//
// What the log tells of a group is its last complete generation and its offsets; members that
// join, wait and sync are the talk in between and are lost when the shard moves: clients then join
// again, as they do with Kafka.
//
// Invariants:
//
//	C1  In one generation a partition has at most one owner: an assignment is handed out only to
//	    members of the generation that the leader assigned it in (G14).
//	C2  A commit that was answered without error is read by every later fetch, through restarts,
//	    unless a later commit, deletion or expiry replaced it (G13).
//	C3  Replaying the log gives the state that the live machine had of the same records.
//	C4  Every parked request has a member, and every member a deadline.
//	C5  An offset belongs to a topic's identity, not to its name: a topic made anew under an old
//	    name begins without offsets.
//	C6  Nothing here knows what a protocol's bytes mean, but for the topics of a consumer's
//	    subscription.
//
// Goroutines: the runtime's workers, and one that creates __consumer_offsets while somebody waits
// for it; Service.Close waits for both.
package group
