package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/log/vfs"
)

// TestRow34OffsetForLeaderEpoch asks for the ends of epochs, of a log that has seen three reigns.
func TestRow34OffsetForLeaderEpoch(t *testing.T) {
	mem := vfs.Memory()
	var epochs []int32
	var r *rig
	for range 3 {
		r = newRig(t, rigOptions{fs: mem, dir: "/data"})
		if r.broker.Topics()["t"] == nil {
			r.create("t", 1)
		}
		r.fill(r.topic("t"), 0, 2, 10)
		epochs = append(epochs, int32(r.topic("t").Partitions[0].LeaderEpoch()))
		if len(epochs) < 3 {
			r.close()
		}
	}
	cur := epochs[2]
	c := r.dial()
	eachVersion(t, kmsg.OffsetForLeaderEpoch, func(t *testing.T, v int16) {
		for _, x := range []struct {
			name           string
			topic          string
			partition      int32
			current, epoch int32
			want           *kerr.Error
			answered       int32
			end            int64
		}{
			{"the latest", "t", 0, -1, cur, nil, cur, 6},
			{"the latest, fenced rightly", "t", 0, cur, cur, nil, cur, 6},
			{"the first", "t", 0, -1, epochs[0], nil, epochs[0], 2},
			{"the second", "t", 0, -1, epochs[1], nil, epochs[1], 4},
			{"above", "t", 0, -1, cur + 100, nil, -1, -1},
			{"undefined", "t", 0, -1, -1, nil, -1, -1},
			{"client ahead", "t", 0, cur + 1, cur, kerr.UnknownLeaderEpoch, -1, -1},
			{"client behind", "t", 0, cur - 1, cur, kerr.FencedLeaderEpoch, -1, -1},
			{"unknown partition", "t", 1, -1, cur, kerr.UnknownTopicOrPartition, -1, -1},
			{"unknown topic", "gone", 0, -1, cur, kerr.UnknownTopicOrPartition, -1, -1},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rt.Topic, rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = x.topic, x.partition, x.current, x.epoch
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			resp := ask[*kmsg.OffsetForLeaderEpochResponse](c, req, v)
			if len(resp.Topics) != 1 || resp.Topics[0].Topic != x.topic || len(resp.Topics[0].Partitions) != 1 {
				t.Fatalf("%s: %+v", x.name, resp)
			}
			got := resp.Topics[0].Partitions[0]
			wantCode(t, x.name, got.ErrorCode, x.want)
			if got.Partition != x.partition || got.LeaderEpoch != x.answered || got.EndOffset != x.end {
				t.Errorf("%s: %+v", x.name, got)
			}
		}
	})
}
