package meta

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/placement"
	"github.com/sluicelog/sluice/kafkaproto"
)

// MaxPartitionsPerCommand bounds the partitions that one command makes, as Kafka does.
const MaxPartitionsPerCommand = 10_000

// createTopics follows Kafka's checks and their order (kafka-protocol.md row 43).
func (e *execution) createTopics(c CreateTopics) (Result, error) {
	copies := make(map[string]int, len(c.Topics))
	for _, t := range c.Topics {
		copies[t.Name]++
	}
	tooMany := e.askedPartitions(c) > MaxPartitionsPerCommand
	var res CreateTopicsResult
	for _, t := range c.Topics {
		row := CreatedTopic{Name: t.Name, Partitions: -1, Replication: -1}
		switch {
		case copies[t.Name] == 0:
			continue // the one row of a name that stands there twice is out
		case copies[t.Name] > 1:
			copies[t.Name] = 0
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest, "Duplicate topic name.")
		case tooMany:
			row.Err = kafkaproto.Faultf(kerr.PolicyViolation,
				"Excessively large number of partitions per request.")
		default:
			record, err := e.newTopic(t, c.Internal)
			if err == nil {
				record.ID, err = e.drawID()
				if err != nil {
					return nil, err // the source of randomness failed
				}
				row.ID, row.Config = kafkaproto.TopicID(record.ID), record.Config
				row.Partitions = int32(len(record.Partitions))
				row.Replication = int16(len(record.Partitions[0].Replicas))
				if !c.ValidateOnly {
					e.emit(record)
				}
			}
			row.Err = err
		}
		res.Topics = append(res.Topics, row)
	}
	return res, nil
}

// drawID draws a topic id. With a working source of randomness none comes twice.
func (e *execution) drawID() (id, error) {
	drawn, err := kafkaproto.NewTopicID(e.env.Random)
	if err == nil && e.image.TopicByID(drawn) != nil {
		err = fmt.Errorf("topic id %s was drawn twice", drawn)
	}
	return id(drawn), err
}

func (e *execution) askedPartitions(c CreateTopics) int64 {
	var sum int64
	for _, t := range c.Topics {
		switch {
		case len(t.Assignment) > 0:
			sum += int64(len(t.Assignment))
		case t.Partitions == -1:
			sum += e.number("num.partitions")
		case t.Partitions > 0:
			sum += int64(t.Partitions)
		}
	}
	return sum
}

// newTopic makes a topic's record, still without an id.
func (e *execution) newTopic(t NewTopic, internal bool) (topicRecord, error) {
	r := topicRecord{Name: t.Name, Version: 1}
	if err := e.checkNewName(t.Name); err != nil {
		return r, err
	}
	var err error
	if r.Config, err = e.newConfig(t.Config); err != nil {
		return r, err
	}
	if len(t.Assignment) > 0 {
		r.Partitions, err = e.assigned(t)
		return r, err
	}
	replication, err := e.replication(t, internal)
	if err != nil {
		return r, err
	}
	partitions := int64(t.Partitions)
	if partitions == -1 {
		partitions = e.number("num.partitions")
	}
	if partitions < 1 {
		return r, kafkaproto.Faultf(kerr.InvalidPartitions,
			"Number of partitions was set to an invalid non-positive value.")
	}
	r.Partitions, err = e.place(t.Name, nil, int(partitions), replication)
	if err != nil {
		return r, kafkaproto.Faultf(kerr.InvalidReplicationFactor,
			"Unable to replicate the partition %d time(s): %s", replication, err)
	}
	return r, nil
}

func (e *execution) checkNewName(name string) error {
	if err := CheckTopicName(name); err != nil {
		return err
	}
	if name == ClusterMetadata {
		return kafkaproto.Faultf(kerr.InvalidRequest,
			"Creation of internal topic __cluster_metadata is prohibited.")
	}
	if e.image.Topic(name) != nil {
		return kafkaproto.Faultf(kerr.TopicAlreadyExists, "Topic '%s' already exists.", name)
	}
	if others, ok := e.image.byFold.Get(folded(name)); ok && collides(name) {
		return kafkaproto.Faultf(kerr.InvalidTopicException,
			"Topic '%s' collides with existing topic: %s", name, strings.Join(others, ", "))
	}
	return nil
}

// newConfig checks a new topic's settings. A key given twice keeps its last value.
func (e *execution) newConfig(values []ConfigValue) (map[string]string, error) {
	var null []string
	for _, v := range values {
		if v.Value == nil {
			null = append(null, v.Name)
		}
	}
	if len(null) > 0 {
		return nil, kafkaproto.Faultf(kerr.InvalidConfig,
			"Null value not supported for topic configs: %s", strings.Join(null, ","))
	}
	if len(values) == 0 {
		return nil, nil
	}
	overrides := make(map[string]string, len(values))
	for _, v := range values {
		overrides[v.Name] = *v.Value
	}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		canonical, err := config.CanonicalTopic(name, overrides[name])
		if err != nil {
			return nil, err
		}
		overrides[name] = canonical
	}
	return overrides, e.layers.ValidateTopic(overrides)
}

// replication is how many replicas a topic gets that is not assigned by hand. A cluster of one
// broker makes one replica of a topic that asks for the default, whatever the default is. How many
// there can be is for place to say.
func (e *execution) replication(t NewTopic, internal bool) (int, error) {
	want := int(t.Replication)
	if want < -1 || want == 0 {
		return 0, kafkaproto.Faultf(kerr.InvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value.")
	}
	if want == -1 {
		want = int(e.number("default.replication.factor"))
		if len(e.image.nodes) == 1 {
			want = 1
		}
	}
	if internal {
		if want = min(want, internalReplicas); want < internalReplicas || len(e.usable()) < internalReplicas {
			want = 1
		}
	}
	if want < 1 {
		return 0, kafkaproto.Faultf(kerr.InvalidReplicationFactor,
			"default.replication.factor is %d", want)
	}
	return want, nil
}

// place chooses brokers for new partitions of a topic that has some; the error is Kafka's sentence
// alone.
func (e *execution) place(
	topic string, have [][]kafkaproto.NodeID, count, replication int,
) (partitions, error) {
	brokers := e.image.candidates(e.env.Bytes)
	fenced, active := 0, 0
	for _, n := range e.image.nodes {
		if n.Fenced {
			fenced++
		}
		if n.Active() {
			active++
		}
	}
	switch {
	case len(brokers) == 0:
		return nil, errors.New("no broker is registered.")
	case fenced == len(brokers):
		return nil, errors.New("All brokers are currently fenced.")
	case replication > len(brokers):
		return nil, fmt.Errorf("The target replication factor of %d cannot be reached because only "+
			"%d broker(s) are registered.", replication, len(brokers))
	case active == 0:
		return nil, errors.New("All brokers are currently fenced or in controlled shutdown.")
	}
	made := make(partitions, count)
	for n, replicas := range placement.Place(brokers, placement.Request{
		Topic: topic, Have: have, Count: count, Replication: replication,
	}) {
		made[n] = newPartition(replicas)
	}
	return made, nil
}

// assigned checks an assignment by hand.
func (e *execution) assigned(t NewTopic) (partitions, error) {
	if t.Replication != -1 {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "A manual partition assignment was "+
			"specified, but replication factor was not set to -1.")
	}
	if t.Partitions != -1 {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "A manual partition assignment was "+
			"specified, but numPartitions was not set to -1.")
	}
	all := make(map[int32][]kafkaproto.NodeID, len(t.Assignment))
	factor := 0
	for _, a := range t.Assignment {
		if _, ok := all[a.Partition]; ok {
			return nil, kafkaproto.Faultf(kerr.InvalidReplicaAssignment,
				"Found multiple manual partition assignments for partition %d", a.Partition)
		}
		if err := e.checkReplicas(a.Replicas, factor); err != nil {
			return nil, err
		}
		all[a.Partition], factor = slices.Clone(a.Replicas), len(a.Replicas)
	}
	made := make(partitions, len(all))
	for p := range made {
		brokers, ok := all[int32(p)]
		if !ok {
			return nil, kafkaproto.Faultf(kerr.InvalidReplicaAssignment,
				"partitions should be a consecutive 0-based integer sequence")
		}
		if err := e.checkActive(p, brokers); err != nil {
			return nil, err
		}
		made[p] = newPartition(brokers)
	}
	return made, nil
}

// checkActive refuses a partition by hand that would have no leader.
func (e *execution) checkActive(partition int, brokers []kafkaproto.NodeID) error {
	for _, b := range brokers {
		if e.image.Node(b).Active() {
			return nil
		}
	}
	return kafkaproto.Faultf(kerr.InvalidReplicaAssignment, "All brokers specified in the manual "+
		"partition assignment for partition %d are fenced or in controlled shutdown.", partition)
}

// checkReplicas checks one partition's replicas by hand; factor 0 means any number of them.
func (e *execution) checkReplicas(brokers []kafkaproto.NodeID, factor int) error {
	if len(brokers) == 0 {
		return kafkaproto.Faultf(kerr.InvalidReplicaAssignment,
			"The manual partition assignment includes an empty replica list.")
	}
	for at, b := range brokers {
		if e.image.Node(b) == nil {
			return kafkaproto.Faultf(kerr.InvalidReplicaAssignment, "The manual partition "+
				"assignment includes broker %d, but no such broker is registered.", b)
		}
		if slices.Contains(brokers[:at], b) {
			return kafkaproto.Faultf(kerr.InvalidReplicaAssignment, "The manual partition "+
				"assignment includes the broker %d more than once.", b)
		}
	}
	if factor != 0 && len(brokers) != factor {
		return kafkaproto.Faultf(kerr.InvalidReplicaAssignment, "The manual partition assignment "+
			"includes a partition with %d replica(s), but this is not consistent with previous "+
			"partitions, which have %d replica(s).", len(brokers), factor)
	}
	return nil
}
