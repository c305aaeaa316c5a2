package group

import (
	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// ImageTopics gives the topics of an image.
func ImageTopics(img *meta.Image) Topics { return imageTopics{img} }

type imageTopics struct{ img *meta.Image }

// Topic implements Topics.
func (i imageTopics) Topic(name string) (kafkaproto.TopicID, int32, bool) {
	t := i.img.Topic(name)
	if t == nil {
		return kafkaproto.TopicID{}, 0, false
	}
	return t.ID, int32(len(t.Partitions)), true
}

// TopicName implements Topics.
func (i imageTopics) TopicName(id kafkaproto.TopicID) (string, bool) {
	t := i.img.TopicByID(id)
	if t == nil {
		return "", false
	}
	return t.Name, true
}

// ImageChanged removes the offsets of topics that the newer image has deleted. It does not wait.
func (s *Service) ImageChanged(old, new *meta.Image) {
	for _, c := range meta.TopicChanges(old, new) {
		if c.New == nil {
			s.TopicDeleted(c.Old.Name, c.Old.ID)
		}
	}
}

// ConfigOf is the operator's configuration.
func ConfigOf(b *config.Broker) Config {
	c := DefaultConfig()
	c.MinSessionMs = int32(b.Group.MinSession.Milliseconds())
	c.MaxSessionMs = int32(b.Group.MaxSession.Milliseconds())
	c.InitialDelayMs = int32(b.Group.InitialDelay.Milliseconds())
	c.MaxSize = b.Group.MaxSize
	c.OffsetRetentionMs = b.Offsets.Retention.Milliseconds()
	c.RetentionCheckMs = b.Offsets.RetentionInterval.Milliseconds()
	c.MaxMetadataBytes = b.Offsets.MetadataMaxBytes
	c.CommitTimeoutMs = b.Offsets.CommitTimeout.Milliseconds()
	return c
}
