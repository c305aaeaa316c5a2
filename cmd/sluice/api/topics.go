package api

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/replica/engine"
)

// Topic is what the data path needs to know of a topic, resolved once per change.
type Topic struct {
	Name       string
	ID         kafkaproto.TopicID
	Internal   bool
	Config     *config.Topic
	Check      batch.Check
	Partitions []*engine.Partition // by number
	Stats      *TopicStats
}

// topicTable is one immutable generation of the topics.
type topicTable struct {
	byName map[string]*Topic
	byID   map[kafkaproto.TopicID]*Topic
}

// PublishTopics swaps in the topics of an image; the node calls it when the image or a
// configuration changed and the engine has the partitions open. Statistics of a topic live on as
// long as its id does.
func (b *Broker) PublishTopics(img *meta.Image) {
	old := b.topics.Load()
	next := &topicTable{
		byName: make(map[string]*Topic, img.TopicCount()),
		byID:   make(map[kafkaproto.TopicID]*Topic, img.TopicCount()),
	}
	for t := range img.Topics() {
		nt := &Topic{Name: t.Name, ID: t.ID, Internal: t.Internal, Config: t.Settings(b.Config)}
		nt.Check = checkOf(nt.Config)
		if old != nil && old.byID[t.ID] != nil {
			nt.Stats = old.byID[t.ID].Stats
		} else {
			nt.Stats = &TopicStats{}
		}
		nt.Partitions = make([]*engine.Partition, len(t.Partitions))
		for i := range t.Partitions {
			id := kafkaproto.PartitionID{Topic: t.ID, Partition: int32(i)}
			nt.Partitions[i] = b.Engine.ByID(id)
		}
		next.byName[t.Name] = nt
		next.byID[t.ID] = nt
	}
	b.topics.Store(next)
}

// Topics lists the topics of the current generation, for the admin surface.
func (b *Broker) Topics() map[string]*Topic {
	if t := b.topics.Load(); t != nil {
		return t.byName
	}
	return nil
}

// topic finds a topic by name, or by id when the request's version names topics so.
func (b *Broker) topic(name string, id kafkaproto.TopicID, byID bool) (*Topic, error) {
	t := b.topics.Load()
	if byID {
		if t != nil {
			if found := t.byID[id]; found != nil {
				return found, nil
			}
		}
		return nil, kerr.UnknownTopicID
	}
	if t != nil {
		if found := t.byName[name]; found != nil {
			return found, nil
		}
	}
	return nil, kerr.UnknownTopicOrPartition
}

// partition finds a partition that this broker leads.
func (t *Topic) partition(n int32) (*engine.Partition, error) {
	if n < 0 || int(n) >= len(t.Partitions) {
		return nil, kerr.UnknownTopicOrPartition
	}
	if p := t.Partitions[n]; p != nil && p.Leadership().Leading {
		return p, nil
	}
	return nil, kafkaproto.Faultf(kerr.NotLeaderForPartition, "this broker does not lead %s-%d", t.Name, n)
}

// checkOf is what a topic's settings demand of a produced batch; time and version are filled in
// for each request.
func checkOf(c *config.Topic) batch.Check {
	k := batch.Check{
		MaxBytes: c.MaxMessageBytes, SegmentBytes: c.SegmentBytes, Compacted: c.Compact,
		BeforeMaxMs: c.TimestampBeforeMax, AfterMaxMs: c.TimestampAfterMax,
		Compression: batch.CompressionPolicy{Producer: true},
	}
	if c.TimestampType == config.LogAppendTime {
		k.TimestampType = batch.LogAppendTime
	}
	if codec, ok := codecs[c.CompressionType]; ok {
		k.Compression = batch.CompressionPolicy{Codec: codec, Level: c.CompressionLevel}
	}
	return k
}

// codecs are the values of compression.type other than "producer".
var codecs = map[string]batch.Codec{
	"uncompressed": batch.None, "gzip": batch.Gzip, "snappy": batch.Snappy, "lz4": batch.LZ4,
	"zstd": batch.Zstd,
}
