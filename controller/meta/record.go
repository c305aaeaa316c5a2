package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Record is one step of the metadata log. The types below are all there are.
type Record interface {
	// form is the record's name and the version of its fields.
	form() (name string, version int)
	// apply changes a private copy of an image.
	apply(i *Image) error
}

// ErrNewerRelease marks records that a newer release wrote: not damage, but not to be read.
var ErrNewerRelease = errors.New("written by a newer release")

// id is a topic id in JSON: its 22 characters.
type id kafkaproto.TopicID

// MarshalText spells the id.
func (i id) MarshalText() ([]byte, error) { return []byte(kafkaproto.TopicID(i).String()), nil }

// UnmarshalText reads the spelling.
func (i *id) UnmarshalText(text []byte) error {
	parsed, err := kafkaproto.ParseTopicID(string(text))
	*i = id(parsed)
	return err
}

// partitions are partitions in order of their numbers.
type partitions []Partition

// partitionChange is a partition's new state.
type partitionChange struct {
	Number int32     `json:"partitionId"`
	State  Partition `json:"state"`
}

type (
	// clusterRecord names the cluster: the first record of a log.
	clusterRecord struct {
		ClusterID string `json:"clusterId"`
	}
	// featureRecord finalizes a level; 0 takes it back.
	featureRecord struct {
		Feature
	}
	// nodeRecord registers a broker, or replaces its registration.
	nodeRecord struct {
		Node
	}
	// brokerChangeRecord changes what is to be thought of a broker; it says all three.
	brokerChangeRecord struct {
		ID       kafkaproto.NodeID `json:"brokerId"`
		Version  int64             `json:"brokerVersion"`
		Fenced   bool              `json:"fenced"`
		Draining bool              `json:"draining"`
		Stopping bool              `json:"inControlledShutdown"`
	}
	// unregisterRecord forgets a broker, but for whose it was. In a snapshot the version is 0.
	unregisterRecord struct {
		ID        kafkaproto.NodeID `json:"brokerId"`
		Version   int64             `json:"brokerVersion"`
		Directory string            `json:"directoryId"`
	}
	// topicRecord makes a topic. In a snapshot it holds the topic's later state.
	topicRecord struct {
		Name       string            `json:"name"`
		ID         id                `json:"topicId"`
		Version    int64             `json:"topicVersion"`
		Partitions partitions        `json:"partitions"`
		Config     map[string]string `json:"config,omitempty"`
	}
	// partitionsRecord adds partitions to a topic that has First.
	partitionsRecord struct {
		ID         id         `json:"topicId"`
		Version    int64      `json:"topicVersion"`
		First      int32      `json:"firstPartition"`
		Partitions partitions `json:"partitions"`
	}
	// partitionChangeRecord changes the replicas of some partitions of a topic.
	partitionChangeRecord struct {
		ID         id                `json:"topicId"`
		Partitions []partitionChange `json:"partitions"`
	}
	// topicConfigRecord changes a topic's overrides.
	topicConfigRecord struct {
		ID      id                `json:"topicId"`
		Version int64             `json:"topicVersion"`
		Set     map[string]string `json:"set,omitempty"`
		Delete  []string          `json:"delete,omitempty"`
	}
	// removeTopicRecord deletes a topic.
	removeTopicRecord struct {
		ID      id    `json:"topicId"`
		Version int64 `json:"topicVersion"`
	}
	// brokerConfigRecord changes the dynamic settings of a broker, or with "" of the cluster.
	brokerConfigRecord struct {
		Broker  string            `json:"brokerId"`
		Version int64             `json:"configVersion"`
		Set     map[string]string `json:"set,omitempty"`
		Delete  []string          `json:"delete,omitempty"`
	}
	// producerIDsRecord gives the ids below Next to a broker.
	producerIDsRecord struct {
		Broker kafkaproto.NodeID     `json:"brokerId"`
		Next   kafkaproto.ProducerID `json:"nextProducerId"`
	}
	// imageRecord ends a snapshot: the counters of the image that it holds.
	imageRecord struct {
		Version       int64             `json:"version"`
		FeaturesEpoch int64             `json:"featuresEpoch"`
		NextNode      kafkaproto.NodeID `json:"nextBrokerId,omitempty"`
	}
)

func (clusterRecord) form() (string, int)         { return "CLUSTER_RECORD", 0 }
func (featureRecord) form() (string, int)         { return "FEATURE_LEVEL_RECORD", 0 }
func (nodeRecord) form() (string, int)            { return "REGISTER_BROKER_RECORD", 1 }
func (brokerChangeRecord) form() (string, int)    { return "BROKER_REGISTRATION_CHANGE_RECORD", 0 }
func (unregisterRecord) form() (string, int)      { return "UNREGISTER_BROKER_RECORD", 0 }
func (topicRecord) form() (string, int)           { return "TOPIC_RECORD", 1 }
func (partitionsRecord) form() (string, int)      { return "PARTITIONS_RECORD", 1 }
func (partitionChangeRecord) form() (string, int) { return "PARTITION_CHANGE_RECORD", 0 }
func (topicConfigRecord) form() (string, int)     { return "TOPIC_CONFIG_RECORD", 0 }
func (removeTopicRecord) form() (string, int)     { return "REMOVE_TOPIC_RECORD", 0 }
func (brokerConfigRecord) form() (string, int)    { return "BROKER_CONFIG_RECORD", 0 }
func (producerIDsRecord) form() (string, int)     { return "PRODUCER_IDS_RECORD", 0 }
func (imageRecord) form() (string, int)           { return "IMAGE_RECORD", 1 }

// decoders hold, per record name, how to read its data. The forms of earlier versions are subsets of
// the present ones.
var decoders = map[string]func(version int, data []byte) (Record, error){
	"CLUSTER_RECORD":                    decode[clusterRecord],
	"FEATURE_LEVEL_RECORD":              decode[featureRecord],
	"REGISTER_BROKER_RECORD":            decode[nodeRecord],
	"BROKER_REGISTRATION_CHANGE_RECORD": decode[brokerChangeRecord],
	"UNREGISTER_BROKER_RECORD":          decode[unregisterRecord],
	"TOPIC_RECORD":                      decode[topicRecord],
	"PARTITIONS_RECORD":                 decode[partitionsRecord],
	"PARTITION_CHANGE_RECORD":           decode[partitionChangeRecord],
	"TOPIC_CONFIG_RECORD":               decode[topicConfigRecord],
	"REMOVE_TOPIC_RECORD":               decode[removeTopicRecord],
	"BROKER_CONFIG_RECORD":              decode[brokerConfigRecord],
	"PRODUCER_IDS_RECORD":               decode[producerIDsRecord],
	"IMAGE_RECORD":                      decode[imageRecord],
}

func decode[R Record](version int, data []byte) (Record, error) {
	var r R
	name, newest := r.form()
	if version < 0 || version > newest {
		return nil, fmt.Errorf("metadata record %s of version %d: %w", name, version, ErrNewerRelease)
	}
	if err := unmarshal(data, &r); err != nil {
		return nil, kafkaproto.Corruptf("metadata record %s: %w", name, err)
	}
	return r, nil
}

// unmarshal is strict: no unknown field, nothing behind the value.
func unmarshal(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bytes behind the record")
	}
	return nil
}

// envelope is a record as it lies on disk.
type envelope struct {
	Type    string          `json:"type"`
	Version int             `json:"version"`
	Data    json.RawMessage `json:"data"`
}

// EncodeRecord gives a record's bytes:
//
//	{"type":"TOPIC_RECORD","version":0,"data":{"name":"orders","topicId":"...", ...}}
func EncodeRecord(r Record) ([]byte, error) {
	name, version := r.form()
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	return json.Marshal(envelope{Type: name, Version: version, Data: data})
}

// DecodeRecord reads what EncodeRecord wrote. The error wraps ErrNewerRelease for a type or version
// that this release does not know, and is marked corrupt otherwise.
func DecodeRecord(b []byte) (Record, error) {
	var e envelope
	if err := unmarshal(b, &e); err != nil {
		return nil, kafkaproto.Corruptf("metadata record: %w", err)
	}
	if e.Type == "" {
		return nil, kafkaproto.Corruptf("metadata record without a type")
	}
	dec, ok := decoders[e.Type]
	if !ok {
		return nil, fmt.Errorf("metadata record of type %.60q: %w", e.Type, ErrNewerRelease)
	}
	return dec(e.Version, e.Data)
}
