package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pageOf writes an answer as topic:partitions, and the cursor behind a slash.
func pageOf(resp *kmsg.DescribeTopicPartitionsResponse) string {
	var out []string
	for _, t := range resp.Topics {
		s := unnull(t.Topic) + ":"
		for _, p := range t.Partitions {
			s += fmt.Sprint(p.Partition)
		}
		out = append(out, s)
	}
	s := strings.Join(out, " ")
	if c := resp.NextCursor; c != nil {
		s += fmt.Sprintf(" / %s %d", c.Topic, c.Partition)
	}
	return s
}

func partitionsRequest(limit int32, names ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, n := range names {
		req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: n})
	}
	return req
}

// TestDescribeTopicPartitions gives topics by name, in pages that go on where the last one ended.
func TestDescribeTopicPartitions(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("a", 3)
	topic := r.create("b", 2)
	c := r.dial()
	cursor := func(topic string, partition int32) *kmsg.DescribeTopicPartitionsRequestCursor {
		return &kmsg.DescribeTopicPartitionsRequestCursor{Topic: topic, Partition: partition}
	}
	for _, x := range []struct {
		limit  int32
		names  []string
		cursor *kmsg.DescribeTopicPartitionsRequestCursor
		want   string
	}{
		{2000, nil, nil, "a:012 b:01"},
		{2000, []string{"b", "a", "b"}, nil, "a:012 b:01"},
		{1, nil, nil, "a:0 / a 1"},
		{0, nil, nil, "a:0 / a 1"},
		{-1, nil, nil, "a:0 / a 1"},
		{3, nil, nil, "a:012 / b 0"},
		{4, nil, nil, "a:012 b:0 / b 1"},
		{2, nil, cursor("a", 1), "a:12 / b 0"},
		{2, nil, cursor("b", 0), "b:01"},
		{2, nil, cursor("a", 9), "a: b:01"},
		{2, nil, cursor("aa", 0), "b:01"}, // deleted between two pages
		{2, []string{"b"}, cursor("b", 1), "b:1"},
		{2000, []string{"a", "gone"}, nil, "a:012 gone:"},
	} {
		req := partitionsRequest(x.limit, x.names...)
		req.Cursor = x.cursor
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, req, 0)
		if got := pageOf(resp); got != x.want {
			t.Errorf("limit %d, names %v, cursor %+v: %s, want %s", x.limit, x.names, x.cursor, got, x.want)
		}
	}
	got := ask[*kmsg.DescribeTopicPartitionsResponse](c, partitionsRequest(10, "b"), 0).Topics[0]
	wantCode(t, "topic", got.ErrorCode, nil)
	if got.TopicID != topic.ID || got.IsInternal || got.AuthorizedOperations != 0x0df8 {
		t.Errorf("topic %+v", got)
	}
	for i, p := range got.Partitions {
		if p.ErrorCode != 0 || p.LeaderID != 7 || p.LeaderEpoch != int32(topic.Partitions[i].LeaderEpoch()) ||
			!slices.Equal(p.Replicas, []int32{7}) || !slices.Equal(p.ISR, []int32{7}) ||
			p.EligibleLeaderReplicas == nil || len(p.EligibleLeaderReplicas)+len(p.LastKnownELR)+len(p.OfflineReplicas) != 0 {
			t.Errorf("partition %+v", p)
		}
	}
}

// TestDescribeTopicPartitionsRefusals gives unknown and bad names their codes, and refuses cursors that
// no answer can have held.
func TestDescribeTopicPartitionsRefusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("a", 3)
	c := r.dial()
	for name, want := range map[string]*kerr.Error{
		"gone": kerr.UnknownTopicOrPartition, "a b": kerr.InvalidTopicException, ".": kerr.InvalidTopicException,
	} {
		got := ask[*kmsg.DescribeTopicPartitionsResponse](c, partitionsRequest(10, name), 0).Topics[0]
		wantCode(t, name, got.ErrorCode, want)
		if unnull(got.Topic) != name || len(got.Partitions) != 0 || got.TopicID != [16]byte{} {
			t.Errorf("%q: %+v", name, got)
		}
	}
	for _, cursor := range []kmsg.DescribeTopicPartitionsRequestCursor{{Topic: "a", Partition: -1}, {Topic: "b"}} {
		req := partitionsRequest(10, "a")
		req.Cursor = &cursor
		resp := ask[*kmsg.DescribeTopicPartitionsResponse](c, req, 0)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 0 || resp.NextCursor != nil {
			t.Fatalf("cursor %+v: %+v", cursor, resp)
		}
		wantCode(t, "cursor", resp.Topics[0].ErrorCode, kerr.InvalidRequest)
	}
}
