package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/replica/engine"
)

// The special timestamps of ListOffsets (row 36).
const (
	listLatest         = -1
	listEarliest       = -2
	listMaxTimestamp   = -3
	listEarliestLocal  = -4
	listLastTiered     = -5
	listEarliestUpload = -6
)

// listSince says from which version on a special timestamp may be asked.
var listSince = map[int64]int16{
	listMaxTimestamp: 7, listEarliestLocal: 8, listLastTiered: 9, listEarliestUpload: 11,
}

// listOffsets answers key 2, versions 1 to 11: the offset at a time, or a special one, exact to
// the record.
//
// v2 brings isolation, v4 leader epochs, v6 is flexible; v7, v8, v9 and v11 each bring a special
// timestamp. ACL: Describe Topic.
func (b *Broker) listOffsets(r *Request) {
	req := r.Body.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	asked := make(map[kafkaproto.TopicPartition]int)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			asked[kafkaproto.TopicPartition{Topic: t.Topic, Partition: p.Partition}]++
		}
	}
	for _, t := range req.Topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.Topic
		topic, terr := b.topic(t.Topic, kafkaproto.TopicID{}, false)
		for _, p := range t.Partitions {
			tp := kafkaproto.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			if asked[tp] == 0 {
				continue // asked more than once, and answered
			}
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.Timestamp, rp.LeaderEpoch = p.Partition, -1, -1, -1
			err := terr
			if asked[tp] > 1 {
				err = kerr.InvalidRequest
				asked[tp] = 0
			}
			if err == nil {
				err = b.listOne(&rp, topic, p, engine.Isolation(req.IsolationLevel), r.Version)
			}
			rp.ErrorCode = kafkaproto.Code(err)
			rt.Partitions = append(rt.Partitions, rp)
		}
		if len(rt.Partitions) > 0 || len(t.Partitions) == 0 {
			resp.Topics = append(resp.Topics, rt)
		}
	}
	r.Respond(resp)
}

func (b *Broker) listOne(
	rp *kmsg.ListOffsetsResponseTopicPartition, t *Topic,
	ask kmsg.ListOffsetsRequestTopicPartition, iso engine.Isolation, version int16,
) error {
	p, err := t.partition(ask.Partition)
	if err != nil {
		return err
	}
	if iso != engine.ReadUncommitted && iso != engine.ReadCommitted {
		return kerr.InvalidRequest
	}
	if since, special := listSince[ask.Timestamp]; special && version < since || ask.Timestamp < listEarliestUpload {
		return kerr.UnsupportedVersion
	}
	if err := p.CheckEpoch(kafkaproto.LeaderEpoch(ask.CurrentLeaderEpoch)); err != nil {
		return err
	}
	if err := p.Offline(); err != nil {
		return err
	}
	if !p.Leadership().Ready { // its high watermark may trail what the leader before it has shown (KIP-207)
		if version < 5 {
			return kerr.LeaderNotAvailable
		}
		return kerr.OffsetNotAvailable
	}
	switch ask.Timestamp {
	case listLatest:
		rp.Offset, rp.LeaderEpoch = int64(p.Limit(iso)), int32(p.LeaderEpoch())
	case listEarliest, listEarliestLocal:
		rp.Offset = int64(p.LogStart())
		rp.LeaderEpoch = int32(p.Log().EpochOf(p.LogStart()))
	case listLastTiered, listEarliestUpload:
		// Nothing is tiered: both answer -1 (row 36).
	case listMaxTimestamp:
		found, err := p.MaxTimestamp(iso)
		if err != nil {
			return err
		}
		if found.Found {
			rp.Offset, rp.Timestamp, rp.LeaderEpoch = int64(found.Offset), found.Timestamp, int32(found.Epoch)
		}
	default:
		found, err := p.OffsetForTime(ask.Timestamp, iso)
		if err != nil {
			return err
		}
		if found.Found {
			rp.Offset, rp.Timestamp, rp.LeaderEpoch = int64(found.Offset), found.Timestamp, int32(found.Epoch)
		}
	}
	return nil
}
