package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// restarts runs fn on a broker, and again after each of n restarts on the same disk.
func restarts(t *testing.T, n int, fn func(life int, r *rig, c *client)) {
	mem := vfs.Memory()
	for life := range n + 1 {
		r := newRig(t, rigOptions{fs: mem, dir: "/data"})
		fn(life, r, r.dial())
		r.close()
	}
}

// TestRow13FiveBatchesAfterRestart knows all five batches of a producer again, where Kafka 4.4 knows
// one; what is older is still out of order.
func TestRow13FiveBatchesAfterRestart(t *testing.T) {
	send := func(c *client, topic *Topic, seq int32) kmsg.ProduceResponseTopicPartition {
		b := recordsOf(batch.BuilderOptions{Producer: &batch.Producer{ID: 5, BaseSequence: seq}}, 1, 1)
		return c.produceOne(topic, -1, b, 12)
	}
	restarts(t, 2, func(life int, r *rig, c *client) {
		if life == 0 {
			topic := r.create("t", 1)
			for n := range int32(6) {
				wantCode(t, "first", send(c, topic, 2*n).ErrorCode, nil)
			}
			return
		}
		topic := r.topic("t")
		wantCode(t, "the sixth back", send(c, topic, 0).ErrorCode, kerr.OutOfOrderSequenceNumber)
		for n := int32(1); n < 6; n++ {
			got := send(c, topic, 2*n)
			wantCode(t, "again", got.ErrorCode, nil)
			if got.BaseOffset != int64(2*n) {
				t.Errorf("life %d: batch %d is answered with offset %d", life, n, got.BaseOffset)
			}
		}
		if end := topic.Partitions[0].LogEnd(); end != 12 {
			t.Errorf("life %d: the log ends at %d", life, end)
		}
		wantCode(t, "a gap", send(c, topic, 14).ErrorCode, kerr.OutOfOrderSequenceNumber)
	})
}

// TestRow16Expiry forgets a producer that wrote nothing for producer.id.expiration.ms: then any first
// sequence is taken.
func TestRow16Expiry(t *testing.T) {
	pollRig(t, map[string]string{
		"producer.id.expiration.ms": "3600000", "producer.id.expiration.check.interval.ms": "60000",
	}, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		send := func(seq int32) int16 {
			b := recordsOf(batch.BuilderOptions{Producer: &batch.Producer{ID: 5, BaseSequence: seq}}, 1)
			return r.dial().produceOne(topic, -1, b, 9).ErrorCode
		}
		wantCode(t, "first", send(0), nil)
		time.Sleep(50 * time.Minute)
		wantCode(t, "a gap", send(5), kerr.OutOfOrderSequenceNumber)
		time.Sleep(20 * time.Minute)
		wantCode(t, "a gap, forgotten", send(5), nil)
	})
}

// TestRow17NoIDTwice draws producer ids over restarts: none comes again.
func TestRow17NoIDTwice(t *testing.T) {
	seen := map[int64]bool{}
	restarts(t, 3, func(_ int, _ *rig, c *client) {
		for range 5 {
			resp := ask[*kmsg.InitProducerIDResponse](c, kmsg.NewPtrInitProducerIDRequest(), 4)
			wantCode(t, "init", resp.ErrorCode, nil)
			if seen[resp.ProducerID] {
				t.Errorf("id %d came twice", resp.ProducerID)
			}
			seen[resp.ProducerID] = true
		}
	})
}

// TestRow31And40IdentitySurvives keeps ids of topics and of the cluster, and the settings of topics.
func TestRow31And40IdentitySurvives(t *testing.T) {
	var topicID kafkaproto.TopicID
	var cluster string
	restarts(t, 2, func(life int, r *rig, c *client) {
		if life == 0 {
			topicID, cluster = r.create("t", 2, "retention.ms", "9000").ID, r.broker.ClusterID
		}
		resp := c.metadata(12, metadataOf("t"))
		mt := resp.Topics[0]
		if unnull(resp.ClusterID) != cluster || cluster == "" || mt.TopicID != topicID || mt.ErrorCode != 0 || len(mt.Partitions) != 2 {
			t.Errorf("life %d: %+v", life, resp)
		}
		if value, source := c.setting(aTopic, "t", "retention.ms"); value != "9000" || source != 1 {
			t.Errorf("life %d: retention %s from %d", life, value, source)
		}
	})
}

// TestRow46And55SurviveRestart keeps the log start that DeleteRecords moved, and committed offsets.
func TestRow46And55SurviveRestart(t *testing.T) {
	restarts(t, 1, func(life int, r *rig, c *client) {
		if life == 0 {
			topic := r.create("t", 1)
			r.fill(topic, 0, 5, 10)
			if _, err := topic.Partitions[0].DeleteRecords(3); err != nil {
				t.Fatal(err)
			}
			got := ask[*kmsg.OffsetCommitResponse](c, commitRequest("g", 4), 8)
			wantCode(t, "commit", got.Topics[0].Partitions[0].ErrorCode, nil)
			return
		}
		if got := c.listOne(7, listRequest(r.topic("t"), 0, listEarliest)); got.Offset != 3 {
			t.Errorf("the log begins at %d", got.Offset)
		}
		if got := fetchOne(c, "g"); got != 4 {
			t.Errorf("committed %d", got)
		}
	})
}
