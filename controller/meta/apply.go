package meta

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Apply gives the image after the records. The error is marked corrupt: records that a command made
// always apply to the image it saw.
func (i *Image) Apply(records ...Record) (*Image, error) {
	next := *i
	for _, r := range records {
		if err := r.apply(&next); err != nil {
			name, _ := r.form()
			return nil, kafkaproto.Corruptf("metadata version %d: %s: %w", next.version, name, err)
		}
		next.version++
	}
	return &next, nil
}

func (r clusterRecord) apply(i *Image) error {
	if _, err := kafkaproto.ParseTopicID(r.ClusterID); err != nil {
		return fmt.Errorf("cluster id %.60q is not 22 characters of URL-safe base64", r.ClusterID)
	}
	if i.clusterID != "" {
		return fmt.Errorf("cluster %s is named %s", i.clusterID, r.ClusterID)
	}
	i.clusterID = r.ClusterID
	return nil
}

// check refuses what no command makes.
func (r partitions) check() error {
	for n, p := range r {
		if err := p.check(); err != nil {
			return fmt.Errorf("partition %d of the record: %w", n, err)
		}
	}
	return nil
}

func (r topicRecord) apply(i *Image) error {
	tid := kafkaproto.TopicID(r.ID)
	switch {
	case CheckTopicName(r.Name) != nil || r.Name == ClusterMetadata:
		return fmt.Errorf("topic name %.260q", r.Name)
	case tid.IsZero() || i.TopicByID(tid) != nil || i.Topic(r.Name) != nil:
		return fmt.Errorf("topic %s with id %s is there already", r.Name, tid)
	case r.Version < 1 || len(r.Partitions) == 0:
		return fmt.Errorf("topic %s at version %d with %d partitions", r.Name, r.Version,
			len(r.Partitions))
	}
	if err := r.Partitions.check(); err != nil {
		return err
	}
	i.putTopic(nil, &Topic{
		Name: r.Name, ID: tid, Version: r.Version, Config: r.Config,
		Internal: IsInternal(r.Name), Partitions: r.Partitions,
	})
	if collides(r.Name) {
		names, _ := i.byFold.Get(folded(r.Name))
		i.byFold = i.byFold.Set(folded(r.Name), append(slices.Clone(names), r.Name))
	}
	return nil
}

// changeable finds the topic that a record changes, if the record is the next change of it (M3).
func (i *Image) changeable(tid id, version int64) (*Topic, error) {
	t := i.TopicByID(kafkaproto.TopicID(tid))
	if t == nil {
		return nil, fmt.Errorf("no topic has id %s", kafkaproto.TopicID(tid))
	}
	if version != t.Version+1 {
		return nil, fmt.Errorf("topic %s is at version %d, the record makes %d", t.Name, t.Version,
			version)
	}
	return t, nil
}

func (r partitionsRecord) apply(i *Image) error {
	t, err := i.changeable(r.ID, r.Version)
	if err != nil {
		return err
	}
	if int(r.First) != len(t.Partitions) || len(r.Partitions) == 0 {
		return fmt.Errorf("topic %s has %d partitions, the record adds %d from %d on", t.Name,
			len(t.Partitions), len(r.Partitions), r.First)
	}
	if err := r.Partitions.check(); err != nil {
		return err
	}
	i.putTopic(t, &Topic{
		Name: t.Name, ID: t.ID, Version: r.Version, Config: t.Config, Internal: t.Internal,
		Partitions: slices.Concat(t.Partitions, r.Partitions),
	})
	return nil
}

func (r partitionChangeRecord) apply(i *Image) error {
	t := i.TopicByID(kafkaproto.TopicID(r.ID))
	if t == nil {
		return fmt.Errorf("no topic has id %s", kafkaproto.TopicID(r.ID))
	}
	next := slices.Clone(t.Partitions)
	for _, c := range r.Partitions {
		if c.Number < 0 || int(c.Number) >= len(next) {
			return fmt.Errorf("topic %s has %d partitions, the record changes %d", t.Name, len(next), c.Number)
		}
		if err := next[c.Number].follows(c.State); err != nil {
			return fmt.Errorf("topic %s, partition %d: %w", t.Name, c.Number, err)
		}
		next[c.Number] = c.State
	}
	i.putTopic(t, &Topic{
		Name: t.Name, ID: t.ID, Version: t.Version, Config: t.Config, Internal: t.Internal,
		Partitions: next,
	})
	return nil
}

func (r topicConfigRecord) apply(i *Image) error {
	t, err := i.changeable(r.ID, r.Version)
	if err != nil {
		return err
	}
	i.putTopic(t, &Topic{
		Name: t.Name, ID: t.ID, Version: r.Version, Internal: t.Internal, Partitions: t.Partitions,
		Config: changed(t.Config, r.Set, r.Delete),
	})
	return nil
}

// changed gives a changed copy of settings.
func changed(values, set map[string]string, remove []string) map[string]string {
	next := make(map[string]string, len(values)+len(set))
	maps.Copy(next, values)
	for _, name := range remove {
		delete(next, name)
	}
	maps.Copy(next, set)
	return next
}

func (r removeTopicRecord) apply(i *Image) error {
	t, err := i.changeable(r.ID, r.Version)
	if err != nil {
		return err
	}
	i.byName = i.byName.Delete(t.Name)
	i.byID = i.byID.Delete(t.ID)
	i.count(t, nil)
	if collides(t.Name) {
		names, _ := i.byFold.Get(folded(t.Name))
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == t.Name })
		if i.byFold = i.byFold.Delete(folded(t.Name)); len(names) > 0 {
			i.byFold = i.byFold.Set(folded(t.Name), names)
		}
	}
	return nil
}

func (r brokerConfigRecord) apply(i *Image) error {
	old := i.brokers[r.Broker]
	if old == nil {
		old = &brokerConfig{version: max(r.Version, 1) - 1} // a snapshot holds any version
	}
	if r.Version != old.version+1 {
		return fmt.Errorf("settings of broker %.20q are at version %d, the record makes %d", r.Broker,
			old.version, r.Version)
	}
	next := maps.Clone(i.brokers)
	if next == nil {
		next = make(map[string]*brokerConfig)
	}
	next[r.Broker] = &brokerConfig{version: r.Version, values: changed(old.values, r.Set, r.Delete)}
	i.brokers = next
	return nil
}

func (r producerIDsRecord) apply(i *Image) error {
	if r.Next <= i.nextProducer {
		return fmt.Errorf("producer ids up to %d were given away, the record gives up to %d",
			i.nextProducer, r.Next)
	}
	i.nextProducer = r.Next
	return nil
}

func (r imageRecord) apply(i *Image) error {
	if r.Version < 0 || r.FeaturesEpoch < -1 || r.FeaturesEpoch > r.Version || r.NextNode < 0 {
		return fmt.Errorf("image version %d, features epoch %d, next broker %d", r.Version,
			r.FeaturesEpoch, r.NextNode)
	}
	i.nextNode = max(i.nextNode, r.NextNode)
	i.version = r.Version - 1 // the record itself is not counted
	i.featuresEpoch = r.FeaturesEpoch
	return nil
}
