package liveness

import (
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Random is where jitter comes from; *rand.Rand of math/rand/v2 is one.
type Random interface {
	// Int64N gives a number in [0, n).
	Int64N(n int64) int64
}

// Replicas is what the machine asks about groups. It is called from within the machine's methods, so
// it must neither block nor call the machine.
type Replicas interface {
	// Voters gives the nodes of a group's voters, the preferred leader first; nil when this broker
	// holds no voter of it. Urgent groups are not held back by rates.
	Voters(group kafkaproto.PartitionID) (voters []kafkaproto.NodeID, urgent bool)
	// Lags reports whether a replica on node may lack something of a group that this broker leads.
	Lags(group kafkaproto.PartitionID, node kafkaproto.NodeID) bool
}

// Config is what a machine needs to know. A zero duration, number or size takes the default.
type Config struct {
	// Node is this broker, and Incarnation what tells this start of it from all others. Incarnations
	// are compared for equality only.
	Node        kafkaproto.NodeID
	Incarnation uint64
	Random      Random
	Replicas    Replicas

	Interval    time.Duration // between beats, and the unit of the rates: 100 ms
	SilentAfter time.Duration // without a frame a peer is down: 1.1 s
	LateAfter   time.Duration // a round later than this judges nobody: 500 ms
	StallAfter  time.Duration // a disk without an ended sync fails liveness: 5 s
	ExitAfter   time.Duration // and makes the process exit: 20 s
	DigestEvery time.Duration // 10 s
	RequestGap  time.Duration // least time between two digests that a peer asked for: 1 s
	RankStep    time.Duration // how long each rank waits before it campaigns: 75 ms
	Jitter      time.Duration // below RankStep: 25 ms
	ForgetAfter time.Duration // how long entries of a deleted topic are refused: 10 min

	Campaigns int // per Interval: 2,000
	Wakes     int // per Interval: 2,000
	MaxFrame  int // bytes of a frame that is sent: 64 KiB; from 8 KiB to MaxBody
	MaxGroups int // entries that the table takes from peers: 1,000,000
}

func (c Config) withDefaults() Config {
	duration := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	number := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	duration(&c.Interval, 100*time.Millisecond)
	duration(&c.SilentAfter, 1100*time.Millisecond)
	duration(&c.LateAfter, 500*time.Millisecond)
	duration(&c.StallAfter, 5*time.Second)
	duration(&c.ExitAfter, 20*time.Second)
	duration(&c.DigestEvery, 10*time.Second)
	duration(&c.RequestGap, time.Second)
	duration(&c.RankStep, 75*time.Millisecond)
	duration(&c.Jitter, 25*time.Millisecond)
	duration(&c.ForgetAfter, 10*time.Minute)
	number(&c.Campaigns, 2000)
	number(&c.Wakes, 2000)
	number(&c.MaxFrame, 64<<10)
	number(&c.MaxGroups, 1_000_000)
	c.MaxFrame = min(max(c.MaxFrame, minFrame), MaxBody)
	return c
}
