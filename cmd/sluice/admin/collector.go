package admin

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicelog/sluice/cmd/sluice/api"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/log/store"
)

// Source is the running broker whose numbers /metrics shows.
type Source struct {
	Broker      *api.Broker
	Groups      *group.Service
	Server      *server.Server
	Connections *Connections
	Store       *store.Store
	Metadata    *store.Log // the metadata log
	Address     string     // host and port that this broker is known by
}

// scraped is what the registry knows: which families a scrape gives follows from the broker's state
// and its topics.
type scraped struct{ s *Server }

// Describe says nothing, which makes the collector an unchecked one.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c scraped) Collect(out chan<- prometheus.Metric) {
	s := &sink{out: out, all: descriptions()}
	s.set("sluice_build_info", 1, c.s.o.Version)
	s.set("kafka_server_kafkaserver_brokerstate", float64(c.s.o.State().Broker))
	if running := c.s.source.Load(); running != nil {
		running.collect(s)
	}
}

// collector makes the series of one broker at each scrape.
type collector struct {
	Source
	unread unread
}

// groupsWithin bounds the wait for the group coordinator's copy: a scrape must not hang on it.
const groupsWithin = 2 * time.Second

func newCollector(src Source) *collector { return &collector{Source: src} }

func (c *collector) collect(s *sink) {
	groups := make(chan []group.GroupStats, 1)
	c.Groups.Stats(func(g []group.GroupStats) { groups <- g })
	c.collectBroker(s)
	c.collectNetwork(s)
	c.collectTopics(s)
	c.collectRequests(s)
	timer := time.NewTimer(groupsWithin)
	defer timer.Stop()
	select {
	case g := <-groups:
		c.collectGroups(s, g)
	case <-timer.C:
	}
}

func (c *collector) collectBroker(s *sink) {
	img := c.Broker.Controller.Image()
	s.set("kafka_brokers", float64(len(img.Nodes())))
	s.set("kafka_broker_info", 1,
		strconv.Itoa(int(c.Broker.NodeID)), c.Address, c.Broker.Config.Broker().Rack)
	s.flag("kafka_log_logmanager_offlinelogdirectorycount", c.Store.Err() != nil)
	s.flag("sluice_data_directory_low", c.Store.LowOnSpace())
	rounds, took := c.Store.Syncs()
	s.summary("sluice_log_sync_seconds", uint64(rounds), took.Seconds())
	s.set("kafka_controller_kafkacontroller_activecontrollercount", 1)
	s.set("kafka_controller_controllerstats_uncleanleaderelections_total", 0)
	s.set("kafka_server_raftmetrics_current_leader", float64(c.Broker.NodeID))
	s.set("kafka_server_raftmetrics_current_epoch", float64(c.Metadata.Term()))
	s.set("kafka_server_raftmetrics_high_watermark", float64(c.Metadata.HighWatermark()))
	s.set("kafka_server_raftmetrics_log_end_offset", float64(c.Metadata.EndOffset()))
	s.set("sluice_fetch_sessions", float64(c.Broker.Sessions()))
	s.set("sluice_producer_id_block_end", float64(img.NextProducerID()))
	n := c.Groups.Counters()
	s.set("sluice_coordinator_loaded_shards", float64(n.Loaded.Load()))
	s.set("sluice_coordinator_waiting_requests", float64(n.Waiting.Load()))
	s.set("sluice_coordinator_dropped_appends_total", float64(n.Drops.Load()))
	s.set("sluice_coordinator_late_answers_total", float64(n.Late.Load()))
}

func (c *collector) collectNetwork(s *sink) {
	n := c.Connections
	closed := n.closed.Load() // before opened, so that the difference is never negative
	opened := n.opened.Load()
	s.set("sluice_connections", float64(opened-closed))
	s.set("sluice_connections_opened_total", float64(opened))
	for i, why := range refusals {
		s.set("sluice_connections_refused_total", float64(n.refused[i].Load()), string(why))
	}
	s.set("sluice_network_receive_bytes_total", float64(n.in.Load()))
	s.set("sluice_network_transmit_bytes_total", float64(n.out.Load()))
	s.set("sluice_inflight_request_bytes", float64(c.Server.InflightBytes()))
}

func (c *collector) collectTopics(s *sink) {
	topics := c.Broker.Topics()
	partitions, offline := 0, 0
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		t := topics[name]
		s.set("kafka_topic_partitions", float64(len(t.Partitions)), name)
		collectTraffic(s, t.Stats, name)
		for i := range t.Partitions {
			partitions++
			if !c.collectPartition(s, t, i) {
				offline++
			}
		}
	}
	collectTraffic(s, &c.Broker.Stats.All, "")
	led := partitions - offline
	const manager = "kafka_server_replicamanager_"
	s.set(manager+"partitioncount", float64(partitions))
	s.set(manager+"leadercount", float64(led))
	s.set(manager+"offlinereplicacount", float64(offline))
	// A partition with one replica is in sync with itself, and as Kafka counts it, at its minimum.
	s.set(manager+"underreplicatedpartitions", 0)
	s.set(manager+"underminisrpartitioncount", 0)
	s.set(manager+"atminisrpartitioncount", float64(led))
	s.set(manager+"isrshrinks_total", 0)
	s.set(manager+"isrexpands_total", 0)
	s.set("kafka_controller_kafkacontroller_offlinepartitionscount", float64(offline))
	s.set("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", float64(offline))
}

// collectPartition reports whether the partition is led; one that is not has no numbers of its log.
func (c *collector) collectPartition(s *sink, t *api.Topic, n int) bool {
	labels := []string{t.Name, strconv.Itoa(n)}
	p := t.Partitions[n]
	led := p != nil && p.Offline() == nil
	leader := -1.0
	if led {
		leader = float64(c.Broker.NodeID)
	}
	s.set("kafka_topic_partition_leader", leader, labels...)
	s.flag("kafka_topic_partition_leader_is_preferred", led, labels...)
	s.set("kafka_topic_partition_replicas", 1, labels...)
	s.flag("kafka_topic_partition_in_sync_replica", led, labels...)
	s.flag("kafka_topic_partition_under_replicated_partition", !led, labels...)
	if !led {
		return false
	}
	s.set("kafka_topic_partition_current_offset", float64(p.HighWatermark()), labels...)
	s.set("kafka_topic_partition_oldest_offset", float64(p.LogStart()), labels...)
	s.flag("kafka_cluster_partition_underreplicated", false, labels...)
	s.flag("kafka_cluster_partition_underminisr", false, labels...)
	s.flag("kafka_cluster_partition_atminisr", true, labels...)
	s.set("kafka_log_log_size", float64(p.Size()), labels...)
	return true
}

// collectTraffic gives Kafka's BrokerTopicMetrics; the broker's own sum has an empty topic.
func collectTraffic(s *sink, t *api.TopicStats, topic string) {
	const traffic = "kafka_server_brokertopicmetrics_"
	s.set(traffic+"bytesin_total", float64(t.BytesIn.Load()), topic)
	s.set(traffic+"bytesout_total", float64(t.BytesOut.Load()), topic)
	s.set(traffic+"messagesin_total", float64(t.MessagesIn.Load()), topic)
	s.set(traffic+"totalproducerequests_total", float64(t.ProduceRequests.Load()), topic)
	s.set(traffic+"totalfetchrequests_total", float64(t.FetchRequests.Load()), topic)
	s.set(traffic+"failedproducerequests_total", float64(t.FailedProduces.Load()), topic)
	s.set(traffic+"failedfetchrequests_total", float64(t.FailedFetches.Load()), topic)
	if topic != "" {
		s.set("sluice_duplicate_batches_total", float64(t.DuplicateBatches.Load()), topic)
	}
}

func (c *collector) collectRequests(s *sink) {
	for i := range api.Table {
		name := api.Table[i].Name
		a := c.Broker.Stats.API(api.Table[i].Key)
		s.set("sluice_request_bytes_total", float64(a.BytesIn.Load()), name)
		s.set("sluice_response_bytes_total", float64(a.BytesOut.Load()), name)
		// The count is that of the buckets, so that the two agree while requests go on.
		buckets := make(map[float64]uint64, len(api.LatencyBounds))
		count := uint64(0)
		for j, bound := range api.LatencyBounds {
			count += uint64(a.Buckets[j].Load())
			buckets[bound.Seconds()] = count
		}
		count += uint64(a.Buckets[len(api.LatencyBounds)].Load())
		total := time.Duration(a.TotalNano.Load())
		s.set("kafka_network_requestmetrics_requests_total", float64(count), name)
		s.out <- prometheus.MustNewConstHistogram(
			s.all["sluice_request_duration_seconds"].desc, count, total.Seconds(), buckets, name)
		s.summary("kafka_network_requestmetrics_totaltimems", count,
			float64(total)/float64(time.Millisecond), name)
	}
}
