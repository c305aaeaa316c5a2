package quorum

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/log/vfs"
)

// TestFoundThree: three brokers that are given the same seeds make one cluster, and every one serves the
// metadata and takes commands.
func TestFoundThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		f.voters(3, 0)
		for i, b := range f.brokers {
			c := b.controller()
			if id := int(c.NodeID()); id != i+1 || c.ClusterID() != f.brokers[0].controller().ClusterID() {
				t.Errorf("%s is node %d of %s", b.addr, id, c.ClusterID())
			}
			if err := made(c.Do(createCmd(b.addr[:2]))); err != nil {
				t.Errorf("%s: %v", b.addr, err)
			}
			if c.Image().Topic(b.addr[:2]) == nil {
				t.Errorf("%s has answered before its own image showed the topic", b.addr)
			}
		}
		if img := f.agree(); img.TopicCount() != 3 || len(img.Nodes()) != 3 {
			t.Errorf("%d topics, %d brokers", img.TopicCount(), len(img.Nodes()))
		}
	})
}

// TestGrow: a cluster of one broker that ran without peers gets others, which join with the seeds
// alone; voters follow their number, up and down again.
func TestGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 1)
		defer f.close()
		d := newDisk(t, f.brokers[0].fs, nil)
		d.open()
		create(t, d.c, "solo")
		id := d.c.Identity()
		d.close()
		f.startAll()
		c := f.brokers[0].controller()
		if c.Identity() != id || c.Image().Topic("solo") == nil {
			t.Errorf("%+v, was %+v; topics %v", c.Identity(), id, topics(c.Image()))
		}
		for n, want := range [][2]int{{1, 1}, {3, 0}, {3, 1}, {5, 0}, {5, 1}} {
			b := f.add()
			b.start()
			f.enrolled(b)
			f.voters(want[0], want[1])
			if id := b.controller().NodeID(); int(id) != n+2 {
				t.Errorf("%s is node %d", b.addr, id)
			}
			if err := made(b.controller().Do(createCmd("by" + b.addr[:2]))); err != nil {
				t.Errorf("%s: %v", b.addr, err)
			}
		}
		f.agree()
		// Those that go are no voters any more, the leader neither.
		for _, want := range [][2]int{{5, 0}, {3, 1}, {3, 0}, {1, 1}} {
			b := f.leader()
			if _, err := b.controller().Do(meta.UnregisterBroker{ID: b.controller().NodeID()}); err != nil {
				t.Fatal(err)
			}
			f.until("another leads", func() bool { return !b.controller().Leadership().Leading })
			b.stop()
			f.voters(want[0], want[1])
		}
		if err := made(f.leader().controller().Do(createCmd("last"))); err != nil {
			t.Error(err)
		}
	})
}

// TestFailover: commands given on every broker go on when the leader is lost; what was answered stays,
// what is answered with an error may have been done, and is done once.
func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 5)
		defer f.close()
		f.startAll()
		f.voters(5, 0)
		old := f.leader()
		var got []chan error
		submit := func(round int) {
			for _, b := range f.brokers {
				got = append(got, do(b.controller(), createCmd(fmt.Sprintf("t%d-%s", round, b.addr[:2]))))
			}
		}
		submit(0)
		f.isolate(old, true)
		submit(1)
		time.Sleep(time.Second)
		submit(2)
		now := f.leader(old)
		time.Sleep(commandTimeout)
		f.isolate(old, false)
		img := f.agree()
		for i, g := range got {
			name := fmt.Sprintf("t%d-%s", i/5, f.brokers[i%5].addr[:2])
			err := fate(g)
			switch {
			case err == nil && img.Topic(name) == nil:
				t.Errorf("%s was answered and is lost", name)
			case err == nil, errors.Is(err, kerr.NotController), errors.Is(err, kerr.RequestTimedOut):
			default:
				t.Errorf("%s: %v", name, err)
			}
			if b := f.brokers[i%5]; b != old && i >= 10 && err != nil {
				t.Errorf("%s of a broker in the majority: %v", name, err)
			}
		}
		if err := made(old.controller().Do(createCmd("after"))); err != nil {
			t.Error(err)
		}
		if now.controller().Image().Topic("after") == nil {
			t.Error("the leader does not show what it did")
		}
	})
}

// TestCutOff: what a leader without a majority has written is answered with NOT_CONTROLLER, is in no
// image, and does not come back; what comes back is the log.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		f.voters(3, 0)
		f.agree()
		old := f.leader()
		c := old.controller()
		f.isolate(old, true)
		lost := do(c, createCmd("lost"))
		stale := do(c, meta.CreateTopics{ValidateOnly: true, Topics: []meta.NewTopic{{Name: "new", Partitions: 1, Replication: 1}}})
		synctest.Wait()
		if c.rep.p.LogEnd() == c.rep.p.HighWatermark() {
			t.Fatal("nothing was written")
		}
		now := f.leader(old).controller()
		if err := made(now.Do(createCmd("new"))); err != nil {
			t.Fatal(err)
		}
		f.until("answers", func() bool { return len(lost) == 1 })
		if err := fate(lost); !errors.Is(err, kerr.NotController) || c.Image().Topic("lost") != nil {
			t.Errorf("%v; topics %v", err, topics(c.Image()))
		}
		if err := fate(stale); err == nil {
			t.Error("a leader that has lost its majority has answered from an image of before")
		}
		f.isolate(old, false)
		if img := f.agree(); img.Topic("lost") != nil || img.Topic("new") == nil {
			t.Errorf("topics %v", topics(img))
		}
	})
}

// TestAnswerLost: a command whose answer is lost was carried out; it is not repeated, unless that does
// no harm.
func TestAnswerLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		lead := f.leader()
		other := f.brokers[0]
		if other == lead {
			other = f.brokers[1]
		}
		c := other.controller()
		lose := func(m uint16) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.loseAnswers[lead.addr], f.calls[MethodCommand] = m, 0
		}
		lose(MethodCommand)
		err := made(c.Do(createCmd("once")))
		if f.calls[MethodCommand] != 1 || !errors.Is(err, kerr.RequestTimedOut) {
			t.Errorf("%d calls, %v", f.calls[MethodCommand], err)
		}
		f.until("the topic is there", func() bool { return c.Image().Topic("once") != nil })
		before := c.Image().NextProducerID()
		got := make(chan error, 1)
		c.Submit(meta.AllocateProducerIDs{Node: c.NodeID()}, func(r meta.Result, err error) {
			if b, ok := r.(meta.ProducerIDBlock); ok && b.First < before+2*meta.ProducerIDBlockSize {
				err = fmt.Errorf("block %d given twice", b.First)
			}
			got <- err
		})
		time.Sleep(5 * retryMost)
		lose(0)
		f.until("answered", func() bool { return len(got) == 1 })
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// TestNoController: without a majority commands wait for a bound, then fail with an error that can be
// retried.
func TestNoController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		f.voters(3, 0)
		lead := f.leader()
		var left *broker
		for _, b := range f.brokers {
			if b != lead && left == nil {
				left = b
				continue
			}
			b.stop()
		}
		// Before that it would send the command on to who led, and not know what became of it.
		f.until("nobody is taken for the leader", func() bool { return left.controller().Leadership().Leader < 0 })
		began := time.Now()
		err := made(left.controller().Do(createCmd("x")))
		if !errors.Is(err, kerr.NotController) || time.Since(began) < commandTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		waiting := do(left.controller(), createCmd("y"))
		lead.start()
		f.until("answered", func() bool { return len(waiting) == 1 })
		// Who leads may change once more on the way: then it is not known what became of it (Q11).
		if err := <-waiting; err != nil && !errors.Is(err, kerr.RequestTimedOut) {
			t.Error(err)
		}
	})
}

// TestTwoAdmins: two of them that change the same topic for the version they know, on two brokers.
func TestTwoAdmins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		if err := made(f.brokers[0].controller().Do(createCmd("t"))); err != nil {
			t.Fatal(err)
		}
		version := f.agree().Topic("t").Version
		change := func(c *Controller, value string) chan error {
			got := make(chan error, 1)
			cmd := meta.AlterConfigs{Resources: []meta.AlterResource{{Type: meta.ResourceTopic, Name: "t", IfVersion: version,
				Ops: []meta.AlterOp{{Name: "retention.ms", Value: &value}}}}}
			c.Submit(cmd, func(r meta.Result, err error) {
				if err == nil {
					err = r.(meta.AlterConfigsResult).Resources[0].Err
				}
				got <- err
			})
			return got
		}
		won := 0
		for i, g := range []chan error{change(f.brokers[1].controller(), "1000"), change(f.brokers[2].controller(), "2000")} {
			switch err := <-g; {
			case err == nil:
				won++
			case !errors.Is(err, kerr.InvalidUpdateVersion):
				t.Errorf("admin %d: %v", i, err)
			}
		}
		if img := f.agree(); won != 1 || img.Topic("t").Version != version+1 {
			t.Errorf("%d admins have changed version %d into %d", won, version, img.Topic("t").Version)
		}
	})
}

// TestBelowLogStart: brokers that were away while the log start moved, and one that joins, get the image
// from another and go on; restarts need nobody.
func TestBelowLogStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.values["metadata.log.max.record.bytes.between.snapshots"] = "3000"
		f.startAll()
		f.voters(3, 0)
		away := f.brokers[2]
		away.stop()
		at := away.member.Identity.NodeID
		c := f.leader().controller()
		for i := range 60 {
			if err := made(c.Do(createCmd(fmt.Sprint("t", i)))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		f.until("the log start has moved", func() bool { return c.rep.p.LogStart() > 20 })
		away.start()
		f.enrolled(away)
		if away.controller().NodeID() != at {
			t.Errorf("node %d was %d", away.controller().NodeID(), at)
		}
		joins := f.add()
		joins.start()
		f.enrolled(joins)
		if img := f.agree(); img.TopicCount() != 60 || f.calls[MethodImage] < 2 {
			t.Errorf("%d topics, %d images were sent", img.TopicCount(), f.calls[MethodImage])
		}
		for _, b := range f.brokers {
			b.stop()
			b.start()
			f.enrolled(b)
		}
		if img := f.agree(); img.TopicCount() != 60 {
			t.Errorf("%d topics after restarts", img.TopicCount())
		}
		for _, b := range f.brokers {
			if ids, err := listSnapshots(b.fs, b.metaDir()); err != nil || len(ids) == 0 || len(ids) > 3 {
				t.Errorf("%s: snapshots %v, %v", b.addr, ids, err)
			}
		}
	})
}

// TestWipedDisk: a broker that has lost its disk is another one; the old one is taken out.
func TestWipedDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		f.voters(3, 0)
		lost := f.brokers[2]
		old := lost.controller().NodeID()
		lost.stop()
		lost.fs = vfs.Memory()
		lost.start()
		f.enrolled(lost)
		if id := lost.controller().NodeID(); id == old || lost.controller().ClusterID() != f.brokers[0].controller().ClusterID() {
			t.Errorf("node %d of %s", id, lost.controller().ClusterID())
		}
		if _, err := f.leader().controller().Do(meta.UnregisterBroker{ID: old}); err != nil {
			t.Fatal(err)
		}
		f.voters(3, 0)
		f.agree()
	})
}

// TestDeletedOnSeveral: each broker can tell which topics were deleted behind its newest snapshot.
func TestDeletedOnSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		c := f.leader().controller()
		if err := made(c.Do(createCmd("gone"))); err != nil {
			t.Fatal(err)
		}
		id := c.Image().Topic("gone").ID
		if _, err := c.Do(meta.DeleteTopics{Topics: []meta.TopicRef{{Name: "gone"}}}); err != nil {
			t.Fatal(err)
		}
		f.agree()
		for _, b := range f.brokers {
			if got, err := b.controller().Deleted(); err != nil || len(got) != 1 || !got[id] {
				t.Errorf("%s: %v, %v", b.addr, got, err)
			}
		}
	})
}

// TestStaleLeader: a leader that was cut off and does not know it yet answers nothing, not even what it
// need not write.
func TestStaleLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		f.voters(3, 0)
		f.agree()
		old := f.leader()
		ask := meta.CreateTopics{ValidateOnly: true, Topics: []meta.NewTopic{{Name: "new", Partitions: 1, Replication: 1}}}
		if err := made(old.controller().Do(ask)); err != nil {
			t.Error(err)
		}
		f.isolate(old, true)
		got := do(old.controller(), ask)
		if err := fate(got); !errors.Is(err, errNothing) || !old.controller().Leadership().Ready {
			t.Errorf("answered without a majority: %v", err)
		}
		if err := made(f.leader(old).controller().Do(createCmd("new"))); err != nil {
			t.Error(err)
		}
		f.isolate(old, false)
		f.until("answered", func() bool { return len(got) == 1 })
		if err := <-got; !errors.Is(err, kerr.TopicAlreadyExists) {
			t.Errorf("answered from an image of before: %v", err)
		}
	})
}

// TestMemberNotAlone: the directory of a broker with peers is not opened alone, and not changed.
func TestMemberNotAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFabric(t, 3)
		defer f.close()
		f.startAll()
		b := f.brokers[1]
		b.stop()
		if _, err := Open(Options{FS: b.fs, Dir: "data"}); err == nil || !strings.Contains(err.Error(), "has peers") {
			t.Error(err)
		}
		b.start()
		f.enrolled(b)
	})
}
