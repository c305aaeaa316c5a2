package api

import "sort"

// Row is one API: what of it is served, by whom, and what the caller must be allowed to do.
type Row struct {
	Key      int16
	Name     string // Kafka's name, also the metric label
	Min, Max int16  // versions served
	// Shown is the least version that ApiVersions offers, where that is less than Min: old
	// librdkafka switches compression off unless Produce shows 0 (KAFKA-18659).
	Shown int16
	// ACL is the operation and resource that an authorizer is asked for.
	ACL string
	// MayBlock tells that the answer can wait for others: for commits, records or members.
	MayBlock bool

	serve func(*Broker, *Request)
	// The decoded request lies in the frame: its strings (aliases), or its byte fields (keeps). The
	// frame of all others is free once they are decoded.
	aliases, keeps bool
}

// Table lists every API that is served, by key: the one place where versions are named.
var Table = [...]Row{
	{Key: 0, Name: "Produce", Min: 3, Max: 13, Shown: 0, ACL: "Write Topic", MayBlock: true, serve: (*Broker).produce, aliases: true, keeps: true},
	{Key: 1, Name: "Fetch", Min: 4, Max: 18, Shown: 4, ACL: "Read Topic", MayBlock: true, serve: (*Broker).fetch},
	{Key: 2, Name: "ListOffsets", Min: 1, Max: 11, Shown: 1, ACL: "Describe Topic", serve: (*Broker).listOffsets},
	{Key: 3, Name: "Metadata", Min: 0, Max: 13, Shown: 0, ACL: "Describe Topic", MayBlock: true, serve: (*Broker).metadata},
	{Key: 8, Name: "OffsetCommit", Min: 2, Max: 10, Shown: 2, ACL: "Read Group, Read Topic", MayBlock: true, serve: (*Broker).offsetCommit},
	{Key: 9, Name: "OffsetFetch", Min: 1, Max: 10, Shown: 1, ACL: "Describe Group, Describe Topic", MayBlock: true, serve: (*Broker).offsetFetch},
	{Key: 10, Name: "FindCoordinator", Min: 0, Max: 6, Shown: 0, ACL: "Describe Group", MayBlock: true, serve: (*Broker).findCoordinator},
	{Key: 11, Name: "JoinGroup", Min: 0, Max: 9, Shown: 0, ACL: "Read Group", MayBlock: true, serve: (*Broker).joinGroup, keeps: true},
	{Key: 12, Name: "Heartbeat", Min: 0, Max: 4, Shown: 0, ACL: "Read Group", MayBlock: true, serve: (*Broker).heartbeat},
	{Key: 13, Name: "LeaveGroup", Min: 0, Max: 5, Shown: 0, ACL: "Read Group", MayBlock: true, serve: (*Broker).leaveGroup},
	{Key: 14, Name: "SyncGroup", Min: 0, Max: 5, Shown: 0, ACL: "Read Group", MayBlock: true, serve: (*Broker).syncGroup, keeps: true},
	{Key: 15, Name: "DescribeGroups", Min: 0, Max: 6, Shown: 0, ACL: "Describe Group", MayBlock: true, serve: (*Broker).describeGroups},
	{Key: 16, Name: "ListGroups", Min: 0, Max: 5, Shown: 0, ACL: "Describe Cluster", MayBlock: true, serve: (*Broker).listGroups},
	{Key: 18, Name: "ApiVersions", Min: 0, Max: 5, Shown: 0, ACL: "", serve: (*Broker).apiVersions},
	{Key: 19, Name: "CreateTopics", Min: 2, Max: 7, Shown: 2, ACL: "Create Cluster or Topic", MayBlock: true, serve: (*Broker).createTopics},
	{Key: 20, Name: "DeleteTopics", Min: 1, Max: 6, Shown: 1, ACL: "Delete Topic", MayBlock: true, serve: (*Broker).deleteTopics},
	{Key: 21, Name: "DeleteRecords", Min: 0, Max: 2, Shown: 0, ACL: "Delete Topic", MayBlock: true, serve: (*Broker).deleteRecords},
	{Key: 22, Name: "InitProducerId", Min: 0, Max: 5, Shown: 0, ACL: "IdempotentWrite Cluster or Write Topic", MayBlock: true, serve: (*Broker).initProducerID},
	{Key: 23, Name: "OffsetForLeaderEpoch", Min: 2, Max: 4, Shown: 2, ACL: "Describe Topic", serve: (*Broker).offsetForLeaderEpoch},
	{Key: 32, Name: "DescribeConfigs", Min: 1, Max: 4, Shown: 1, ACL: "DescribeConfigs Topic or Cluster", serve: (*Broker).describeConfigs},
	{Key: 33, Name: "AlterConfigs", Min: 0, Max: 2, Shown: 0, ACL: "AlterConfigs Topic or Cluster", MayBlock: true, serve: (*Broker).alterConfigs},
	{Key: 37, Name: "CreatePartitions", Min: 0, Max: 3, Shown: 0, ACL: "Alter Topic", MayBlock: true, serve: (*Broker).createPartitions},
	{Key: 42, Name: "DeleteGroups", Min: 0, Max: 3, Shown: 0, ACL: "Delete Group", MayBlock: true, serve: (*Broker).deleteGroups},
	{Key: 44, Name: "IncrementalAlterConfigs", Min: 0, Max: 1, Shown: 0, ACL: "AlterConfigs Topic or Cluster", MayBlock: true, serve: (*Broker).incrementalAlterConfigs},
	{Key: 47, Name: "OffsetDelete", Min: 0, Max: 0, Shown: 0, ACL: "Delete Group, Read Topic", MayBlock: true, serve: (*Broker).offsetDelete},
	{Key: 60, Name: "DescribeCluster", Min: 0, Max: 2, Shown: 0, ACL: "Describe Cluster", serve: (*Broker).describeCluster},
	{Key: 75, Name: "DescribeTopicPartitions", Min: 0, Max: 0, Shown: 0, ACL: "Describe Topic", serve: (*Broker).describeTopicPartitions},
}

// lookup gives the row of an API key, nil when it is not served.
func lookup(key int16) *Row {
	i := sort.Search(len(Table), func(i int) bool { return Table[i].Key >= key })
	if i == len(Table) || Table[i].Key != key {
		return nil
	}
	return &Table[i]
}
