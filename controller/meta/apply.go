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

func (r featureRecord) apply(i *Image) error {
	if r.Name == "" || r.Level < 0 {
		return fmt.Errorf("feature %.60q at level %d", r.Name, r.Level)
	}
	i.setFeature(r.Feature)
	i.featuresEpoch = i.version
	return nil
}

func (r nodeRecord) apply(i *Image) error {
	if r.ID < 0 {
		return fmt.Errorf("broker id %d", r.ID)
	}
	node := r.Node
	at, ok := i.nodeAt(r.ID)
	next := slices.Clone(i.nodes)
	if ok {
		next[at] = &node
	} else {
		next = slices.Insert(next, at, &node)
	}
	i.nodes = next
	return nil
}

// check refuses what no command makes.
func (r replicas) check() error {
	for p, brokers := range r {
		if len(brokers) == 0 {
			return fmt.Errorf("partition %d of the record has no replica", p)
		}
		for at, b := range brokers {
			if b < 0 || slices.Contains(brokers[:at], b) {
				return fmt.Errorf("partition %d of the record has replica %d", p, b)
			}
		}
	}
	return nil
}

// appendTo gives the partitions with those of the record behind them.
func (r replicas) appendTo(partitions []Partition) []Partition {
	next := make([]Partition, 0, len(partitions)+len(r))
	next = append(next, partitions...)
	for _, brokers := range r {
		next = append(next, Partition{Replicas: brokers})
	}
	return next
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
	i.putTopic(&Topic{
		Name: r.Name, ID: tid, Version: r.Version, Config: r.Config,
		Internal: IsInternal(r.Name), Partitions: r.Partitions.appendTo(nil),
	})
	if collides(r.Name) {
		names, _ := i.byFold.Get(folded(r.Name))
		i.byFold = i.byFold.Set(folded(r.Name), append(slices.Clone(names), r.Name))
	}
	return nil
}

func (i *Image) putTopic(t *Topic) {
	i.byName = i.byName.Set(t.Name, t)
	i.byID = i.byID.Set(t.ID, t)
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
	i.putTopic(&Topic{
		Name: t.Name, ID: t.ID, Version: r.Version, Config: t.Config, Internal: t.Internal,
		Partitions: r.Partitions.appendTo(t.Partitions),
	})
	return nil
}

func (r topicConfigRecord) apply(i *Image) error {
	t, err := i.changeable(r.ID, r.Version)
	if err != nil {
		return err
	}
	i.putTopic(&Topic{
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
	if r.Version < 0 || r.FeaturesEpoch < -1 || r.FeaturesEpoch > r.Version {
		return fmt.Errorf("image version %d, features epoch %d", r.Version, r.FeaturesEpoch)
	}
	i.version = r.Version - 1 // the record itself is not counted
	i.featuresEpoch = r.FeaturesEpoch
	return nil
}
