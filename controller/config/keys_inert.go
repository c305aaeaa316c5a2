package config

// The rows of this file are known, typed and described, and without effect.

var controllerKeys = inert("Part of Kafka's controller quorum, which is built in here", []Key{
	{Name: "broker.heartbeat.interval.ms", Type: Int, Default: "2000"},
	{Name: "broker.session.timeout.ms", Type: Int, Default: "9000"},
	{
		Name: "controller.performance.always.log.threshold.ms", Type: Long, Default: "2000",
		Valid: atLeast(0), Hidden: true,
	},
	{
		Name: "controller.performance.sample.period.ms", Type: Long, Default: "60000",
		Valid: atLeast(100), Hidden: true,
	},
	{Name: "controller.quorum.append.linger.ms", Type: Int, Default: "25", Valid: atLeast(0)},
	{Name: "controller.quorum.auto.join.enable", Type: Bool, Default: "false"},
	{
		Name: "controller.quorum.election.backoff.max.ms", Type: Int, Default: "1000",
		Valid: atLeast(0),
	},
	{Name: "controller.quorum.election.timeout.ms", Type: Int, Default: "1000", Valid: atLeast(0)},
	{Name: "controller.quorum.fetch.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(1)},
	{
		Name: "controller.quorum.fetch.snapshot.max.bytes", Type: Int, Default: "1048576",
		Valid: atLeast(1),
	},
	{Name: "controller.quorum.fetch.timeout.ms", Type: Int, Default: "2000", Valid: atLeast(0)},
	{Name: "controller.quorum.request.timeout.ms", Type: Int, Default: "2000", Valid: atLeast(0)},
	{Name: "controller.quorum.retry.backoff.ms", Type: Int, Default: "20", Valid: atLeast(0)},
	{Name: "controller.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1)},
	{Name: "controller.quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1)},
	{Name: "controller.socket.timeout.ms", Type: Int, Default: "30000"},
	{Name: "early.start.listeners", Type: List, Null: true},
	{Name: "initial.broker.registration.timeout.ms", Type: Int, Default: "60000"},
	{Name: "metadata.max.idle.interval.ms", Type: Int, Default: "500", Valid: atLeast(0)},
})

var quotaKeys = inert("Part of quotas, which this broker does not serve yet", []Key{
	{
		Name: "alter.log.dirs.replication.quota.window.num", Type: Int, Default: "11",
		Valid: atLeast(1),
	},
	{
		Name: "alter.log.dirs.replication.quota.window.size.seconds", Type: Int, Default: "1",
		Valid: atLeast(1),
	},
	{Name: "quota.window.num", Type: Int, Default: "11", Valid: atLeast(1)},
	{Name: "quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1)},
	{Name: "replication.quota.window.num", Type: Int, Default: "11", Valid: atLeast(1)},
	{Name: "replication.quota.window.size.seconds", Type: Int, Default: "1", Valid: atLeast(1)},
})

var replicaKeys = inert("Part of Kafka's replication, for which a single node has no use", []Key{
	{Name: "auto.leader.rebalance.enable", Type: Bool, Default: "true"},
	{
		Name: "leader.imbalance.check.interval.seconds", Type: Long, Default: "300",
		Valid: atLeast(1),
	},
	{Name: "num.replica.alter.log.dirs.threads", Type: Int, Null: true},
	{Name: "num.replica.fetchers", Type: Int, Default: "1", Valid: atLeast(1), Update: Anywhere},
	{Name: "replica.fetch.backoff.ms", Type: Int, Default: "1000", Valid: atLeast(0)},
	{Name: "replica.fetch.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(0)},
	{Name: "replica.fetch.min.bytes", Type: Int, Default: "1"},
	{Name: "replica.fetch.response.max.bytes", Type: Int, Default: "10485760", Valid: atLeast(0)},
	{Name: "replica.fetch.wait.max.ms", Type: Int, Default: "500"},
	{Name: "replica.high.watermark.checkpoint.interval.ms", Type: Long, Default: "5000"},
	{Name: "replica.socket.receive.buffer.bytes", Type: Int, Default: "65536"},
	{Name: "replica.socket.timeout.ms", Type: Int, Default: "30000"},
})

var threadKeys = inert("Sizes one of Kafka's thread pools, of which there are none here", []Key{
	{Name: "background.threads", Type: Int, Default: "10", Valid: atLeast(1), Update: Anywhere},
	{Name: "group.coordinator.background.threads", Type: Int, Default: "2", Valid: atLeast(1)},
	{Name: "group.coordinator.threads", Type: Int, Default: "4", Valid: atLeast(1)},
	{Name: "num.io.threads", Type: Int, Default: "8", Valid: atLeast(1), Update: Anywhere},
	{Name: "num.network.threads", Type: Int, Default: "3", Valid: atLeast(1), Update: Anywhere},
})

var otherKeys = inert("Accepted for the sake of Kafka's configuration files", []Key{
	{
		Name: "add.partitions.to.txn.retry.backoff.max.ms", Type: Int, Default: "100",
		Valid: atLeast(0),
	},
	{Name: "add.partitions.to.txn.retry.backoff.ms", Type: Int, Default: "20", Valid: atLeast(1)},
	{Name: "controlled.shutdown.enable", Type: Bool, Default: "true"},
	{Name: "cordoned.log.dirs", Type: List, Default: ""},
	{Name: "delete.records.purgatory.purge.interval.requests", Type: Int, Default: "1"},
	{Name: "fetch.purgatory.purge.interval.requests", Type: Int, Default: "1000"},
	{Name: "group.coordinator.append.linger.ms", Type: Int, Default: "-1", Valid: atLeast(-1)},
	{
		Name: "group.coordinator.cached.buffer.max.bytes", Type: Int, Default: "1048588",
		Valid: atLeast(512 << 10), Update: Anywhere,
	},
	{Name: "internal.metadata.delete.delay.millis", Type: Long, Default: "60000", Hidden: true},
	{Name: "internal.metadata.log.segment.bytes", Type: Int, Null: true, Hidden: true},
	{
		Name: "internal.metadata.max.batch.size.in.bytes", Type: Int, Default: "8388608",
		Hidden: true,
	},
	{Name: "kafka.metrics.polling.interval.secs", Type: Int, Default: "10", Valid: atLeast(1)},
	{Name: "log.dir.failure.timeout.ms", Type: Long, Default: "30000", Valid: atLeast(1)},
	{
		Name: "log.flush.offset.checkpoint.interval.ms", Type: Int, Default: "60000",
		Valid: atLeast(0),
	},
	{
		Name: "log.flush.start.offset.checkpoint.interval.ms", Type: Int, Default: "60000",
		Valid: atLeast(0),
	},
	{
		Name: "log.initial.task.delay.ms", Type: Long, Default: "30000", Valid: atLeast(0),
		Hidden: true,
	},
	{Name: "metadata.log.dir", Type: String, Null: true},
	{Name: "metadata.max.retention.bytes", Type: Long, Default: "104857600"},
	{Name: "metadata.max.retention.ms", Type: Long, Default: "604800000"},
	{Name: "metrics.num.samples", Type: Int, Default: "2", Valid: atLeast(1)},
	{Name: "metrics.recording.level", Type: String, Default: "INFO"},
	{Name: "metrics.sample.window.ms", Type: Long, Default: "30000", Valid: atLeast(1)},
	{Name: "producer.purgatory.purge.interval.requests", Type: Int, Default: "1000"},
	{Name: "queued.max.requests", Type: Int, Default: "500", Valid: atLeast(1)},
	{
		Name: "server.max.startup.time.ms", Type: Long, Default: maxLong, Valid: atLeast(0),
		Hidden: true,
	},
	{Name: "socket.connection.setup.timeout.max.ms", Type: Long, Default: "30000"},
	{Name: "socket.connection.setup.timeout.ms", Type: Long, Default: "10000"},
	{Name: "telemetry.max.bytes", Type: Int, Default: "1048576", Valid: atLeast(1)},
	{
		Name: "unclean.leader.election.interval.ms", Type: Long, Default: "300000",
		Valid: atLeast(1), Hidden: true,
	},
	{Name: "unstable.api.versions.enable", Type: Bool, Default: "false", Hidden: true},
	{Name: "unstable.feature.versions.enable", Type: Bool, Default: "false", Hidden: true},
})
