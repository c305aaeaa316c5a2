package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// createRequest asks for topics; settings are name, value, name, value.
func createRequest(name string, partitions int32, replication int16, settings ...string) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replication
	for i := 0; i < len(settings); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = settings[i], &settings[i+1]
		rt.Configs = append(rt.Configs, c)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// TestRow42And43CreateTopics makes topics that the next request can use, and tells from version 5 on
// what was made. Any broker answers: never NOT_CONTROLLER.
func TestRow42And43CreateTopics(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{"num.partitions": "4"}})
	c := r.dial()
	eachVersion(t, kmsg.CreateTopics, func(t *testing.T, v int16) {
		for name, partitions := range map[string]int32{"asked": 2, "default": -1} {
			name += string('0' + rune(v))
			want := max(partitions, 2)
			if partitions < 0 {
				want = 4
			}
			req := createRequest(name, partitions, int16(min(partitions, 1)), "retention.ms", "5000")
			req.ValidateOnly = true
			wantCode(t, "validate", ask[*kmsg.CreateTopicsResponse](c, req, v).Topics[0].ErrorCode, nil)
			if r.broker.Topics()[name] != nil {
				t.Fatal("validation made the topic")
			}
			req.ValidateOnly = false
			got := ask[*kmsg.CreateTopicsResponse](c, req, v).Topics[0]
			wantCode(t, "create", got.ErrorCode, nil)
			topic := r.topic(name)
			if got.Topic != name || got.ErrorMessage != nil || len(topic.Partitions) != int(want) {
				t.Errorf("%+v, with %d partitions", got, len(topic.Partitions))
			}
			retention := ""
			for _, cfg := range got.Configs {
				if cfg.Name == "retention.ms" && cfg.Source == 1 && !cfg.ReadOnly && !cfg.IsSensitive {
					retention = *cfg.Value
				}
			}
			if v >= 5 && (got.NumPartitions != want || got.ReplicationFactor != 1 || retention != "5000") {
				t.Errorf("made: %+v", got)
			}
			if v >= 7 && got.TopicID != topic.ID {
				t.Errorf("id %v, want %v", got.TopicID, topic.ID)
			}
			wantCode(t, "produce at once", c.produceOne(topic, -1, recordsOf(batch.BuilderOptions{}, 1), 9).ErrorCode, nil)
			got = ask[*kmsg.CreateTopicsResponse](c, req, v).Topics[0]
			wantCode(t, "again", got.ErrorCode, kerr.TopicAlreadyExists)
			if v >= 5 && (got.NumPartitions != -1 || got.ReplicationFactor != -1 || got.Configs == nil || len(got.Configs) != 0) {
				t.Errorf("again: %+v", got)
			}
		}
	})
}

// TestRow43Refusals gives each topic of a request its own code; the others are made. The reasons are
// the matter of controller/meta.
func TestRow43Refusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("old.one", 1)
	bad := map[string]*kerr.Error{}
	req := createRequest("good", 1, 1)
	add := func(q *kmsg.CreateTopicsRequest, want *kerr.Error) *kmsg.CreateTopicsRequestTopic {
		bad[q.Topics[0].Topic] = want
		req.Topics = append(req.Topics, q.Topics[0])
		return &req.Topics[len(req.Topics)-1]
	}
	add(createRequest("a b", 1, 1), kerr.InvalidTopicException)
	add(createRequest("old_one", 1, 1), kerr.InvalidTopicException)
	add(createRequest("old.one", 1, 1), kerr.TopicAlreadyExists)
	add(createRequest("none", 0, 1), kerr.InvalidPartitions)
	add(createRequest("replicas", 1, 3), kerr.InvalidReplicationFactor)
	add(createRequest("key", 1, 1, "no.such.key", "1"), kerr.InvalidConfig)
	add(createRequest("value", 1, 1, "retention.ms", "x"), kerr.InvalidConfig)
	add(createRequest("null", 1, 1, "retention.ms", ""), kerr.InvalidConfig).Configs[0].Value = nil
	add(createRequest("both", 1, 1), kerr.InvalidRequest).ReplicaAssignment =
		[]kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{7}}}
	add(createRequest("stranger", -1, -1), kerr.InvalidReplicaAssignment).ReplicaAssignment =
		[]kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{8}}}
	add(createRequest("twice", 1, 1), kerr.InvalidRequest)
	add(createRequest("twice", 1, 1), kerr.InvalidRequest)
	c := r.dial()
	eachVersion(t, kmsg.CreateTopics, func(t *testing.T, v int16) {
		resp := ask[*kmsg.CreateTopicsResponse](c, req, v)
		if len(resp.Topics) != len(bad)+1 {
			t.Errorf("%d topics answered", len(resp.Topics))
		}
		for _, got := range resp.Topics {
			if got.Topic == "good" {
				wantCode(t, "good", got.ErrorCode, nil)
				continue
			}
			wantCode(t, got.Topic, got.ErrorCode, bad[got.Topic])
			if unnull(got.ErrorMessage) == "" || got.TopicID != [16]byte{} {
				t.Errorf("%+v", got)
			}
			if got.Topic != "old.one" && r.broker.Topics()[got.Topic] != nil {
				t.Errorf("%q was made", got.Topic)
			}
		}
		r.topic("good")
		r.delete("good")
	})
}

// TestCreateTopicsByHand places partitions where the request says.
func TestCreateTopicsByHand(t *testing.T) {
	r := newRig(t, rigOptions{})
	req := createRequest("t", -1, -1)
	for n := range int32(3) {
		req.Topics[0].ReplicaAssignment = append(req.Topics[0].ReplicaAssignment,
			kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: n, Replicas: []int32{7}})
	}
	got := ask[*kmsg.CreateTopicsResponse](r.dial(), req, 7).Topics[0]
	wantCode(t, "create", got.ErrorCode, nil)
	if got.NumPartitions != 3 || got.ReplicationFactor != 1 || len(r.topic("t").Partitions) != 3 {
		t.Errorf("made: %+v", got)
	}
}
