package quorum

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

// disk is a data directory with a store and a controller on it.
type disk struct {
	t     testing.TB
	fs    vfs.FS
	clock *clock.Manual
	boot  int
	vals  map[string]string
	store *store.Store
	c     *Controller
}

func newDisk(t testing.TB, fs vfs.FS, values map[string]string) *disk {
	return &disk{t: t, fs: fs, vals: values, clock: clock.NewManual(time.Unix(1_700_000_000, 0))}
}

func (d *disk) open() {
	d.t.Helper()
	static, _, err := config.NewStatic(config.Layer{Name: "test", Values: d.vals})
	if err != nil {
		d.t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	d.store, err = store.Open(store.Options{
		FS: d.fs, Dir: "data", Clock: d.clock, Logger: logger, BootID: fmt.Sprint("boot", d.boot),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	d.c, err = Open(Options{
		Store: d.store, FS: d.fs, Dir: "data", Config: config.NewResolver(static), Clock: d.clock,
		Logger: logger,
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) close() {
	d.t.Helper()
	if err := d.c.Close(); err != nil {
		d.t.Error(err)
	}
	if err := d.store.Close(); err != nil {
		d.t.Error(err)
	}
}

// crash ends the process on a power-loss file system.
func (d *disk) crash(kind vfs.CrashKind) {
	d.fs = d.fs.(*vfs.PowerFS).Crash(kind)
	_ = d.c.Close()
	_ = d.store.Close()
	if kind == vfs.PowerCrash {
		d.boot++
	}
}

// TestOnStore runs the controller on the real log: restarts, snapshots, the log cut behind them.
func TestOnStore(t *testing.T) {
	d := newDisk(t, vfs.Memory(), map[string]string{"metadata.log.max.record.bytes.between.snapshots": "1500"})
	d.open()
	id := d.c.Identity()
	for life := range 4 {
		for n := range 12 {
			create(t, d.c, fmt.Sprintf("t%d-%d", life, n))
		}
		settle(t, d.c, func() bool { return !busy(d.c) })
		want, version := topics(d.c.Image()), d.c.Image().Version()
		d.close()
		d.open()
		if got := topics(d.c.Image()); !slices.Equal(got, want) || d.c.Image().Version() != version || d.c.Identity() != id {
			t.Fatalf("life %d: topics %v, want %v", life, got, want)
		}
	}
	ids, err := listSnapshots(d.fs, d.c.log.Dir())
	if err != nil || len(ids) != 2 || d.c.log.StartOffset() != ids[1].offset {
		t.Errorf("snapshots %v, log start %d, %v", ids, d.c.log.StartOffset(), err)
	}
	logID, tp := MetadataPartition()
	if logID.Topic.String() != "AAAAAAAAAAAAAAAAAAAAAQ" || tp.String() != "__cluster_metadata-0" {
		t.Errorf("%s %s", logID, tp)
	}
	l := d.c.log.(*store.Log)
	if !l.Config().Strict || !l.Config().Internal || l.HighWatermark() != l.EndOffset() {
		t.Errorf("%+v, high watermark %d of %d", l.Config(), l.HighWatermark(), l.EndOffset())
	}
	d.close()
}

// step is one command of the crash test, with what the metadata hold after it.
type step struct {
	command meta.Command
	topics  []string
	next    kafkaproto.ProducerID
}

// nextStep draws a command. Creations make two topics at once, so that half a command would show.
func nextStep(rng *rand.Rand, n int, before step) step {
	after := step{topics: slices.Clone(before.topics), next: before.next}
	switch k := rng.IntN(4); {
	case k == 0 && len(before.topics) > 0:
		at := rng.IntN(len(before.topics))
		after.command = meta.DeleteTopics{Topics: []meta.TopicRef{{Name: before.topics[at]}}}
		after.topics = slices.Delete(after.topics, at, at+1)
	case k == 1:
		after.command = meta.AllocateProducerIDs{Node: 1}
		after.next += meta.ProducerIDBlockSize
	default:
		var cmd meta.CreateTopics
		for _, half := range []string{"a", "b"} {
			name := fmt.Sprintf("t%06d%s", n, half)
			cmd.Topics = append(cmd.Topics, meta.NewTopic{Name: name, Partitions: 3, Replication: 1})
			after.topics = append(after.topics, name)
		}
		after.command = cmd
	}
	return after
}

// TestCrashes: whatever a kill or a power loss takes, what was answered is there, and what is there
// is the state after some whole command (Q1, Q2, Q5).
func TestCrashes(t *testing.T) {
	run := tier.Of(t, 40, 0)
	for seed := range run.Seeds() {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := newDisk(t, vfs.PowerLoss(seed), map[string]string{"metadata.log.max.record.bytes.between.snapshots": "4000"})
		d.open()
		id := d.c.Identity()
		last := step{}
		n := 0
		for range 4 {
			steps := []step{last}
			var answered atomic.Int64
			var wg sync.WaitGroup
			for range rng.IntN(60) {
				n++
				s := nextStep(rng, n, steps[len(steps)-1])
				steps = append(steps, s)
				at := int64(len(steps) - 1)
				wg.Add(1)
				d.c.Submit(s.command, func(_ meta.Result, err error) {
					if err == nil {
						answered.Store(at)
					}
					wg.Done()
				})
				if rng.IntN(4) == 0 {
					busy(d.c)
				}
			}
			kind := vfs.CrashKind(rng.IntN(2))
			d.crash(kind)
			wg.Wait()
			d.open()
			last = checkCrash(t, seed, d.c, steps, int(answered.Load()))
			if d.c.Identity() != id {
				t.Fatalf("seed %d: identity %+v, was %+v", seed, d.c.Identity(), id)
			}
		}
		d.close()
	}
	run.Report(t, "4 crashes each")
}

// checkCrash finds the command that the image is the state after.
func checkCrash(t *testing.T, seed uint64, c *Controller, steps []step, answered int) step {
	t.Helper()
	img := c.Image()
	got := topics(img)
	for at := len(steps) - 1; at >= answered; at-- {
		want := slices.Sorted(slices.Values(steps[at].topics))
		if slices.Equal(got, want) && img.NextProducerID() == steps[at].next {
			return steps[at]
		}
	}
	t.Fatalf("seed %d: %d of %d commands were answered; topics %v, producer id %d\nwant at least %v, %d",
		seed, answered, len(steps)-1, got, img.NextProducerID(), steps[answered].topics, steps[answered].next)
	return step{}
}

// TestSyncError: a failed sync stops the controller with the store; nothing unsynced was answered.
func TestSyncError(t *testing.T) {
	fs := vfs.PowerLoss(1)
	d := newDisk(t, fs, nil)
	d.open()
	create(t, d.c, "a")
	fs.FailSync(1)
	_, err := d.c.Do(meta.DeleteTopics{Topics: []meta.TopicRef{{Name: "a"}}})
	if err == nil || len(topics(d.c.Image())) != 1 {
		t.Errorf("%v, topics %v", err, topics(d.c.Image()))
	}
	if _, err := d.c.Do(meta.AllocateProducerIDs{Node: 1}); err == nil {
		t.Error("a command was taken after a failed sync")
	}
	d.crash(vfs.PowerCrash)
}
