package batch

import (
	"fmt"
	"math"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// bounds gives the oldest and newest timestamp that are accepted, in milliseconds.
func (c *Check) bounds() (oldest, newest int64) {
	oldest, newest = c.NowMs-c.BeforeMaxMs, c.NowMs+c.AfterMaxMs
	if c.BeforeMaxMs > 0 && oldest > c.NowMs {
		oldest = math.MinInt64
	}
	if c.AfterMaxMs > 0 && newest < c.NowMs {
		newest = math.MaxInt64
	}
	return oldest, newest
}

// timely reports whether timestamps from lo to hi are accepted in b. NoTimestamp always is, except
// in a batch that claims broker time: clients may not set LogAppendTime, and Kafka forgives it only
// on a CreateTime topic, where it checks the batch's timestamp and stores it as CreateTime.
func (c *Check) timely(b Batch, lo, hi int64) bool {
	claimed := b.TimestampType() == LogAppendTime
	if c.TimestampType == LogAppendTime {
		return !claimed
	}
	if claimed && hi == NoTimestamp {
		return false
	}
	oldest, newest := c.bounds()
	return (lo == NoTimestamp || lo >= oldest) && (hi == NoTimestamp || hi <= newest)
}

// timestampText says why record i of b is not accepted with timestamp ts.
func (c *Check) timestampText(b Batch, i int32, ts int64) string {
	if c.TimestampType == LogAppendTime || ts == NoTimestamp {
		return fmt.Sprintf("Invalid timestamp type in record %d of %v. Producer should not set "+
			"timestamp type to LogAppendTime.", i, c.Partition)
	}
	oldest, newest := c.bounds()
	return fmt.Sprintf("Timestamp %d of message with offset %d is out of range. The timestamp "+
		"should be within [%d, %d]", ts, i, oldest, newest)
}

func (c *Check) untimely() error {
	return kafkaproto.Faultf(kerr.InvalidTimestamp,
		"One or more records for %v have been rejected due to invalid timestamp", c.Partition)
}

// shownRecordErrors is how many record errors the batch's error text repeats, as in Kafka.
const shownRecordErrors = 3

// blame lists the records of a batch that did not pass: those without key in a compacted topic and
// those out of time. One timestamp among them makes INVALID_TIMESTAMP the code of the batch.
func (c *Check) blame(b Batch, payload []byte) ([]RecordError, error) {
	d := decoders.Get().(*decoder)
	defer d.free()
	d.reset(b, payload)
	var failed []RecordError
	var total int
	var untimely bool
	for i := range b.Count() {
		if err := d.next(); err != nil {
			return nil, c.malformed(b, payload)
		}
		text := ""
		switch ts := d.rec.Timestamp; {
		case c.Compacted && d.rec.Key == nil:
			text = "Compacted topic cannot accept message without key in topic partition " +
				c.Partition.String() + "."
		case !c.timely(b, ts, ts):
			text = c.timestampText(b, i, ts)
			untimely = true
		default:
			continue
		}
		total++
		if len(failed) < maxRecordErrors {
			failed = append(failed, RecordError{Index: i, Message: text})
		}
	}
	if untimely {
		return failed, c.untimely()
	}
	var shown []string
	for _, f := range failed[:min(len(failed), shownRecordErrors)] {
		shown = append(shown, fmt.Sprintf("record %d: %s", f.Index, f.Message))
	}
	return failed, kafkaproto.Faultf(kerr.InvalidRecord,
		"One or more records have been rejected due to %d record errors in total, the first %d: %s",
		total, len(shown), strings.Join(shown, "; "))
}
