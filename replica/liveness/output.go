package liveness

import "github.com/sluicelog/sluice/kafkaproto"

// Output is what the driver must do, in the order of the fields; within a field in the order given.
type Output struct {
	Send      []Frame
	Peers     []PeerChange
	Changed   []Change
	Campaigns []Campaign
	Wakes     []Wake

	Quorum   QuorumChange
	Admitted bool // set once: clients may be served
	Disk     DiskChange
	Exit     bool // set once: the disk has ended no sync for ExitAfter; end the process
}

// Frame is the body of a liveness frame. Several frames may share bytes: they are not to be changed.
type Frame struct {
	To   kafkaproto.NodeID
	Body []byte
}

// PeerChange says that a peer went up or down.
type PeerChange struct {
	Node        kafkaproto.NodeID
	Incarnation uint64
	Up          bool
	Reason      Reason // of a peer that is down
}

// Reason is why a peer is down.
type Reason uint8

// The reasons.
const (
	NoReason  Reason = iota
	Refused          // its connection broke and the next was refused: no process is there
	Silent           // nothing was heard for SilentAfter
	DiskStall        // it says that its disk has ended no sync for StallAfter
	Restarted        // it connected as another incarnation
	Removed          // it is not a member any more
)

// String gives the reason in words.
func (r Reason) String() string {
	switch r {
	case Refused:
		return "connection refused"
	case Silent:
		return "silent"
	case DiskStall:
		return "disk stalled"
	case Restarted:
		return "restarted"
	case Removed:
		return "removed"
	}
	return "none"
}

// Leader is what is known about a group's leadership.
type Leader struct {
	Term kafkaproto.LeaderEpoch
	Node kafkaproto.NodeID // the last leader that was heard of
	// Live is false when the leader resigned, or its broker is down or was started anew.
	Live   bool
	InSync []kafkaproto.NodeID // as the leader gave it; not to be changed
}

// Change is an entry of the leader table that is new or different. An entry whose Live changes because
// its broker went up or down is not listed: Output.Peers says so for all of them.
type Change struct {
	Group kafkaproto.PartitionID
	Leader
}

// Campaign tells to forget the leader of Term and to campaign for the group, unless the group is in a
// later term already.
type Campaign struct {
	Group kafkaproto.PartitionID
	Term  kafkaproto.LeaderEpoch // of the leader that is gone
}

// Wake tells to let a quiescent group that this broker leads tick again.
type Wake struct {
	Group kafkaproto.PartitionID
	Node  kafkaproto.NodeID // the peer that is back, of LagWake
	Why   WakeReason
}

// WakeReason is why a group must tick.
type WakeReason uint8

// The reasons.
const (
	LagWake    WakeReason = iota // a replica on a peer that is back may lag
	QuorumWake                   // most voters' brokers are down: raft's CheckQuorum must see it
)

// QuorumChange tells that this broker and the peers that are up have become or are no longer a majority
// of all members. A machine starts without quorum.
type QuorumChange uint8

// The changes.
const (
	QuorumSame QuorumChange = iota
	QuorumLost
	QuorumBack
)

// DiskChange tells that this broker's own disk stalls, so that its peers take it for down, or is back.
type DiskChange uint8

// The changes.
const (
	DiskSame DiskChange = iota
	DiskStalled
	DiskBack
)

// Counters count what was ignored since the start, for metrics.
type Counters struct {
	Malformed  uint64 // frames that could not be read
	Stray      uint64 // frames without a connection, or of another incarnation
	Gaps       uint64 // beats or digests that did not join what was heard before
	Conflicts  uint64 // second leaders of a term: a broken invariant of the peers
	Overflow   uint64 // entries beyond MaxGroups
	LateRounds uint64 // own rounds that judged nobody
}
