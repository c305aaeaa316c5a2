package config

// The rows of this file are known, typed and described, and without effect: tiered storage.

var tieredKeys = inert("Part of tiered storage, which this broker does not have", []Key{
	{
		Name: "follower.fetch.last.tiered.offset.enable", Type: Bool, Default: "false",
		Update: Anywhere,
	},
	{
		Name: "log.local.retention.bytes", Type: Long, Default: "-2", Valid: atLeast(-2),
		Update: Anywhere,
	},
	{
		Name: "log.local.retention.ms", Type: Long, Default: "-2", Valid: atLeast(-2),
		Update: Anywhere,
	},
	{
		Name: "log.remote.copy.lag.bytes", Type: Long, Default: "-1", Valid: atLeast(-1),
		Update: Anywhere,
	},
	{
		Name: "log.remote.copy.lag.ms", Type: Long, Default: "0", Valid: atLeast(-1),
		Update: Anywhere,
	},
	{
		Name: "remote.fetch.max.wait.ms", Type: Int, Default: "500", Valid: atLeast(1),
		Update: Anywhere,
	},
	{
		Name: "remote.list.offsets.request.timeout.ms", Type: Long, Default: "30000",
		Valid: atLeast(1), Update: Anywhere,
	},
	{
		Name: "remote.log.index.file.cache.total.size.bytes", Type: Long, Default: "1073741824",
		Valid: atLeast(1), Update: Anywhere,
	},
	{
		Name: "remote.log.index.file.cache.ttl.ms", Type: Long, Default: "900000",
		Valid: atLeast(-1), Hidden: true,
	},
	{
		Name: "remote.log.manager.copier.thread.pool.size", Type: Int, Default: "10",
		Valid: atLeast(1), Update: Anywhere,
	},
	{
		Name: "remote.log.manager.copy.max.bytes.per.second", Type: Long, Default: maxLong,
		Valid: atLeast(1), Update: Anywhere,
	},
	{Name: "remote.log.manager.copy.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1)},
	{
		Name: "remote.log.manager.copy.quota.window.size.seconds", Type: Int, Default: "1",
		Valid: atLeast(1),
	},
	{
		Name: "remote.log.manager.expiration.thread.pool.size", Type: Int, Default: "10",
		Valid: atLeast(1), Update: Anywhere,
	},
	{
		Name: "remote.log.manager.fetch.max.bytes.per.second", Type: Long, Default: maxLong,
		Valid: atLeast(1), Update: Anywhere,
	},
	{
		Name: "remote.log.manager.fetch.quota.window.num", Type: Int, Default: "11",
		Valid: atLeast(1),
	},
	{
		Name: "remote.log.manager.fetch.quota.window.size.seconds", Type: Int, Default: "1",
		Valid: atLeast(1),
	},
	{
		Name: "remote.log.manager.follower.thread.pool.size", Type: Int, Default: "2",
		Valid: atLeast(1), Update: Anywhere,
	},
	{Name: "remote.log.manager.task.interval.ms", Type: Long, Default: "30000", Valid: atLeast(1)},
	{
		Name: "remote.log.manager.task.retry.backoff.max.ms", Type: Long, Default: "30000",
		Valid: atLeast(1), Hidden: true,
	},
	{
		Name: "remote.log.manager.task.retry.backoff.ms", Type: Long, Default: "500",
		Valid: atLeast(1), Hidden: true,
	},
	{
		Name: "remote.log.manager.task.retry.jitter", Type: Double, Default: "0.2",
		Valid: fraction(0.5), Hidden: true,
	},
	{Name: "remote.log.manager.thread.pool.size", Type: Int, Default: "2", Valid: atLeast(1)},
	{
		Name: "remote.log.metadata.custom.metadata.max.bytes", Type: Int, Default: "128",
		Valid: atLeast(0),
	},
	{
		Name: "remote.log.metadata.manager.class.name", Type: String,
		Default: "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
	},
	{Name: "remote.log.metadata.manager.class.path", Type: String, Null: true},
	{Name: "remote.log.metadata.manager.impl.prefix", Type: String, Default: "rlmm.config."},
	{Name: "remote.log.metadata.manager.listener.name", Type: String, Null: true},
	{Name: "remote.log.reader.max.pending.tasks", Type: Int, Default: "100", Valid: atLeast(1)},
	{
		Name: "remote.log.reader.threads", Type: Int, Default: "10", Valid: atLeast(1),
		Update: Anywhere,
	},
	{Name: "remote.log.storage.manager.class.name", Type: String, Null: true},
	{Name: "remote.log.storage.manager.class.path", Type: String, Null: true},
	{Name: "remote.log.storage.manager.impl.prefix", Type: String, Default: "rsm.config."},
	{Name: "remote.log.storage.system.enable", Type: Bool, Default: "false"},
})
