package api

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// The rows of transactions (18 to 21, and the transactional part of 17) have no tests here: nothing
// of them is served.

// TestProduce appends in every version, with both kinds of answered acks; what comes back from Fetch
// carries the offsets and the leader epoch that the broker gave (row 2).
func TestProduce(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 2)
	c := r.dial()
	next := int64(0)
	eachVersion(t, kmsg.Produce, func(t *testing.T, v int16) {
		for _, acks := range []int16{1, -1} {
			req := produceRequest(topic, acks, recordsOf(batch.BuilderOptions{LeaderEpoch: 99}, 10, 20), 0, 5)
			resp := ask[*kmsg.ProduceResponse](c, req, v)
			if v < 13 && resp.Topics[0].Topic != "t" || v >= 13 && resp.Topics[0].TopicID != topic.ID {
				t.Errorf("topic %+v", resp.Topics[0])
			}
			ok, unknown := resp.Topics[0].Partitions[0], resp.Topics[0].Partitions[1]
			wantCode(t, "produce", ok.ErrorCode, nil)
			if ok.BaseOffset != next || ok.LogAppendTime != -1 || v >= 5 && ok.LogStartOffset != 0 || ok.ErrorMessage != nil {
				t.Errorf("acks %d: %+v, want base offset %d", acks, ok, next)
			}
			next += 2
			wantCode(t, "unknown partition", unknown.ErrorCode, kerr.UnknownTopicOrPartition)
			if unknown.Partition != 5 || unknown.BaseOffset != -1 || unknown.LogAppendTime != -1 {
				t.Errorf("unknown partition: %+v", unknown)
			}
		}
	})
	var bases []int64
	raw := c.fetchOne(18, asking{topic: topic}).RecordBatches
	_, err := batch.Scan(raw, func(_ int, b batch.Batch) (bool, error) {
		bases = append(bases, int64(b.BaseOffset()))
		if b.LeaderEpoch() != topic.Partitions[0].LeaderEpoch() {
			t.Errorf("batch at %d has leader epoch %d", b.BaseOffset(), b.LeaderEpoch())
		}
		return true, b.VerifyCRC()
	})
	if err != nil || len(bases) != int(next/2) || bases[1] != 2 {
		t.Errorf("batches at %v: %v", bases, err)
	}
	if got := topic.Partitions[1].LogEnd(); got != 0 {
		t.Errorf("partition 1 ends at %d", got)
	}
}

// TestProduceRefusals gives each bad batch its code and leaves nothing of it in the log. Which batches
// are bad is the matter of kafkaproto/batch; here are the codes and fields of the answer.
func TestProduceRefusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	plain := r.create("plain", 1)
	small := r.create("small", 1, "max.message.bytes", "200")
	segment := r.create("segment", 1, "segment.bytes", "1048576", "max.message.bytes", "3000000")
	stamped := r.create("stamped", 1, "message.timestamp.type", "LogAppendTime")
	one := recordsOf(batch.BuilderOptions{}, 50)
	edit := func(at int, to byte) batch.Batch {
		b := one.Clone()
		b[at] = to
		return b
	}
	late := func(ms int64) batch.Batch {
		bld := batch.NewBuilder(batch.BuilderOptions{})
		bld.Add(batch.Record{Timestamp: time.Now().UnixMilli() + ms})
		b, err := bld.Build()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	producer := &batch.Producer{ID: 5}
	c := r.dial()
	for _, x := range []struct {
		name    string
		topic   *Topic
		version int16
		records batch.Batch
		want    *kerr.Error
	}{
		{"row02 base offset", plain, 9, recordsOf(batch.BuilderOptions{BaseOffset: 5}, 1), kerr.InvalidRecord},
		{"row03 two batches", plain, 9, append(one.Clone(), one...), kerr.InvalidRecord},
		{"row03 nothing", plain, 9, batch.Batch{}, kerr.InvalidRecord},
		{"row03 null", plain, 9, nil, kerr.InvalidRecord},
		{"row03 zstd before version 7", plain, 6, recordsOf(batch.BuilderOptions{Codec: batch.Zstd}, 1), kerr.UnsupportedCompressionType},
		{"row04 control", plain, 9, recordsOf(batch.BuilderOptions{Control: true}, 1), kerr.InvalidRecord},
		{"row04 transactional without id", plain, 9,
			recordsOf(batch.BuilderOptions{Producer: producer, Transactional: true}, 1), kerr.TransactionalIDAuthorizationFailed},
		{"row05 crc", plain, 9, edit(17, ^one[17]), kerr.CorruptMessage},
		{"row05 length", plain, 9, one[:len(one)-1], kerr.InvalidRecord},
		{"row05 too large", small, 9, recordsOf(batch.BuilderOptions{}, 200), kerr.MessageTooLarge},
		{"row05 larger than a segment", segment, 9, recordsOf(batch.BuilderOptions{}, 1100000), kerr.RecordListTooLarge},
		{"row07 future", plain, 9, late(3_700_000), kerr.InvalidTimestamp},
		{"row07 append time claimed", stamped, 9, recordsOf(batch.BuilderOptions{TimestampType: batch.LogAppendTime}, 1), kerr.InvalidTimestamp},
		{"row10 magic 0", plain, 3, edit(16, 0), kerr.InvalidRecord},
		{"row10 magic 1", plain, 9, edit(16, 1), kerr.InvalidRecord},
	} {
		before := x.topic.Partitions[0].LogEnd()
		got := c.produceOne(x.topic, -1, x.records, x.version)
		wantCode(t, x.name, got.ErrorCode, x.want)
		if got.BaseOffset != -1 || got.LogAppendTime != -1 || got.Partition != 0 {
			t.Errorf("%s: %+v", x.name, got)
		}
		if x.version >= 8 && (got.ErrorMessage == nil || *got.ErrorMessage == "") {
			t.Errorf("%s: no message", x.name)
		}
		if end := x.topic.Partitions[0].LogEnd(); end != before {
			t.Errorf("%s: the log ends at %d", x.name, end)
		}
	}
}

// TestRow23TransactionalBatch refuses a batch of a transaction: none can be open, as they are not
// served yet.
func TestRow23TransactionalBatch(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	c := r.dial()
	eachVersion(t, kmsg.Produce, func(t *testing.T, v int16) {
		b := recordsOf(batch.BuilderOptions{Producer: &batch.Producer{ID: 5}, Transactional: true}, 10)
		req := produceRequest(topic, -1, b, 0)
		req.TransactionID = kmsg.StringPtr("x")
		got := ask[*kmsg.ProduceResponse](c, req, v).Topics[0].Partitions[0]
		wantCode(t, "transactional", got.ErrorCode, kerr.InvalidTxnState)
		if end := topic.Partitions[0].LogEnd(); got.BaseOffset != -1 || end != 0 {
			t.Errorf("%+v, and the log ends at %d", got, end)
		}
	})
}

// TestRow06CompactedNullKey tells from version 8 on which records of the batch are at fault.
func TestRow06CompactedNullKey(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, "cleanup.policy", "compact")
	bld := batch.NewBuilder(batch.BuilderOptions{})
	for _, key := range [][]byte{[]byte("a"), nil, []byte("b"), nil} {
		bld.Add(batch.Record{Key: key, Timestamp: time.Now().UnixMilli()})
	}
	b, err := bld.Build()
	if err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	eachVersion(t, kmsg.Produce, func(t *testing.T, v int16) {
		got := c.produceOne(topic, -1, b, v)
		wantCode(t, "null key", got.ErrorCode, kerr.InvalidRecord)
		var faulty []int32
		for _, e := range got.ErrorRecords {
			if e.ErrorMessage == nil {
				t.Error("a record error without a message")
			}
			faulty = append(faulty, e.RelativeOffset)
		}
		if v >= 8 && !slices.Equal(faulty, []int32{1, 3}) || v < 8 && faulty != nil {
			t.Errorf("records %v are at fault", faulty)
		}
	})
}

// TestRow08And09Rewritten stamps the broker's time and the topic's codec on what is stored, and tells
// the time in the answer.
func TestRow08And09Rewritten(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, "message.timestamp.type", "LogAppendTime", "compression.type", "gzip")
	c := r.dial()
	began := time.Now().UnixMilli()
	eachVersion(t, kmsg.Produce, func(t *testing.T, v int16) {
		got := c.produceOne(topic, -1, recordsOf(batch.BuilderOptions{}, 300), v)
		wantCode(t, "produce", got.ErrorCode, nil)
		if got.LogAppendTime < began || got.LogAppendTime > time.Now().UnixMilli() {
			t.Errorf("append time %d", got.LogAppendTime)
		}
		raw := c.fetchOne(18, asking{topic: topic, offset: got.BaseOffset}).RecordBatches
		b := batch.Batch(raw)
		if b.Codec() != batch.Gzip || b.TimestampType() != batch.LogAppendTime || b.MaxTimestamp() != got.LogAppendTime {
			t.Errorf("stored: codec %v, %v, max timestamp %d", b.Codec(), b.TimestampType(), b.MaxTimestamp())
		}
		offsetsIn(t, raw)
	})
}

// TestRow10OldVersions closes the connection for versions that carry formats 0 and 1, though
// ApiVersions shows some of them; so does Fetch below version 4.
func TestRow10OldVersions(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	for v := int16(0); v <= 2; v++ {
		c := r.dial()
		req := produceRequest(topic, 1, recordsOf(batch.BuilderOptions{}, 1), 0)
		req.SetVersion(v)
		c.send(req)
		c.wantClosed("produce")
	}
	for v := int16(0); v <= 3; v++ {
		c := r.dial()
		req := fetchOf(asking{topic: topic})
		req.SetVersion(v)
		c.send(req)
		c.wantClosed("fetch")
	}
	if end := topic.Partitions[0].LogEnd(); end != 0 {
		t.Errorf("the log ends at %d", end)
	}
}

// TestRow11Acks takes -1, 0 and 1. With 0 nothing is ever answered, and any error closes; with
// another value an unknown topic still has its own code (§3b).
func TestRow11Acks(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	gone := &Topic{Name: "gone", ID: kafkaproto.TopicID{9}}
	one := recordsOf(batch.BuilderOptions{}, 10)
	c := r.dial()
	eachVersion(t, kmsg.Produce, func(t *testing.T, v int16) {
		unknown := kerr.UnknownTopicOrPartition
		if v >= 13 {
			unknown = kerr.UnknownTopicID
		}
		for _, acks := range []int16{2, -2, math.MaxInt16, math.MinInt16} {
			req := produceRequest(topic, acks, one, 0, 9)
			req.Topics = append(req.Topics, produceRequest(gone, acks, one, 0).Topics...)
			resp := ask[*kmsg.ProduceResponse](c, req, v)
			known := resp.Topics[0].Partitions
			wantCode(t, "bad acks", known[0].ErrorCode, kerr.InvalidRequiredAcks)
			wantCode(t, "unknown partition", known[1].ErrorCode, kerr.UnknownTopicOrPartition)
			wantCode(t, "unknown topic", resp.Topics[1].Partitions[0].ErrorCode, unknown)
			if known[0].BaseOffset != -1 || v >= 5 && known[0].LogStartOffset != -1 {
				t.Errorf("acks %d: %+v", acks, known[0])
			}
		}
	})
	if end := topic.Partitions[0].LogEnd(); end != 0 {
		t.Fatalf("the log ends at %d", end)
	}
	eachVersion(t, kmsg.Produce, func(t *testing.T, v int16) {
		req := produceRequest(topic, 0, one, 0)
		req.SetVersion(v)
		c.send(req)
		c.owed = nil
		ask[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 0) // the next answer is to the next request
	})
	if end := topic.Partitions[0].LogEnd(); end != 11 {
		t.Errorf("the log ends at %d after acks=0", end)
	}
	for _, bad := range []*kmsg.ProduceRequest{
		produceRequest(gone, 0, one, 0), produceRequest(topic, 0, one, 9), produceRequest(topic, 0, one, 0, 9),
		produceRequest(topic, 0, one[:30], 0),
	} {
		c := r.dial()
		bad.SetVersion(12)
		c.send(bad)
		c.wantClosed("acks=0 with an error")
	}
}

// TestRow12MinISR caps min.insync.replicas at the replication factor, as Kafka is seen to do (§3b).
func TestRow12MinISR(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, "min.insync.replicas", "2")
	c := r.dial()
	for i, acks := range []int16{-1, 1} {
		got := c.produceOne(topic, acks, recordsOf(batch.BuilderOptions{}, 10), 9)
		wantCode(t, "above the replicas", got.ErrorCode, nil)
		if got.BaseOffset != int64(i) {
			t.Errorf("base offset %d", got.BaseOffset)
		}
	}
}

// TestRow12Timeout answers REQUEST_TIMED_OUT for what is not committed in time, and keeps it.
func TestRow12Timeout(t *testing.T) {
	pollRig(t, map[string]string{"sluice.durability": "strict"}, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		c := r.dial()
		r.hold()
		req := produceRequest(topic, -1, recordsOf(batch.BuilderOptions{}, 10), 0)
		req.TimeoutMillis = 7000
		began := time.Now()
		resp := ask[*kmsg.ProduceResponse](c, req, 9)
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("answered after %v", took)
		}
		wantCode(t, "not synced", resp.Topics[0].Partitions[0].ErrorCode, kerr.RequestTimedOut)
		wantCode(t, "acks=1", c.produceOne(topic, 1, recordsOf(batch.BuilderOptions{}, 10), 9).ErrorCode, nil)
		r.letGo()
		got := c.produceOne(topic, -1, recordsOf(batch.BuilderOptions{}, 10), 9)
		if got.ErrorCode != 0 || got.BaseOffset != 2 {
			t.Errorf("after the disk came back: %+v", got)
		}
	})
}

// TestRow13To15Idempotence answers duplicates as if they were appended, and gaps and old epochs with
// their codes.
func TestRow13To15Idempotence(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	stamped := r.create("stamped", 1, "message.timestamp.type", "LogAppendTime")
	send := func(c *client, to *Topic, epoch kafkaproto.ProducerEpoch, seq int32) kmsg.ProduceResponseTopicPartition {
		b := recordsOf(batch.BuilderOptions{Producer: &batch.Producer{ID: 5, Epoch: epoch, BaseSequence: seq}}, 1, 1)
		return c.produceOne(to, -1, b, 9)
	}
	c := r.dial()
	for i, x := range []struct {
		epoch  kafkaproto.ProducerEpoch
		seq    int32
		want   *kerr.Error
		offset int64
		again  bool
	}{
		{0, 7, nil, 0, false}, // any first sequence of a producer that is not known
		{0, 9, nil, 2, false},
		{0, 13, kerr.OutOfOrderSequenceNumber, -1, false},
		{0, 7, nil, 0, true}, {0, 9, nil, 2, true},
		{0, 11, nil, 4, false}, {0, 13, nil, 6, false}, {0, 15, nil, 8, false}, {0, 17, nil, 10, false},
		{0, 9, nil, 2, true},                             // the fifth back
		{0, 7, kerr.OutOfOrderSequenceNumber, -1, false}, // the sixth
		{1, 3, kerr.OutOfOrderSequenceNumber, -1, false}, // a new epoch begins at 0
		{1, 0, nil, 12, false},                           // KIP-360
		{0, 19, kerr.InvalidProducerEpoch, -1, false},    // and fences the old one
		{1, math.MaxInt32, kerr.OutOfOrderSequenceNumber, -1, false},
		{1, 2, nil, 14, false},
	} {
		got := send(c, topic, x.epoch, x.seq)
		wantCode(t, "batch", got.ErrorCode, x.want)
		if got.BaseOffset != x.offset || (got.LogAppendTime != -1) != x.again {
			t.Errorf("batch %d: %+v, want offset %d, again %v", i, got, x.offset, x.again)
		}
	}
	first := send(c, stamped, 0, 0)
	again := send(c, stamped, 0, 0)
	if again.ErrorCode != 0 || again.BaseOffset != first.BaseOffset || again.LogAppendTime != first.LogAppendTime {
		t.Errorf("a duplicate of %+v is answered %+v", first, again)
	}
	if end := topic.Partitions[0].LogEnd(); end != 16 {
		t.Errorf("the log ends at %d", end)
	}
}

// TestRow14UnknownProducer takes any sequence of a producer that the partition does not know (any more).
func TestRow14UnknownProducer(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	b := func(seq int32) batch.Batch {
		return recordsOf(batch.BuilderOptions{Producer: &batch.Producer{ID: 5, BaseSequence: seq}}, 1)
	}
	c := r.dial()
	c.produceOne(topic, -1, b(0), 9)
	wantCode(t, "a gap", c.produceOne(topic, -1, b(5), 9).ErrorCode, kerr.OutOfOrderSequenceNumber)
	r.delete("t")
	topic = r.create("t", 1)
	wantCode(t, "after the topic was made again", c.produceOne(topic, -1, b(5), 9).ErrorCode, nil)
}

// TestRow31And32ProduceUnknown names what is not known by the code of the request's version; an id
// does not survive its topic.
func TestRow31And32ProduceUnknown(t *testing.T) {
	r := newRig(t, rigOptions{})
	old := r.create("t", 1)
	r.delete("t")
	made := r.create("t", 1)
	if made.ID == old.ID {
		t.Fatal("the id came back")
	}
	gone := &Topic{Name: "gone", ID: kafkaproto.TopicID{9}}
	c := r.dial()
	one := recordsOf(batch.BuilderOptions{}, 10)
	eachVersion(t, kmsg.Produce, func(t *testing.T, v int16) {
		want := kerr.UnknownTopicOrPartition
		if v >= 13 {
			want = kerr.UnknownTopicID
			wantCode(t, "old id", c.produceOne(old, -1, one, v).ErrorCode, kerr.UnknownTopicID)
		}
		got := c.produceOne(gone, -1, one, v)
		wantCode(t, "unknown topic", got.ErrorCode, want)
		if got.BaseOffset != -1 || v >= 5 && got.LogStartOffset != -1 || got.CurrentLeader.LeaderID != -1 {
			t.Errorf("unknown topic: %+v", got)
		}
		wantCode(t, "topic", c.produceOne(made, -1, one, v).ErrorCode, nil)
	})
}

// TestRow47InternalTopics lets only Kafka's own admin client write to an internal topic.
func TestRow47InternalTopics(t *testing.T) {
	r := newRig(t, rigOptions{})
	if err := r.makeInternal("__consumer_offsets"); err != nil {
		t.Fatal(err)
	}
	topic := r.topic("__consumer_offsets")
	c := r.dial()
	for id, want := range map[string]*kerr.Error{
		"tester": kerr.InvalidTopicException, "": kerr.InvalidTopicException,
		"__admin_client-1": kerr.InvalidTopicException, "__admin_client": nil,
	} {
		c.id = id
		wantCode(t, "client "+id, c.produceOne(topic, -1, recordsOf(batch.BuilderOptions{}, 10), 9).ErrorCode, want)
	}
}
