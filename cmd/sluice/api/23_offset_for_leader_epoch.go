package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// offsetForLeaderEpoch answers key 23, versions 2 to 4: where an epoch ended in our log, so that a
// client can tell whether what it read is still there (KIP-320, row 34). ACL: Describe Topic.
func (b *Broker) offsetForLeaderEpoch(r *Request) {
	req := r.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		topic, terr := b.topic(t.Topic, kafkaproto.TopicID{}, false)
		for _, ask := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = ask.Partition, -1, -1
			err := terr
			if err == nil {
				err = epochEndOf(&rp, topic, ask)
			}
			rp.ErrorCode = kafkaproto.Code(err)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	r.Respond(resp)
}

func epochEndOf(
	rp *kmsg.OffsetForLeaderEpochResponseTopicPartition, t *Topic,
	ask kmsg.OffsetForLeaderEpochRequestTopicPartition,
) error {
	p, err := t.partition(ask.Partition)
	if err != nil {
		return err
	}
	if err := p.CheckEpoch(kafkaproto.LeaderEpoch(ask.CurrentLeaderEpoch)); err != nil {
		return err
	}
	if err := p.Offline(); err != nil {
		return err
	}
	epoch, end := p.EpochEnd(kafkaproto.LeaderEpoch(ask.LeaderEpoch))
	rp.LeaderEpoch, rp.EndOffset = int32(epoch), int64(end)
	return nil
}
