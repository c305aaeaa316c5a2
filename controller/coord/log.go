package coord

import (
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

// OnPartition is the Log of a partition led by this broker.
func OnPartition(p *engine.Partition) Log { panic("todo") }
