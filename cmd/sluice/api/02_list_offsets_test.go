package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/replica/engine"
)

// listRequest asks for one partition's offset at a time.
func listRequest(t *Topic, partition int32, at int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = t.Name
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = partition, at
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// listOne asks for one partition's offset at a time.
func (c *client) listOne(v int16, req *kmsg.ListOffsetsRequest) kmsg.ListOffsetsResponseTopicPartition {
	c.t.Helper()
	resp := ask[*kmsg.ListOffsetsResponse](c, req, v)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Topic != req.Topics[0].Topic {
		c.t.Fatalf("version %d answered %+v", v, resp)
	}
	return resp.Topics[0].Partitions[0]
}

// timed appends one batch with a record at each time.
func (r *rig) timed(t *Topic, times ...int64) {
	r.t.Helper()
	bld := batch.NewBuilder(batch.BuilderOptions{})
	for _, ms := range times {
		bld.Add(batch.Record{Timestamp: ms, Value: []byte("v")})
	}
	b, err := bld.Build()
	if err == nil {
		_, err = t.Partitions[0].Append(b, engine.AppendOptions{NowMs: 1})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// TestRow36SpecialTimestamps answers each special timestamp from its version on.
func TestRow36SpecialTimestamps(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic, empty := r.create("t", 1, "retention.ms", "-1"), r.create("empty", 1)
	r.timed(topic, 1000, 5000)
	r.timed(topic, 9000, 9000, 2000)
	if _, err := topic.Partitions[0].DeleteRecords(1); err != nil {
		t.Fatal(err)
	}
	epoch := int32(topic.Partitions[0].LeaderEpoch())
	c := r.dial()
	eachVersion(t, kmsg.ListOffsets, func(t *testing.T, v int16) {
		for _, x := range []struct {
			name         string
			at           int64
			since        int16
			offset, time int64
			epoch        int32
			offsetEmpty  int64
		}{
			{"latest", -1, 1, 5, -1, epoch, 0},
			{"earliest", -2, 1, 1, -1, epoch, 0},
			{"of the largest timestamp", -3, 7, 2, 9000, epoch, -1},
			{"earliest local", -4, 8, 1, -1, epoch, 0},
			{"last tiered", -5, 9, -1, -1, -1, -1},
			{"earliest to be uploaded", -6, 11, -1, -1, -1, -1},
			{"not known", -7, 99, -1, -1, -1, -1},
		} {
			got := c.listOne(v, listRequest(topic, 0, x.at))
			if v < x.since {
				wantCode(t, x.name, got.ErrorCode, kerr.UnsupportedVersion)
				x.offset, x.time, x.epoch = -1, -1, -1
			} else {
				wantCode(t, x.name, got.ErrorCode, nil)
				if none := c.listOne(v, listRequest(empty, 0, x.at)); none.ErrorCode != 0 || none.Offset != x.offsetEmpty || none.Timestamp != -1 {
					t.Errorf("%s of an empty log: %+v", x.name, none)
				}
			}
			if v < 4 {
				x.epoch = -1 // not on the wire
			}
			if got.Offset != x.offset || got.Timestamp != x.time || got.LeaderEpoch != x.epoch {
				t.Errorf("%s: %+v", x.name, got)
			}
		}
	})
}

// TestRow36Isolation stops read_committed readers at the first open transaction; no other isolation is
// known.
func TestRow36Isolation(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	r.fill(topic, 0, 1, 10)
	open := recordsOf(batch.BuilderOptions{Producer: &batch.Producer{ID: 1}, Transactional: true}, 10)
	if _, err := topic.Partitions[0].Append(open, engine.AppendOptions{NowMs: 1}); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	for v := int16(2); v <= 11; v++ {
		for isolation, want := range map[int8]int64{0: 2, 1: 1} {
			req := listRequest(topic, 0, listLatest)
			req.IsolationLevel = isolation
			if got := c.listOne(v, req); got.ErrorCode != 0 || got.Offset != want {
				t.Errorf("version %d, isolation %d: %+v", v, isolation, got)
			}
		}
		req := listRequest(topic, 0, listLatest)
		req.IsolationLevel = 2
		wantCode(t, "unknown isolation", c.listOne(v, req).ErrorCode, kerr.InvalidRequest)
	}
}

// TestRow37ByTime finds the first record at a time or after it, by record and not by batch.
func TestRow37ByTime(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, "retention.ms", "-1")
	r.timed(topic, 1000, 1500, 3000)
	r.timed(topic, 2000, 2500)
	r.timed(topic, 5000)
	epoch := int32(topic.Partitions[0].LeaderEpoch())
	c := r.dial()
	eachVersion(t, kmsg.ListOffsets, func(t *testing.T, v int16) {
		for _, x := range []struct{ at, offset, time int64 }{
			{0, 0, 1000}, {1000, 0, 1000}, {1001, 1, 1500}, {1501, 2, 3000}, {2500, 2, 3000},
			{3001, 5, 5000}, {5000, 5, 5000}, {5001, -1, -1},
		} {
			got := c.listOne(v, listRequest(topic, 0, x.at))
			want := epoch
			if x.offset < 0 || v < 4 {
				want = -1
			}
			if got.ErrorCode != 0 || got.Offset != x.offset || got.Timestamp != x.time || got.LeaderEpoch != want {
				t.Errorf("at %d: %+v", x.at, got)
			}
		}
	})
}

// TestRow32And33ListOffsets names what is not known, compares leader epochs, and refuses a partition
// that is asked for twice.
func TestRow32And33ListOffsets(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	r.fill(topic, 0, 1, 10)
	cur := int32(topic.Partitions[0].LeaderEpoch())
	c := r.dial()
	eachVersion(t, kmsg.ListOffsets, func(t *testing.T, v int16) {
		for _, x := range []struct {
			topic     *Topic
			partition int32
		}{{topic, 1}, {topic, -1}, {&Topic{Name: "gone"}, 0}, {&Topic{Name: ""}, 0}} {
			got := c.listOne(v, listRequest(x.topic, x.partition, listLatest))
			wantCode(t, "unknown", got.ErrorCode, kerr.UnknownTopicOrPartition)
			if got.Offset != -1 || got.Timestamp != -1 || got.LeaderEpoch != -1 {
				t.Errorf("unknown: %+v", got)
			}
		}
		twice := listRequest(topic, 0, listLatest)
		twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, twice.Topics[0].Partitions[0])
		got := c.listOne(v, twice)
		wantCode(t, "twice", got.ErrorCode, kerr.InvalidRequest)
		for epoch, want := range map[int32]*kerr.Error{
			-1: nil, cur: nil, cur + 1: kerr.UnknownLeaderEpoch, -2: kerr.FencedLeaderEpoch,
		} {
			if v < 4 {
				continue
			}
			req := listRequest(topic, 0, listLatest)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
			wantCode(t, "leader epoch", c.listOne(v, req).ErrorCode, want)
		}
	})
}
