package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto/tier"
)

// history is what clients of a fault test have seen.
type history struct {
	mu      sync.Mutex
	made    map[string]bool // topics: answered, or not known
	won     int             // changes for a version that were answered with success
	unknown int             // and without saying
	values  int             // so that no two changes set the same
	problem string
}

// TestFaults: brokers are cut off, stopped and started at random, while clients on all of them make topics and change one for the version they know. What was answered is there, once; no
// two admins undo each other; all brokers show the same in the end.
func TestFaults(t *testing.T) {
	run := tier.Of(t, 25, 0)
	for seed := range run.Seeds() {
		synctest.Test(t, func(t *testing.T) { faults(t, seed) })
	}
	run.Report(t, "40 faults each")
}

func faults(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	f := newFabric(t, []int{3, 3, 5}[rng.IntN(3)])
	defer f.close()
	if rng.IntN(2) == 0 {
		f.values["metadata.log.max.record.bytes.between.snapshots"] = "2000"
	}
	f.startAll()
	if err := made(f.brokers[0].controller().Do(createCmd("shared"))); err != nil {
		t.Fatal(err)
	}
	h := &history{made: map[string]bool{}}
	first := f.agree().Topic("shared").Version
	down := map[int]bool{}
	most := (len(f.brokers) - 1) / 2
	for n := range 40 {
		for range rng.IntN(4) {
			h.client(f.brokers[rng.IntN(len(f.brokers))].controller(), n, rng)
		}
		i := rng.IntN(len(f.brokers))
		switch b := f.brokers[i]; rng.IntN(5) {
		case 0:
			f.isolate(b, true)
		case 1:
			for _, b := range f.brokers {
				f.isolate(b, false)
			}
		case 2:
			if !down[i] && len(down) < most {
				b.stop()
				down[i] = true
			}
		case 3:
			for i := range down {
				f.brokers[i].start()
			}
			clear(down)
		}
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
	}
	for _, b := range f.brokers {
		f.isolate(b, false)
	}
	for i := range down {
		f.brokers[i].start()
	}
	f.enrolled(f.brokers...)
	time.Sleep(commandTimeout)
	synctest.Wait()
	img := f.agree()
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, answered := range h.made {
		if answered && img.Topic(name) == nil {
			t.Errorf("seed %d: topic %s was answered and is lost", seed, name)
		}
	}
	if changes := int(img.Topic("shared").Version - first); changes < h.won || changes > h.won+h.unknown {
		t.Errorf("seed %d: %d changes of the topic, %d were answered and %d may have been", seed, changes, h.won, h.unknown)
	}
	if h.problem != "" {
		t.Errorf("seed %d: %s", seed, h.problem)
	}
}

// client submits one command.
func (h *history) client(c *Controller, n int, rng *rand.Rand) {
	if c == nil {
		return
	}
	if rng.IntN(2) == 0 {
		name := fmt.Sprintf("t%d-%d", n, rng.IntN(1000))
		c.Submit(createCmd(name), func(r meta.Result, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			err = made(r, err)
			h.expect(name, err, kerr.TopicAlreadyExists)
			if h.made[name] = h.made[name] || err == nil; err == nil && c.Image().Topic(name) == nil {
				h.problem = "a topic was answered before the image of its broker showed it"
			}
		})
		return
	}
	h.mu.Lock()
	h.values++
	value := fmt.Sprint(100_000 + h.values)
	h.mu.Unlock()
	t := c.Image().Topic("shared")
	if t == nil {
		return // a broker that has only just started
	}
	c.Submit(meta.AlterConfigs{Resources: []meta.AlterResource{{Type: meta.ResourceTopic, Name: "shared", IfVersion: t.Version,
		Ops: []meta.AlterOp{{Name: "retention.ms", Value: &value}}}}}, func(r meta.Result, err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if err == nil {
			err = r.(meta.AlterConfigsResult).Resources[0].Err
		}
		h.expect("change", err, kerr.InvalidUpdateVersion)
		if err == nil {
			h.won++
		} else if !errors.Is(err, kerr.InvalidUpdateVersion) {
			h.unknown++
		}
	})
}

func (h *history) expect(what string, err error, also error) {
	if err != nil && !errors.Is(err, also) && !errors.Is(err, kerr.NotController) && !errors.Is(err, kerr.RequestTimedOut) {
		h.problem = fmt.Sprintf("%s: %v", what, err)
	}
}
