package admin

import (
	"strconv"

	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/replica/engine"
)

// groupStates are the states of a group, as they end the name of a family.
var groupStates = map[string]string{
	"Empty": "empty", "Stable": "stable", "PreparingRebalance": "preparingrebalance",
	"CompletingRebalance": "completingrebalance", "Dead": "dead",
}

func (c *collector) collectGroups(s *sink, groups []group.GroupStats) {
	states := make(map[string]int)
	scan := c.unread.begin()
	for i := range groups {
		g := &groups[i]
		states[g.State]++
		s.set("kafka_consumergroup_members", float64(g.Members), g.Group)
		c.collectGroup(s, scan, g)
	}
	c.unread.end(scan)
	const count = "kafka_coordinator_group_groupmetadatamanager_numgroups"
	s.set(count, float64(len(groups)))
	for state, suffix := range groupStates {
		s.set(count+suffix, float64(states[state]))
	}
}

// collectGroup gives the offsets and lags of one group. Offsets of a partition that is not here, or
// whose log is not usable, have no lag.
func (c *collector) collectGroup(s *sink, scan *scan, g *group.GroupStats) {
	type sum struct{ offset, lag int64 }
	sums := make(map[string]*sum)
	nowMs := c.Broker.Clock.Now().UnixMilli()
	for _, o := range g.Offsets {
		labels := []string{g.Group, o.Topic, strconv.Itoa(int(o.Partition))}
		s.set("kafka_consumergroup_current_offset", float64(o.Offset), labels...)
		if sums[o.Topic] == nil {
			sums[o.Topic] = &sum{}
		}
		sums[o.Topic].offset += int64(o.Offset)
		p := c.Broker.Engine.Get(o.Topic, o.Partition)
		if p == nil || p.Offline() != nil {
			continue
		}
		lag := max(int64(p.HighWatermark()-o.Offset), 0)
		sums[o.Topic].lag += lag
		s.set("kafka_consumergroup_lag", float64(lag), labels...)
		if age, ok := timeLag(scan, p, &o, lag, nowMs); ok {
			s.set("kafka_consumergroup_lag_seconds", age, labels...)
		}
	}
	for topic, sum := range sums {
		s.set("kafka_consumergroup_current_offset_sum", float64(sum.offset), g.Group, topic)
		s.set("kafka_consumergroup_lag_sum", float64(sum.lag), g.Group, topic)
	}
}

// timeLag is the age in seconds of the first unread record; 0 when all that is left is no records
// (control batches, or what compaction has emptied). false: it was not looked up.
func timeLag(
	scan *scan, p *engine.Partition, o *group.OffsetStats, lag, nowMs int64,
) (seconds float64, ok bool) {
	if lag == 0 {
		return 0, true
	}
	ts, found, ok := scan.firstUnread(p, o.Offset)
	if !ok || !found {
		return 0, ok
	}
	return float64(max(nowMs-ts, 0)) / 1000, true
}
