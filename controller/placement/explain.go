package placement

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// String says the move and why, in one line:
//
//	orders-3: [1 2 3] -> [4 2 3], copies 1.2 GiB: broker 1 is drained
func (m Move) String() string {
	what := "copies " + size(float64(m.Copy))
	if m.Copy == 0 {
		what = "copies nothing"
	}
	return fmt.Sprintf("%s-%d: %v -> %v, %s: %s", m.Topic, m.Partition.Partition, m.From, m.To, what, m.why())
}

func (m Move) why() string {
	switch m.Cause {
	case CauseLost:
		return fmt.Sprintf("broker %d is lost", m.Broker)
	case CauseDrain:
		return fmt.Sprintf("broker %d is drained", m.Broker)
	case CauseRack:
		return fmt.Sprintf("the replica on broker %d shares its rack with another", m.Broker)
	}
	return uneven(m.Broker, m.Measure, m.Value, m.Mean)
}

// uneven compares a broker with the mean.
func uneven(b kafkaproto.NodeID, m Measure, value, mean float64) string {
	return fmt.Sprintf("broker %d has %s, the mean is %s", b, m.amount(value), m.amount(mean))
}

// amount spells an amount of the measure, with its unit.
func (m Measure) amount(x float64) string {
	switch m {
	case Bytes:
		return size(x)
	case Rate:
		return size(x) + "/s"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0") + " " + m.String()
}

// size spells bytes.
func size(x float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	at := 0
	for ; x >= 1024 && at < len(units)-1; at++ {
		x /= 1024
	}
	if at == 0 {
		return fmt.Sprintf("%.0f B", x)
	}
	return fmt.Sprintf("%.1f %s", x, units[at])
}

// String says in one line why something does not move.
func (h Held) String() string {
	switch h.Why {
	case WhyBalanced:
		return "replicas, bytes and leaders are even"
	case WhyLimit:
		return fmt.Sprintf("%d moves are under way: the next ones wait for them", h.Partitions)
	case WhyAway:
		if h.Left > 0 {
			return fmt.Sprintf("broker %d is away with %d replicas: it is waited for, %s more", h.Broker,
				h.Partitions, h.Left.Round(time.Second))
		}
		return fmt.Sprintf("broker %d is being shut down: it is waited for", h.Broker)
	case WhyLeaderless:
		return fmt.Sprintf("%d partitions that should move have no leader: they need most of their "+
			"replicas back", h.Partitions)
	case WhyNoBroker:
		return fmt.Sprintf("%d partitions should move, but all brokers that take replicas have one of "+
			"theirs: add a broker", h.Partitions)
	case WhyNoMove:
		return uneven(h.Broker, h.Measure, h.Value, h.Mean) + ", but no move helps: " + h.Refused.String()
	}
	return fmt.Sprintf("reason %d", h.Why)
}

// String counts what was looked at.
func (r Refused) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(r.TooBig, "would make it no more even")
	add(r.Worsens, "would make something else uneven")
	add(r.Racks, "would put replicas into one rack")
	add(r.Busy, "are moving already or have no leader")
	if len(parts) == 0 {
		return "there is nothing that could go"
	}
	return strings.Join(parts, ", ")
}
