package admin_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/cmd/sluice/admin"
	"github.com/sluicelog/sluice/cmd/sluice/api"
	"github.com/sluicelog/sluice/controller/group"
)

var update = flag.Bool("update", false, "rewrite testdata")

const offsetsPartitions, metadataTime = 4, 3_600_000

// load is what the broker is made to do: topic orders with three partitions, ten records in the
// first, an hour old and a second apart, five in the second, none in the third.
func (r *rig) load(ctx context.Context) (firstMs int64) {
	t := r.t
	c := r.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	adm := kadm.NewClient(c)
	if _, err := adm.CreateTopic(ctx, 3, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	firstMs = time.Now().UnixMilli() - metadataTime
	var records []*kgo.Record
	for i := range int64(10) {
		records = append(records, &kgo.Record{
			Topic: "orders", Partition: 0, Value: []byte("0123456789"),
			Timestamp: time.UnixMilli(firstMs + 1000*i),
		})
	}
	for range 5 {
		records = append(records, &kgo.Record{Topic: "orders", Partition: 1, Value: []byte("x")})
	}
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	// Group "gone" has read nothing, and the records it is to read first were deleted.
	r.commit(ctx, adm, "gone", map[int32]int64{0: 0})
	var off kadm.Offsets
	off.AddOffset("orders", 0, 2, -1)
	if _, err := adm.DeleteRecords(ctx, off); err != nil {
		t.Fatal(err)
	}
	// Group "ahead" knows an offset that is not there yet.
	r.commit(ctx, adm, "ahead", map[int32]int64{1: 90, 2: 0})
	r.refused(ctx, c)
	c.Close()
	return firstMs
}

func (r *rig) commit(ctx context.Context, adm *kadm.Client, group string, at map[int32]int64) {
	r.t.Helper()
	var offsets kadm.Offsets
	for p, o := range at {
		offsets.AddOffset("orders", p, o, -1)
	}
	if err := adm.CommitAllOffsets(ctx, group, offsets); err != nil {
		r.t.Fatal(err)
	}
}

// refused sends a produce and a fetch that fail.
func (r *rig) refused(ctx context.Context, c *kgo.Client) {
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis = -1, 1000
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic, pt.TopicID = "orders", r.node.Broker().Topics()["orders"].ID
	pp := kmsg.NewProduceRequestTopicPartition()
	pp.Partition = 2
	pp.Records = []byte("no batch")
	pt.Partitions = append(pt.Partitions, pp)
	produce.Topics = append(produce.Topics, pt)
	resp, err := c.Broker(7).Request(ctx, produce)
	if err != nil {
		r.t.Fatal(err)
	}
	if code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code == 0 {
		r.t.Fatal("a produce of nonsense succeeded")
	}
	r.fetch(ctx, c, 1, 99, kerr.OffsetOutOfRange.Code)
}

// fetch reads the partition once, without a session.
func (r *rig) fetch(ctx context.Context, c *kgo.Client, partition int32, off int64, code int16) (size int) {
	r.t.Helper()
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxBytes, fetch.MinBytes, fetch.SessionEpoch = 1<<20, 1, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic = "orders"
	ft.TopicID = r.node.Broker().Topics()["orders"].ID
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = partition, off, 1<<20
	ft.Partitions = append(ft.Partitions, fp)
	fetch.Topics = append(fetch.Topics, ft)
	resp, err := c.Broker(7).Request(ctx, fetch)
	if err != nil {
		r.t.Fatal(err)
	}
	p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if p.ErrorCode != code {
		r.t.Fatalf("fetch of %d/%d: code %d, want %d", partition, off, p.ErrorCode, code)
	}
	return len(p.RecordBatches)
}

// TestMetrics runs real clients and compares each family with what they did.
func TestMetrics(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	r := newRig(t)
	firstMs := r.load(ctx)

	// Group "live" has one member, that has committed 4 of partition 0 and all of partition 1.
	consumer := r.client(kgo.ConsumerGroup("live"), kgo.ConsumeTopics("orders"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for got := 0; got < 8+5; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		got += fetches.NumRecords()
	}
	done := make(chan error, 1)
	consumer.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{
		"orders": {0: {Epoch: -1, Offset: 4}, 1: {Epoch: -1, Offset: 5}},
	}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, _ *kmsg.OffsetCommitResponse, err error) {
		done <- err
	})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	before := time.Now().UnixMilli()
	s := r.eventually(`kafka_coordinator_group_groupmetadatamanager_numgroupsstable`, 1)
	after := time.Now().UnixMilli()

	t.Run("topics", func(t *testing.T) { s.t = t; s.checkTopics() })
	t.Run("groups", func(t *testing.T) { s.t = t; s.checkGroups(firstMs, before, after) })
	t.Run("broker", func(t *testing.T) { s.t = t; s.checkBroker(r) })
	t.Run("names", func(t *testing.T) { s.t = t; s.checkNames() })
	consumer.Close()
	t.Run("network", func(t *testing.T) { r.checkNetwork(ctx) })
}

func (s *scrape) checkTopics() {
	s.want(`kafka_topic_partitions{topic="orders"}`, 3)
	s.want(`kafka_topic_partitions{topic="__consumer_offsets"}`, offsetsPartitions)
	for p, want := range []struct{ oldest, current float64 }{{2, 10}, {0, 5}, {0, 0}} {
		at := fmt.Sprintf(`{partition="%d",topic="orders"}`, p)
		s.want("kafka_topic_partition_oldest_offset"+at, want.oldest)
		s.want("kafka_topic_partition_current_offset"+at, want.current)
		s.want("kafka_topic_partition_leader"+at, 7)
		s.want("kafka_topic_partition_leader_is_preferred"+at, 1)
		s.want("kafka_topic_partition_replicas"+at, 1)
		s.want("kafka_topic_partition_in_sync_replica"+at, 1)
		s.want("kafka_topic_partition_under_replicated_partition"+at, 0)
		s.want("kafka_cluster_partition_underreplicated"+at, 0)
		s.want("kafka_cluster_partition_underminisr"+at, 0)
		s.want("kafka_cluster_partition_atminisr"+at, 1)
	}
	s.want(`kafka_log_log_size{partition="2",topic="orders"}`, 0)
	// What was written is what lies in the log: batches are kept as they came.
	written := s.values[`kafka_log_log_size{partition="0",topic="orders"}`] +
		s.values[`kafka_log_log_size{partition="1",topic="orders"}`]
	const traffic = "kafka_server_brokertopicmetrics_"
	s.want(traffic+`bytesin_total{topic="orders"}`, written)
	s.want(traffic+`bytesin_total{topic=""}`, written)
	s.want(traffic+`messagesin_total{topic="orders"}`, 15)
	s.want(traffic+`messagesin_total{topic=""}`, 15)
	s.want(traffic+`failedproducerequests_total{topic="orders"}`, 1)
	s.want(traffic+`failedproducerequests_total{topic=""}`, 1)
	s.want(traffic+`failedfetchrequests_total{topic="orders"}`, 1)
	s.want(traffic+`failedfetchrequests_total{topic=""}`, 1)
	s.want(`sluice_duplicate_batches_total{topic="orders"}`, 0)
	// The consumer read all that is not deleted; a batch comes whole.
	s.want(traffic+`bytesout_total{topic="orders"}`, s.values[traffic+`bytesout_total{topic=""}`])
	if out := s.values[traffic+`bytesout_total{topic="orders"}`]; out < written {
		s.t.Errorf("%v bytes went out of %v that came in", out, written)
	}
	s.want(traffic+`bytesin_total{topic="__consumer_offsets"}`, 0) // of clients
}

func (s *scrape) checkGroups(firstMs, before, after int64) {
	s.want(`kafka_consumergroup_members{consumergroup="live"}`, 1)
	s.want(`kafka_consumergroup_members{consumergroup="gone"}`, 0)
	for _, g := range []struct {
		group       string
		partition   int
		offset, lag float64
		record      int64 // the first unread one in partition 0, -1 without lag
	}{
		{"live", 0, 4, 6, 4}, {"live", 1, 5, 0, -1},
		{"gone", 0, 0, 10, 2},                           // the log starts at 2
		{"ahead", 1, 90, 0, -1}, {"ahead", 2, 0, 0, -1}, // never negative
	} {
		at := fmt.Sprintf(`{consumergroup=%q,partition="%d",topic="orders"}`, g.group, g.partition)
		s.want("kafka_consumergroup_current_offset"+at, g.offset)
		s.want("kafka_consumergroup_lag"+at, g.lag)
		if g.record < 0 {
			s.want("kafka_consumergroup_lag_seconds"+at, 0)
			continue
		}
		ts := firstMs + 1000*g.record
		ms := int64(math.Round(s.values["kafka_consumergroup_lag_seconds"+at] * 1000))
		if ms < before-ts || ms > after-ts {
			s.t.Errorf("%s is %d ms behind, want %d to %d", at, ms, before-ts, after-ts)
		}
	}
	s.wantNone(`kafka_consumergroup_lag{consumergroup="live",partition="2",topic="orders"}`)
	s.want(`kafka_consumergroup_lag_sum{consumergroup="live",topic="orders"}`, 6)
	s.want(`kafka_consumergroup_lag_sum{consumergroup="ahead",topic="orders"}`, 0)
	s.want(`kafka_consumergroup_current_offset_sum{consumergroup="live",topic="orders"}`, 9)
	s.want(`kafka_consumergroup_current_offset_sum{consumergroup="ahead",topic="orders"}`, 90)
	const groups = "kafka_coordinator_group_groupmetadatamanager_numgroups"
	for state, n := range map[string]float64{
		"": 3, "empty": 2, "stable": 1, "preparingrebalance": 0, "completingrebalance": 0, "dead": 0,
	} {
		s.want(groups+state, n)
	}
	loaded := make(map[int32]bool) // those that were asked for, as the topic is new
	for _, g := range []string{"live", "gone", "ahead"} {
		loaded[group.PartitionOf(g, offsetsPartitions)] = true
	}
	s.want("sluice_coordinator_loaded_shards", float64(len(loaded)))
	s.want("sluice_coordinator_dropped_appends_total", 0)
	s.want("sluice_coordinator_late_answers_total", 0)
}

func (s *scrape) checkBroker(r *rig) {
	s.want("kafka_brokers", 1)
	s.want(fmt.Sprintf(`kafka_broker_info{address=%q,id="7",rack="r1"}`, r.node.Addrs()["PLAINTEXT"]), 1)
	s.want("kafka_server_kafkaserver_brokerstate", 3)
	s.want(`sluice_build_info{version="1.2.3"}`, 1)
	const manager, controller = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
	for name, want := range map[string]float64{
		manager + "partitioncount": 3 + offsetsPartitions, manager + "leadercount": 3 + offsetsPartitions,
		manager + "atminisrpartitioncount": 3 + offsetsPartitions, manager + "offlinereplicacount": 0,
		manager + "underreplicatedpartitions": 0, manager + "underminisrpartitioncount": 0,
		manager + "isrshrinks_total": 0, manager + "isrexpands_total": 0,
		controller + "activecontrollercount": 1, controller + "offlinepartitionscount": 0,
		controller + "preferredreplicaimbalancecount":                   0,
		"kafka_controller_controllerstats_uncleanleaderelections_total": 0,
		"kafka_log_logmanager_offlinelogdirectorycount":                 0,
		"kafka_server_raftmetrics_current_leader":                       7,
		"kafka_server_raftmetrics_current_epoch":                        1,
		"kafka_server_raftmetrics_high_watermark":                       s.values["kafka_server_raftmetrics_log_end_offset"],
		"sluice_data_directory_low":                                     0,
		"sluice_producer_id_block_end":                                  1000,
	} {
		s.want(name, want)
	}
	if end := s.values["kafka_server_raftmetrics_log_end_offset"]; end < 4 { // cluster, node, ids, topics
		s.t.Errorf("the metadata log ends at %v", end)
	}
	rounds, took := s.values["sluice_log_sync_seconds_count"], s.values["sluice_log_sync_seconds_sum"]
	if rounds < 2 || took <= 0 { // records and offsets, both strict
		s.t.Errorf("%v rounds of syncs in %v s", rounds, took)
	}
	if n := s.values["sluice_fetch_sessions"]; n != 1 {
		s.t.Errorf("%v fetch sessions, want that of the consumer", n)
	}
}

// checkNames: what is scraped is what Families says, and what testdata pins: a name that changes
// breaks somebody's alert.
func (s *scrape) checkNames() {
	want := make(map[string]string)
	var lines []string
	for _, f := range admin.Families {
		if want[f.Name] != "" {
			s.t.Errorf("%s is listed twice", f.Name)
		}
		want[f.Name] = string(f.Kind)
		lines = append(lines, fmt.Sprintf("%s{%s} %s\n", f.Name, strings.Join(f.Labels, ","), f.Kind))
	}
	got := maps.Clone(s.kinds)
	maps.DeleteFunc(got, func(name, _ string) bool {
		return !strings.HasPrefix(name, "kafka_") && !strings.HasPrefix(name, "sluice_")
	})
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			s.t.Errorf("%s is scraped as %q, listed as %q", name, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		s.t.Errorf("scraped and not listed: %v", got)
	}
	slices.Sort(lines)
	const golden = "testdata/metrics.txt"
	text := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	pinned, err := os.ReadFile(golden)
	if err != nil {
		s.t.Fatal(err)
	}
	if text != string(pinned) {
		s.t.Errorf("the names are not those of %s (-update writes it):\n%s", golden, text)
	}
	problems, err := promlint.New(strings.NewReader(s.text)).Lint()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "sluice_") { // Kafka's names are what they are
			s.t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// checkNetwork compares both sides when nothing is under way any more.
func (r *rig) checkNetwork(ctx context.Context) {
	t := r.t
	first := r.eventually("sluice_connections", 0)
	out, in := r.count.bytes()
	c := r.client()
	for range 7 { // requests that nobody else sends
		if _, err := kmsg.NewPtrDescribeClusterRequest().RequestWith(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	s := r.eventually("sluice_connections", 0)
	s.want(`kafka_network_requestmetrics_requests_total{request="DescribeCluster"}`, 7)
	toUs, fromUs := r.count.bytes()
	s.want("sluice_network_receive_bytes_total",
		first.values["sluice_network_receive_bytes_total"]+float64(toUs-out))
	s.want("sluice_network_transmit_bytes_total",
		first.values["sluice_network_transmit_bytes_total"]+float64(fromUs-in))
	s.want("sluice_inflight_request_bytes", 0)

	r.count.mu.Lock()
	s.want("sluice_connections_opened_total", float64(r.count.opened))
	const traffic = "kafka_server_brokertopicmetrics_"
	for _, topic := range []string{"orders", ""} {
		s.want(fmt.Sprintf(traffic+"totalproducerequests_total{topic=%q}", topic),
			float64(r.count.requests[int16(kmsg.Produce)]))
		// The consumer read at least once, and one fetch was refused.
		if n := s.values[fmt.Sprintf(traffic+"totalfetchrequests_total{topic=%q}", topic)]; n < 2 {
			t.Errorf("%v fetches of topic %q", n, topic)
		}
	}
	for i := range api.Table {
		row := &api.Table[i]
		if row.Key == int16(kmsg.Fetch) || row.Key == int16(kmsg.Heartbeat) {
			continue // the consumer left without waiting for some answers
		}
		n, at := float64(r.count.requests[row.Key]), fmt.Sprintf("{request=%q}", row.Name)
		s.want("kafka_network_requestmetrics_requests_total"+at, n)
		s.want("kafka_network_requestmetrics_totaltimems_count"+at, n)
		s.want("sluice_request_duration_seconds_count"+at, n)
		s.want(fmt.Sprintf(`sluice_request_duration_seconds_bucket{request=%q,le="+Inf"}`, row.Name), n)
		s.want("sluice_request_bytes_total"+at, float64(r.count.requestBytes[row.Key])-4*n)
		ms := s.values["kafka_network_requestmetrics_totaltimems_sum"+at]
		if sec := s.values["sluice_request_duration_seconds_sum"+at]; math.Abs(ms-1000*sec) > 1e-6*ms {
			t.Errorf("%s took %v ms and %v s", row.Name, ms, sec)
		}
	}
	r.count.mu.Unlock()

	const refused = "sluice_connections_refused_total"
	s.want(refused+`{reason="not-kafka"}`, 0)
	if resp, err := http.Get("http://" + r.node.Addrs()["PLAINTEXT"].String()); err == nil {
		resp.Body.Close()
	}
	s = r.eventually(refused+`{reason="not-kafka"}`, 1)
	s.want(refused+`{reason="idle"}`, 0)
}
