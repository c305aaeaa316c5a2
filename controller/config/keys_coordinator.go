package config

// coordinatorKeys are the settings of groups, producers and transactions.
var coordinatorKeys = []Key{
	{
		Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000",
		Doc: "How long an empty group waits for more members before its first rebalance.",
	},
	{
		Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000",
		Doc: "The longest session timeout that members may ask for.",
	},
	{
		Name: "group.max.size", Type: Int, Default: "2147483647", Valid: atLeast(1),
		Doc: "The most members that a group may have.",
	},
	{
		Name: "group.min.session.timeout.ms", Type: Int, Default: "6000",
		Doc: "The shortest session timeout that members may ask for.",
	},
	{
		Name: "offset.metadata.max.bytes", Type: Int, Default: "4096",
		Doc: "The largest metadata text of a committed offset.",
	},
	{
		Name: "offsets.commit.timeout.ms", Type: Int, Default: "5000", Valid: atLeast(1),
		Doc: "How long an offset commit may take before it is answered with an error.",
	},
	{
		Name: "offsets.load.buffer.size", Type: Int, Default: "5242880", Valid: atLeast(1),
		Inert: true, Doc: "Kafka's read size while it loads offsets: accepted, without effect.",
	},
	{
		Name: "offsets.retention.check.interval.ms", Type: Long, Default: "600000",
		Valid: atLeast(1), Doc: "How often committed offsets are looked through for expired ones.",
	},
	{
		Name: "offsets.retention.minutes", Type: Int, Default: "10080", Valid: atLeast(1),
		Doc: "How long committed offsets are kept after their group became empty.",
	},
	{
		Name: "offsets.topic.compression.codec", Type: Int, Default: "0", Inert: true,
		Doc: "The codec of __consumer_offsets: accepted, without effect, batches there are not " +
			"compressed.",
	},
	{
		Name: "offsets.topic.num.partitions", Type: Int, Default: "50", Valid: atLeast(1),
		Doc: "The number of partitions of __consumer_offsets when it is made. Never change it " +
			"afterwards.",
	},
	{
		Name: "offsets.topic.replication.factor", Type: Short, Default: "3", Valid: atLeast(1),
		Doc: "The number of replicas of __consumer_offsets; 3 where there are three brokers, else " +
			"1.",
	},
	{
		Name: "offsets.topic.segment.bytes", Type: Int, Default: "104857600", Valid: atLeast(1),
		Doc: "The segment size of __consumer_offsets.",
	},
	{
		Name: "producer.id.expiration.check.interval.ms", Type: Int, Default: "600000",
		Valid: atLeast(1), Hidden: true,
		Doc: "How often the state of idle producers is looked through.",
	},
	{
		Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", Valid: atLeast(1),
		Update: Anywhere, Doc: "How long the state of an idle producer is kept.",
	},
	{
		Name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", Type: Int,
		Default: "10000", Valid: atLeast(1),
		Doc: "How often transactions past their timeout are looked for.",
	},
	{
		Name: "transaction.max.timeout.ms", Type: Int, Default: "900000", Valid: atLeast(1),
		Doc: "The longest transaction timeout that producers may ask for.",
	},
	{
		Name: "transaction.partition.verification.enable", Type: Bool, Default: "true",
		Update: Anywhere,
		Doc: "Whether a transactional batch is refused for a partition that is not part of the " +
			"transaction.",
	},
	{
		Name: "transaction.remove.expired.transaction.cleanup.interval.ms", Type: Int,
		Default: "3600000", Valid: atLeast(1),
		Doc: "How often expired transactional ids are looked for.",
	},
	{
		Name: "transaction.state.log.load.buffer.size", Type: Int, Default: "5242880",
		Valid: atLeast(1), Inert: true,
		Doc: "Kafka's read size while it loads transactions: accepted, without effect.",
	},
	{
		Name: "transaction.state.log.min.isr", Type: Int, Default: "2", Valid: atLeast(1),
		Doc: "min.insync.replicas of __transaction_state.",
	},
	{
		Name: "transaction.state.log.num.partitions", Type: Int, Default: "50", Valid: atLeast(1),
		Doc: "The number of partitions of __transaction_state when it is made. Never change it " +
			"afterwards.",
	},
	{
		Name: "transaction.state.log.replication.factor", Type: Short, Default: "3",
		Valid: atLeast(1),
		Doc: "The number of replicas of __transaction_state; 3 where there are three brokers, else " +
			"1.",
	},
	{
		Name: "transaction.state.log.segment.bytes", Type: Int, Default: "104857600",
		Valid: atLeast(1), Doc: "The segment size of __transaction_state.",
	},
	{
		Name: "transaction.two.phase.commit.enable", Type: Bool, Default: "false",
		Doc: "Whether transactions without a timeout (KIP-939) are allowed.",
	},
	{
		Name: "transactional.id.expiration.ms", Type: Int, Default: "604800000", Valid: atLeast(1),
		Doc: "How long an idle transactional id is kept.",
	},
}
