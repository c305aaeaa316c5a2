package config

import (
	"math"
	"time"
)

// Broker is the typed view of the broker's settings. It never changes; Resolver.Broker gives a new
// one after a dynamic change. Fields marked * can change at run time.
type Broker struct {
	NodeID    int32  // -1 when none is asked for
	ClusterID string // "" when none is asked for
	Rack      string // "" when not set
	DataDir   string // "" when not set

	Listeners     []Listener
	Advertised    []Listener // empty: chosen for each connection
	TLS           map[string]TLS
	HTTPListeners []string // host:port
	Peer          Peer

	MaxRequestBytes     int
	InflightBytes       int64 // -1: to be chosen
	SendBuffer          int   // -1: the system's
	ReceiveBuffer       int   // -1: the system's
	IdleTimeout         time.Duration
	MaxConns            int            // *
	MaxConnsPerIP       int            // *
	MaxConnsPerIPExcept map[string]int // *
	MaxConnRate         int            // * connections per second
	RequestTimeout      time.Duration

	AutoCreateTopics       bool
	DeleteTopicEnable      bool
	NumPartitions          int32
	DefaultReplication     int16
	MinInsync              int // *
	FetchMaxBytes          int
	FetchSessionSlots      int
	MaxDescribedPartitions int
	ReplicaLagMax          time.Duration

	RetentionInterval time.Duration
	DiskReserve       int64 // bytes
	PageCache         int64 // bytes; 0: unbounded, -1: by the memory there is
	MaxOpenFiles      int   // 0: to be chosen
	Cleaner           Cleaner

	Offsets  Offsets
	Group    Group
	Producer Producer
	Txn      Txn
	Metadata Metadata
}

// Peer is the sluice.peer.* settings; "" where they are not set.
type Peer struct {
	Seeds                            []string // host:port
	Listener, Advertised, SecretFile string
}

// Cleaner is the log.cleaner.* settings.
type Cleaner struct {
	Enabled     bool
	Backoff     time.Duration // *
	BytesPerSec int64         // * 0: no bound
	DedupeBytes int           // *
}

// Offsets is the settings of committed offsets and their topic.
type Offsets struct {
	Partitions        int32
	Replication       int16
	SegmentBytes      int
	Retention         time.Duration
	RetentionInterval time.Duration
	MetadataMaxBytes  int
	CommitTimeout     time.Duration
}

// Group is the settings of classic groups.
type Group struct {
	InitialDelay           time.Duration
	MinSession, MaxSession time.Duration
	MaxSize                int
}

// Producer is the settings of idempotent producers' state.
type Producer struct {
	Expiry        time.Duration // *
	CheckInterval time.Duration
}

// Txn is the settings of transactions and their topic.
type Txn struct {
	Partitions     int32
	Replication    int16
	MinInsync      int
	SegmentBytes   int
	MaxTimeout     time.Duration
	IDExpiry       time.Duration
	AbortInterval  time.Duration
	ExpiryInterval time.Duration
	Verify         bool // * transaction.partition.verification.enable
	TwoPhase       bool
}

// Metadata is the settings of the metadata log.
type Metadata struct {
	SegmentBytes     int
	SegmentAge       time.Duration
	SnapshotBytes    int64
	SnapshotInterval time.Duration // 0: no bound
}

func (l *Layers) brokerReader() reader {
	return reader{
		text: l.brokerText,
		fallback: func(name string) string {
			k, _ := find(brokerKeys, name)
			return k.Default
		},
	}
}

func newBroker(l *Layers) *Broker {
	r := l.brokerReader()
	b := &Broker{
		NodeID:    -1,
		ClusterID: r.str("sluice.cluster.id"),
		Rack:      r.str("broker.rack"),
		DataDir:   r.str("log.dirs"),

		MaxRequestBytes: r.number("socket.request.max.bytes"),
		InflightBytes:   r.long("queued.max.request.bytes"),
		SendBuffer:      r.number("socket.send.buffer.bytes"),
		ReceiveBuffer:   r.number("socket.receive.buffer.bytes"),
		IdleTimeout:     r.millis("connections.max.idle.ms"),
		MaxConns:        r.number("max.connections"),
		MaxConnsPerIP:   r.number("max.connections.per.ip"),
		MaxConnRate:     r.number("max.connection.creation.rate"),
		RequestTimeout:  r.millis("request.timeout.ms"),

		AutoCreateTopics:       r.flag("auto.create.topics.enable"),
		DeleteTopicEnable:      r.flag("delete.topic.enable"),
		NumPartitions:          int32(r.long("num.partitions")),
		DefaultReplication:     int16(min(r.long("default.replication.factor"), math.MaxInt16)),
		MinInsync:              r.number("min.insync.replicas"),
		FetchMaxBytes:          r.number("fetch.max.bytes"),
		FetchSessionSlots:      r.number("max.incremental.fetch.session.cache.slots"),
		MaxDescribedPartitions: r.number("max.request.partition.size.limit"),
		ReplicaLagMax:          r.millis("replica.lag.time.max.ms"),

		RetentionInterval: r.millis("log.retention.check.interval.ms"),
		DiskReserve:       r.long("sluice.disk.reserve.bytes"),
		PageCache:         r.long("sluice.page.cache.bytes"),
		MaxOpenFiles:      r.number("sluice.max.open.files"),
		Cleaner:           newCleaner(r),

		Offsets: newOffsets(r),
		Group:   newGroup(r),
		Producer: Producer{
			Expiry:        r.millis("producer.id.expiration.ms"),
			CheckInterval: r.millis("producer.id.expiration.check.interval.ms"),
		},
		Txn:      newTxn(r),
		Metadata: newMetadata(r),
	}
	if id, ok := l.static.NodeOf(); ok {
		b.NodeID = int32(id)
	}
	b.MaxConnsPerIPExcept, _ = parseIPOverrides(r.str("max.connections.per.ip.overrides"))
	set, _ := l.static.listeners()
	b.Listeners, b.Advertised = set.client, set.advertised
	b.TLS = make(map[string]TLS)
	for _, listener := range b.Listeners {
		if listener.Protocol == "SSL" {
			b.TLS[listener.Name] = l.static.tls(listener.Name)
		}
	}
	b.Peer = Peer{Seeds: splitList(r.str("sluice.seeds")), Listener: r.str("sluice.peer.listener"),
		Advertised: r.str("sluice.peer.advertised"), SecretFile: r.str("sluice.peer.secret.file")}
	for _, item := range splitList(r.str("sluice.http.listeners")) {
		b.HTTPListeners = append(b.HTTPListeners, httpAddr(item))
	}
	return b
}

func newCleaner(r reader) Cleaner {
	c := Cleaner{
		Enabled:     r.flag("log.cleaner.enable"),
		Backoff:     r.millis("log.cleaner.backoff.ms"),
		DedupeBytes: r.number("log.cleaner.dedupe.buffer.size"),
	}
	if rate := r.double("log.cleaner.io.max.bytes.per.second"); rate < math.MaxInt64/2 {
		c.BytesPerSec = max(int64(rate), 1)
	}
	return c
}

func newOffsets(r reader) Offsets {
	return Offsets{
		Partitions:        int32(r.long("offsets.topic.num.partitions")),
		Replication:       int16(r.long("offsets.topic.replication.factor")),
		SegmentBytes:      r.number("offsets.topic.segment.bytes"),
		Retention:         time.Duration(r.long("offsets.retention.minutes")) * time.Minute,
		RetentionInterval: r.millis("offsets.retention.check.interval.ms"),
		MetadataMaxBytes:  r.number("offset.metadata.max.bytes"),
		CommitTimeout:     r.millis("offsets.commit.timeout.ms"),
	}
}

func newGroup(r reader) Group {
	return Group{
		InitialDelay: r.millis("group.initial.rebalance.delay.ms"),
		MinSession:   r.millis("group.min.session.timeout.ms"),
		MaxSession:   r.millis("group.max.session.timeout.ms"),
		MaxSize:      r.number("group.max.size"),
	}
}

func newTxn(r reader) Txn {
	return Txn{
		Partitions:     int32(r.long("transaction.state.log.num.partitions")),
		Replication:    int16(r.long("transaction.state.log.replication.factor")),
		MinInsync:      r.number("transaction.state.log.min.isr"),
		SegmentBytes:   r.number("transaction.state.log.segment.bytes"),
		MaxTimeout:     r.millis("transaction.max.timeout.ms"),
		IDExpiry:       r.millis("transactional.id.expiration.ms"),
		AbortInterval:  r.millis("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
		ExpiryInterval: r.millis("transaction.remove.expired.transaction.cleanup.interval.ms"),
		Verify:         r.flag("transaction.partition.verification.enable"),
		TwoPhase:       r.flag("transaction.two.phase.commit.enable"),
	}
}

func newMetadata(r reader) Metadata {
	return Metadata{
		SegmentBytes:     r.number("metadata.log.segment.bytes"),
		SegmentAge:       r.millis("metadata.log.segment.ms"),
		SnapshotBytes:    r.long("metadata.log.max.record.bytes.between.snapshots"),
		SnapshotInterval: r.millis("metadata.log.max.snapshot.interval.ms"),
	}
}
