package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// deleteRequest asks for topics by name, in the fields of every version.
func deleteRequest(names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = names
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.DeleteTopicsRequestTopic{Topic: kmsg.StringPtr(name)})
	}
	return req
}

// TestRow44DeleteTopics takes topics away at once, by name and from version 6 on by id.
func TestRow44DeleteTopics(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	eachVersion(t, kmsg.DeleteTopics, func(t *testing.T, v int16) {
		topic := r.create("t", 2)
		resp := ask[*kmsg.DeleteTopicsResponse](c, deleteRequest("t", "nope", "a b"), v)
		if len(resp.Topics) != 3 {
			t.Fatalf("%+v", resp)
		}
		for _, got := range resp.Topics {
			if unnull(got.Topic) == "t" {
				wantCode(t, "delete", got.ErrorCode, nil)
				if v >= 6 && got.TopicID != topic.ID {
					t.Errorf("id %v", got.TopicID)
				}
				continue
			}
			wantCode(t, "unknown", got.ErrorCode, kerr.UnknownTopicOrPartition)
			if v >= 5 && unnull(got.ErrorMessage) == "" {
				t.Errorf("no message: %+v", got)
			}
		}
		wantCode(t, "produce", c.produceOne(topic, -1, nil, 9).ErrorCode, kerr.UnknownTopicOrPartition)
		r.create("t", 2)
		resp = ask[*kmsg.DeleteTopicsResponse](c, deleteRequest("t", "t"), v)
		if len(resp.Topics) != 1 {
			t.Fatalf("twice: %+v", resp)
		}
		wantCode(t, "twice", resp.Topics[0].ErrorCode, kerr.InvalidRequest)
		r.topic("t")
		r.delete("t")
	})
}

// TestRow44DeleteTopicsByID names each topic once, by its id or by its name.
func TestRow44DeleteTopicsByID(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	c := r.dial()
	name := kmsg.StringPtr("t")
	for _, x := range []struct {
		what     string
		ref      kmsg.DeleteTopicsRequestTopic
		want     *kerr.Error
		answered string
	}{
		{"both", kmsg.DeleteTopicsRequestTopic{Topic: name, TopicID: topic.ID}, kerr.InvalidRequest, "t"},
		{"neither", kmsg.DeleteTopicsRequestTopic{}, kerr.InvalidRequest, ""},
		{"unknown", kmsg.DeleteTopicsRequestTopic{TopicID: kafkaproto.TopicID{9}}, kerr.UnknownTopicID, ""},
		{"id", kmsg.DeleteTopicsRequestTopic{TopicID: topic.ID}, nil, "t"},
		{"again", kmsg.DeleteTopicsRequestTopic{TopicID: topic.ID}, kerr.UnknownTopicID, ""},
	} {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Topics = append(req.Topics, x.ref)
		resp := ask[*kmsg.DeleteTopicsResponse](c, req, 6)
		if len(resp.Topics) != 1 {
			t.Fatalf("%s: %+v", x.what, resp)
		}
		got := resp.Topics[0]
		wantCode(t, x.what, got.ErrorCode, x.want)
		if got.TopicID != x.ref.TopicID || unnull(got.Topic) != x.answered || (got.Topic == nil) != (x.answered == "") {
			t.Errorf("%s: %+v", x.what, got)
		}
	}
	if r.broker.Topics()["t"] != nil {
		t.Error("the topic is still there")
	}
}

// TestRow44DeletionDisabled refuses by delete.topic.enable, with a code that old versions know.
func TestRow44DeletionDisabled(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{"delete.topic.enable": "false"}})
	r.create("t", 1)
	c := r.dial()
	eachVersion(t, kmsg.DeleteTopics, func(t *testing.T, v int16) {
		want := kerr.TopicDeletionDisabled
		if v < 3 {
			want = kerr.InvalidRequest
		}
		resp := ask[*kmsg.DeleteTopicsResponse](c, deleteRequest("t"), v)
		wantCode(t, "delete", resp.Topics[0].ErrorCode, want)
		r.topic("t")
	})
}
