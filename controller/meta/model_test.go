package meta

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// model is the metadata told in the plainest way.
type model struct {
	topics map[string]*modelTopic
	broker map[string]map[string]string
	ids    map[kafkaproto.TopicID]string // all that ever were
	pids   int64
}

type modelTopic struct {
	partitions int
	config     map[string]string
	id         kafkaproto.TopicID
}

var (
	modelNames  = []string{"a", "b", "c.d", "c_d", "bad name"}
	modelKeys   = []string{"retention.ms", "cleanup.policy", "nope"}
	modelValues = []string{"5", "compact", "x"}
)

// goodPair says which of the pairs above are valid settings.
func goodPair(key, value string) bool {
	return key == "retention.ms" && value == "5" || key == "cleanup.policy" && value == "compact"
}

// TestModel runs random commands against the model. After each it holds that replaying the encoded
// records gives the same image, that Snapshot and Load give it too, and that the differences to an
// older image lead from the one to the other.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t, nil, 1)
		mod := &model{
			topics: map[string]*modelTopic{}, broker: map[string]map[string]string{},
			ids: map[kafkaproto.TopicID]string{},
		}
		images := []*Image{m.image}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "command") {
			case 0, 1:
				mod.create(t, m)
			case 2:
				mod.delete(t, m)
			case 3:
				mod.grow(t, m)
			case 4:
				mod.alter(t, m)
			case 5:
				b := m.do(t, AllocateProducerIDs{Node: 1}).(ProducerIDBlock)
				if int64(b.First) != mod.pids {
					t.Fatalf("block at %d, want %d", b.First, mod.pids)
				}
				mod.pids += b.Count
			}
			mod.check(t, m.image)
			images = append(images, m.image)
		}
		checkReplay(t, m)
		old := rapid.SampledFrom(images).Draw(t, "old")
		checkChanges(t, old, m.image)
		checkChanges(t, m.image, old)
	})
}

func (mod *model) create(t *rapid.T, m *machine) {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	n := NewTopic{Name: name, Partitions: int32(rapid.IntRange(-2, 4).Draw(t, "partitions")), Replication: 1}
	config := map[string]string{}
	bad := name == "bad name" || n.Partitions == 0 || n.Partitions == -2 || mod.topics[name] != nil
	other := map[string]string{"c.d": "c_d", "c_d": "c.d"}[name]
	bad = bad || mod.topics[other] != nil
	if rapid.Bool().Draw(t, "configured") {
		key, value := rapid.SampledFrom(modelKeys).Draw(t, "key"), rapid.SampledFrom(modelValues).Draw(t, "value")
		n.Config = []ConfigValue{{key, &value}}
		bad = bad || !goodPair(key, value)
		config[key] = value
	}
	validateOnly := rapid.Bool().Draw(t, "validate only")
	row := m.do(t, CreateTopics{Topics: []NewTopic{n}, ValidateOnly: validateOnly}).(CreateTopicsResult).Topics[0]
	if bad != (row.Err != nil) {
		t.Fatalf("create %+v: %v, want an error: %v", n, row.Err, bad)
	}
	if bad || validateOnly {
		return
	}
	if mod.ids[row.ID] != "" {
		t.Fatalf("id %s was used by %s", row.ID, mod.ids[row.ID])
	}
	mod.ids[row.ID] = name
	mod.topics[name] = &modelTopic{partitions: max(int(n.Partitions), 1), config: config, id: row.ID}
}

func (mod *model) delete(t *rapid.T, m *machine) {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	ref := TopicRef{Name: name}
	if topic := mod.topics[name]; topic != nil && rapid.Bool().Draw(t, "by id") {
		ref = TopicRef{ID: topic.id}
	}
	row := m.do(t, DeleteTopics{Topics: []TopicRef{ref}}).(DeleteTopicsResult).Topics[0]
	if (mod.topics[name] != nil) != (row.Err == nil) {
		t.Fatalf("delete %s: %v", name, row.Err)
	}
	delete(mod.topics, name)
}

func (mod *model) grow(t *rapid.T, m *machine) {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	count := rapid.IntRange(0, 6).Draw(t, "count")
	row := m.do(t, CreatePartitions{Topics: []GrowTopic{{Name: name, Count: int32(count)}}}).(CreatePartitionsResult).Topics[0]
	topic := mod.topics[name]
	if good := topic != nil && count > topic.partitions; good != (row.Err == nil) {
		t.Fatalf("grow %s to %d: %v", name, count, row.Err)
	}
	if row.Err == nil {
		topic.partitions = count
	}
}

func (mod *model) alter(t *rapid.T, m *machine) {
	key, value := rapid.SampledFrom(modelKeys).Draw(t, "key"), rapid.SampledFrom(modelValues).Draw(t, "value")
	r := AlterResource{Ops: []AlterOp{{Name: key, Op: Op(rapid.IntRange(0, 1).Draw(t, "op")), Value: &value}}}
	var config map[string]string
	var good bool
	if rapid.Bool().Draw(t, "topic") {
		r.Type, r.Name = ResourceTopic, rapid.SampledFrom(modelNames).Draw(t, "name")
		if topic := mod.topics[r.Name]; topic != nil {
			config = topic.config
		}
		good = config != nil && (r.Ops[0].Op == OpDelete || goodPair(key, value))
	} else {
		r.Type, r.Name = ResourceBroker, rapid.SampledFrom([]string{"", "1"}).Draw(t, "broker")
		r.Ops[0].Name = "log." + key
		good = key == "nope" || r.Ops[0].Op == OpDelete || goodPair(key, value)
		if config = mod.broker[r.Name]; config == nil {
			config = map[string]string{}
			mod.broker[r.Name] = config
		}
	}
	row := m.do(t, AlterConfigs{Resources: []AlterResource{r}}).(AlterConfigsResult).Resources[0]
	if good != (row.Err == nil) {
		t.Fatalf("alter %+v %s: %v, want good: %v", r, value, row.Err, good)
	}
	switch {
	case !good:
	case r.Ops[0].Op == OpSet:
		config[r.Ops[0].Name] = value
	default:
		delete(config, r.Ops[0].Name)
	}
}

func (mod *model) check(t *rapid.T, i *Image) {
	want := slices.Sorted(maps.Keys(mod.topics))
	if got := names(i); !slices.Equal(got, want) || i.TopicCount() != len(want) {
		t.Fatalf("topics %v, want %v", got, want)
	}
	for name, topic := range mod.topics {
		got := i.Topic(name)
		if got == nil || got != i.TopicByID(topic.id) || len(got.Partitions) != topic.partitions ||
			!maps.Equal(got.Config, topic.config) {
			t.Fatalf("topic %s: %+v, want %+v", name, got, topic)
		}
	}
	for name, config := range mod.broker {
		if !maps.Equal(i.BrokerConfig(name), config) {
			t.Fatalf("broker %q: %v, want %v", name, i.BrokerConfig(name), config)
		}
	}
	if int64(i.NextProducerID()) != mod.pids {
		t.Fatalf("next producer id %d, want %d", i.NextProducerID(), mod.pids)
	}
}

// checkReplay: the log, and the snapshot, give the image.
func checkReplay(t tb, m *machine) {
	t.Helper()
	replayed := Empty()
	for _, b := range m.log {
		r, err := DecodeRecord(b)
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		if replayed, err = replayed.Apply(r); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
	}
	if !same(replayed, m.image) {
		t.Fatalf("replayed:\n%s\nlive:\n%s", strings.Join(normal(replayed), "\n"), strings.Join(normal(m.image), "\n"))
	}
	var records []Record
	for _, spelled := range normal(m.image) {
		r, err := DecodeRecord([]byte(spelled))
		if err != nil {
			t.Fatalf("%s: %v", spelled, err)
		}
		records = append(records, r)
	}
	loaded, err := Load(records)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if !same(loaded, m.image) || loaded.Version() != m.image.Version() || loaded.FeaturesEpoch() != m.image.FeaturesEpoch() {
		t.Fatalf("loaded:\n%s\nlive:\n%s", strings.Join(normal(loaded), "\n"), strings.Join(normal(m.image), "\n"))
	}
	for topic := range m.image.Topics() {
		if got := loaded.Topic(topic.Name); got.Version != topic.Version || got.Internal != topic.Internal {
			t.Fatalf("loaded topic %+v, live %+v", got, topic)
		}
	}
	for name, c := range m.image.brokers {
		if loaded.brokers[name].version != c.version {
			t.Fatalf("loaded settings of broker %q at version %d, live %d", name,
				loaded.brokers[name].version, c.version)
		}
	}
	// What was loaded must go on as the live one does: names that collide, versions, blocks.
	for _, cmd := range []Command{
		CreateTopics{Topics: []NewTopic{{Name: "c.d", Partitions: 1, Replication: 1}, {Name: "z", Partitions: 1, Replication: 1}}},
		CreatePartitions{Topics: []GrowTopic{{Name: "a", Count: 100}}},
		AlterConfigs{Resources: []AlterResource{{Type: ResourceBroker, Ops: []AlterOp{{Name: "log.retention.ms", Value: str("77")}}}}},
		DeleteTopics{Topics: []TopicRef{{Name: "b"}}},
		AllocateProducerIDs{},
	} {
		live, liveRes, err1 := m.image.Execute(cmd, m.env)
		again, againRes, err2 := loaded.Execute(cmd, m.env)
		if err1 != nil || err2 != nil || len(live) != len(again) {
			t.Fatalf("%T: %d records, %v; loaded: %d, %v\n%v\n%v", cmd, len(live), err1, len(again), err2, liveRes, againRes)
		}
		if _, err := loaded.Apply(again...); err != nil {
			t.Fatalf("%T on the loaded image: %v", cmd, err)
		}
	}
}

// checkChanges: the changes lead from one image's topics to the other's.
func checkChanges(t tb, from, to *Image) {
	t.Helper()
	have := map[kafkaproto.TopicID]*Topic{}
	for topic := range from.Topics() {
		have[topic.ID] = topic
	}
	created := false
	for _, c := range TopicChanges(from, to) {
		switch {
		case c.New == nil:
			if created || have[c.Old.ID] != c.Old {
				t.Fatalf("deletion of %s out of order, or of none", c.Old.Name)
			}
			delete(have, c.Old.ID)
		case c.Old == nil:
			created = true
			if have[c.New.ID] != nil {
				t.Fatalf("creation of %s, which is there", c.New.Name)
			}
			have[c.New.ID] = c.New
		default:
			created = true
			if have[c.Old.ID] != c.Old || c.Old.ID != c.New.ID || c.Old == c.New {
				t.Fatalf("change of %s", c.Old.Name)
			}
			have[c.New.ID] = c.New
		}
	}
	want := map[kafkaproto.TopicID]*Topic{}
	for topic := range to.Topics() {
		want[topic.ID] = topic
	}
	if !maps.Equal(have, want) {
		t.Fatalf("changes lead to %v, want %v", fmt.Sprint(have), fmt.Sprint(want))
	}
}
