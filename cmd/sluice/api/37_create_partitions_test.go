package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// TestRow45CreatePartitions grows a topic to a count; the new partitions can be used at once.
func TestRow45CreatePartitions(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	type placed = []kmsg.CreatePartitionsRequestTopicAssignment
	here, stranger := placed{{Replicas: []int32{7}}}, placed{{Replicas: []int32{8}}}
	eachVersion(t, kmsg.CreatePartitions, func(t *testing.T, v int16) {
		r.create("t", 2)
		for i, x := range []struct {
			topic    string
			count    int32
			places   placed
			validate bool
			want     *kerr.Error
			after    int
		}{
			{"t", 2, nil, false, kerr.InvalidPartitions, 2},
			{"t", 1, nil, false, kerr.InvalidPartitions, 2},
			{"t", -1, nil, false, kerr.InvalidPartitions, 2},
			{"gone", 3, nil, false, kerr.UnknownTopicOrPartition, 2},
			{"t", 4, here, false, kerr.InvalidReplicaAssignment, 2},
			{"t", 3, stranger, false, kerr.InvalidReplicaAssignment, 2},
			{"t", 3, placed{}, false, kerr.InvalidReplicaAssignment, 2},
			{"t", 3, nil, true, nil, 2},
			{"t", 3, here, false, nil, 3},
			{"t", 5, nil, false, nil, 5},
		} {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.ValidateOnly = x.validate
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count, rt.Assignment = x.topic, x.count, x.places
			req.Topics = append(req.Topics, rt)
			resp := ask[*kmsg.CreatePartitionsResponse](c, req, v)
			if len(resp.Topics) != 1 || resp.Topics[0].Topic != x.topic {
				t.Fatalf("case %d: %+v", i, resp)
			}
			wantCode(t, x.topic, resp.Topics[0].ErrorCode, x.want)
			if (unnull(resp.Topics[0].ErrorMessage) == "") != (x.want == nil) {
				t.Errorf("case %d: message %v", i, resp.Topics[0].ErrorMessage)
			}
			if got := len(r.topic("t").Partitions); got != x.after {
				t.Errorf("case %d: %d partitions", i, got)
			}
		}
		req := produceRequest(r.topic("t"), -1, recordsOf(batch.BuilderOptions{}, 1), 4)
		wantCode(t, "produce", ask[*kmsg.ProduceResponse](c, req, 9).Topics[0].Partitions[0].ErrorCode, nil)
		r.delete("t")
	})
}
