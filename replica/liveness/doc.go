// Package liveness tells which brokers are alive and who leads which partition, without a word in any
// log: heartbeats between each pair of brokers, every 100 ms, that carry a leader table by deltas. It
// stands in for raft's heartbeats, so that ten thousand idle groups cost nothing.
//
//	Connected, Disconnected, Refused ──▶ ┌─────────┐ ──▶ Output.Peers     who went up or down, and why
//	Receive (a peer's frame) ──────────▶ │ Machine │ ──▶ Output.Send      beats and digests, as bytes
//	Lead, Resign (own elections) ──────▶ │  peers  │ ──▶ Output.Changed   leader table, for Metadata
//	DiskCycle (a sync has ended) ──────▶ │  table  │ ──▶ Output.Campaigns what this broker should take over
//	Advance (the clock) ───────────────▶ │  queues │ ──▶ Output.Wakes     quiescent groups that must tick
//	                                     └─────────┘ ──▶ Output.Exit, Quorum, Admitted, Stalled
//	Deadline ◀──────────────────────────────┘            Take empties Output
//
// The machine is pure: no goroutine, clock, socket or lock. Its driver holds one lock around each call
// and hands on what Take gives without it.
//
// # Up and down
//
// A peer is up from the first beat on a connection. It is down when its connection broke and the next
// one was refused (no process is there: kill -9, at once); when nothing was heard for 1.1 s, which is
// 1.0 to 1.2 s after the last sign of a machine that vanished between two beats; when it says that its
// disk has ended no sync for 5 s; when it comes back as another incarnation; when it is no member.
//
// Time in which this broker itself stood still proves nothing about others. A round that is more than
// 500 ms late declares nobody dead and is taken out of all silences, and out of the age of the own disk.
// A broker that is late each time judges from the second such round on by the little time that is left.
//
// # The leader table
//
// A broker tells only of groups that it leads itself: term, in-sync set, and the number of the change,
// which counts this incarnation's changes. A beat carries the changes (from, to]; one that does not
// join what was heard before makes the receiver ask for a digest: all led groups, in as many frames as
// it takes. A digest comes on each connect, on request, and every 10 s; a group that it does not list is
// not led by its sender any more.
//
//	beat    from=7 to=9  {g1 term 4 change 8} {g5 resigned change 9}
//	digest  seq=9 part 0 {g1 ...} {g2 ...} ...   part 1, last {g9 ...}
//
// Invariants:
//
//	V1  A group's term never goes back; a lower one is ignored, and in one term only the first leader
//	    that was heard of is believed.
//	V2  Within a term and incarnation the higher change number wins, and what is not above the number up
//	    to which all is known is late: frames may come twice, in any order or not at all, and a whole
//	    digest puts everything right.
//	V3  Frames count only on a connection, and only with its incarnation. A restarted broker's old
//	    leaderships are not live, whatever arrives late; their terms stay known.
//	V4  A leader's death removes no entry: it is leaderless but known, and live again if the same
//	    incarnation is heard again before anyone took over.
//	V5  Silence is judged over time in which this broker ran. A refusal or the peer's own word is judged
//	    at once.
//	V6  Clients are admitted once each member has either sent a whole digest or was found down
//	    (ruling 24), and this is never taken back.
//	V7  Campaigns and wakes leave at a bounded rate, and what has become pointless meanwhile does not
//	    leave at all. Urgent groups (the controller's) do not wait behind others.
//	V8  A frame is checked to its last byte before any of it counts. It causes no allocation that its
//	    own length does not pay for.
//	V9  A round costs O(peers + changes), however many groups there are. A digest costs O(led groups).
//	V10 The same inputs give the same outputs: members are gone through by id, groups in the order in
//	    which they came, randomness is handed in.
//
// What the caller must hold to:
//
//   - A follower may sleep only while Leader names its raft leader, in its term, as live. A leader that
//     died before it told of itself is in no table, and only the group's own clock finds that out.
//   - When a broker is not Up, a group whose leader was there forgets the leader (raft's ForgetLeader) on
//     its own campaign and on the first vote that it is asked for.
//   - A campaign is void when the group is in a later term by then. A group that was told to campaign
//     or to wake ticks until it has a leader: what failed is repeated by raft's own timeouts.
//   - Refused is told for ECONNREFUSED only, by a dialler that tries again at once when a connection
//     breaks. DiskCycle is told for each commit round, and on an idle broker for a probe each second.
//   - Frames go out in the order given, on one connection per pair, and none before Connected is told;
//     a deposed leader calls Resign, whatever made it so.
//
// What is not here: connections and their authentication (replica/transport), elections themselves,
// ForgetLeader and lag (replica/engine, asked through Replicas), fencing of brokers (controller).
//
// Goroutines: none.
package liveness
