package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// TestFirstStart: ids are made once, without a format step, and kept.
func TestFirstStart(t *testing.T) {
	w := newWorld(t)
	w.static["broker.rack"] = "r1"
	c := w.open()
	id := c.Identity()
	if c.NodeID() != 1 || len(c.ClusterID()) != 22 || len(id.Directory) != 22 || id.Directory == c.ClusterID() {
		t.Errorf("identity %+v", id)
	}
	img := c.Image()
	if img.ClusterID() != c.ClusterID() || len(img.Features()) != 2 || img.Node(1).Rack != "r1" || img.Node(1).Directory != id.Directory {
		t.Errorf("image %v", img.Snapshot())
	}
	if b := c.o.Config.Broker(); b.NodeID != 1 {
		t.Errorf("node.id is not pinned: %d", b.NodeID)
	}
	create(t, c, "a")
	version := c.Image().Version()
	c = w.reopen(c)
	defer c.Close()
	if c.Identity() != id || !slices.Equal(topics(c.Image()), []string{"a"}) || c.Image().Version() != version {
		t.Errorf("after a restart: %+v, %v, version %d", c.Identity(), topics(c.Image()), c.Image().Version())
	}
}

// TestVersionIsOffset: each record takes one offset of the log.
func TestVersionIsOffset(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	create(t, c, "a", "b", "c")
	if c.Image().Version() != int64(w.log.EndOffset()) {
		t.Errorf("version %d, log end %d", c.Image().Version(), w.log.EndOffset())
	}
}

// TestGroupCommit: commands that come while a sync runs share the next one (Q1, Q3).
func TestGroupCommit(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	w.log.mu.Lock()
	w.log.hold = true
	before := len(w.log.batches)
	w.log.mu.Unlock()

	var answers sync.WaitGroup
	var order []int
	submit := func(n int) {
		answers.Add(1)
		c.Submit(meta.CreateTopics{Topics: []meta.NewTopic{{Name: fmt.Sprint("t", n), Partitions: 1, Replication: 1}}},
			func(res meta.Result, err error) {
				defer answers.Done()
				if err != nil || res.(meta.CreateTopicsResult).Topics[0].Err != nil {
					t.Errorf("command %d: %v", n, err)
				}
				if img := c.Image(); img.Topic(fmt.Sprint("t", n)) == nil {
					t.Errorf("command %d is answered before its image is seen", n)
				}
				order = append(order, n)
			})
	}
	submit(0)
	<-w.log.appended
	for n := 1; n < 10; n++ {
		submit(n)
	}
	if c.Image().TopicCount() != 0 {
		t.Error("an image is seen before it is synced")
	}
	w.log.sync()
	<-w.log.appended
	if got := topics(c.Image()); !slices.Equal(got, []string{"t0"}) {
		t.Errorf("after the first sync: %v", got)
	}
	w.log.sync()
	answers.Wait()
	w.log.mu.Lock()
	made := len(w.log.batches) - before
	w.log.hold = false
	w.log.mu.Unlock()
	if made != 2 || c.Image().TopicCount() != 10 || !slices.IsSorted(order) || len(order) != 10 {
		t.Errorf("%d batches, %d topics, answers %v", made, c.Image().TopicCount(), order)
	}
}

// TestLargeGroups: many commands make several batches, but a command is never divided (Q2).
func TestLargeGroups(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	w.log.mu.Lock()
	w.log.hold = true
	w.log.mu.Unlock()
	var answers sync.WaitGroup
	submit := func(topics ...meta.NewTopic) {
		answers.Add(1)
		c.Submit(meta.CreateTopics{Topics: topics}, func(_ meta.Result, err error) {
			if err != nil {
				t.Error(err)
			}
			answers.Done()
		})
	}
	submit(meta.NewTopic{Name: "first", Partitions: 1, Replication: 1})
	<-w.log.appended
	const commands = 60
	for n := range commands {
		submit(meta.NewTopic{Name: fmt.Sprint("a", n), Partitions: 5000, Replication: 1},
			meta.NewTopic{Name: fmt.Sprint("b", n), Partitions: 5000, Replication: 1})
	}
	w.log.mu.Lock()
	w.log.hold = false
	w.log.mu.Unlock()
	w.log.sync()
	answers.Wait()
	w.log.mu.Lock()
	for _, b := range w.log.batches[2:] {
		if b.Count() > 1 && b.Count()%2 != 0 || len(b) > 2*batchBytes {
			t.Errorf("a batch of %d records and %d bytes", b.Count(), len(b))
		}
	}
	if len(w.log.batches) < 5 || len(w.log.batches) > commands/2 {
		t.Errorf("%d batches", len(w.log.batches))
	}
	w.log.mu.Unlock()
	c = w.reopen(c)
	defer c.Close()
	if got := c.Image().TopicCount(); got != 1+2*commands {
		t.Errorf("%d topics after a restart", got)
	}
}

// TestAppendFails: the command fails, the image is as before, and the next one works (Q7).
func TestAppendFails(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	w.log.mu.Lock()
	w.log.fail = kafkaproto.Faultf(kerr.KafkaStorageError, "disk full")
	w.log.mu.Unlock()
	version := c.Image().Version()
	ask := meta.CreateTopics{Topics: []meta.NewTopic{{Name: "a", Partitions: 1, Replication: 1}}}
	res, err := c.Do(ask)
	if kafkaproto.Code(err) != kerr.KafkaStorageError.Code || res != nil || c.Image().Version() != version {
		t.Errorf("%v, %v, version %d", res, err, c.Image().Version())
	}
	create(t, c, "a")
	if c.Image().Version() != version+1 || c.Image().Version() != int64(w.log.EndOffset()) {
		t.Errorf("version %d, end %d", c.Image().Version(), w.log.EndOffset())
	}
}

// TestSyncFails: nothing is taken any more, and nothing unsynced was seen (Q1, Q7).
func TestSyncFails(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	create(t, c, "a")
	w.log.mu.Lock()
	w.log.hold = true
	w.log.mu.Unlock()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Do(meta.DeleteTopics{Topics: []meta.TopicRef{{Name: "a"}}})
		failed <- err
	}()
	<-w.log.appended
	w.log.break_(errTest)
	if err := <-failed; !errors.Is(err, errTest) {
		t.Errorf("the command got %v", err)
	}
	for range 2 {
		if _, err := c.Do(meta.AllocateProducerIDs{Node: 1}); !errors.Is(err, errTest) {
			t.Errorf("a later command got %v", err)
		}
	}
	if got := topics(c.Image()); !slices.Equal(got, []string{"a"}) {
		t.Errorf("topics %v", got)
	}
}

// TestSubscribers see every image in order, before Image and before the answer (Q4).
func TestSubscribers(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	var last *meta.Image
	var seen []string
	c.Subscribe(func(old, img *meta.Image) {
		if last == nil && old.Version() != 0 || last != nil && old != last {
			t.Errorf("old image of version %d", old.Version())
		}
		if last != nil && c.Image() != old {
			t.Error("Image gives the new image before subscribers have seen it")
		}
		last = img
		seen = topics(img)
	})
	if last != c.Image() {
		t.Error("the present image is not told")
	}
	for n := range 5 {
		create(t, c, fmt.Sprint("t", n))
		if len(seen) != n+1 || c.Image() != last {
			t.Errorf("answered before the subscriber saw it: %v", seen)
		}
	}
	res, err := c.Do(meta.AlterConfigs{Resources: []meta.AlterResource{{Type: meta.ResourceBroker, Name: "1",
		Ops: []meta.AlterOp{{Name: "message.max.bytes", Value: new("77")}}}}})
	if err != nil || res.(meta.AlterConfigsResult).Resources[0].Err != nil {
		t.Fatal(res, err)
	}
	if got := c.o.Config.Topic(nil).MaxMessageBytes; got != 77 {
		t.Errorf("the dynamic setting is not in force: %d", got)
	}
}

// TestReadOnlyCommands wait for no sync: they change nothing.
func TestReadOnlyCommands(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	w.log.mu.Lock()
	w.log.hold = true
	end := w.log.end
	w.log.mu.Unlock()
	res, err := Call[meta.CreateTopicsResult](c, meta.CreateTopics{ValidateOnly: true,
		Topics: []meta.NewTopic{{Name: "a", Partitions: 1, Replication: 1}, {Name: "b c", Partitions: 1, Replication: 1}}})
	if err != nil || res.Topics[0].Err != nil || res.Topics[1].Err == nil || w.log.EndOffset() != end {
		t.Errorf("%+v, %v, end %d", res, err, w.log.EndOffset())
	}
}

// TestCommandFails: the error of a whole command reaches its caller and nobody else.
func TestCommandFails(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	_, err := c.Do(meta.RegisterBroker{ID: 1, Directory: "another"})
	if kafkaproto.Code(err) != kerr.DuplicateBrokerRegistration.Code {
		t.Error(err)
	}
	create(t, c, "a")
}

// TestClose: what is queued is refused with a code that clients retry on.
func TestClose(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	w.log.mu.Lock()
	w.log.hold = true
	w.log.mu.Unlock()
	results := make(chan error, 2)
	ask := func(name string) {
		c.Submit(meta.CreateTopics{Topics: []meta.NewTopic{{Name: name, Partitions: 1, Replication: 1}}},
			func(_ meta.Result, err error) { results <- err })
	}
	ask("a")
	<-w.log.appended
	ask("b")
	closed := make(chan struct{})
	go func() {
		_ = c.Close()
		close(closed)
	}()
	<-c.stop
	w.log.sync()
	if err := <-results; err != nil {
		t.Errorf("what was under way got %v", err)
	}
	if err := <-results; kafkaproto.Code(err) != kerr.NotController.Code {
		t.Errorf("what was queued got %v", err)
	}
	<-closed
	if _, err := c.Do(meta.AllocateProducerIDs{}); kafkaproto.Code(err) != kerr.NotController.Code {
		t.Errorf("after Close: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestConcurrentDo: many callers at once, each with its own answer.
func TestConcurrentDo(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	firsts := map[kafkaproto.ProducerID]bool{}
	for range 8 {
		wg.Go(func() {
			for range 25 {
				b, err := Call[meta.ProducerIDBlock](c, meta.AllocateProducerIDs{Node: 1})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				if firsts[b.First] {
					t.Errorf("block %d was given twice", b.First)
				}
				firsts[b.First] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if c.Image().NextProducerID() != 200*meta.ProducerIDBlockSize {
		t.Errorf("next producer id %d", c.Image().NextProducerID())
	}
}

// TestDamagedLog: what is not ours, or not whole, is refused with the place.
func TestDamagedLog(t *testing.T) {
	for name, harm := range map[string]func(l *fakeLog){
		"crc":     func(l *fakeLog) { l.batches[1][len(l.batches[1])-1] ^= 1 },
		"order":   func(l *fakeLog) { l.batches[1], l.batches[2] = l.batches[2], l.batches[1] },
		"missing": func(l *fakeLog) { l.batches = slices.Delete(l.batches, 1, 2) },
		"empty":   func(l *fakeLog) { l.batches = nil },
		"offline": func(l *fakeLog) { l.offline = kafkaproto.MarkCorrupt(errTest) },
	} {
		w := newWorld(t)
		c := w.open()
		create(t, c, "a")
		create(t, c, "b")
		_ = c.Close()
		harm(w.log)
		if _, err := w.tryOpen(); !kafkaproto.IsCorrupt(err) || !strings.Contains(err.Error(), "__cluster_metadata-0") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
