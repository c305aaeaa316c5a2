package store

import "time"

// Config is what a log needs to know of its topic's configuration. The zero value of a field
// means Kafka's default unless said otherwise.
type Config struct {
	SegmentBytes  int           // segment.bytes
	IndexBytes    int           // segment.index.bytes
	IndexInterval int           // index.interval.bytes
	SegmentAge    time.Duration // segment.ms
	SegmentJitter time.Duration // segment.jitter.ms

	RetentionBytes int64         // retention.bytes; negative: no bound
	RetentionAge   time.Duration // retention.ms; negative: no bound

	// Compact and Delete are cleanup.policy; both false means delete.
	Compact, Delete   bool
	DeleteRetention   time.Duration // delete.retention.ms
	MinCompactionLag  time.Duration // min.compaction.lag.ms
	MaxCompactionLag  time.Duration // max.compaction.lag.ms
	FileDeleteDelay   time.Duration // file.delete.delay.ms
	MinCleanableRatio float64       // min.cleanable.dirty.ratio

	// Strict means that only synced bytes may become visible (rulings 2, 12).
	Strict bool
	// FlushMessages and FlushInterval bound the unsynced window of a relaxed log; 0 means unbound.
	FlushMessages int64
	FlushInterval time.Duration

	ProducerExpiry time.Duration // producer.id.expiration.ms
	// Internal logs may use the reserve.
	Internal        bool
	MaxMessageBytes int // max.message.bytes
}
