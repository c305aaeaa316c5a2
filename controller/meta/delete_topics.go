package meta

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// deleteTopics follows Kafka's checks and their order (kafka-protocol.md row 44). References that
// stand there twice get one row.
func (e *execution) deleteTopics(c DeleteTopics) Result {
	copies := make(map[TopicRef]int, len(c.Topics))
	for _, ref := range c.Topics {
		copies[ref]++
	}
	twice := e.namedTwice(c.Topics, copies)
	var res DeleteTopicsResult
	for _, ref := range c.Topics {
		row := DeletedTopic{Name: ref.Name, ID: ref.ID}
		t, err := e.find(ref)
		switch {
		case copies[ref] == 0:
			continue // has its row
		case ref.Name != "" && !ref.ID.IsZero():
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest,
				"You may not specify both topic name and topic id.")
		case ref == TopicRef{}:
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest, "Neither topic name nor id were specified.")
		case copies[ref] > 1 && ref.Name != "":
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest, "Duplicate topic name.")
		case copies[ref] > 1:
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest, "Duplicate topic id.")
		case t != nil && twice[t.ID]:
			if ref.Name == "" {
				continue // the row of the name tells of both
			}
			row.ID = t.ID
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest,
				"The provided topic name maps to an ID that was already supplied.")
		case err != nil:
			row.Err = err
		case !e.layers.BrokerFlag("delete.topic.enable"):
			row.Err = kafkaproto.Faultf(kerr.TopicDeletionDisabled, "delete.topic.enable is false")
		default:
			row.Name, row.ID = t.Name, t.ID
			e.emit(removeTopicRecord{ID: id(t.ID), Version: t.Version + 1})
		}
		copies[ref] = 0
		res.Topics = append(res.Topics, row)
	}
	return res
}

// namedTwice finds the topics that are referred to by name and, separately, by id.
func (e *execution) namedTwice(
	refs []TopicRef, copies map[TopicRef]int,
) map[kafkaproto.TopicID]bool {
	twice := make(map[kafkaproto.TopicID]bool)
	for _, ref := range refs {
		if ref.Name == "" || !ref.ID.IsZero() {
			continue
		}
		if t := e.image.Topic(ref.Name); t != nil && copies[TopicRef{ID: t.ID}] > 0 {
			twice[t.ID] = true
		}
	}
	return twice
}

func (e *execution) find(ref TopicRef) (*Topic, error) {
	if !ref.ID.IsZero() {
		if t := e.image.TopicByID(ref.ID); t != nil {
			return t, nil
		}
		return nil, kafkaproto.Faultf(kerr.UnknownTopicID, "This server does not host this topic ID.")
	}
	if t := e.image.Topic(ref.Name); t != nil {
		return t, nil
	}
	return nil, kafkaproto.Faultf(kerr.UnknownTopicOrPartition,
		"This server does not host this topic-partition.")
}
