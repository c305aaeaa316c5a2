package engine

import (
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// truncated fails the waits for what was cut off: it is in no log any more, or never will be here.
func (p *Partition) truncated(at kafkaproto.Offset, after *after) {
	p.mu.Lock()
	p.cuts.Add(1)
	if len(p.mu.cutAt) == cutsKept {
		p.mu.cutAt = slices.Delete(p.mu.cutAt, 0, 1)
	}
	p.mu.cutAt = append(p.mu.cutAt, at)
	n := len(p.mu.waits)
	for n > 0 && p.mu.waits[n-1].end > at {
		n--
	}
	lost := slices.Clone(p.mu.waits[n:])
	p.mu.waits = slices.Delete(p.mu.waits, n, len(p.mu.waits))
	p.mu.Unlock()
	for _, w := range lost {
		after.add(func() { w.fn(errCut(p.tp, w.end)) })
	}
}

// cutsKept is how many cuts are remembered for who asks late.
const cutsKept = 32

// cutSinceLocked is the lowest offset at which the log was cut off since it had been cuts times: what
// lies below is as it was. The caller holds mu.
func (p *Partition) cutSinceLocked(cuts uint64) kafkaproto.Offset {
	n := int(p.cuts.Load() - cuts)
	if n > len(p.mu.cutAt) {
		return 0 // it is not known any more
	}
	lowest := kafkaproto.Offset(math.MaxInt64)
	for _, at := range p.mu.cutAt[len(p.mu.cutAt)-n:] {
		lowest = min(lowest, at)
	}
	return lowest
}

func errCut(tp kafkaproto.TopicPartition, end kafkaproto.Offset) error {
	return kafkaproto.Faultf(kerr.NotLeaderForPartition, "another leader of %s has replaced what was appended up to offset %d", tp, end)
}
