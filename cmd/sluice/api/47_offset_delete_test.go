package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestRow57OffsetDelete deletes single offsets, but none of a topic that the group is subscribed to.
func TestRow57OffsetDelete(t *testing.T) {
	c := newGroupRig(t).dial()
	del := func(groupID, topic string, partition int32) *kmsg.OffsetDeleteResponse {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = groupID
		req.Topics = []kmsg.OffsetDeleteRequestTopic{{
			Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}},
		}}
		return ask[*kmsg.OffsetDeleteResponse](c, req, 0)
	}
	wantCode(t, "no group id", del("", "t", 0).ErrorCode, kerr.InvalidGroupID)
	wantCode(t, "no group", del("g", "t", 0).ErrorCode, kerr.GroupIDNotFound)
	ask[*kmsg.OffsetCommitResponse](c, commitRequest("g", 5), 8)
	for _, x := range []struct {
		topic     string
		partition int32
		want      *kerr.Error
	}{{"nope", 0, kerr.UnknownTopicOrPartition}, {"t", 2, kerr.UnknownTopicOrPartition}, {"t", 1,
		nil}, {"t", 0, nil}} {
		resp := del("g", x.topic, x.partition)
		wantCode(t, "request", resp.ErrorCode, nil)
		wantCode(t, x.topic, resp.Topics[0].Partitions[0].ErrorCode, x.want)
	}
	if got := fetchOne(c, "g"); got != -1 {
		t.Errorf("fetched %d after the deletion", got)
	}
	id, generation := c.member("busy")
	commit := commitRequest("busy", 5)
	commit.MemberID, commit.Generation = id, generation
	ask[*kmsg.OffsetCommitResponse](c, commit, 8)
	// "meta" is no subscription: what a consumer is at is not known, so it is at everything.
	wantCode(t, "subscribed", del("busy", "t", 0).Topics[0].Partitions[0].ErrorCode,
		kerr.GroupSubscribedToTopic)
}
