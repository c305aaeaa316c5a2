package admin

// Family is one metric: its name, help and labels.
type Family struct {
	Name, Help string
	Labels     []string
}

var (
	byTopic     = []string{"topic"}
	byPartition = []string{"topic", "partition"}
	byRequest   = []string{"request"}
	byGroup     = []string{"consumergroup"}
	byGroupPart = []string{"consumergroup", "topic", "partition"}
)

// Families lists every metric of the broker; docs/metrics.md is made from it.
var Families = []Family{
	{"kafka_brokers", "Brokers in the cluster.", nil},
	{"kafka_broker_info", "This broker.", []string{"id", "rack"}},
	{"kafka_server_kafkaserver_brokerstate", "3 while the broker serves.", nil},
	{"kafka_controller_kafkacontroller_activecontrollercount", "1 on the controller.", nil},
	{"kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions without a leader.", nil},
	{"kafka_controller_kafkacontroller_preferredreplicaimbalancecount", "Partitions not led by their first replica.", nil},
	{"kafka_controller_controllerstats_uncleanleaderelections_total", "Leaders elected without all acknowledged data: never.", nil},
	{"kafka_server_replicamanager_partitioncount", "Partitions on this broker.", nil},
	{"kafka_server_replicamanager_leadercount", "Partitions that this broker leads.", nil},
	{"kafka_server_replicamanager_underreplicatedpartitions", "Led partitions with a replica out of sync.", nil},
	{"kafka_server_replicamanager_underminisrpartitioncount", "Led partitions below min.insync.replicas.", nil},
	{"kafka_log_logmanager_offlinelogdirectorycount", "Data directories that take no writes.", nil},
	{"kafka_log_log_size", "Bytes of a partition's segments.", byPartition},
	{"kafka_topic_partitions", "Partitions of a topic.", byTopic},
	{"kafka_topic_partition_current_offset", "High watermark.", byPartition},
	{"kafka_topic_partition_oldest_offset", "Log start offset.", byPartition},
	{"kafka_topic_partition_leader", "Broker that leads the partition.", byPartition},
	{"kafka_topic_partition_leader_is_preferred", "1 when the first replica leads.", byPartition},
	{"kafka_topic_partition_replicas", "Replicas.", byPartition},
	{"kafka_topic_partition_in_sync_replica", "Replicas in sync.", byPartition},
	{"kafka_topic_partition_under_replicated_partition", "1 when a replica is out of sync.", byPartition},
	{"kafka_server_brokertopicmetrics_bytesin_total", "Bytes of record batches written; topic is empty for the broker's sum.", byTopic},
	{"kafka_server_brokertopicmetrics_bytesout_total", "Bytes of record batches sent to consumers.", byTopic},
	{"kafka_server_brokertopicmetrics_messagesin_total", "Records written.", byTopic},
	{"kafka_server_brokertopicmetrics_totalproducerequests_total", "Produce requests.", byTopic},
	{"kafka_server_brokertopicmetrics_totalfetchrequests_total", "Fetch requests.", byTopic},
	{"kafka_server_brokertopicmetrics_failedproducerequests_total", "Batches refused.", byTopic},
	{"kafka_server_brokertopicmetrics_failedfetchrequests_total", "Partitions answered with an error.", byTopic},
	{"kafka_network_requestmetrics_requests_total", "Requests answered.", byRequest},
	{"kafka_network_requestmetrics_totaltimems", "Milliseconds from a request's arrival to its answer, summed.", byRequest},
	{"kafka_consumergroup_members", "Members of a group.", byGroup},
	{"kafka_consumergroup_current_offset", "Committed offset.", byGroupPart},
	{"kafka_consumergroup_current_offset_sum", "Committed offsets, summed over a topic.", []string{"consumergroup", "topic"}},
	{"kafka_consumergroup_lag", "High watermark less committed offset, never below 0.", byGroupPart},
	{"kafka_consumergroup_lag_sum", "Lag, summed over a topic.", []string{"consumergroup", "topic"}},
	{"kafka_consumergroup_lag_seconds", "Age of the first record that is not read yet, 0 without lag.", byGroupPart},
	{"kafka_coordinator_group_groupmetadatamanager_numgroups", "Groups.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsempty", "Groups without members.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsstable", "Groups at work.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupspreparingrebalance", "Groups whose members join.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupscompletingrebalance", "Groups that wait for an assignment.", nil},
	{"kafka_coordinator_group_groupmetadatamanager_numgroupsdead", "Groups about to be removed.", nil},
	{"sluice_build_info", "This build.", []string{"version"}},
	{"sluice_connections", "Open client connections.", nil},
	{"sluice_connections_opened_total", "Client connections since the start.", nil},
	{"sluice_connections_refused_total", "Connections turned away or cut.", nil},
	{"sluice_network_received_bytes_total", "Bytes received from clients.", nil},
	{"sluice_network_sent_bytes_total", "Bytes sent to clients.", nil},
	{"sluice_fetch_sessions", "Fetch sessions kept (KIP-227).", nil},
	{"sluice_request_bytes_total", "Bytes of requests.", byRequest},
	{"sluice_response_bytes_total", "Bytes of answers.", byRequest},
	{"sluice_request_duration_seconds", "Time from a request's arrival to its answer; long polls included.", byRequest},
}
