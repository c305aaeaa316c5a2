package admin

import "github.com/prometheus/client_golang/prometheus"

// Kind is what a metric's value is.
type Kind string

// The kinds of metrics. A summary here has a count and a sum, and no quantiles.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
	Summary   Kind = "summary"
)

// Family is one metric: its name, kind, help and labels.
type Family struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string
}

var (
	byTopic      = []string{"topic"}
	byPartition  = []string{"topic", "partition"}
	byRequest    = []string{"request"}
	byGroup      = []string{"consumergroup"}
	byGroupTopic = []string{"consumergroup", "topic"}
	byGroupPart  = []string{"consumergroup", "topic", "partition"}
)

// Families lists every metric of the broker; those of the process and the Go runtime come beside
// them (process_, go_).
var Families = []Family{
	// As kafka_exporter names them.
	{"kafka_brokers", Gauge, "Brokers in the cluster.", nil},
	{"kafka_broker_info", Gauge, "This broker; always 1.", []string{"id", "address", "rack"}},
	{"kafka_topic_partitions", Gauge, "Partitions of the topic.", byTopic},
	{"kafka_topic_partition_current_offset", Gauge, "High watermark: the offset behind the last record that consumers can read.", byPartition},
	{"kafka_topic_partition_oldest_offset", Gauge, "Log start offset: the first record that is kept.", byPartition},
	{"kafka_topic_partition_leader", Gauge, "Broker that leads the partition, -1 for none.", byPartition},
	{"kafka_topic_partition_leader_is_preferred", Gauge, "1 when the first replica leads.", byPartition},
	{"kafka_topic_partition_replicas", Gauge, "Replicas of the partition.", byPartition},
	{"kafka_topic_partition_in_sync_replica", Gauge, "Replicas in sync.", byPartition},
	{"kafka_topic_partition_under_replicated_partition", Gauge, "1 when a replica is not in sync.", byPartition},
	{"kafka_consumergroup_members", Gauge, "Members of the group.", byGroup},
	{"kafka_consumergroup_current_offset", Gauge, "Committed offset: the next record to be read.", byGroupPart},
	{"kafka_consumergroup_current_offset_sum", Gauge, "Committed offsets summed over the topic.", byGroupTopic},
	{"kafka_consumergroup_lag", Gauge, "High watermark less committed offset, never below 0.", byGroupPart},
	{"kafka_consumergroup_lag_sum", Gauge, "Lag summed over the topic.", byGroupTopic},
	{"kafka_consumergroup_lag_seconds", Gauge, "Time since the timestamp of the first record that is not read yet; 0 without lag.", byGroupPart},

	// As Kafka's JMX beans come out of the usual exporter rules.
	{"kafka_server_kafkaserver_brokerstate", Gauge, "1 starting, 2 recovering, 3 running, 6 stopping.", nil},
	{"kafka_server_replicamanager_partitioncount", Gauge, "Partitions on this broker.", nil},
	{"kafka_server_replicamanager_leadercount", Gauge, "Partitions that this broker leads.", nil},
	{"kafka_server_replicamanager_underreplicatedpartitions", Gauge, "Led partitions with a replica that is not in sync.", nil},
	{"kafka_server_replicamanager_underminisrpartitioncount", Gauge, "Led partitions with fewer replicas in sync than min.insync.replicas.", nil},
	{"kafka_server_replicamanager_atminisrpartitioncount", Gauge, "Led partitions with as many replicas in sync as min.insync.replicas.", nil},
	{"kafka_server_replicamanager_offlinereplicacount", Gauge, "Partitions on this broker whose log is not usable.", nil},
	{"kafka_server_replicamanager_isrshrinks_total", Counter, "Replicas that fell out of sync.", nil},
	{"kafka_server_replicamanager_isrexpands_total", Counter, "Replicas that came in sync again.", nil},
	{"kafka_cluster_partition_underreplicated", Gauge, "1 when a replica of the led partition is not in sync.", byPartition},
	{"kafka_cluster_partition_underminisr", Gauge, "1 when fewer replicas are in sync than min.insync.replicas.", byPartition},
	{"kafka_cluster_partition_atminisr", Gauge, "1 when as many replicas are in sync as min.insync.replicas.", byPartition},
	{"kafka_controller_kafkacontroller_activecontrollercount", Gauge, "1 on the controller.", nil},
	{"kafka_controller_kafkacontroller_offlinepartitionscount", Gauge, "Partitions without a leader.", nil},
	{"kafka_controller_kafkacontroller_preferredreplicaimbalancecount", Gauge, "Partitions not led by their first replica.", nil},
	{"kafka_controller_controllerstats_uncleanleaderelections_total", Counter, "Leaders elected that lack acknowledged records.", nil},
	{"kafka_server_raftmetrics_current_leader", Gauge, "Broker that leads the metadata log.", nil},
	{"kafka_server_raftmetrics_current_epoch", Gauge, "Leader epoch of the metadata log.", nil},
	{"kafka_server_raftmetrics_high_watermark", Gauge, "High watermark of the metadata log.", nil},
	{"kafka_server_raftmetrics_log_end_offset", Gauge, "End of the metadata log.", nil},
	{"kafka_server_brokertopicmetrics_bytesin_total", Counter, "Bytes of record batches written. Here and below, topic is empty for the sum of all topics ever.", byTopic},
	{"kafka_server_brokertopicmetrics_bytesout_total", Counter, "Bytes of record batches sent to consumers.", byTopic},
	{"kafka_server_brokertopicmetrics_messagesin_total", Counter, "Records written.", byTopic},
	{"kafka_server_brokertopicmetrics_totalproducerequests_total", Counter, "Produce requests.", byTopic},
	{"kafka_server_brokertopicmetrics_totalfetchrequests_total", Counter, "Fetch requests.", byTopic},
	{"kafka_server_brokertopicmetrics_failedproducerequests_total", Counter, "Batches refused.", byTopic},
	{"kafka_server_brokertopicmetrics_failedfetchrequests_total", Counter, "Partitions that could not be read.", byTopic},
	{"kafka_network_requestmetrics_requests_total", Counter, "Requests answered.", byRequest},
	{"kafka_network_requestmetrics_totaltimems", Summary, "Milliseconds from a request's arrival to its answer; long polls count whole.", byRequest},
	{"kafka_log_log_size", Gauge, "Bytes of the partition's segments.", byPartition},
	{"kafka_log_logmanager_offlinelogdirectorycount", Gauge, "1 when the data directory takes no writes.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroups", Gauge, "Groups.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsempty", Gauge, "Groups without members.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsstable", Gauge, "Groups whose members have their assignment.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", Gauge, "Groups that wait for members to join.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", Gauge, "Groups that wait for an assignment.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsdead", Gauge, "Groups about to be removed.", nil},

	// Our own.
	{"sluice_build_info", Gauge, "This build; always 1.", []string{"version"}},
	{"sluice_request_duration_seconds", Histogram, "Time from a request's arrival to its answer; long polls count whole.", byRequest},
	{"sluice_request_bytes_total", Counter, "Bytes of requests.", byRequest},
	{"sluice_response_bytes_total", Counter, "Bytes of answers.", byRequest},
	{"sluice_duplicate_batches_total", Counter, "Batches that an idempotent producer sent again and that were in the log already.", byTopic},
	{"sluice_connections", Gauge, "Client connections now.", nil},
	{"sluice_connections_opened_total", Counter, "Client connections taken.", nil},
	{"sluice_connections_refused_total", Counter, "Connections turned away or cut, by reason.", []string{"reason"}},
	{"sluice_network_receive_bytes_total", Counter, "Bytes received from clients.", nil},
	{"sluice_network_transmit_bytes_total", Counter, "Bytes sent to clients.", nil},
	{"sluice_inflight_request_bytes", Gauge, "Bytes of requests in memory; queued.max.request.bytes bounds them.", nil},
	{"sluice_fetch_sessions", Gauge, "Incremental fetch sessions kept (KIP-227).", nil},
	{"sluice_log_sync_seconds", Summary, "Time of the committer's rounds: each syncs every log that was written to while the last one ran.", nil},
	{"sluice_data_directory_low", Gauge, "1 while records are refused because only sluice.disk.reserve.bytes are left.", nil},
	{"sluice_producer_id_block_end", Gauge, "First producer id that no broker has been given yet.", nil},
	{"sluice_coordinator_loaded_shards", Gauge, "Partitions of __consumer_offsets whose groups are in memory.", nil},
	{"sluice_coordinator_waiting_requests", Gauge, "Group requests without an answer now.", nil},
	{"sluice_coordinator_dropped_appends_total", Counter, "Writes of the group coordinator that failed; each reloads its partition.", nil},
	{"sluice_coordinator_late_answers_total", Counter, "Group requests whose write was not durable within offsets.commit.timeout.ms.", nil},
}

// descriptions makes Prometheus descriptions of all families, by name.
func descriptions() map[string]description {
	all := make(map[string]description, len(Families))
	for _, f := range Families {
		all[f.Name] = description{
			kind: f.Kind, desc: prometheus.NewDesc(f.Name, f.Help, f.Labels, nil),
		}
	}
	return all
}

type description struct {
	kind Kind
	desc *prometheus.Desc
}

// sink turns values into metrics by the name of their family.
type sink struct {
	out chan<- prometheus.Metric
	all map[string]description
}

// set gives a gauge or a counter its value.
func (s *sink) set(name string, v float64, labels ...string) {
	d := s.all[name]
	kind := prometheus.GaugeValue
	if d.kind == Counter {
		kind = prometheus.CounterValue
	}
	s.out <- prometheus.MustNewConstMetric(d.desc, kind, v, labels...)
}

// summary gives a count and a sum.
func (s *sink) summary(name string, count uint64, sum float64, labels ...string) {
	s.out <- prometheus.MustNewConstSummary(s.all[name].desc, count, sum, nil, labels...)
}

// flag is set for a truth.
func (s *sink) flag(name string, is bool, labels ...string) {
	v := 0.0
	if is {
		v = 1
	}
	s.set(name, v, labels...)
}
