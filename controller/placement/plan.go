package placement

import (
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Cluster is what the balancer looks at.
type Cluster struct {
	Brokers    []Broker // Replicas, Leaders and Bytes are not looked at
	Partitions []Partition
}

// Partition is a partition as the balancer sees it.
type Partition struct {
	ID       kafkaproto.PartitionID
	Topic    string
	Version  int64               // of its replicas, for the compare when a move is carried out
	Replicas []kafkaproto.NodeID // that are wanted, the preferred leader first
	// Moving: a reassignment is under way, with Copying bytes to go.
	Moving  bool
	Copying int64

	Bytes   int64   // of one replica
	In, Out float64 // bytes per second written, and read by consumers

	Leader kafkaproto.NodeID   // -1: none
	InSync []kafkaproto.NodeID // replicas that could lead without loss
}

// Limits bound a plan.
type Limits struct {
	Moves    int   // reassignments under way at once, with those that are
	Bytes    int64 // to be copied at once; a lone move may be larger
	Reorders int   // changes of the preferred leader at once: they copy nothing
	// Tolerance is how far from the mean a broker may be, as a share of it: 0.1. Counts may always
	// differ by less than one from it.
	Tolerance float64
	// SmallBytes is a difference of stored bytes from the mean that is not worth a move.
	SmallBytes int64
	// LostAfter is how long a broker is fenced until its replicas are made anew elsewhere.
	LostAfter time.Duration
}

// DefaultLimits is what the controller uses.
func DefaultLimits() Limits {
	return Limits{
		Moves: 20, Bytes: 10 << 30, Reorders: 200, Tolerance: 0.1, SmallBytes: 256 << 20,
		LostAfter: 30 * time.Minute,
	}
}

// Measure is what is to be even over the brokers.
type Measure int

// The measures. Rate is bytes per second in and out: it decides between moves that are equally good
// otherwise, and causes none.
const (
	Replicas Measure = iota
	Bytes
	Leaders
	Rate
	measures
)

// String gives the measure's name as a person reads it.
func (m Measure) String() string {
	return [...]string{"replicas", "bytes", "leaders", "bytes per second"}[m]
}

// Cause is why a replica moves.
type Cause int

// The causes, the most urgent first.
const (
	CauseLost   Cause = iota + 1 // its broker is gone, or away for longer than LostAfter
	CauseDrain                   // its broker is to be emptied
	CauseRack                    // a rack has more of the partition's replicas than it must
	CauseUneven                  // a broker has more, or less, of a measure than the others
)

// Move is one partition's new replicas.
type Move struct {
	Partition kafkaproto.PartitionID
	Topic     string
	Version   int64
	From, To  []kafkaproto.NodeID
	Copy      int64 // bytes
	Cause     Cause
	// Broker is the one that the cause is about; with CauseUneven it was at Value of Measure.
	Broker      kafkaproto.NodeID
	Measure     Measure
	Value, Mean float64
}

// Why is why something does not move.
type Why int

// The reasons for no move.
const (
	WhyBalanced   Why = iota + 1 // all is within tolerance
	WhyLimit                     // as many moves, or bytes, as may be under way are
	WhyAway                      // a broker is fenced or stopping, and may come back
	WhyLeaderless                // partitions without a leader cannot be moved
	WhyNoBroker                  // no broker can take the replica
	WhyNoMove                    // every move would make something worse, or nothing better
)

// Held says why something does not move.
type Held struct {
	Why    Why
	Broker kafkaproto.NodeID // -1: none in particular
	// With WhyNoMove: the measure that is out of tolerance, and how many moves were looked at and
	// refused, by what they would do.
	Measure     Measure
	Value, Mean float64
	Refused     Refused
	// Partitions counts those that it is about.
	Partitions int
	// Left is how long a broker that is away is waited for.
	Left time.Duration
}

// Refused counts moves by why they were not made.
type Refused struct {
	Busy    int // the partition is moving already, or has no leader
	Racks   int // two replicas would share a rack that need not
	TooBig  int // the partition is larger than the difference, so that it would only change sides
	Worsens int // another measure would leave its tolerance
}

// Evenness is how a measure is spread over the brokers that keep data.
type Evenness struct {
	Measure     Measure
	Mean        float64
	Least, Most float64
	// LeastOn and MostOn are the brokers with the least and the most.
	LeastOn, MostOn kafkaproto.NodeID
	Within          bool // within tolerance
}

// Plan is what to do next, and why no more.
type Plan struct {
	Moves         []Move
	Held          []Held
	Before, After []Evenness // of Replicas, Bytes, Leaders; After: when the moves are done
}

// Next plans the next moves: it repairs what is lost, empties what is drained, spreads over racks,
// and then evens out. A partition moves at most once in a plan.
func Next(c Cluster, l Limits) Plan {
	w := newWork(c, l)
	w.plan.Before = w.evenness()
	if w.takers > 0 {
		w.evacuate()
		w.spread()
		w.settle()
		if !w.waiting() {
			w.balance()
		}
	} else if len(w.parts) > 0 {
		w.hold(Held{Why: WhyNoBroker, Broker: -1, Partitions: len(w.parts)})
	}
	w.plan.After = w.evenness()
	if len(w.plan.Moves) == 0 && len(w.plan.Held) == 0 {
		w.hold(Held{Why: WhyBalanced, Broker: -1})
	}
	return w.plan
}

func (w *work) hold(h Held) { w.plan.Held = append(w.plan.Held, h) }
