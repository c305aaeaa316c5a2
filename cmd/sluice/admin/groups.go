package admin

import (
	"strconv"

	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/replica/engine"
)

// maxTimeLags bounds how many partitions a scrape looks into for the time of their first unread
// record; what is left out has no series rather than a wrong one.
const maxTimeLags = 1000

func (c *collector) collectGroups(s *sink, groups []group.GroupStats) {
	states := map[string]int{"Empty": 0, "Stable": 0, "PreparingRebalance": 0, "CompletingRebalance": 0, "Dead": 0}
	looks := maxTimeLags
	for _, g := range groups {
		states[g.State]++
		s.gauge("kafka_consumergroup_members", float64(g.Members), g.Group)
		type sum struct{ lag, offset int64 }
		sums := make(map[string]*sum)
		for _, o := range g.Offsets {
			labels := []string{g.Group, o.Topic, strconv.Itoa(int(o.Partition))}
			s.gauge("kafka_consumergroup_current_offset", float64(o.Offset), labels...)
			if sums[o.Topic] == nil {
				sums[o.Topic] = &sum{}
			}
			sums[o.Topic].offset += int64(o.Offset)
			p := c.src.Broker.Engine.Get(o.Topic, o.Partition)
			if p == nil {
				continue
			}
			lag := max(int64(p.HighWatermark()-o.Offset), 0) // never negative
			sums[o.Topic].lag += lag
			s.gauge("kafka_consumergroup_lag", float64(lag), labels...)
			if lag == 0 {
				s.gauge("kafka_consumergroup_lag_seconds", 0, labels...)
				continue
			}
			if looks--; looks < 0 {
				continue
			}
			if first, ok := firstUnread(p, o.Offset); ok {
				age := c.src.Broker.Clock.Now().UnixMilli() - first
				s.gauge("kafka_consumergroup_lag_seconds", float64(max(age, 0))/1000, labels...)
			}
		}
		for topic, sum := range sums {
			s.gauge("kafka_consumergroup_lag_sum", float64(sum.lag), g.Group, topic)
			s.gauge("kafka_consumergroup_current_offset_sum", float64(sum.offset), g.Group, topic)
		}
	}
	const family = "kafka_coordinator_group_groupmetadatamanager_numgroups"
	s.gauge(family, float64(len(groups)))
	s.gauge(family+"empty", float64(states["Empty"]))
	s.gauge(family+"stable", float64(states["Stable"]))
	s.gauge(family+"preparingrebalance", float64(states["PreparingRebalance"]))
	s.gauge(family+"completingrebalance", float64(states["CompletingRebalance"]))
	s.gauge(family+"dead", float64(states["Dead"]))
}

// maxLagBatch bounds the batch that is read to find one timestamp.
const maxLagBatch = 4 << 20

// firstUnread is the timestamp, in milliseconds, of the first record at or behind off.
func firstUnread(p *engine.Partition, off kafkaproto.Offset) (int64, bool) {
	off = max(off, p.LogStart())
	r, err := p.Read(off, 1, engine.ReadUncommitted, true)
	if err != nil || r.Range.Len == 0 {
		return 0, false
	}
	defer r.Range.Release()
	if r.Range.Len > maxLagBatch {
		return 0, false
	}
	buf := make([]byte, r.Range.Len)
	if _, err := r.Range.File.ReadAt(buf, r.Range.Pos); err != nil {
		return 0, false
	}
	b, err := batch.First(buf)
	if err != nil {
		return 0, false
	}
	if b.TimestampType() == batch.LogAppendTime {
		return b.MaxTimestamp(), true
	}
	at, found := int64(0), false
	err = b.Each(maxLagBatch, func(rec *batch.Record) (bool, error) {
		if rec.Offset >= off {
			at, found = rec.Timestamp, true
		}
		return !found, nil
	})
	return at, found && err == nil
}
