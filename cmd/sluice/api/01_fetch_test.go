package api

import (
	"bytes"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
)

// asking is one partition of a fetch.
type asking struct {
	topic     *Topic
	partition int32
	offset    int64
	maxBytes  int32 // 0: a megabyte
	epoch     int32 // current leader epoch, 0: none
	lastEpoch int32 // last fetched epoch, 0: none
}

// fetchOf is a fetch without session and without wait.
func fetchOf(asks ...asking) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MaxWaitMillis, req.MinBytes, req.SessionEpoch = 50<<20, 0, 1, -1
	req.Topics = fetchTopics(asks)
	return req
}

func fetchTopics(asks []asking) []kmsg.FetchRequestTopic {
	var topics []kmsg.FetchRequestTopic
	for _, a := range asks {
		last := len(topics) - 1
		if last < 0 || topics[last].TopicID != a.topic.ID {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = a.topic.Name, a.topic.ID
			topics = append(topics, t)
			last++
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = a.partition, a.offset, 1<<20
		if a.maxBytes != 0 {
			p.PartitionMaxBytes = a.maxBytes
		}
		if a.epoch != 0 {
			p.CurrentLeaderEpoch = a.epoch
		}
		if a.lastEpoch != 0 {
			p.LastFetchedEpoch = a.lastEpoch
		}
		topics[last].Partitions = append(topics[last].Partitions, p)
	}
	return topics
}

// offsetsIn lists the records' offsets of the whole batches in raw.
func offsetsIn(t testing.TB, raw []byte) []int64 {
	t.Helper()
	var out []int64
	n, err := batch.Scan(raw, func(_ int, b batch.Batch) (bool, error) {
		if err := b.VerifyCRC(); err != nil {
			return false, err
		}
		return true, b.Each(1<<20, func(r *batch.Record) (bool, error) {
			out = append(out, int64(r.Offset))
			return true, nil
		})
	})
	if err != nil || n != len(raw) {
		t.Fatalf("records: %v, %d of %d bytes", err, n, len(raw))
	}
	return out
}

// flatFetch lists an answer's partitions in order.
func flatFetch(resp *kmsg.FetchResponse) []kmsg.FetchResponseTopicPartition {
	var out []kmsg.FetchResponseTopicPartition
	for _, t := range resp.Topics {
		out = append(out, t.Partitions...)
	}
	return out
}

// fetchOne asks for one partition.
func (c *client) fetchOne(v int16, a asking) kmsg.FetchResponseTopicPartition {
	c.t.Helper()
	resp := ask[*kmsg.FetchResponse](c, fetchOf(a), v)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.t.Fatalf("fetch answered %+v", resp)
	}
	if v < 13 && resp.Topics[0].Topic != a.topic.Name || v >= 13 && resp.Topics[0].TopicID != a.topic.ID {
		c.t.Fatalf("fetch answered topic %+v", resp.Topics[0])
	}
	return resp.Topics[0].Partitions[0]
}

func TestFetch(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 2)
	r.fill(topic, 0, 5, 100)
	c := r.dial()
	eachVersion(t, kmsg.Fetch, func(t *testing.T, v int16) {
		p := c.fetchOne(v, asking{topic: topic, offset: 2})
		if p.ErrorCode != 0 || p.HighWatermark != 5 || p.LastStableOffset != 5 {
			t.Errorf("got %+v", p)
		}
		if v >= 5 && p.LogStartOffset != 0 || v >= 11 && p.PreferredReadReplica != -1 {
			t.Errorf("log start %d, preferred replica %d", p.LogStartOffset, p.PreferredReadReplica)
		}
		if got := offsetsIn(t, p.RecordBatches); !slices.Equal(got, []int64{2, 3, 4}) {
			t.Errorf("offsets %v", got)
		}
		if p.AbortedTransactions != nil {
			t.Error("aborted transactions for a read_uncommitted reader (row 25)")
		}
	})
}

// TestRow26FetchBounds fetches at every edge of the log.
func TestRow26FetchBounds(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	r.fill(topic, 0, 5, 100)
	if _, err := topic.Partitions[0].DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	eachVersion(t, kmsg.Fetch, func(t *testing.T, v int16) {
		for offset, want := range map[int64]*kerr.Error{
			-1: kerr.OffsetOutOfRange, 1: kerr.OffsetOutOfRange, 2: nil, 4: nil, 5: nil, 6: kerr.OffsetOutOfRange,
		} {
			p := c.fetchOne(v, asking{topic: topic, offset: offset})
			wantCode(t, "fetch", p.ErrorCode, want)
			hw, start := int64(5), int64(2)
			if want != nil {
				hw, start = -1, -1
			}
			if p.HighWatermark != hw || v >= 5 && p.LogStartOffset != start {
				t.Errorf("offset %d: high watermark %d, log start %d", offset, p.HighWatermark, p.LogStartOffset)
			}
			if (want != nil || offset == 5) && len(p.RecordBatches) != 0 || p.RecordBatches == nil {
				t.Errorf("offset %d: records %v", offset, p.RecordBatches)
			}
		}
	})
	// Between the high watermark and the log end there is nothing to read, and no error.
	strict := r.create("strict", 1, "sluice.durability", "strict")
	r.fill(strict, 0, 2, 100)
	r.hold()
	p := strict.Partitions[0]
	for range 2 {
		if _, err := p.Append(recordsOf(batch.BuilderOptions{}, 9), engine.AppendOptions{NowMs: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for offset := int64(0); offset <= 4; offset++ {
		got := c.fetchOne(18, asking{topic: strict, offset: offset})
		want := []int64{0, 1}[min(offset, 2):]
		if got.ErrorCode != 0 || got.HighWatermark != 2 || !slices.Equal(offsetsIn(t, got.RecordBatches), want) {
			t.Errorf("offset %d below the unsynced end: %+v", offset, got)
		}
	}
	wantCode(t, "above the log end", c.fetchOne(18, asking{topic: strict, offset: 5}).ErrorCode, kerr.OffsetOutOfRange)
	for _, bad := range []func(*kmsg.FetchRequest){
		func(q *kmsg.FetchRequest) { q.MaxBytes = -1 },
		func(q *kmsg.FetchRequest) { q.Topics[0].Partitions[0].PartitionMaxBytes = -1 },
		func(q *kmsg.FetchRequest) { q.IsolationLevel = 2 },
	} {
		req := fetchOf(asking{topic: topic, offset: 2})
		bad(req)
		got := flatFetch(ask[*kmsg.FetchResponse](c, req, 18))[0]
		wantCode(t, "bad argument", got.ErrorCode, kerr.InvalidRequest)
	}
}

// TestRow27FetchSizing gives the first partition that has records one whole batch whatever the
// limits say, later ones only what fits, and starts with the batch that holds the offset (KIP-74).
func TestRow27FetchSizing(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{"fetch.max.bytes": "5000"}})
	topic := r.create("t", 4)
	for n := int32(1); n < 4; n++ {
		r.fill(topic, n, 3, 1000)
	}
	size := topic.Partitions[1].Size() / 3
	c := r.dial()
	for i, x := range []struct {
		maxBytes, partBytes int32
		want                []int // batches of each partition; 0 is empty
	}{
		{50 << 20, 1 << 20, []int{0, 3, 1, 0}}, // the broker's limit: five thousand
		{1, 1 << 20, []int{0, 1, 0, 0}},
		{0, 0, []int{0, 1, 0, 0}},
		{50 << 20, 1, []int{0, 1, 0, 0}},
		{50 << 20, int32(size), []int{0, 1, 1, 1}},
		{50 << 20, int32(size) - 1, []int{0, 1, 0, 0}},
		{int32(2 * size), 1 << 20, []int{0, 2, 0, 0}},
		{int32(2*size) + 100, 1 << 20, []int{0, 2, 0, 0}},
	} {
		var asks []asking
		for n := range int32(4) {
			asks = append(asks, asking{topic: topic, partition: n, maxBytes: max(x.partBytes, 1)})
		}
		req := fetchOf(asks...)
		req.MaxBytes = x.maxBytes
		for j := range req.Topics[0].Partitions {
			req.Topics[0].Partitions[j].PartitionMaxBytes = x.partBytes
		}
		for n, p := range flatFetch(ask[*kmsg.FetchResponse](c, req, 18)) {
			if got := len(offsetsIn(t, p.RecordBatches)); got != x.want[n] || p.ErrorCode != 0 {
				t.Errorf("case %d: partition %d has %d batches, want %d (code %d)", i, n, got, x.want[n], p.ErrorCode)
			}
		}
	}
	b := recordsOf(batch.BuilderOptions{}, 1, 1, 1)
	if got := c.produceOne(topic, -1, b, 13); got.ErrorCode != 0 {
		t.Fatalf("produce: %+v", got)
	}
	p := c.fetchOne(18, asking{topic: topic, offset: 2})
	if got := offsetsIn(t, p.RecordBatches); !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("fetch inside of a batch: %v", got)
	}
}

// TestRow24And25Isolation stops a read_committed reader at the first open transaction and tells it
// of the aborted ones that touch its data.
func TestRow24And25Isolation(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	p := topic.Partitions[0]
	add := func(b batch.Batch) {
		t.Helper()
		if _, err := p.Append(b, engine.AppendOptions{NowMs: r.broker.nowMs()}); err != nil {
			t.Fatal(err)
		}
	}
	txn := func(pid kafkaproto.ProducerID) batch.Batch {
		return recordsOf(batch.BuilderOptions{Producer: &batch.Producer{ID: pid}, Transactional: true}, 10)
	}
	add(txn(1)) // 0
	add(txn(2)) // 1
	add(batch.Control(batch.Abort, 1, 1, 0, 1))
	add(txn(3)) // 3, stays open
	add(batch.Control(batch.Commit, 1, 2, 0, 1))
	c := r.dial()
	eachVersion(t, kmsg.Fetch, func(t *testing.T, v int16) {
		for _, committed := range []bool{false, true} {
			req := fetchOf(asking{topic: topic})
			if committed {
				req.IsolationLevel = 1
			}
			got := flatFetch(ask[*kmsg.FetchResponse](c, req, v))[0]
			want, aborted := []int64{0, 1, 2, 3, 4}, 0
			if committed {
				want, aborted = []int64{0, 1, 2}, 1
			}
			if got.HighWatermark != 5 || got.LastStableOffset != 3 || !slices.Equal(offsetsIn(t, got.RecordBatches), want) {
				t.Errorf("committed %v: %+v", committed, got)
			}
			if len(got.AbortedTransactions) != aborted || (got.AbortedTransactions == nil) == committed {
				t.Errorf("committed %v: aborted %v", committed, got.AbortedTransactions)
			}
		}
		req := fetchOf(asking{topic: topic, offset: 3})
		req.IsolationLevel = 1
		if got := flatFetch(ask[*kmsg.FetchResponse](c, req, v))[0]; got.ErrorCode != 0 || len(got.RecordBatches) != 0 {
			t.Errorf("behind the last stable offset: %+v", got)
		}
	})
}

// TestRow31And32FetchUnknown names what is not known by the code of the request's version, with the
// empty list that Kafka gives (§3b, row 25).
func TestRow31And32FetchUnknown(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	gone := &Topic{Name: "gone", ID: kafkaproto.TopicID{9}}
	c := r.dial()
	eachVersion(t, kmsg.Fetch, func(t *testing.T, v int16) {
		want := kerr.UnknownTopicOrPartition
		if v >= 13 {
			want = kerr.UnknownTopicID
		}
		for _, x := range []struct {
			ask  asking
			want *kerr.Error
		}{
			{asking{topic: gone}, want},
			{asking{topic: topic, partition: 1}, kerr.UnknownTopicOrPartition},
			{asking{topic: topic, partition: -1}, kerr.UnknownTopicOrPartition},
		} {
			p := c.fetchOne(v, x.ask)
			wantCode(t, "unknown", p.ErrorCode, x.want)
			if p.AbortedTransactions == nil || len(p.AbortedTransactions) != 0 || p.HighWatermark != -1 {
				t.Errorf("got %+v", p)
			}
		}
	})
}

// TestRow33FetchEpochs compares the client's leader epoch with ours; from v16 on a client that is
// behind is told the leader and where it is (KIP-951).
func TestRow33FetchEpochs(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	r.fill(topic, 0, 1, 10)
	cur := int32(topic.Partitions[0].LeaderEpoch())
	c := r.dial()
	for v := int16(9); v <= 18; v++ {
		for epoch, want := range map[int32]*kerr.Error{
			cur: nil, -1: nil, cur + 1: kerr.UnknownLeaderEpoch, -2: kerr.FencedLeaderEpoch,
		} {
			resp := ask[*kmsg.FetchResponse](c, fetchOf(asking{topic: topic, epoch: epoch}), v)
			p := resp.Topics[0].Partitions[0]
			wantCode(t, "epoch", p.ErrorCode, want)
			told := v >= 16 && want == kerr.FencedLeaderEpoch
			leader := kmsg.NewFetchResponseTopicPartitionCurrentLeader()
			if told {
				leader.LeaderID, leader.LeaderEpoch = 7, cur
			}
			if p.CurrentLeader.LeaderID != leader.LeaderID || p.CurrentLeader.LeaderEpoch != leader.LeaderEpoch ||
				(len(resp.Brokers) == 1) != told {
				t.Errorf("version %d, epoch %d: leader %+v, brokers %+v", v, epoch, p.CurrentLeader, resp.Brokers)
			}
			if told && (resp.Brokers[0].Host != "broker.example" || resp.Brokers[0].Port != 9092 || resp.Brokers[0].NodeID != 7) {
				t.Errorf("brokers %+v", resp.Brokers)
			}
		}
	}
}

// TestRow35DivergingEpoch tells a client whose tail belongs to an epoch that ended earlier here.
func TestRow35DivergingEpoch(t *testing.T) {
	mem := vfs.Memory()
	var topic *Topic
	var epochs []int32
	var r *rig
	for range 3 { // each start with records behind the last one begins an epoch
		r = newRig(t, rigOptions{fs: mem, dir: "/data"})
		if topic = r.broker.Topics()["t"]; topic == nil {
			topic = r.create("t", 1)
		}
		r.fill(topic, 0, 2, 10)
		epochs = append(epochs, int32(topic.Partitions[0].LeaderEpoch()))
		if len(epochs) < 3 {
			r.close()
		}
	}
	c := r.dial()
	for v := int16(12); v <= 18; v++ {
		for _, x := range []struct {
			offset    int64
			epoch     int32
			code      *kerr.Error
			divergeAt int64 // -1: none
		}{
			{2, epochs[0], nil, -1},
			{3, epochs[0], nil, 2},
			{4, epochs[1], nil, -1},
			{5, epochs[1], nil, 4},
			{6, epochs[2], nil, -1},
			{6, epochs[2] + 1, kerr.OffsetOutOfRange, -1},
		} {
			p := c.fetchOne(v, asking{topic: topic, offset: x.offset, lastEpoch: x.epoch})
			wantCode(t, "last fetched epoch", p.ErrorCode, x.code)
			if p.DivergingEpoch.EndOffset != x.divergeAt {
				t.Errorf("offset %d, epoch %d: diverging %+v, want %d", x.offset, x.epoch, p.DivergingEpoch, x.divergeAt)
			}
			if x.divergeAt >= 0 && (len(p.RecordBatches) != 0 || p.HighWatermark != 6 || p.DivergingEpoch.Epoch != x.epoch) {
				t.Errorf("diverging: %+v", p)
			}
		}
	}
}

// TestFetchFromFiles sends large ranges as ranges of files, and small ones from memory: both give
// the bytes of the log, over plain connections and over those without sendfile.
func TestFetchFromFiles(t *testing.T) {
	for _, raw := range []bool{false, true} {
		r := newRig(t, rigOptions{fs: vfs.OS(), dir: t.TempDir(), raw: raw})
		topic := r.create("t", 12)
		for n := range int32(12) {
			r.fill(topic, n, 1+int(n%3), []int{10, 60 << 10, 200 << 10}[n%3])
		}
		var asks []asking
		for n := range int32(12) {
			asks = append(asks, asking{topic: topic, partition: n})
		}
		for _, c := range []*client{r.dial(), r.pipe("PLAINTEXT")} {
			for i, p := range flatFetch(ask[*kmsg.FetchResponse](c, fetchOf(asks...), 18)) {
				log := topic.Partitions[i]
				want := make([]byte, log.Size())
				rd, err := log.Read(0, 1<<20, engine.ReadUncommitted, true)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := rd.Range.File.ReadAt(want[:rd.Range.Len], rd.Range.Pos); err != nil {
					t.Fatal(err)
				}
				rd.Range.Release()
				if !bytes.Equal(p.RecordBatches, want) || len(offsetsIn(t, want)) != 1+i%3 {
					t.Errorf("partition %d: %d bytes, want %d", i, len(p.RecordBatches), len(want))
				}
			}
		}
	}
}
