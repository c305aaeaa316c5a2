package main

import (
	"context"
	"time"
)

// Client is what the scenario needs of a client library.
type Client interface {
	// Features are words for what the library has: its codecs, "headers", "null headers", "empty" (which
	// it does not read as null), "idempotent", "cooperative".
	Features() []string
	CreateTopic(ctx context.Context, name string, partitions int) error
	DeleteTopic(ctx context.Context, name string) error
	// Topics gives each topic's number of partitions.
	Topics(ctx context.Context) (map[string]int, error)
	// Produce sends to the records' partitions with acks=all and returns when all are acknowledged.
	Produce(ctx context.Context, topic string, records []Record, o ProduceOptions) error
	// Consume reads count records of one partition from an offset on, without a group.
	Consume(ctx context.Context, topic string, partition int32, from int64, count int) ([]Record, error)
	// Offset is that of the first record at or after a time in milliseconds, the number of the next
	// record for -1, of the first for -2; -1 when no record is that late.
	Offset(ctx context.Context, topic string, partition int32, at int64) (int64, error)
	// Join makes a member of a group that starts without committed offsets at the beginning.
	Join(ctx context.Context, group, topic string, cooperative bool) (Member, error)
	// Committed is a group's offset in a partition, -1 when it has none.
	Committed(ctx context.Context, group, topic string, partition int32) (int64, error)
	Close()
}

// Member is one consumer in a group, which reads on its own until it leaves.
type Member interface {
	// Assigned are the partitions it has now, in any order.
	Assigned() []int32
	// Received are the values of all that it has read so far.
	Received() []string
	// Leave commits what was received and leaves the group.
	Leave() error
}

// Record is what is sent and what comes back. A nil key or value is Kafka's null.
type Record struct {
	Partition  int32
	Offset     int64
	Key, Value []byte
	Headers    []Header
	Time       time.Time // zero: the client's own
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// ProduceOptions say how records are sent.
type ProduceOptions struct {
	Codec      string // "none" when empty
	Idempotent bool
	// Slowly spreads the records over about this time, in the order given.
	Slowly time.Duration
}
