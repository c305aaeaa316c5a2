package group

import (
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
)

func TestConfigOfDefaults(t *testing.T) {
	static, _, err := config.NewStatic()
	if err != nil {
		t.Fatal(err)
	}
	if got := ConfigOf(config.NewResolver(static).Broker()); got != DefaultConfig() {
		t.Errorf("the registry's defaults are\n%+v, ours\n%+v", got, DefaultConfig())
	}
}

// TestImageChanged deletes a topic in the metadata, and sees its offsets go.
func TestImageChanged(t *testing.T) {
	static, _, err := config.NewStatic()
	if err != nil {
		t.Fatal(err)
	}
	env := meta.Env{Static: static, Node: 1, Random: rand.NewChaCha8([32]byte{1})}
	img := meta.Empty()
	do := func(c meta.Command) *meta.Image {
		t.Helper()
		records, _, err := img.Execute(c, env)
		if err != nil {
			t.Fatal(err)
		}
		next, err := img.Apply(records...)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	img = do(meta.InitCluster{ClusterID: "AAAAAAAAAAAAAAAAAAAAAQ"})
	img = do(meta.RegisterBroker{ID: 1, Directory: "d"})
	img = do(meta.CreateTopics{Topics: []meta.NewTopic{
		{Name: "t", Partitions: 2, Replication: 1}, {Name: "u", Partitions: 1, Replication: 1},
	}})
	topics := ImageTopics(img)
	id, n, ok := topics.Topic("t")
	if !ok || n != 2 || id != img.Topic("t").ID {
		t.Fatalf("topic t: %v, %d, %v", id, n, ok)
	}
	if name, ok := topics.TopicName(id); !ok || name != "t" {
		t.Fatalf("topic of the id: %q, %v", name, ok)
	}
	if _, _, ok := topics.Topic("nope"); ok {
		t.Fatal("topic nope")
	}

	w := newWorld()
	defer func() { w.svc.Close() }()
	for _, name := range []string{"t", "u"} {
		w.topics[name] = imageTopic{img.Topic(name).ID, 1}
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group = 8, "g"
		req.Topics = []kmsg.OffsetCommitRequestTopic{{
			Topic: name, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}},
		}}
		w.svc.OffsetCommit(req, func(r *kmsg.OffsetCommitResponse) {
			if c := r.Topics[0].Partitions[0].ErrorCode; c != 0 {
				t.Fatalf("commit: %s", code(c))
			}
		})
	}
	left := func() (topics []string) {
		w.svc.Stats(func(gs []GroupStats) {
			for _, g := range gs {
				for _, o := range g.Offsets {
					topics = append(topics, o.Topic)
				}
			}
		})
		return topics
	}
	w.svc.ImageChanged(meta.Empty(), img)
	if got := left(); len(got) != 2 {
		t.Fatalf("creations took offsets: %v are left", got)
	}
	next := do(meta.DeleteTopics{Topics: []meta.TopicRef{{Name: "t"}}})
	w.svc.ImageChanged(img, next)
	if got := left(); len(got) != 1 || got[0] != "u" {
		t.Fatalf("left: %v", got)
	}
}
