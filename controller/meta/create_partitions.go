package meta

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// createPartitions follows Kafka's checks and their order (kafka-protocol.md row 45). Topics that
// stand there twice get one row.
func (e *execution) createPartitions(c CreatePartitions) Result {
	copies := make(map[string]int, len(c.Topics))
	for _, g := range c.Topics {
		copies[g.Name]++
	}
	var res CreatePartitionsResult
	added := 0
	for _, g := range c.Topics {
		row := GrownTopic{Name: g.Name}
		switch {
		case copies[g.Name] == 0:
			continue // has its row
		case copies[g.Name] > 1:
			copies[g.Name] = 0
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest, "Duplicate topic name.")
		default:
			record, err := e.grow(g, &added)
			if row.Err = err; err == nil && !c.ValidateOnly {
				e.emit(record)
			}
		}
		res.Topics = append(res.Topics, row)
	}
	return res
}

// grow makes the record of one topic's new partitions; added counts those of the whole command.
func (e *execution) grow(g GrowTopic, added *int) (partitionsRecord, error) {
	t := e.image.Topic(g.Name)
	if t == nil {
		return partitionsRecord{}, kerr.UnknownTopicOrPartition
	}
	have := len(t.Partitions)
	r := partitionsRecord{ID: id(t.ID), Version: t.Version + 1, First: int32(have)}
	more := int(g.Count) - have
	switch {
	case more == 0:
		return r, kafkaproto.Faultf(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case more < 0:
		return r, kafkaproto.Faultf(kerr.InvalidPartitions, "The topic %s currently has %d "+
			"partition(s); %d would not be an increase.", g.Name, have, g.Count)
	case more > MaxPartitionsPerCommand-*added:
		return r, kafkaproto.Faultf(kerr.PolicyViolation,
			"Excessively large number of additional partitions per request.")
	}
	factor := len(t.Partitions[0].Target())
	if g.Assignment != nil {
		if len(g.Assignment) != more {
			return r, kafkaproto.Faultf(kerr.InvalidReplicaAssignment, "Attempted to add %d "+
				"additional partition(s), but only %d assignment(s) were specified.", more,
				len(g.Assignment))
		}
		for n, brokers := range g.Assignment {
			if err := e.checkReplicas(brokers, factor); err != nil {
				return r, err
			}
			if err := e.checkActive(have+n, brokers); err != nil {
				return r, err
			}
			r.Partitions = append(r.Partitions, newPartition(brokers))
		}
	} else {
		var err error
		if r.Partitions, err = e.place(t.Name, targets(t), more, factor); err != nil {
			return r, kafkaproto.Faultf(kerr.InvalidReplicationFactor,
				"Unable to replicate the partition %d time(s): %s", factor, err)
		}
	}
	*added += more
	return r, nil
}
