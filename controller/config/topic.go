package config

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/store"
)

// TimestampType is message.timestamp.type.
type TimestampType int8

// Kafka's numbers for timestamp types.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// Topic is the typed view of a topic's settings. A duration of -1 means "no bound".
type Topic struct {
	MaxMessageBytes      int
	MaxDecompressedBytes int
	TimestampType        TimestampType
	TimestampBeforeMax   int64 // milliseconds
	TimestampAfterMax    int64 // milliseconds
	// CompressionType is producer, uncompressed, gzip, snappy, lz4 or zstd.
	CompressionType string
	// CompressionLevel is the level for CompressionType; 0 for codecs without levels.
	CompressionLevel int
	MinInsync        int

	// Compact and Delete are cleanup.policy; both false means that nothing is ever removed.
	Compact, Delete   bool
	DeleteRetention   time.Duration
	MinCompactionLag  time.Duration
	MaxCompactionLag  time.Duration
	FileDeleteDelay   time.Duration
	MinCleanableRatio float64

	SegmentBytes   int
	SegmentAge     time.Duration
	SegmentJitter  time.Duration // at most this much is taken off SegmentAge
	IndexBytes     int
	IndexInterval  int
	RetentionBytes int64 // negative: no bound
	RetentionAge   time.Duration

	// Strict: only synced records are acknowledged and seen (ruling 12).
	Strict bool
	// FlushMessages and FlushInterval bound the unsynced window of a relaxed topic; 0: no bound.
	FlushMessages int64
	FlushInterval time.Duration

	ProducerExpiry time.Duration // producer.id.expiration.ms, a setting of the broker
	// Internal is set for Kafka's internal topics, which are strict whatever the settings say.
	Internal bool
}

func (l *Layers) topicReader(overrides map[string]string) reader {
	return reader{
		text: func(name string) (string, bool) { return l.TopicText(name, overrides) },
		fallback: func(name string) string {
			k, _ := TopicKey(name)
			return k.Default
		},
	}
}

// Topic is the typed view of a topic with the given overrides.
func (l *Layers) Topic(overrides map[string]string) *Topic {
	r := l.topicReader(overrides)
	t := &Topic{
		MaxMessageBytes:      r.number("max.message.bytes"),
		MaxDecompressedBytes: r.number("max.decompressed.message.bytes"),
		TimestampBeforeMax:   r.long("message.timestamp.before.max.ms"),
		TimestampAfterMax:    r.long("message.timestamp.after.max.ms"),
		CompressionType:      r.str("compression.type"),
		MinInsync:            r.number("min.insync.replicas"),
		DeleteRetention:      r.millis("delete.retention.ms"),
		MinCompactionLag:     r.millis("min.compaction.lag.ms"),
		MaxCompactionLag:     r.millis("max.compaction.lag.ms"),
		FileDeleteDelay:      r.millis("file.delete.delay.ms"),
		MinCleanableRatio:    r.double("min.cleanable.dirty.ratio"),
		SegmentBytes:         r.number("segment.bytes"),
		SegmentAge:           r.millis("segment.ms"),
		SegmentJitter:        r.millis("segment.jitter.ms"),
		IndexBytes:           r.number("segment.index.bytes"),
		IndexInterval:        r.number("index.interval.bytes"),
		RetentionBytes:       r.long("retention.bytes"),
		RetentionAge:         r.millis("retention.ms"),
		ProducerExpiry:       l.brokerReader().millis("producer.id.expiration.ms"),
	}
	if r.str("message.timestamp.type") == "LogAppendTime" {
		t.TimestampType = LogAppendTime
	}
	switch t.CompressionType {
	case "gzip", "lz4", "zstd":
		t.CompressionLevel = r.number("compression." + t.CompressionType + ".level")
	}
	for _, policy := range splitList(r.str("cleanup.policy")) {
		t.Compact = t.Compact || policy == "compact"
		t.Delete = t.Delete || policy == "delete"
	}
	t.setDurability(r)
	return t
}

// setDurability applies ruling 12: flush.messages=1 means strict, other finite flush settings only
// bound the window of a relaxed topic, and Kafka's defaults change nothing.
func (t *Topic) setDurability(r reader) {
	messages := r.long("flush.messages")
	t.Strict = r.str("sluice.durability") != "relaxed" || messages == 1
	if messages < math.MaxInt64 {
		t.FlushMessages = messages
	}
	if ms := r.long("flush.ms"); ms < math.MaxInt64 {
		t.FlushInterval = max(millis(ms), time.Millisecond)
	}
}

// StoreConfig is what the log of partition id needs to know. The jitter of its rolls follows from
// the id, so that it is the same after a restart.
func (t *Topic) StoreConfig(id kafkaproto.PartitionID) store.Config {
	c := store.Config{
		SegmentBytes:      t.SegmentBytes,
		IndexBytes:        t.IndexBytes,
		IndexInterval:     t.IndexInterval,
		SegmentAge:        t.SegmentAge,
		SegmentJitter:     jitter(id, min(t.SegmentJitter, t.SegmentAge)),
		RetentionBytes:    t.RetentionBytes,
		RetentionAge:      leastOne(t.RetentionAge),
		Compact:           t.Compact,
		Delete:            t.Delete,
		DeleteRetention:   leastOne(t.DeleteRetention),
		MinCompactionLag:  t.MinCompactionLag,
		MaxCompactionLag:  t.MaxCompactionLag,
		FileDeleteDelay:   t.FileDeleteDelay,
		MinCleanableRatio: t.MinCleanableRatio,
		Strict:            t.Strict || t.Internal,
		FlushMessages:     t.FlushMessages,
		FlushInterval:     t.FlushInterval,
		ProducerExpiry:    t.ProducerExpiry,
		Internal:          t.Internal,
		MaxMessageBytes:   max(t.MaxMessageBytes, 1),
	}
	if t.RetentionBytes == 0 {
		c.RetentionBytes = 1 // 0 means "no bound" to a log, and "keep nothing" to Kafka
	}
	if c.IndexInterval == 0 {
		c.IndexInterval = 1
	}
	if t.MinCleanableRatio == 0 {
		c.MinCleanableRatio = -1 // likewise: 0 would be the default
	}
	if !t.Compact && !t.Delete {
		c.Delete, c.RetentionBytes, c.RetentionAge = true, -1, -1
	}
	return c
}

// leastOne keeps a real zero apart from "not set".
func leastOne(d time.Duration) time.Duration {
	if d == 0 {
		return 1
	}
	return d
}

// jitter draws from [0, limit) by the partition's identity.
func jitter(id kafkaproto.PartitionID, limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id.String()))
	return time.Duration(h.Sum64() % uint64(limit))
}
