package meta

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
)

// goldenRecords pins the records' form on disk: a change here is a change of the format, and needs
// a version.
var goldenRecords = []string{
	`{"type":"CLUSTER_RECORD","version":0,"data":{"clusterId":"4L6g3nShT-eMCtK--X86sw"}}`,
	`{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"transaction.version","featureLevel":2}}`,
	`{"type":"REGISTER_BROKER_RECORD","version":1,"data":{"brokerId":1,"brokerVersion":1,"brokerEpoch":3,"directoryId":"AAAAAAAAAAAAAAAAAAAAAQ","incarnation":9,"rack":"r","endPoints":[{"name":"PLAINTEXT","securityProtocol":"PLAINTEXT","host":"h","port":9092}],"peer":"h:9093","features":[{"name":"transaction.version","minSupportedVersion":0,"maxSupportedVersion":2}]}}`,
	`{"type":"TOPIC_RECORD","version":1,"data":{"name":"a.b","topicId":"AAAAAAAAAAAAAAAAAAAAZA","topicVersion":1,"partitions":[[1],[1]],"config":{"retention.ms":"5"}}}`,
	`{"type":"PARTITIONS_RECORD","version":1,"data":{"topicId":"AAAAAAAAAAAAAAAAAAAAZA","topicVersion":2,"firstPartition":2,"partitions":[[1]]}}`,
	`{"type":"TOPIC_CONFIG_RECORD","version":0,"data":{"topicId":"AAAAAAAAAAAAAAAAAAAAZA","topicVersion":3,"set":{"segment.ms":"7"},"delete":["retention.ms"]}}`,
	`{"type":"REMOVE_TOPIC_RECORD","version":0,"data":{"topicId":"AAAAAAAAAAAAAAAAAAAAZA","topicVersion":4}}`,
	`{"type":"BROKER_CONFIG_RECORD","version":0,"data":{"brokerId":"","configVersion":1,"set":{"log.retention.ms":"5"}}}`,
	`{"type":"PRODUCER_IDS_RECORD","version":0,"data":{"brokerId":1,"nextProducerId":1000}}`,
	`{"type":"TOPIC_RECORD","version":1,"data":{"name":"c","topicId":"AAAAAAAAAAAAAAAAAAAAaA","topicVersion":1,"partitions":[[2,1],{"partitionVersion":4,"nextReplicaId":5,"firstReplicas":2,"replicas":[{"replicaId":4,"brokerId":2,"state":"ADDING"},{"replicaId":1,"brokerId":1,"state":"REMOVING"},{"replicaId":3,"brokerId":7,"state":"CANCELLED"}]}]}}`,
	`{"type":"PARTITION_CHANGE_RECORD","version":0,"data":{"topicId":"AAAAAAAAAAAAAAAAAAAAaA","partitions":[{"partitionId":1,"state":{"partitionVersion":5,"nextReplicaId":5,"firstReplicas":2,"replicas":[{"replicaId":4,"brokerId":2}]}}]}}`,
	`{"type":"BROKER_REGISTRATION_CHANGE_RECORD","version":0,"data":{"brokerId":1,"brokerVersion":2,"fenced":true,"draining":false,"inControlledShutdown":true}}`,
	`{"type":"UNREGISTER_BROKER_RECORD","version":0,"data":{"brokerId":1,"brokerVersion":3,"directoryId":"AAAAAAAAAAAAAAAAAAAAAQ"}}`,
	`{"type":"IMAGE_RECORD","version":1,"data":{"version":13,"featuresEpoch":1,"nextBrokerId":2}}`,
}

// oldRecords are forms that earlier releases wrote.
var oldRecords = []string{
	`{"type":"REGISTER_BROKER_RECORD","version":0,"data":{"brokerId":1,"directoryId":"AAAAAAAAAAAAAAAAAAAAAQ","endPoints":[]}}`,
	`{"type":"TOPIC_RECORD","version":0,"data":{"name":"a.b","topicId":"AAAAAAAAAAAAAAAAAAAAZA","topicVersion":1,"partitions":[[1],[1]]}}`,
	`{"type":"PARTITIONS_RECORD","version":0,"data":{"topicId":"AAAAAAAAAAAAAAAAAAAAZA","topicVersion":2,"firstPartition":2,"partitions":[[1]]}}`,
	`{"type":"REGISTER_BROKER_RECORD","version":0,"data":{"brokerId":1,"directoryId":"AAAAAAAAAAAAAAAAAAAAAQ","rack":"r","endPoints":[]}}`,
	`{"type":"IMAGE_RECORD","version":0,"data":{"version":4,"featuresEpoch":1}}`,
}

// TestOldRecords: what a single node of an earlier release wrote is read.
func TestOldRecords(t *testing.T) {
	image := Empty()
	for _, text := range oldRecords {
		var err error
		if image, err = image.Apply(mustDecode(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	n, topic := image.Node(1), image.Topic("a.b")
	if n == nil || n.Version != 2 || n.Rack != "r" || image.nextNode != 2 || len(topic.Partitions) != 3 {
		t.Fatalf("%+v, %+v", n, topic)
	}
	for _, p := range topic.Partitions {
		if p.Version != 1 || p.NextReplica != 2 || !slices.Equal(p.Replicas, []Replica{{ID: 1, Node: 1}}) {
			t.Errorf("%+v", p)
		}
	}
}

func TestRecordFormat(t *testing.T) {
	image := Empty()
	seen := map[string]bool{}
	for _, golden := range goldenRecords {
		r := mustDecode(t, golden)
		name, _ := r.form()
		seen[name] = true
		b, err := EncodeRecord(r)
		if err != nil || string(b) != golden {
			t.Errorf("%s\nis written as\n%s, %v", golden, b, err)
		}
		if image, err = image.Apply(r); err != nil {
			t.Fatal(err)
		}
	}
	if image.Version() != 13 || image.FeaturesEpoch() != 1 || len(image.departed) != 1 {
		t.Errorf("version %d, epoch %d", image.Version(), image.FeaturesEpoch())
	}
	for name := range decoders {
		if !seen[name] {
			t.Errorf("%s has no golden form", name)
		}
	}
}

// TestRecordRefused: damage is told apart from what a newer release wrote.
func TestRecordRefused(t *testing.T) {
	for _, text := range []string{
		``, `{`, `[]`, `{"type":"CLUSTER_RECORD"}`, `null`, goldenRecords[0] + " x", goldenRecords[0] + goldenRecords[0],
		`{"type":"CLUSTER_RECORD","version":0,"data":{"clusterId":"x","more":1}}`,
		`{"type":"CLUSTER_RECORD","version":0,"data":[]}`,
		`{"type":"REMOVE_TOPIC_RECORD","version":0,"data":{"topicId":"short","topicVersion":4}}`,
		`{"type":"PRODUCER_IDS_RECORD","version":0,"data":{"brokerId":1,"nextProducerId":1e40}}`,
	} {
		_, err := DecodeRecord([]byte(text))
		if !kafkaproto.IsCorrupt(err) || errors.Is(err, ErrNewerRelease) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		`{"type":"CLUSTER_RECORD","version":1,"data":{"clusterId":"x","more":1}}`,
		`{"type":"FUTURE_RECORD","version":0,"data":{}}`,
	} {
		if _, err := DecodeRecord([]byte(text)); !errors.Is(err, ErrNewerRelease) || kafkaproto.IsCorrupt(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestApplyRefuses: a record that no command makes is found out, and names why (M3, M6).
func TestApplyRefuses(t *testing.T) {
	base := Empty()
	for _, golden := range goldenRecords[:4] {
		var err error
		if base, err = base.Apply(mustDecode(t, golden)); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if base, err = base.Apply(mustDecode(t, goldenRecords[7]), mustDecode(t, goldenRecords[8])); err != nil {
		t.Fatal(err)
	}
	const id = "AAAAAAAAAAAAAAAAAAAAZA"
	change := func(partition string) string {
		return `{"type":"PARTITION_CHANGE_RECORD","version":0,"data":{"topicId":"` + id + `","partitions":[{` + partition + `}]}}`
	}
	for _, c := range []struct{ record, want string }{
		{goldenRecords[0], "is named"},
		{`{"type":"CLUSTER_RECORD","version":0,"data":{"clusterId":"x"}}`, "22 characters"},
		{`{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"","featureLevel":2}}`, "feature"},
		{`{"type":"FEATURE_LEVEL_RECORD","version":0,"data":{"name":"x","featureLevel":-2}}`, "level -2"},
		{`{"type":"REGISTER_BROKER_RECORD","version":0,"data":{"brokerId":-1,"directoryId":"","endPoints":[]}}`, "broker id -1"},
		{goldenRecords[3], "is there already"},
		{`{"type":"TOPIC_RECORD","version":0,"data":{"name":"x y","topicId":"AAAAAAAAAAAAAAAAAAAABA","topicVersion":1,"partitions":[[1]]}}`, "topic name"},
		{`{"type":"TOPIC_RECORD","version":0,"data":{"name":"x","topicId":"AAAAAAAAAAAAAAAAAAAAAA","topicVersion":1,"partitions":[[1]]}}`, "already"},
		{`{"type":"TOPIC_RECORD","version":0,"data":{"name":"x","topicId":"AAAAAAAAAAAAAAAAAAAABA","topicVersion":0,"partitions":[[1]]}}`, "version 0"},
		{`{"type":"TOPIC_RECORD","version":0,"data":{"name":"x","topicId":"AAAAAAAAAAAAAAAAAAAABA","topicVersion":1,"partitions":[]}}`, "0 partitions"},
		{`{"type":"TOPIC_RECORD","version":0,"data":{"name":"x","topicId":"AAAAAAAAAAAAAAAAAAAABA","topicVersion":1,"partitions":[[]]}}`, "no replica"},
		{`{"type":"TOPIC_RECORD","version":0,"data":{"name":"x","topicId":"AAAAAAAAAAAAAAAAAAAABA","topicVersion":1,"partitions":[[1,1]]}}`, "stands there twice"},
		{`{"type":"PARTITIONS_RECORD","version":0,"data":{"topicId":"AAAAAAAAAAAAAAAAAAAABA","topicVersion":2,"firstPartition":2,"partitions":[[1]]}}`, "no topic"},
		{strings.Replace(goldenRecords[4], `"topicVersion":2`, `"topicVersion":3`, 1), "is at version 1, the record makes 3"},
		{strings.Replace(goldenRecords[4], `"firstPartition":2`, `"firstPartition":3`, 1), "from 3 on"},
		{strings.Replace(goldenRecords[4], `[[1]]`, `[[-1]]`, 1), "broker -1"},
		{`{"type":"TOPIC_CONFIG_RECORD","version":0,"data":{"topicId":"` + id + `","topicVersion":1}}`, "makes 1"},
		{`{"type":"REMOVE_TOPIC_RECORD","version":0,"data":{"topicId":"` + id + `","topicVersion":1}}`, "makes 1"},
		{strings.Replace(goldenRecords[2], `"brokerVersion":1`, `"brokerVersion":3`, 1), "is at version 1, the record makes 3"},
		{goldenRecords[10], "no topic has id"},
		{change(`"partitionId":2,"state":{"partitionVersion":2,"nextReplicaId":2,"replicas":[{"replicaId":1,"brokerId":1}]}`), "the record changes 2"},
		{change(`"partitionId":0,"state":{"partitionVersion":3,"nextReplicaId":2,"replicas":[{"replicaId":1,"brokerId":1}]}`), "at version 1 and replica 2, the record makes 3"},
		{change(`"partitionId":0,"state":{"partitionVersion":2,"nextReplicaId":1,"replicas":[{"replicaId":1,"brokerId":1}]}`), "makes 2 and 1"},
		{change(`"partitionId":0,"state":{"partitionVersion":2,"nextReplicaId":2,"replicas":[{"replicaId":1,"brokerId":2}]}`), "used again"},
		{change(`"partitionId":0,"state":{"partitionVersion":2,"nextReplicaId":3,"replicas":[{"replicaId":2,"brokerId":2,"state":"ADDING"}]}`), "none holds data"},
		{change(`"partitionId":0,"state":{"partitionVersion":2,"nextReplicaId":3,"replicas":[{"replicaId":1,"brokerId":1,"state":"REMOVING"},{"replicaId":2,"brokerId":2}]}`), "stands behind"},
		{change(`"partitionId":0,"state":{"partitionVersion":2,"nextReplicaId":2,"replicas":[{"replicaId":1,"brokerId":1,"state":"REMOVING"}]}`), "no replica is wanted"},
		{change(`"partitionId":0,"state":{"partitionVersion":2,"nextReplicaId":2,"replicas":[]}`), "no replica"},
		{strings.Replace(goldenRecords[11], `"brokerVersion":2`, `"brokerVersion":3`, 1), "is at version 1, the record makes 3"},
		{strings.Replace(goldenRecords[11], `"brokerId":1`, `"brokerId":5`, 1), "no broker has id 5"},
		{goldenRecords[12], "at version 1, the record makes"},
		{strings.Replace(goldenRecords[12], `"brokerId":1`, `"brokerId":5`, 1), "no broker has id 5"},
		{goldenRecords[7], "at version 1, the record makes 1"},
		{goldenRecords[8], "were given away"},
		{`{"type":"IMAGE_RECORD","version":0,"data":{"version":-1,"featuresEpoch":-1}}`, "version -1"},
		{`{"type":"IMAGE_RECORD","version":0,"data":{"version":3,"featuresEpoch":7}}`, "epoch 7"},
	} {
		before := normal(base)
		_, err := base.Apply(mustDecode(t, c.record))
		if err == nil || !kafkaproto.IsCorrupt(err) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v, want ... %s", c.record, err, c.want)
		}
		if after := normal(base); strings.Join(after, "") != strings.Join(before, "") {
			t.Errorf("%s changed the image", c.record)
		}
	}
}

// TestLoadRefuses: a snapshot must be whole.
func TestLoadRefuses(t *testing.T) {
	m := withTopics(t, nil, "a")
	records := m.image.Snapshot()
	for n := range records {
		if _, err := Load(records[:n]); !kafkaproto.IsCorrupt(err) {
			t.Errorf("%d of %d records load: %v", n, len(records), err)
		}
	}
	if img, err := Load(Empty().Snapshot()); err != nil || img.Version() != 0 || img.FeaturesEpoch() != -1 {
		t.Errorf("the empty image: %v, %v", img, err)
	}
}

// FuzzRecords feeds lines of text as a log: nothing panics, and what applies is written again to
// the same.
func FuzzRecords(f *testing.F) {
	f.Add(strings.Join(goldenRecords, "\n"))
	f.Add(goldenRecords[0] + "\n" + goldenRecords[3])
	f.Fuzz(func(t *testing.T, text string) {
		image := Empty()
		for line := range strings.SplitSeq(text, "\n") {
			r, err := DecodeRecord([]byte(line))
			if err != nil {
				continue
			}
			b, err := EncodeRecord(r)
			if err != nil {
				t.Fatalf("%s decodes and does not encode: %v", line, err)
			}
			if _, err := DecodeRecord(b); err != nil {
				t.Fatalf("%s is written as %s: %v", line, b, err)
			}
			if next, err := image.Apply(r); err == nil {
				image = next
			}
		}
		loaded, err := Load(image.Snapshot())
		if err != nil || !same(loaded, image) {
			t.Fatalf("%v:\n%s\n%s", err, strings.Join(normal(image), "\n"), strings.Join(normal(loaded), "\n"))
		}
	})
}
