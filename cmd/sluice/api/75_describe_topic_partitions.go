package api

import (
	"sort"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
)

// maxDescribedPartitions is max.request.partition.size.limit: no answer names more partitions.
const maxDescribedPartitions = 2000

// describeTopicPartitions answers key 75, version 0: topics in the order of their names, in pages
// of partitions with a cursor to go on from (KIP-966). ACL: Describe Topic.
func (b *Broker) describeTopicPartitions(r *Request) {
	req := r.Body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	img := b.Controller.Image()
	names := describedNames(img, req)
	from := int32(0)
	if c := req.Cursor; c != nil {
		i := sort.SearchStrings(names, c.Topic)
		there := i < len(names) && names[i] == c.Topic
		if c.Partition < 0 || !there && len(req.Topics) > 0 {
			r.Respond(refusedCursor(names))
			return
		}
		names = names[i:]
		if there {
			from = c.Partition
		}
	}
	left := max(1, min(int(req.ResponsePartitionLimit), maxDescribedPartitions))
	for _, name := range names {
		if left <= 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: 0}
			break
		}
		rt, next := b.describedTopic(img, name, from, left)
		left -= len(rt.Partitions)
		from = 0
		resp.Topics = append(resp.Topics, rt)
		if next >= 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: next}
			break
		}
	}
	r.Respond(resp)
}

// refusedCursor answers a cursor that no answer of ours can have held.
func refusedCursor(names []string) *kmsg.DescribeTopicPartitionsResponse {
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for _, name := range names {
		rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
		rt.Topic, rt.ErrorCode, rt.AuthorizedOperations = &name, kerr.InvalidRequest.Code, notAsked
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// describedNames lists the topics asked for, sorted, each once; none named means all.
func describedNames(img *meta.Image, req *kmsg.DescribeTopicPartitionsRequest) []string {
	set := make(map[string]bool)
	for _, t := range req.Topics {
		set[t.Topic] = true
	}
	if len(req.Topics) == 0 {
		for t := range img.Topics() {
			set[t.Name] = true
		}
	}
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// describedTopic gives a topic's partitions from a number on, at most limit, and the number to go
// on from, -1 at the end.
func (b *Broker) describedTopic(
	img *meta.Image, name string, from int32, limit int,
) (kmsg.DescribeTopicPartitionsResponseTopic, int32) {
	rt := kmsg.NewDescribeTopicPartitionsResponseTopic()
	rt.Topic, rt.AuthorizedOperations = &name, topicOperations
	t := img.Topic(name)
	if t == nil {
		rt.ErrorCode = kerr.UnknownTopicOrPartition.Code
		if meta.CheckTopicName(name) != nil {
			rt.ErrorCode = kerr.InvalidTopicException.Code
		}
		return rt, -1
	}
	rt.TopicID, rt.IsInternal = t.ID, t.Internal
	for n := from; int(n) < len(t.Partitions); n++ {
		if len(rt.Partitions) == limit {
			return rt, n
		}
		st := b.partitionState(t, n)
		rp := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		rp.Partition, rp.ErrorCode, rp.LeaderID, rp.LeaderEpoch = n, st.code, st.leader, st.epoch
		rp.Replicas, rp.ISR, rp.OfflineReplicas = st.replicas, st.isr, st.offline
		rp.EligibleLeaderReplicas = []int32{}
		rp.LastKnownELR = []int32{}
		rt.Partitions = append(rt.Partitions, rp)
	}
	return rt, -1
}
