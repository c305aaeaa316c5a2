package coord

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/replica/engine"
)

// Log is the partition that a shard lives on. Offsets are exclusive ends, as everywhere.
type Log interface {
	// Append writes one batch and gives the end of the log behind it. After an error nothing of
	// the batch is in the log. now is broker time in milliseconds since 1970.
	Append(b batch.Batch, now int64) (end kafkaproto.Offset, err error)
	// WhenCommitted calls fn exactly once, without locks held and perhaps before it returns: with
	// nil when everything below end is committed, with an error when it never will be here.
	WhenCommitted(end kafkaproto.Offset, fn func(error))
	// Read gives whole committed batches from the one that holds off on: about maxBytes of them,
	// but at least one unless off is at the high watermark. The caller owns the bytes.
	Read(off kafkaproto.Offset, maxBytes int) ([]byte, error)
	// HighWatermark is the end of what is committed.
	HighWatermark() kafkaproto.Offset
	// LogStart is the first offset kept.
	LogStart() kafkaproto.Offset
	// LogEnd is the end of what is written.
	LogEnd() kafkaproto.Offset
}

// partitionLog is a partition of the engine as a Log.
type partitionLog struct {
	*engine.Partition
	cuts uint64 // of the log when the shard was loaded: a cut since then means that it was deposed
}

// OnPartition is the Log of a partition led by this broker. One whose log cannot be used has no
// coordinator (NOT_COORDINATOR, as in Kafka, where it has no leader): its log looks empty when it
// went offline in recovery, and a shard loaded from it would answer that there never was anything.
func OnPartition(p *engine.Partition) (Log, error) {
	if err := p.Offline(); err != nil {
		return nil, kafkaproto.Faultf(kerr.NotCoordinator, "%v", err)
	}
	return partitionLog{p, p.Cuts()}, nil
}

// Append implements Log.
func (p partitionLog) Append(b batch.Batch, now int64) (kafkaproto.Offset, error) {
	res, err := p.Partition.Append(b, engine.AppendOptions{NowMs: now})
	return res.End, err
}

// WhenCommitted implements Log.
func (p partitionLog) WhenCommitted(end kafkaproto.Offset, fn func(error)) {
	p.WhenPassed(end, p.cuts, fn)
}

// Read implements Log.
func (p partitionLog) Read(off kafkaproto.Offset, maxBytes int) ([]byte, error) {
	r, err := p.Partition.Read(off, maxBytes, engine.ReadUncommitted, true)
	if err != nil {
		return nil, err
	}
	defer r.Range.Release()
	if r.Range.Len == 0 {
		return nil, nil
	}
	buf := make([]byte, r.Range.Len)
	if n, err := r.Range.File.ReadAt(buf, r.Range.Pos); n < len(buf) {
		return nil, fmt.Errorf("read %s at offset %d: %w", p.TP(), off, err)
	}
	return buf, nil
}
