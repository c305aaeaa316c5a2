package config

const maxLong = "9223372036854775807"

const (
	docTiered = "Part of tiered storage, which this broker does not have: accepted, without effect."
	docShare  = "Part of share groups, which this broker does not serve yet: accepted, without effect."
)

// topicKeys are Kafka's topic settings and ours, sorted by name.
var topicKeys = []Key{
	{
		Name: "cleanup.policy", Type: List, Default: "delete", Valid: eachOf("compact", "delete"),
		Aliases: []Alias{{Name: "log.cleanup.policy"}},
		Doc: "What happens to old segments: 'delete' drops them by age and size, 'compact' keeps " +
			"the newest record of each key, both do both. Empty keeps everything.",
	},
	{
		Name: "compression.gzip.level", Type: Int, Default: "-1", Valid: gzipLevel(),
		Aliases: []Alias{{Name: "compression.gzip.level"}},
		Doc:     "The level used when compression.type is 'gzip'; -1 is the codec's own choice.",
	},
	{
		Name: "compression.lz4.level", Type: Int, Default: "9", Valid: between(1, 17),
		Aliases: []Alias{{Name: "compression.lz4.level"}},
		Doc:     "The level used when compression.type is 'lz4'.",
	},
	{
		Name: "compression.type", Type: String, Default: "producer",
		Valid:   oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		Aliases: []Alias{{Name: "compression.type"}},
		Doc: "The codec that batches are stored in. 'producer' keeps the one they came with; any " +
			"other value makes the broker compress anew.",
	},
	{
		Name: "compression.zstd.level", Type: Int, Default: "3", Valid: between(-131072, 22),
		Aliases: []Alias{{Name: "compression.zstd.level"}},
		Doc:     "The level used when compression.type is 'zstd'.",
	},
	{
		Name: "delete.retention.ms", Type: Long, Default: "86400000", Valid: atLeast(0),
		Aliases: []Alias{{Name: "log.cleaner.delete.retention.ms"}},
		Doc: "How long a compacted topic keeps tombstones after they were cleaned: a reader from " +
			"the beginning must reach the end within this time to see every deletion.",
	},
	{
		Name: "errors.deadletterqueue.group.enable", Type: Bool, Default: "false", Inert: true,
		Doc: docShare,
	},
	{
		Name: "file.delete.delay.ms", Type: Long, Default: "60000", Valid: atLeast(0),
		Aliases: []Alias{{Name: "log.segment.delete.delay.ms"}},
		Doc:     "How long the files of a deleted segment or topic stay before they are removed.",
	},
	{
		Name: "flush.messages", Type: Long, Default: maxLong, Valid: atLeast(1),
		Aliases: []Alias{{Name: "log.flush.interval.messages"}},
		Doc: "1 makes the topic strict: every record is on disk before it is acknowledged or seen. " +
			"Any other number bounds how many records of a relaxed topic are not yet on disk.",
	},
	{
		Name: "flush.ms", Type: Long, Default: maxLong, Valid: atLeast(0),
		Aliases: []Alias{
			{Name: "log.flush.interval.ms"}, {Name: "log.flush.scheduler.interval.ms"},
		},
		Doc: "Bounds how long records of a relaxed topic are not yet on disk.",
	},
	{
		Name: "follower.replication.throttled.replicas", Type: List, Default: "", Inert: true,
		Valid: throttledReplicas(),
		Doc: "Replicas whose fetching is throttled, as [partition]:[broker] pairs or '*': " +
			"accepted, without effect.",
	},
	{
		Name: "index.interval.bytes", Type: Int, Default: "4096", Valid: atLeast(0),
		Aliases: []Alias{{Name: "log.index.interval.bytes"}},
		Doc:     "About how many bytes of records lie between two entries of the offset index.",
	},
	{
		Name: "internal.segment.bytes", Type: Int, Null: true, Hidden: true, Inert: true,
		Doc: "Kafka's way to small segments in tests: accepted, without effect.",
	},
	{
		Name: "leader.replication.throttled.replicas", Type: List, Default: "", Inert: true,
		Valid: throttledReplicas(),
		Doc: "Replicas whose serving is throttled, as [partition]:[broker] pairs or '*': " +
			"accepted, without effect.",
	},
	{
		Name: "local.retention.bytes", Type: Long, Default: "-2", Valid: atLeast(-2), Inert: true,
		Aliases: []Alias{{Name: "log.local.retention.bytes"}}, Doc: docTiered,
	},
	{
		Name: "local.retention.ms", Type: Long, Default: "-2", Valid: atLeast(-2), Inert: true,
		Aliases: []Alias{{Name: "log.local.retention.ms"}}, Doc: docTiered,
	},
	{
		Name: "max.compaction.lag.ms", Type: Long, Default: maxLong, Valid: atLeast(1),
		Aliases: []Alias{{Name: "log.cleaner.max.compaction.lag.ms"}},
		Doc:     "The longest time a record may stay uncompacted in a compacted topic.",
	},
	{
		Name: "max.decompressed.message.bytes", Type: Int, Default: "2147483639",
		Valid: between(1, 2147483639), Aliases: []Alias{{Name: "max.decompressed.message.bytes"}},
		Doc: "The largest record, in bytes, that comes out of a compressed batch where the broker " +
			"has to look inside.",
	},
	{
		Name: "max.message.bytes", Type: Int, Default: "1048588", Valid: atLeast(0),
		Aliases: []Alias{{Name: "message.max.bytes"}},
		Doc:     "The largest batch, in bytes after compression, that the topic takes.",
	},
	{
		Name: "message.timestamp.after.max.ms", Type: Long, Default: "3600000", Valid: atLeast(0),
		Aliases: []Alias{{Name: "log.message.timestamp.after.max.ms"}},
		Doc: "How far in the future of the broker's clock a record's timestamp may lie. Not used " +
			"with LogAppendTime.",
	},
	{
		Name: "message.timestamp.before.max.ms", Type: Long, Default: maxLong, Valid: atLeast(0),
		Aliases: []Alias{{Name: "log.message.timestamp.before.max.ms"}},
		Doc: "How far in the past of the broker's clock a record's timestamp may lie. Not used " +
			"with LogAppendTime.",
	},
	{
		Name: "message.timestamp.type", Type: String, Default: "CreateTime",
		Valid:   oneOf("CreateTime", "LogAppendTime"),
		Aliases: []Alias{{Name: "log.message.timestamp.type"}},
		Doc: "Whether a record's timestamp is the producer's (CreateTime) or the time of the " +
			"append (LogAppendTime).",
	},
	{
		Name: "min.cleanable.dirty.ratio", Type: Double, Default: "0.5", Valid: fraction(1),
		Aliases: []Alias{{Name: "log.cleaner.min.cleanable.ratio"}},
		Doc: "Which part of a compacted log must be uncleaned before it is cleaned: lower values " +
			"save space and cost more cleaning.",
	},
	{
		Name: "min.compaction.lag.ms", Type: Long, Default: "0", Valid: atLeast(0),
		Aliases: []Alias{{Name: "log.cleaner.min.compaction.lag.ms"}},
		Doc:     "The shortest time a record stays uncompacted in a compacted topic.",
	},
	{
		Name: "min.insync.replicas", Type: Int, Default: "1", Valid: atLeast(1),
		Aliases: []Alias{{Name: "min.insync.replicas"}},
		Doc: "How many replicas must have a record before acks=all is answered. Capped at the " +
			"number of replicas.",
	},
	{
		Name: "preallocate", Type: Bool, Default: "false", Inert: true,
		Aliases: []Alias{{Name: "log.preallocate"}},
		Doc:     "Whether segment files are made at full size: accepted, without effect.",
	},
	{
		Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", Valid: atLeast(-1), Inert: true,
		Aliases: []Alias{{Name: "log.remote.copy.lag.bytes"}}, Doc: docTiered,
	},
	{
		Name: "remote.copy.lag.ms", Type: Long, Default: "0", Valid: atLeast(-1), Inert: true,
		Aliases: []Alias{{Name: "log.remote.copy.lag.ms"}}, Doc: docTiered,
	},
	{
		Name: "remote.log.copy.disable", Type: Bool, Default: "false", Inert: true, Doc: docTiered,
	},
	{
		Name: "remote.log.delete.on.disable", Type: Bool, Default: "false", Inert: true,
		Doc: docTiered,
	},
	{
		Name: "remote.storage.enable", Type: Bool, Default: "false", Inert: true,
		Valid: Valid{check: noTieredStorage},
		Doc:   "Tiered storage, which this broker does not have: only 'false' is taken.",
	},
	{
		Name: "retention.bytes", Type: Long, Default: "-1",
		Aliases: []Alias{{Name: "log.retention.bytes"}},
		Doc: "How many bytes a partition keeps under the 'delete' policy; a negative number means " +
			"no bound by size.",
	},
	{
		Name: "retention.ms", Type: Long, Default: "604800000", Valid: atLeast(-1),
		Aliases: []Alias{
			{Name: "log.retention.ms"},
			{Name: "log.retention.minutes", Scale: 60_000},
			{Name: "log.retention.hours", Scale: 3_600_000},
		},
		Doc: "How long a partition keeps records under the 'delete' policy; -1 means no bound by " +
			"time. The active segment ages out as well.",
	},
	{
		Name: "segment.bytes", Type: Int, Default: "1073741824", Valid: atLeast(1 << 20),
		Aliases: []Alias{{Name: "log.segment.bytes"}},
		Doc:     "The size at which a new segment file is begun. Retention and cleaning go by segment.",
	},
	{
		Name: "segment.index.bytes", Type: Int, Default: "10485760", Valid: atLeast(4),
		Aliases: []Alias{{Name: "log.index.size.max.bytes"}},
		Doc:     "The largest offset index; a new segment is begun when it is full.",
	},
	{
		Name: "segment.jitter.ms", Type: Long, Default: "0", Valid: atLeast(0),
		Aliases: []Alias{
			{Name: "log.roll.jitter.ms"}, {Name: "log.roll.jitter.hours", Scale: 3_600_000},
		},
		Doc: "At most this much is taken off segment.ms at random, so that not all logs roll at once.",
	},
	{
		Name: "segment.ms", Type: Long, Default: "604800000", Valid: atLeast(1),
		Aliases: []Alias{{Name: "log.roll.ms"}, {Name: "log.roll.hours", Scale: 3_600_000}},
		Doc:     "The age at which a new segment file is begun even though the old one is not full.",
	},
	{
		Name: "sluice.durability", Type: String, Default: "strict", Valid: oneOf("strict", "relaxed"),
		Aliases: []Alias{{Name: "sluice.durability"}}, Ours: true,
		Doc: "'strict': a record is on disk before it is acknowledged with acks=all, or seen by " +
			"anyone. 'relaxed': it may be in the memory of the operating system only, and is lost " +
			"when the machine (not the process) fails; flush.messages and flush.ms bound how much.",
	},
	{
		Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Inert: true,
		Aliases: []Alias{{Name: "unclean.leader.election.enable"}},
		Doc: "Whether a replica that lost data may lead: accepted, without effect, as an election " +
			"here never loses what was acknowledged.",
	},
}
