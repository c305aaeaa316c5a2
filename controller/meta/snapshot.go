package meta

import (
	"maps"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Snapshot gives the records that make this image out of an empty one, in a fixed order.
func (i *Image) Snapshot() []Record {
	records := make([]Record, 0, i.TopicCount()+len(i.nodes)+len(i.features)+4)
	if i.clusterID != "" {
		records = append(records, clusterRecord{ClusterID: i.clusterID})
	}
	for _, f := range i.allFeatures {
		records = append(records, featureRecord{f})
	}
	for _, n := range i.nodes {
		records = append(records, nodeRecord{*n})
	}
	for _, d := range i.departed {
		records = append(records, unregisterRecord{ID: d.id, Directory: d.directory})
	}
	for _, name := range slices.Sorted(maps.Keys(i.brokers)) {
		c := i.brokers[name]
		records = append(records, brokerConfigRecord{Broker: name, Version: c.version, Set: c.values})
	}
	for t := range i.Topics() {
		records = append(records, topicRecord{
			Name: t.Name, ID: id(t.ID), Version: t.Version, Partitions: t.Partitions, Config: t.Config,
		})
	}
	if i.nextProducer > 0 {
		records = append(records, producerIDsRecord{Broker: -1, Next: i.nextProducer})
	}
	return append(records, imageRecord{
		Version: i.version, FeaturesEpoch: i.featuresEpoch, NextNode: i.nextNode,
	})
}

// Load makes the image that Snapshot gave the records of.
func Load(records []Record) (*Image, error) {
	if len(records) == 0 {
		return nil, kafkaproto.Corruptf("a metadata snapshot without records")
	}
	if _, ok := records[len(records)-1].(imageRecord); !ok {
		return nil, kafkaproto.Corruptf("a metadata snapshot without its last record")
	}
	return Empty().Apply(records...)
}
