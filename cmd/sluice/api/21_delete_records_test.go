package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRow46DeleteRecords moves the log start up and returns it, and refuses what may not lose records.
func TestRow46DeleteRecords(t *testing.T) {
	r := newRig(t, rigOptions{})
	compacted := r.create("compacted", 1, "cleanup.policy", "compact")
	both := r.create("both", 1, "cleanup.policy", "compact,delete")
	if err := r.makeInternal("__consumer_offsets"); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []*Topic{compacted, both} {
		r.fill(topic, 0, 5, 10)
	}
	c := r.dial()
	eachVersion(t, kmsg.DeleteRecords, func(t *testing.T, v int16) {
		topic := r.create("t", 2)
		r.fill(topic, 0, 5, 10)
		for i, x := range []struct {
			topic     string
			partition int32
			offset    int64
			want      *kerr.Error
			low       int64
		}{
			{"t", 0, 0, nil, 0},
			{"t", 0, 3, nil, 3},
			{"t", 0, 1, nil, 3}, // never back
			{"t", 0, 6, kerr.OffsetOutOfRange, -1},
			{"t", 0, -2, kerr.OffsetOutOfRange, -1},
			{"t", 0, -1, nil, 5}, // the high watermark
			{"t", 1, -1, nil, 0},
			{"t", 1, 1, kerr.OffsetOutOfRange, -1},
			{"t", 2, 0, kerr.UnknownTopicOrPartition, -1},
			{"gone", 0, 0, kerr.UnknownTopicOrPartition, -1},
			{"compacted", 0, 2, kerr.PolicyViolation, -1},
			{"both", 0, 2, nil, 2},
			{"__consumer_offsets", 0, 0, kerr.InvalidTopicException, -1},
		} {
			req := kmsg.NewPtrDeleteRecordsRequest()
			rp := kmsg.NewDeleteRecordsRequestTopicPartition()
			rp.Partition, rp.Offset = x.partition, x.offset
			req.Topics = []kmsg.DeleteRecordsRequestTopic{{
				Topic: x.topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{rp},
			}}
			resp := ask[*kmsg.DeleteRecordsResponse](c, req, v)
			if len(resp.Topics) != 1 || resp.Topics[0].Topic != x.topic || len(resp.Topics[0].Partitions) != 1 {
				t.Fatalf("%+v", resp)
			}
			got := resp.Topics[0].Partitions[0]
			wantCode(t, x.topic, got.ErrorCode, x.want)
			if got.Partition != x.partition || got.LowWatermark != x.low {
				t.Errorf("case %d: %+v", i, got)
			}
		}
		earliest := c.listOne(9, listRequest(topic, 0, listEarliest))
		if earliest.Offset != 5 {
			t.Errorf("the log begins at %d", earliest.Offset)
		}
		wantCode(t, "fetch below", c.fetchOne(12, asking{topic: topic, offset: 4}).ErrorCode, kerr.OffsetOutOfRange)
		r.delete("t")
	})
}
