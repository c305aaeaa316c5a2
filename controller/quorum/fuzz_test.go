package quorum

import (
	"testing"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// reseal makes the CRCs of changed batches good again.
func reseal(t testing.TB, data []byte) []byte {
	t.Helper()
	var out []byte
	_, err := batch.Scan(data, func(_ int, b batch.Batch) (bool, error) {
		builder := batch.NewBuilder(batch.BuilderOptions{BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch()})
		err := b.Each(1<<20, func(r *batch.Record) (bool, error) {
			builder.Add(*r)
			return true, nil
		})
		if err != nil {
			return false, err
		}
		out, err = builder.AppendTo(out)
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sample is an image with something of everything, and its log.
func sample(t testing.TB) (*meta.Image, []byte) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	create(t, c, "a", "b.c")
	for _, cmd := range []meta.Command{
		meta.AllocateProducerIDs{Node: 1},
		meta.DeleteTopics{Topics: []meta.TopicRef{{Name: "a"}}},
		meta.CreatePartitions{Topics: []meta.GrowTopic{{Name: "b.c", Count: 3}}},
		meta.AlterConfigs{Resources: []meta.AlterResource{{Type: meta.ResourceBroker, Ops: []meta.AlterOp{{Name: "log.retention.ms", Value: new("7")}}}}},
	} {
		if _, err := c.Do(cmd); err != nil {
			t.Fatal(err)
		}
	}
	var log []byte
	for _, b := range w.log.batches {
		log = append(log, b...)
	}
	return c.Image(), log
}

// FuzzLog: bytes that are not the log's are refused, and never panic; what applies is passed over
// when it comes again.
func FuzzLog(f *testing.F) {
	_, log := sample(f)
	f.Add(log)
	f.Fuzz(func(t *testing.T, data []byte) {
		img, err := applyBatches(meta.Empty(), data)
		if err != nil {
			return
		}
		if again, err := applyBatches(img, data); err != nil || again != img {
			t.Fatalf("the same log over version %d: %v", img.Version(), err)
		}
	})
}

// FuzzSnapshot: what decodes is written again to the same.
func FuzzSnapshot(f *testing.F) {
	img, _ := sample(f)
	data, err := encodeSnapshot(img, 3, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, img.Version())
	f.Fuzz(func(t *testing.T, data []byte, version int64) {
		id := snapshotID{kafkaproto.Offset(version), 3}
		got, err := decodeSnapshot(data, id)
		if err != nil {
			return
		}
		again, err := encodeSnapshot(got, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeSnapshot(again, id); err != nil || back.Version() != version {
			t.Fatalf("%v", err)
		}
	})
}
