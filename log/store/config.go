package store

import "time"

// Config is what a log needs to know of its topic's configuration. A zero field is the value that
// keeps data: no bound for retention, Kafka's default for sizes and shares. Where Kafka allows a
// real zero for an age or a size (retention.ms=0), give the least positive value, 1.
type Config struct {
	SegmentBytes  int           // segment.bytes; 1 GiB
	IndexBytes    int           // segment.index.bytes; 10 MiB
	IndexInterval int           // index.interval.bytes; 4096
	SegmentAge    time.Duration // segment.ms; 7 days
	SegmentJitter time.Duration // segment.jitter.ms: what this log takes off SegmentAge; 0

	RetentionBytes int64         // retention.bytes; zero or negative: no bound
	RetentionAge   time.Duration // retention.ms; zero or negative: no bound

	// Compact and Delete are cleanup.policy; both false means delete.
	Compact, Delete   bool
	DeleteRetention   time.Duration // delete.retention.ms; 1 day
	MinCompactionLag  time.Duration // min.compaction.lag.ms; 0
	MaxCompactionLag  time.Duration // max.compaction.lag.ms; no bound
	FileDeleteDelay   time.Duration // file.delete.delay.ms; 0: at once
	MinCleanableRatio float64       // min.cleanable.dirty.ratio; 0.5, negative: 0

	// Strict means that only synced bytes may become visible (rulings 2, 12).
	Strict bool
	// FlushMessages and FlushInterval bound the unsynced window of a relaxed log; 0: no bound.
	FlushMessages int64
	FlushInterval time.Duration

	ProducerExpiry time.Duration // producer.id.expiration.ms; 1 day
	// Internal logs may use the reserve of free space.
	Internal        bool
	MaxMessageBytes int // max.message.bytes: bounds what a lookup inside a batch may expand to
}

// withDefaults fills what must not be zero.
func (c Config) withDefaults() Config {
	orInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	orAge := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	orInt(&c.SegmentBytes, 1<<30)
	orInt(&c.IndexBytes, 10<<20)
	orInt(&c.IndexInterval, 4096)
	orAge(&c.SegmentAge, 7*24*time.Hour)
	orAge(&c.DeleteRetention, 24*time.Hour)
	orAge(&c.ProducerExpiry, 24*time.Hour)
	if c.MinCleanableRatio == 0 {
		c.MinCleanableRatio = 0.5
	}
	if !c.Compact {
		c.Delete = true
	}
	return c
}

// rollAge is the age at which the active segment is rolled. A compacted log's is rolled early
// enough
// to be cleaned in time.
func (c *Config) rollAge() time.Duration {
	age := max(c.SegmentAge-c.SegmentJitter, 0)
	if c.Compact && c.MaxCompactionLag > 0 {
		age = min(age, c.MaxCompactionLag)
	}
	return age
}
