package config

// logKeys are the settings of logs: mostly the defaults of the topic settings.
var logKeys = []Key{
	{
		Name: "compression.gzip.level", Type: Int, Default: "-1", Valid: gzipLevel(),
		Update: Anywhere,
		Doc:    "The level used when compression.type is 'gzip'; -1 is the codec's own choice.",
	},
	{
		Name: "compression.lz4.level", Type: Int, Default: "9", Valid: between(1, 17),
		Update: Anywhere, Doc: "The level used when compression.type is 'lz4'.",
	},
	{
		Name: "compression.type", Type: String, Default: "producer",
		Valid:  oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		Update: Anywhere,
		Doc:    "The codec that batches are stored in; 'producer' keeps the one they came with.",
	},
	{
		Name: "compression.zstd.level", Type: Int, Default: "3", Valid: between(-131072, 22),
		Update: Anywhere, Doc: "The level used when compression.type is 'zstd'.",
	},
	{
		Name: "log.cleaner.backoff.ms", Type: Long, Default: "15000", Valid: atLeast(0),
		Update: Anywhere, Doc: "How long the cleaner sleeps when nothing needs cleaning.",
	},
	{
		Name: "log.cleaner.dedupe.buffer.size", Type: Long, Default: "134217728", Update: Anywhere,
		Doc: "The memory of the cleaner's map from key to newest offset, in bytes.",
	},
	{
		Name: "log.cleaner.delete.retention.ms", Type: Long, Default: "86400000",
		Valid: atLeast(0), Update: Anywhere,
		Doc: "How long compacted topics keep tombstones after they were cleaned.",
	},
	{
		Name: "log.cleaner.enable", Type: Bool, Default: "true",
		Doc: "Whether compacted topics are cleaned. __consumer_offsets grows without bound when " +
			"they are not.",
	},
	{
		Name: "log.cleaner.io.buffer.load.factor", Type: Double, Default: "0.9", Update: Anywhere,
		Inert: true, Doc: "How full Kafka's cleaner map may get: accepted, without effect.",
	},
	{
		Name: "log.cleaner.io.buffer.size", Type: Int, Default: "524288", Valid: atLeast(0),
		Update: Anywhere, Inert: true,
		Doc: "The cleaner's copy buffers in Kafka: accepted, without effect.",
	},
	{
		Name: "log.cleaner.io.max.bytes.per.second", Type: Double,
		Default: "1.7976931348623157E308", Update: Anywhere,
		Doc: "The most bytes that the cleaner reads and writes per second.",
	},
	{
		Name: "log.cleaner.max.compaction.lag.ms", Type: Long, Default: maxLong, Valid: atLeast(1),
		Update: Anywhere,
		Doc:    "The longest time a record may stay uncompacted in compacted topics.",
	},
	{
		Name: "log.cleaner.min.cleanable.ratio", Type: Double, Default: "0.5", Valid: fraction(1),
		Update: Anywhere,
		Doc:    "Which part of a compacted log must be uncleaned before it is cleaned.",
	},
	{
		Name: "log.cleaner.min.compaction.lag.ms", Type: Long, Default: "0", Valid: atLeast(0),
		Update: Anywhere, Doc: "The shortest time a record stays uncompacted in compacted topics.",
	},
	{
		Name: "log.cleaner.threads", Type: Int, Default: "1", Valid: atLeast(0), Update: Anywhere,
		Inert: true,
		Doc: "Kafka's number of cleaner threads: accepted, without effect, one cleaner is enough " +
			"here.",
	},
	{
		Name: "log.cleanup.policy", Type: List, Default: "delete",
		Valid: eachOf("compact", "delete"), Update: Anywhere,
		Doc: "What happens to old segments: 'delete', 'compact' or both.",
	},
	{Name: "log.dir", Type: List, Null: true, Doc: "The data directory, when log.dirs is not set."},
	{
		Name: "log.dirs", Type: List, Null: true, Aliases: []Alias{{Name: "log.dir"}},
		Doc: "The data directory. One broker has one; a list is refused.",
	},
	{
		Name: "log.flush.interval.messages", Type: Long, Default: maxLong, Valid: atLeast(1),
		Update: Anywhere,
		Doc: "1 makes all topics strict; any other number bounds how many records of a relaxed " +
			"topic are not yet on disk.",
	},
	{
		Name: "log.flush.interval.ms", Type: Long, Null: true, Update: Anywhere,
		Aliases: []Alias{{Name: "log.flush.scheduler.interval.ms"}},
		Doc: "Bounds how long records of a relaxed topic are not yet on disk. Unset: " +
			"log.flush.scheduler.interval.ms.",
	},
	{
		Name: "log.flush.scheduler.interval.ms", Type: Long, Default: maxLong,
		Doc: "Stands in for log.flush.interval.ms while that is not set.",
	},
	{
		Name: "log.index.interval.bytes", Type: Int, Default: "4096", Valid: atLeast(0),
		Update: Anywhere,
		Doc:    "About how many bytes of records lie between two entries of the offset index.",
	},
	{
		Name: "log.index.size.max.bytes", Type: Int, Default: "10485760", Valid: atLeast(4),
		Update: Anywhere, Doc: "The largest offset index; a new segment is begun when it is full.",
	},
	{
		Name: "log.message.timestamp.after.max.ms", Type: Long, Default: "3600000",
		Valid: atLeast(0), Update: Anywhere,
		Doc: "How far in the future of the broker's clock a record's timestamp may lie.",
	},
	{
		Name: "log.message.timestamp.before.max.ms", Type: Long, Default: maxLong,
		Valid: atLeast(0), Update: Anywhere,
		Doc: "How far in the past of the broker's clock a record's timestamp may lie.",
	},
	{
		Name: "log.message.timestamp.type", Type: String, Default: "CreateTime",
		Valid: oneOf("CreateTime", "LogAppendTime"), Update: Anywhere,
		Doc: "Whether a record's timestamp is the producer's (CreateTime) or the time of the " +
			"append (LogAppendTime).",
	},
	{
		Name: "log.preallocate", Type: Bool, Default: "false", Update: Anywhere, Inert: true,
		Doc: "Whether segment files are made at full size: accepted, without effect.",
	},
	{
		Name: "log.retention.bytes", Type: Long, Default: "-1", Update: Anywhere,
		Doc: "How many bytes a partition keeps; a negative number means no bound by size.",
	},
	{
		Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", Valid: atLeast(1),
		Doc: "How often logs are looked through for segments to delete.",
	},
	{
		Name: "log.retention.hours", Type: Int, Default: "168",
		Doc: "How long a partition keeps records, in hours; log.retention.minutes and " +
			"log.retention.ms win over it.",
	},
	{
		Name: "log.retention.minutes", Type: Int, Null: true,
		Aliases: []Alias{{Name: "log.retention.hours", Scale: 60}},
		Doc:     "How long a partition keeps records, in minutes; log.retention.ms wins over it.",
	},
	{
		Name: "log.retention.ms", Type: Long, Null: true, Update: Anywhere,
		Aliases: []Alias{
			{Name: "log.retention.minutes", Scale: 60_000},
			{Name: "log.retention.hours", Scale: 3_600_000},
		},
		Doc: "How long a partition keeps records, in milliseconds; -1 means no bound by time.",
	},
	{
		Name: "log.roll.hours", Type: Int, Default: "168", Valid: atLeast(1),
		Doc: "The age in hours at which a new segment is begun; log.roll.ms wins over it.",
	},
	{
		Name: "log.roll.jitter.hours", Type: Int, Default: "0", Valid: atLeast(0),
		Doc: "At most this much is taken off the roll age at random, in hours; log.roll.jitter.ms " +
			"wins over it.",
	},
	{
		Name: "log.roll.jitter.ms", Type: Long, Null: true, Update: Anywhere,
		Aliases: []Alias{{Name: "log.roll.jitter.hours", Scale: 3_600_000}},
		Doc:     "At most this much is taken off the roll age at random.",
	},
	{
		Name: "log.roll.ms", Type: Long, Null: true, Update: Anywhere,
		Aliases: []Alias{{Name: "log.roll.hours", Scale: 3_600_000}},
		Doc:     "The age at which a new segment is begun even though the old one is not full.",
	},
	{
		Name: "log.segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(1 << 20),
		Update: Anywhere, Doc: "The size at which a new segment file is begun.",
	},
	{
		Name: "log.segment.delete.delay.ms", Type: Long, Default: "60000", Valid: atLeast(0),
		Update: Anywhere,
		Doc:    "How long the files of a deleted segment or topic stay before they are removed.",
	},
	{
		Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639",
		Valid: between(1, 2147483639), Update: Anywhere,
		Doc: "The largest record, in bytes, that comes out of a compressed batch where the broker " +
			"has to look inside.",
	},
	{
		Name: "message.max.bytes", Type: Int, Default: "1048588", Valid: atLeast(0),
		Update: Anywhere,
		Doc:    "The largest batch, in bytes after compression, that a topic takes.",
	},
	{
		Name: "num.recovery.threads.per.data.dir", Type: Int, Default: "2", Valid: atLeast(1),
		Update: Anywhere, Inert: true,
		Doc: "How many logs are recovered at once: accepted, without effect, the number of " +
			"processors is used.",
	},
	{
		Name: "replica.lag.time.max.ms", Type: Long, Default: "30000",
		Doc: "How long a replica may lag before it leaves the in-sync set.",
	},
	{
		Name: "sluice.disk.reserve.bytes", Type: Long, Default: "67108864", Valid: atLeast(0),
		Ours: true,
		Doc: "The free space that is kept for the journal and internal topics: other writes are " +
			"refused below it.",
	},
	{
		Name: "sluice.durability", Type: String, Default: "strict",
		Valid: oneOf("strict", "relaxed"), Update: Anywhere, Ours: true,
		Doc: "The durability of topics without their own: 'strict' (on disk before it is " +
			"acknowledged or seen) or 'relaxed' (in the memory of the operating system; lost when " +
			"the machine fails).",
	},
	{
		Name: "sluice.page.cache.bytes", Type: Long, Default: "-1", Valid: atLeast(-1), Ours: true,
		Doc: "How many of the bytes written last are kept in the memory of the operating system: older " +
			"ones are given back once they are on disk, unless a reader is on its way to them. -1 means " +
			"a sixteenth of the machine's or the container's memory, 64 MiB at least and 1 GiB at most; 0 " +
			"leaves it to the kernel, which takes all that is free.",
	},
	{
		Name: "sluice.max.open.files", Type: Int, Default: "0", Valid: atLeast(0), Ours: true,
		Doc: "The most segment files held open beside the active ones; 0 means half of what the " +
			"system allows.",
	},
	{
		Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Update: Anywhere,
		Inert: true,
		Doc: "Whether a replica that lost data may lead: accepted, without effect, as an election " +
			"here never loses what was acknowledged.",
	},
}
