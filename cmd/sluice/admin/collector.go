package admin

import (
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicelog/sluice/cmd/sluice/api"
	"github.com/sluicelog/sluice/controller/group"
)

// Source is the broker whose numbers /metrics shows.
type Source struct {
	Broker      *api.Broker
	Groups      *group.Service
	Connections *Connections
	Version     string
}

// scraped hands each scrape to the collector of the day: none while the broker starts.
type scraped struct{ now *atomic.Pointer[collector] }

// Describe says nothing: what a scrape gives follows from topics and groups.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s scraped) Collect(out chan<- prometheus.Metric) {
	if c := s.now.Load(); c != nil {
		c.collect(&sink{out: out, descs: c.descs})
	}
}

// collector makes all series of one broker at each scrape.
type collector struct {
	src   Source
	descs map[string]*prometheus.Desc
}

// groupsWithin bounds the wait for the group coordinator's copy: a scrape must not hang on it.
const groupsWithin = 2 * time.Second

func newCollector(src Source) *collector {
	c := &collector{src: src, descs: make(map[string]*prometheus.Desc, len(Families))}
	for _, f := range Families {
		c.descs[f.Name] = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	}
	return c
}

// sink turns values into metrics by the name of their family.
type sink struct {
	out   chan<- prometheus.Metric
	descs map[string]*prometheus.Desc
}

func (s *sink) gauge(name string, v float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(s.descs[name], prometheus.GaugeValue, v, labels...)
}

func (s *sink) counter(name string, v int64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(s.descs[name], prometheus.CounterValue, float64(v), labels...)
}

func (c *collector) collect(s *sink) {
	c.collectBroker(s)
	c.collectTopics(s)
	c.collectRequests(s)
	groups := make(chan []group.GroupStats, 1)
	c.src.Groups.Stats(func(g []group.GroupStats) { groups <- g })
	timer := time.NewTimer(groupsWithin)
	defer timer.Stop()
	select {
	case g := <-groups:
		c.collectGroups(s, g)
	case <-timer.C:
	}
}

func (c *collector) collectBroker(s *sink) {
	b := c.src.Broker
	node := strconv.Itoa(int(b.NodeID))
	s.gauge("sluice_build_info", 1, c.src.Version)
	s.gauge("kafka_brokers", 1)
	s.gauge("kafka_broker_info", 1, node, b.Config.Broker().Rack)
	s.gauge("kafka_server_kafkaserver_brokerstate", 3) // running
	s.gauge("kafka_controller_kafkacontroller_activecontrollercount", 1)
	s.gauge("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", 0)
	s.counter("kafka_controller_controllerstats_uncleanleaderelections_total", 0)
	s.gauge("kafka_log_logmanager_offlinelogdirectorycount", 0)
	n := c.src.Connections
	opened, closed := n.opened.Load(), n.closed.Load()
	s.gauge("sluice_connections", float64(opened-closed))
	s.counter("sluice_connections_opened_total", opened)
	s.counter("sluice_connections_refused_total", n.refused.Load())
	s.counter("sluice_network_received_bytes_total", n.in.Load())
	s.counter("sluice_network_sent_bytes_total", n.out.Load())
	s.gauge("sluice_fetch_sessions", float64(b.Sessions()))
}

func (c *collector) collectTopics(s *sink) {
	b := c.src.Broker
	topics := b.Topics()
	names := make([]string, 0, len(topics))
	for name := range topics {
		names = append(names, name)
	}
	sort.Strings(names)
	partitions, offline := 0, 0
	for _, name := range names {
		t := topics[name]
		s.gauge("kafka_topic_partitions", float64(len(t.Partitions)), name)
		c.collectTraffic(s, t.Stats, name)
		for i, p := range t.Partitions {
			partitions++
			if p == nil || p.Offline() != nil {
				offline++
				continue
			}
			labels := []string{name, strconv.Itoa(i)}
			s.gauge("kafka_topic_partition_current_offset", float64(p.HighWatermark()), labels...)
			s.gauge("kafka_topic_partition_oldest_offset", float64(p.LogStart()), labels...)
			s.gauge("kafka_topic_partition_leader", float64(b.NodeID), labels...)
			s.gauge("kafka_topic_partition_leader_is_preferred", 1, labels...)
			s.gauge("kafka_topic_partition_replicas", 1, labels...)
			s.gauge("kafka_topic_partition_in_sync_replica", 1, labels...)
			s.gauge("kafka_topic_partition_under_replicated_partition", 0, labels...)
			s.gauge("kafka_log_log_size", float64(p.Size()), labels...)
		}
	}
	c.collectTraffic(s, &b.Stats.All, "")
	s.gauge("kafka_server_replicamanager_partitioncount", float64(partitions))
	s.gauge("kafka_server_replicamanager_leadercount", float64(partitions-offline))
	s.gauge("kafka_server_replicamanager_underreplicatedpartitions", 0)
	s.gauge("kafka_server_replicamanager_underminisrpartitioncount", 0)
	s.gauge("kafka_controller_kafkacontroller_offlinepartitionscount", float64(offline))
}

// collectTraffic gives Kafka's BrokerTopicMetrics; the broker's own sum has an empty topic.
func (c *collector) collectTraffic(s *sink, t *api.TopicStats, topic string) {
	const family = "kafka_server_brokertopicmetrics_"
	s.counter(family+"bytesin_total", t.BytesIn.Load(), topic)
	s.counter(family+"bytesout_total", t.BytesOut.Load(), topic)
	s.counter(family+"messagesin_total", t.MessagesIn.Load(), topic)
	s.counter(family+"totalproducerequests_total", t.ProduceRequests.Load(), topic)
	s.counter(family+"totalfetchrequests_total", t.FetchRequests.Load(), topic)
	s.counter(family+"failedproducerequests_total", t.FailedProduces.Load(), topic)
	s.counter(family+"failedfetchrequests_total", t.FailedFetches.Load(), topic)
}

func (c *collector) collectRequests(s *sink) {
	for i := range api.Table {
		row := &api.Table[i]
		a := c.src.Broker.Stats.API(row.Key)
		n := a.Requests.Load()
		if n == 0 {
			continue
		}
		total := time.Duration(a.TotalNano.Load())
		s.counter("kafka_network_requestmetrics_requests_total", n, row.Name)
		s.counter("kafka_network_requestmetrics_totaltimems", total.Milliseconds(), row.Name)
		s.counter("sluice_request_bytes_total", a.BytesIn.Load(), row.Name)
		s.counter("sluice_response_bytes_total", a.BytesOut.Load(), row.Name)
		buckets := make(map[float64]uint64, len(api.LatencyBounds))
		count := uint64(0)
		for j, bound := range api.LatencyBounds {
			count += uint64(a.Buckets[j].Load())
			buckets[bound.Seconds()] = count
		}
		count += uint64(a.Buckets[len(api.LatencyBounds)].Load())
		s.out <- prometheus.MustNewConstHistogram(
			s.descs["sluice_request_duration_seconds"], count, total.Seconds(), buckets, row.Name)
	}
}
