package api

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// maxDeletingRecords bounds the partitions of one DeleteRecords that are worked on side by side.
const maxDeletingRecords = 256

// deleteRecords answers key 21, versions 0 to 2: moves the log start up, durably, and returns it
// as the low watermark (row 46). It syncs the journal, so it runs off the connection's reader.
// ACL: Delete Topic.
func (b *Broker) deleteRecords(r *Request) {
	b.spawn(func() {
		req := r.Body.(*kmsg.DeleteRecordsRequest)
		resp := kmsg.NewPtrDeleteRecordsResponse()
		var wg sync.WaitGroup
		running := make(chan struct{}, maxDeletingRecords)
		resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
		for i, t := range req.Topics {
			rt := &resp.Topics[i]
			rt.Topic = t.Topic
			rt.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(t.Partitions))
			topic, err := b.topic(t.Topic, kafkaproto.TopicID{}, false)
			if err == nil {
				err = topic.mayDeleteRecords()
			}
			for j, p := range t.Partitions {
				rp := &rt.Partitions[j]
				rp.Partition, rp.LowWatermark = p.Partition, -1
				if err != nil {
					rp.ErrorCode = kafkaproto.Code(err)
					continue
				}
				running <- struct{}{}
				wg.Go(func() { // side by side, so that they share a sync
					defer func() { <-running }()
					low, err := topic.deleteRecords(p)
					rp.LowWatermark, rp.ErrorCode = int64(low), kafkaproto.Code(err)
				})
			}
		}
		wg.Wait()
		r.Respond(resp)
	})
}

// mayDeleteRecords refuses internal topics, and those that keep the last value of every key.
func (t *Topic) mayDeleteRecords() error {
	if t.Internal {
		return kafkaproto.Faultf(kerr.InvalidTopicException, "topic %s is internal", t.Name)
	}
	if t.Config.Compact && !t.Config.Delete {
		return kafkaproto.Faultf(kerr.PolicyViolation,
			"topic %s is compacted and not deleted from (cleanup.policy)", t.Name)
	}
	return nil
}

func (t *Topic) deleteRecords(
	ask kmsg.DeleteRecordsRequestTopicPartition,
) (kafkaproto.Offset, error) {
	p, err := t.partition(ask.Partition)
	if err != nil {
		return -1, err
	}
	return p.DeleteRecords(kafkaproto.Offset(ask.Offset))
}
