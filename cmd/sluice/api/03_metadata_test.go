package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// metadataOf asks for topics by name; none means an empty list.
func metadataOf(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (c *client) metadata(v int16, req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	c.t.Helper()
	return ask[*kmsg.MetadataResponse](c, req, v)
}

// namesIn lists the topics of an answer.
func namesIn(resp *kmsg.MetadataResponse) []string {
	var names []string
	for _, t := range resp.Topics {
		names = append(names, unnull(t.Topic))
	}
	slices.Sort(names)
	return names
}

// TestRow40Metadata names this broker, every leader among them, and the partitions of a topic.
func TestRow40Metadata(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{"broker.rack": "r1"}})
	topic := r.create("t", 3)
	c := r.dial()
	eachVersion(t, kmsg.Metadata, func(t *testing.T, v int16) {
		resp := c.metadata(v, metadataOf("t"))
		if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 7 || resp.Brokers[0].Host != "broker.example" ||
			resp.Brokers[0].Port != 9092 || v >= 1 && unnull(resp.Brokers[0].Rack) != "r1" {
			t.Errorf("brokers %+v", resp.Brokers)
		}
		if v >= 2 && unnull(resp.ClusterID) != r.broker.ClusterID || v >= 1 && resp.ControllerID != 7 || resp.ErrorCode != 0 {
			t.Errorf("got %+v", resp)
		}
		if len(resp.Topics) != 1 || unnull(resp.Topics[0].Topic) != "t" || resp.Topics[0].IsInternal ||
			v >= 10 && resp.Topics[0].TopicID != topic.ID || len(resp.Topics[0].Partitions) != 3 {
			t.Fatalf("topics %+v", resp.Topics)
		}
		for i, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != 0 || p.Partition != int32(i) || p.Leader != 7 || !slices.Equal(p.Replicas, []int32{7}) ||
				!slices.Equal(p.ISR, []int32{7}) || len(p.OfflineReplicas) != 0 ||
				v >= 7 && p.LeaderEpoch != int32(topic.Partitions[i].LeaderEpoch()) {
				t.Errorf("partition %+v", p)
			}
		}
	})
}

// TestRow38MetadataTopics tells all topics from none, and gives unknown and bad names their codes.
func TestRow38MetadataTopics(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("t", 1)
	r.create("u", 1)
	c := r.dial()
	eachVersion(t, kmsg.Metadata, func(t *testing.T, v int16) {
		none := []string(nil)
		if v == 0 {
			none = []string{"t", "u"}
		} else {
			all := kmsg.NewPtrMetadataRequest()
			if got := namesIn(c.metadata(v, all)); !slices.Equal(got, []string{"t", "u"}) {
				t.Errorf("null list: %v", got)
			}
		}
		if got := namesIn(c.metadata(v, metadataOf())); !slices.Equal(got, none) {
			t.Errorf("empty list: %v", got)
		}
		if got := namesIn(c.metadata(v, metadataOf("u", "u"))); !slices.Equal(got, []string{"u"}) {
			t.Errorf("named twice: %v", got)
		}
		for name, want := range map[string]*kerr.Error{
			"nope": kerr.UnknownTopicOrPartition, strings.Repeat("x", 249): kerr.UnknownTopicOrPartition,
			"": kerr.InvalidTopicException, ".": kerr.InvalidTopicException, "..": kerr.InvalidTopicException,
			"a b": kerr.InvalidTopicException, "a/b": kerr.InvalidTopicException, "ä": kerr.InvalidTopicException,
			strings.Repeat("x", 250): kerr.InvalidTopicException,
		} {
			resp := c.metadata(v, metadataOf(name, "t"))
			i := slices.IndexFunc(resp.Topics, func(mt kmsg.MetadataResponseTopic) bool { return *mt.Topic == name })
			if len(resp.Topics) != 2 || i < 0 {
				t.Fatalf("topics %+v", resp.Topics)
			}
			wantCode(t, name, resp.Topics[i].ErrorCode, want)
			wantCode(t, "beside "+name, resp.Topics[1-i].ErrorCode, nil)
			if len(resp.Topics[i].Partitions) != 0 || resp.Topics[i].TopicID != [16]byte{} {
				t.Errorf("%q: %+v", name, resp.Topics[i])
			}
		}
	})
}

// TestRow39AutoCreate makes a topic that is asked for by name when broker and request allow it, and
// answers with it at once (ruling 26).
func TestRow39AutoCreate(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{
		"auto.create.topics.enable": "true", "num.partitions": "3",
	}})
	c := r.dial()
	eachVersion(t, kmsg.Metadata, func(t *testing.T, v int16) {
		name := strings.Repeat("n", int(v)+1)
		req := metadataOf(name)
		if v >= 4 {
			resp := c.metadata(v, req)
			wantCode(t, "not allowed", resp.Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
			if r.broker.Topics()[name] != nil {
				t.Fatal("it was made all the same")
			}
			req.AllowAutoTopicCreation = true
		}
		for range 2 {
			mt := c.metadata(v, req).Topics[0]
			wantCode(t, "allowed", mt.ErrorCode, nil)
			if len(mt.Partitions) != 3 || mt.Partitions[0].Leader != 7 || mt.Partitions[0].ErrorCode != 0 {
				t.Errorf("made: %+v", mt)
			}
		}
	})
	r.create("old.one", 1)
	for name, want := range map[string]*kerr.Error{
		"a b": kerr.InvalidTopicException, "": kerr.InvalidTopicException, "__consumer_offsets": kerr.UnknownTopicOrPartition,
		"old_one": kerr.InvalidTopicException, // clashes with the other one's name
	} {
		req := metadataOf(name)
		req.AllowAutoTopicCreation = true
		mt := c.metadata(9, req).Topics[0]
		wantCode(t, name, mt.ErrorCode, want)
		if len(mt.Partitions) != 0 || r.broker.Topics()[name] != nil {
			t.Errorf("%q was made: %+v", name, mt)
		}
	}
	c = newRig(t, rigOptions{}).dial() // auto.create.topics.enable=false
	for _, v := range []int16{0, 3, 4, 13} {
		req := metadataOf("t")
		req.AllowAutoTopicCreation = true
		wantCode(t, "switched off", c.metadata(v, req).Topics[0].ErrorCode, kerr.UnknownTopicOrPartition)
	}
}

// TestRow31MetadataByID serves ids from version 12 on; where ids and names are mixed only the ids are
// answered (§3b).
func TestRow31MetadataByID(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	r.create("u", 1)
	byID := func(id kafkaproto.TopicID, name *string) *kmsg.MetadataRequest {
		req := kmsg.NewPtrMetadataRequest()
		mt := kmsg.NewMetadataRequestTopic()
		mt.TopicID, mt.Topic = id, name
		req.Topics = append(req.Topics, mt)
		return req
	}
	c := r.dial()
	for v := int16(10); v <= 13; v++ {
		want, unknown := kerr.InvalidRequest, kerr.InvalidRequest
		if v >= 12 {
			want, unknown = nil, kerr.UnknownTopicID
		}
		resp := c.metadata(v, byID(topic.ID, nil))
		wantCode(t, "id", resp.Topics[0].ErrorCode, want)
		if resp.Topics[0].TopicID != topic.ID || (unnull(resp.Topics[0].Topic) == "t") != (want == nil) ||
			(len(resp.Brokers) == 1) != (want == nil) {
			t.Errorf("version %d: %+v", v, resp)
		}
		resp = c.metadata(v, byID(kafkaproto.TopicID{9}, nil))
		wantCode(t, "unknown id", resp.Topics[0].ErrorCode, unknown)
		resp = c.metadata(v, byID(kafkaproto.TopicID{}, nil))
		wantCode(t, "neither", resp.Topics[0].ErrorCode, kerr.InvalidRequest)
		if v < 12 {
			continue
		}
		mixed := byID(topic.ID, nil)
		mixed.Topics = append(mixed.Topics, metadataOf("u").Topics...)
		if got := namesIn(c.metadata(v, mixed)); !slices.Equal(got, []string{"t"}) {
			t.Errorf("version %d, mixed: %v", v, got)
		}
	}
	r.delete("t")
	wantCode(t, "deleted", c.metadata(13, byID(topic.ID, nil)).Topics[0].ErrorCode, kerr.UnknownTopicID)
}

// TestRow41AuthorizedOperations gives the bits of a broker without authorizer when they are asked for.
func TestRow41AuthorizedOperations(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("t", 1)
	c := r.dial()
	for v := int16(8); v <= 13; v++ {
		for _, asked := range []bool{false, true} {
			req := metadataOf("t", "nope")
			req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = asked, asked
			resp := c.metadata(v, req)
			topic, cluster := int32(-1<<31), int32(-1<<31)
			if asked {
				topic = 0x0df8
			}
			if asked && v <= 10 {
				cluster = 0x1fa0
			}
			for _, mt := range resp.Topics {
				if mt.AuthorizedOperations != topic {
					t.Errorf("version %d: %s has %#x", v, *mt.Topic, mt.AuthorizedOperations)
				}
			}
			if v <= 10 && resp.AuthorizedOperations != cluster {
				t.Errorf("version %d: the cluster has %#x", v, resp.AuthorizedOperations)
			}
		}
	}
}

// TestRow47InternalFlag marks internal topics.
func TestRow47InternalFlag(t *testing.T) {
	r := newRig(t, rigOptions{})
	if err := r.makeInternal("__consumer_offsets"); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	for v := int16(1); v <= 13; v++ {
		mt := c.metadata(v, metadataOf("__consumer_offsets")).Topics[0]
		if mt.ErrorCode != 0 || !mt.IsInternal || len(mt.Partitions) != 50 {
			t.Errorf("version %d: %+v", v, mt)
		}
	}
}

// TestRow32OfflinePartition names no leader for a partition whose log cannot be used.
func TestRow32OfflinePartition(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 2)
	if err := r.broker.Engine.Delete(kafkaproto.PartitionID{Topic: topic.ID, Partition: 1}); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	eachVersion(t, kmsg.Metadata, func(t *testing.T, v int16) {
		ps := c.metadata(v, metadataOf("t")).Topics[0].Partitions
		wantCode(t, "online", ps[0].ErrorCode, nil)
		wantCode(t, "offline", ps[1].ErrorCode, kerr.LeaderNotAvailable)
		if ps[1].Leader != -1 || v >= 5 && !slices.Equal(ps[1].OfflineReplicas, []int32{7}) {
			t.Errorf("offline: %+v", ps[1])
		}
	})
}
