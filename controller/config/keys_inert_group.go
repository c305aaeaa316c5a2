package config

// The rows of this file are known, typed and described, and without effect: newer kinds of groups.

var shareKeys = inert("Part of share groups, which this broker does not serve yet", []Key{
	{
		Name: "errors.deadletterqueue.auto.create.topics.enable", Type: Bool, Default: "false",
		Update: Anywhere,
	},
	{
		Name: "errors.deadletterqueue.topic.name.prefix", Type: String, Default: "dlq.",
		Update: Anywhere,
	},
	{
		Name: "group.share.assignment.interval.ms", Type: Int, Default: "1000", Valid: atLeast(0),
		Update: Anywhere,
	},
	{
		Name: "group.share.assignor.offload.enable", Type: Bool, Default: "true", Update: Anywhere,
		Hidden: true,
	},
	{Name: "group.share.assignors", Type: List, Default: "simple"},
	{Name: "group.share.delivery.count.limit", Type: Int, Default: "5", Valid: between(2, 10)},
	{
		Name: "group.share.dlq.manager.class.name", Type: String,
		Default: "org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager", Hidden: true,
	},
	{Name: "group.share.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1)},
	{
		Name: "group.share.initialize.retry.interval.ms", Type: Int, Default: "30000",
		Valid: atLeast(1), Hidden: true,
	},
	{
		Name: "group.share.max.assignment.interval.ms", Type: Int, Default: "15000",
		Valid: atLeast(0),
	},
	{Name: "group.share.max.delivery.count.limit", Type: Int, Default: "10", Valid: between(5, 25)},
	{Name: "group.share.max.heartbeat.interval.ms", Type: Int, Default: "15000", Valid: atLeast(1)},
	{
		Name: "group.share.max.partition.max.record.locks", Type: Int, Default: "4000",
		Valid: between(2000, 10000),
	},
	{
		Name: "group.share.max.record.lock.duration.ms", Type: Int, Default: "60000",
		Valid: between(30000, 3600000),
	},
	{Name: "group.share.max.session.timeout.ms", Type: Int, Default: "60000", Valid: atLeast(1)},
	{Name: "group.share.max.share.sessions", Type: Int, Default: "2000", Valid: atLeast(1)},
	{Name: "group.share.max.size", Type: Int, Default: "200", Valid: between(1, 1000)},
	{Name: "group.share.min.assignment.interval.ms", Type: Int, Default: "0", Valid: atLeast(0)},
	{Name: "group.share.min.delivery.count.limit", Type: Int, Default: "2", Valid: between(2, 5)},
	{Name: "group.share.min.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1)},
	{
		Name: "group.share.min.partition.max.record.locks", Type: Int, Default: "100",
		Valid: between(100, 2000),
	},
	{
		Name: "group.share.min.record.lock.duration.ms", Type: Int, Default: "15000",
		Valid: between(1000, 30000),
	},
	{Name: "group.share.min.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1)},
	{
		Name: "group.share.partition.max.record.locks", Type: Int, Default: "2000",
		Valid: between(100, 10000),
	},
	{
		Name: "group.share.persister.class.name", Type: String,
		Default: "org.apache.kafka.server.share.persister.DefaultStatePersister", Hidden: true,
	},
	{
		Name: "group.share.record.lock.duration.ms", Type: Int, Default: "30000",
		Valid: between(1000, 3600000),
	},
	{Name: "group.share.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1)},
	{Name: "share.coordinator.append.linger.ms", Type: Int, Default: "-1", Valid: atLeast(-1)},
	{
		Name: "share.coordinator.cached.buffer.max.bytes", Type: Int, Default: "1048588",
		Valid: atLeast(512 << 10), Update: Anywhere,
	},
	{
		Name: "share.coordinator.cold.partition.snapshot.interval.ms", Type: Int,
		Default: "300000", Valid: atLeast(1), Hidden: true,
	},
	{Name: "share.coordinator.load.buffer.size", Type: Int, Default: "5242880", Valid: atLeast(1)},
	{
		Name: "share.coordinator.snapshot.update.records.per.snapshot", Type: Int, Default: "500",
		Valid: between(0, 500),
	},
	{Name: "share.coordinator.state.topic.compression.codec", Type: Int, Default: "0"},
	{Name: "share.coordinator.state.topic.min.isr", Type: Short, Default: "2", Valid: atLeast(1)},
	{
		Name: "share.coordinator.state.topic.num.partitions", Type: Int, Default: "50",
		Valid: atLeast(1),
	},
	{
		Name: "share.coordinator.state.topic.prune.interval.ms", Type: Int, Default: "300000",
		Valid: atLeast(1), Hidden: true,
	},
	{
		Name: "share.coordinator.state.topic.replication.factor", Type: Short, Default: "3",
		Valid: atLeast(1),
	},
	{
		Name: "share.coordinator.state.topic.segment.bytes", Type: Int, Default: "104857600",
		Valid: atLeast(1),
	},
	{Name: "share.coordinator.threads", Type: Int, Default: "1", Valid: atLeast(1)},
	{Name: "share.coordinator.write.timeout.ms", Type: Int, Default: "5000", Valid: atLeast(1)},
	{Name: "share.fetch.purgatory.purge.interval.requests", Type: Int, Default: "1000"},
})

var streamsKeys = inert("Part of streams groups, which are not served yet", []Key{
	{
		Name: "group.streams.acceptable.recovery.lag", Type: Long, Default: "10000",
		Valid: atLeast(0), Hidden: true,
	},
	{
		Name: "group.streams.assignment.interval.ms", Type: Int, Default: "1000",
		Valid: atLeast(0), Update: Anywhere,
	},
	{
		Name: "group.streams.assignor.offload.enable", Type: Bool, Default: "true",
		Update: Anywhere, Hidden: true,
	},
	{Name: "group.streams.assignors", Type: List, Default: "sticky"},
	{Name: "group.streams.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1)},
	{
		Name: "group.streams.initial.rebalance.delay.ms", Type: Int, Default: "3000",
		Valid: atLeast(0),
	},
	{
		Name: "group.streams.max.assignment.interval.ms", Type: Int, Default: "15000",
		Valid: atLeast(0),
	},
	{
		Name: "group.streams.max.heartbeat.interval.ms", Type: Int, Default: "15000",
		Valid: atLeast(1),
	},
	{Name: "group.streams.max.session.timeout.ms", Type: Int, Default: "60000", Valid: atLeast(1)},
	{Name: "group.streams.max.size", Type: Int, Default: "2147483647", Valid: atLeast(1)},
	{Name: "group.streams.max.standby.replicas", Type: Int, Default: "2", Valid: atLeast(0)},
	{
		Name: "group.streams.max.warmup.replicas", Type: Int, Default: "20", Valid: atLeast(0),
		Hidden: true,
	},
	{Name: "group.streams.min.assignment.interval.ms", Type: Int, Default: "0", Valid: atLeast(0)},
	{
		Name: "group.streams.min.heartbeat.interval.ms", Type: Int, Default: "5000",
		Valid: atLeast(1),
	},
	{Name: "group.streams.min.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1)},
	{
		Name: "group.streams.min.task.offset.interval.ms", Type: Int, Default: "15000",
		Valid: atLeast(1), Hidden: true,
	},
	{Name: "group.streams.num.standby.replicas", Type: Int, Default: "0", Valid: atLeast(0)},
	{
		Name: "group.streams.num.warmup.replicas", Type: Int, Default: "2", Valid: atLeast(0),
		Hidden: true,
	},
	{Name: "group.streams.rack.aware.assignment.tags", Type: List, Default: ""},
	{Name: "group.streams.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1)},
	{
		Name: "group.streams.task.offset.interval.ms", Type: Int, Default: "60000",
		Valid: atLeast(1), Hidden: true,
	},
	{Name: "group.streams.topology.description.plugin.class", Type: Class, Null: true},
})

var consumerKeys = inert("Part of the group protocol of KIP-848, which is not served yet", []Key{
	{
		Name: "group.consumer.assignment.interval.ms", Type: Int, Default: "1000",
		Valid: atLeast(0), Update: Anywhere,
	},
	{
		Name: "group.consumer.assignor.offload.enable", Type: Bool, Default: "true",
		Update: Anywhere, Hidden: true,
	},
	{Name: "group.consumer.assignors", Type: List, Default: "uniform,range"},
	{Name: "group.consumer.heartbeat.interval.ms", Type: Int, Default: "5000", Valid: atLeast(1)},
	{
		Name: "group.consumer.max.assignment.interval.ms", Type: Int, Default: "15000",
		Valid: atLeast(0),
	},
	{
		Name: "group.consumer.max.heartbeat.interval.ms", Type: Int, Default: "15000",
		Valid: atLeast(1),
	},
	{Name: "group.consumer.max.session.timeout.ms", Type: Int, Default: "60000", Valid: atLeast(1)},
	{Name: "group.consumer.max.size", Type: Int, Default: "2147483647", Valid: atLeast(1)},
	{
		Name: "group.consumer.migration.policy", Type: String, Default: "bidirectional",
		Valid: oneOfFold("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"),
	},
	{Name: "group.consumer.min.assignment.interval.ms", Type: Int, Default: "0", Valid: atLeast(0)},
	{
		Name: "group.consumer.min.heartbeat.interval.ms", Type: Int, Default: "5000",
		Valid: atLeast(1),
	},
	{Name: "group.consumer.min.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1)},
	{
		Name: "group.consumer.regex.refresh.interval.ms", Type: Int, Default: "600000",
		Valid: atLeast(10000), Hidden: true,
	},
	{Name: "group.consumer.session.timeout.ms", Type: Int, Default: "45000", Valid: atLeast(1)},
	{
		Name: "group.coordinator.rebalance.protocols", Type: List,
		Default: "classic,consumer,streams",
		Valid:   eachOf("consumer", "classic", "share", "streams"),
	},
})
