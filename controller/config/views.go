package config

import "time"

// TimestampType is message.timestamp.type.
type TimestampType int8

// Kafka's numbers for timestamp types.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// Topic is the typed view of a topic's settings. Durations of -1 mean "without limit".
type Topic struct {
	MaxMessageBytes    int
	TimestampType      TimestampType
	TimestampBeforeMax int64  // milliseconds
	TimestampAfterMax  int64  // milliseconds
	CompressionType    string // producer, uncompressed, gzip, snappy, lz4, zstd
	CompressionLevel   int
	Compact, Delete    bool
	MinInsync          int
	SegmentBytes       int
	RetentionBytes     int64
	RetentionAge       time.Duration
	UncleanElection    bool
	Strict             bool
	Internal           bool
}
