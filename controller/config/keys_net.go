package config

// netKeys are the settings of identity, listeners, connections, topics and metadata, by name.
var netKeys = []Key{
	{
		Name: "advertised.listeners", Type: List, Null: true,
		Doc: "The addresses that clients are told, as LISTENER://host:port. Unset or 'auto': " +
			"chosen for each connection from where it comes in.",
	},
	{
		Name: "auto.create.topics.enable", Type: Bool, Default: "true",
		Doc: "Whether a topic that a client names and that is not there is made, with " +
			"num.partitions and default.replication.factor.",
	},
	{Name: "broker.id", Type: Int, Default: "-1", Doc: "The older name of node.id."},
	{
		Name: "broker.rack", Type: String, Null: true,
		Doc: "The rack or zone of this broker: shown to clients, and used to spread replicas.",
	},
	{
		Name: "connection.failed.authentication.delay.ms", Type: Int, Default: "100",
		Valid: atLeast(0), Doc: "How long the answer to a failed authentication is held back.",
	},
	{
		Name: "connections.max.idle.ms", Type: Long, Default: "600000",
		Doc: "How long a connection may be silent before it is closed.",
	},
	{
		Name: "controller.listener.names", Type: List, Null: true,
		Doc: "Names out of 'listeners' that Kafka's controllers use; this broker does not open " +
			"them to clients.",
	},
	{
		Name: "controller.quorum.bootstrap.servers", Type: List, Default: "", Inert: true,
		Doc: "Where Kafka's brokers find controllers: accepted, without effect, as this broker is " +
			"its own controller.",
	},
	{
		Name: "controller.quorum.voters", Type: List, Default: "",
		Doc: "The controllers of a Kafka cluster. This broker is its own controller; more than one " +
			"voter is refused.",
	},
	{
		Name: "default.replication.factor", Type: Int, Default: "1",
		Doc: "The number of replicas of topics made without one. A cluster of one broker makes " +
			"one.",
	},
	{
		Name: "delete.topic.enable", Type: Bool, Default: "true",
		Doc: "Whether topics can be deleted.",
	},
	{
		Name: "fetch.max.bytes", Type: Int, Default: "57671680", Valid: atLeast(1024),
		Doc: "The most that one Fetch answer carries, whatever the client asks for.",
	},
	{
		Name: "inter.broker.listener.name", Type: String, Null: true, Inert: true,
		Doc: "The listener that brokers talk over in Kafka: accepted, without effect on a single " +
			"node.",
	},
	{
		Name: "listener.security.protocol.map", Type: String,
		Default: "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
		Doc: "Which protocol each listener name speaks, as NAME:PROTOCOL. PLAINTEXT and SSL are " +
			"served.",
	},
	{
		Name: "listeners", Type: List, Default: "PLAINTEXT://:9092",
		Doc: "The addresses to listen on, as NAME://host:port; an empty host means all interfaces.",
	},
	{
		Name: "max.connection.creation.rate", Type: Int, Default: "2147483647", Valid: atLeast(0),
		Update: Anywhere, Doc: "How many connections may be made per second.",
	},
	{
		Name: "max.connections", Type: Int, Default: "2147483647", Valid: atLeast(0),
		Update: Anywhere, Doc: "How many connections may be open at once.",
	},
	{
		Name: "max.connections.per.ip", Type: Int, Default: "2147483647", Valid: atLeast(0),
		Update: Anywhere, Doc: "How many connections one address may have open at once.",
	},
	{
		Name: "max.connections.per.ip.overrides", Type: String, Default: "", Update: Anywhere,
		Doc: "Exceptions to max.connections.per.ip, as host:count pairs.",
	},
	{
		Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000",
		Valid: atLeast(0), Doc: "How many incremental fetch sessions (KIP-227) are kept.",
	},
	{
		Name: "max.request.partition.size.limit", Type: Int, Default: "2000", Valid: atLeast(1),
		Doc: "How many partitions one DescribeTopicPartitions answer holds.",
	},
	{
		Name: "metadata.log.max.record.bytes.between.snapshots", Type: Long, Default: "20971520",
		Valid: atLeast(1),
		Doc:   "How many bytes of metadata records may be written before a snapshot is made.",
	},
	{
		Name: "metadata.log.max.snapshot.interval.ms", Type: Long, Default: "3600000",
		Valid: atLeast(0),
		Doc: "How old the newest metadata snapshot may be before another is made; 0 means no " +
			"bound.",
	},
	{
		Name: "metadata.log.segment.bytes", Type: Int, Default: "1073741824",
		Valid: atLeast(8 << 20), Doc: "The size at which a segment of the metadata log is rolled.",
	},
	{
		Name: "metadata.log.segment.ms", Type: Long, Default: "604800000",
		Doc: "The age at which a segment of the metadata log is rolled.",
	},
	{
		Name: "min.insync.replicas", Type: Int, Default: "1", Valid: atLeast(1), Update: Anywhere,
		Doc: "How many replicas must have a record before acks=all is answered. Capped at the " +
			"number of replicas.",
	},
	{
		Name: "node.id", Type: Int, Null: true, Valid: atLeast(0),
		Aliases: []Alias{{Name: "broker.id"}},
		Doc:     "The number this broker asks for. Unset: the number it had before, else 1.",
	},
	{
		Name: "num.partitions", Type: Int, Default: "1", Valid: atLeast(1),
		Doc: "The number of partitions of topics made without one.",
	},
	{
		Name: "process.roles", Type: List, Null: true, Valid: eachOf("broker", "controller"),
		Doc: "Kafka's roles. This broker is always broker and controller; 'controller' alone is " +
			"refused.",
	},
	{
		Name: "queued.max.request.bytes", Type: Long, Default: "-1",
		Doc: "The most bytes of requests in memory at once; -1 lets the broker choose.",
	},
	{
		Name: "request.timeout.ms", Type: Int, Default: "30000",
		Doc: "How long the broker waits for others before it gives an answer up.",
	},
	{
		Name: "security.inter.broker.protocol", Type: String, Default: "PLAINTEXT",
		Valid: oneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"), Inert: true,
		Doc: "The protocol that brokers talk in Kafka: accepted, without effect on a single node.",
	},
	{
		Name: "sluice.cluster.id", Type: String, Null: true, Ours: true,
		Doc: "The cluster id to take on the first start, 22 characters of URL-safe base64 " +
			"(CLUSTER_ID in the environment). Unset: drawn at random. Another id than the data " +
			"directory's is refused.",
	},
	{
		Name: "sluice.http.listeners", Type: List, Default: "127.0.0.1:8080", Ours: true,
		Doc: "The addresses of the HTTP listener (console, /api/v1, metrics, health), as " +
			"host:port. Empty: none.",
	},
	{
		Name: "sluice.peer.advertised", Type: String, Null: true, Ours: true,
		Doc: "Where other brokers reach this one, as host:port; unset: where sluice.peer.listener listens.",
	},
	{
		Name: "sluice.peer.listener", Type: String, Null: true, Ours: true,
		Doc: "Where a broker with sluice.seeds listens for other brokers, as host:port; unset: on loopback, " +
			"at the port of the first client listener plus one. Another address than loopback needs " +
			"sluice.peer.secret.file.",
	},
	{
		Name: "sluice.peer.secret.file", Type: String, Null: true, Ours: true,
		Doc: "A file with the secret, at least 16 bytes, that all brokers of the cluster hold and prove to each other.",
	},
	{
		Name: "sluice.seeds", Type: List, Default: "", Ours: true,
		Doc: "Brokers with which to found a cluster, or whose cluster to join, as host:port of their " +
			"sluice.peer.listener (serve --seeds). Founders are given the same list. Empty: this broker is alone.",
	},
	{
		Name: "socket.listen.backlog.size", Type: Int, Default: "50", Valid: atLeast(1),
		Inert: true,
		Doc: "The length of the queue of connections not yet accepted: accepted, without effect, " +
			"the system's bound is used.",
	},
	{
		Name: "socket.receive.buffer.bytes", Type: Int, Default: "102400",
		Doc: "The receive buffer of a connection's socket; -1 means the system's own.",
	},
	{
		Name: "socket.request.max.bytes", Type: Int, Default: "104857600", Valid: atLeast(1),
		Doc: "The largest request taken; a larger one closes the connection.",
	},
	{
		Name: "socket.send.buffer.bytes", Type: Int, Default: "102400",
		Doc: "The send buffer of a connection's socket; -1 means the system's own.",
	},
}
