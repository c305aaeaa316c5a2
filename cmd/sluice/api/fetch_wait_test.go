package api

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/replica/engine"
)

// pollRig runs a test in a bubble: time passes when everything waits.
func pollRig(t *testing.T, config map[string]string, fn func(*testing.T, *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigOptions{config: config, quiet: true})
		fn(t, r)
		r.close()
	})
}

// wantWait receives the answer and checks how long it took.
func (c *client) wantWait(what string, req *kmsg.FetchRequest, began time.Time, want time.Duration) *kmsg.FetchResponse {
	c.t.Helper()
	resp := c.receive(req).(*kmsg.FetchResponse)
	if took := time.Since(began); took != want {
		c.t.Errorf("%s: answered after %v, want %v", what, took, want)
	}
	return resp
}

// TestRow28LongPoll answers a fetch at once when there is enough or an error, else when enough came
// or its time is over.
func TestRow28LongPoll(t *testing.T) {
	const wait = 3 * time.Second
	pollRig(t, nil, func(t *testing.T, r *rig) {
		topic, other := r.create("t", 2), r.create("other", 1)
		r.fill(topic, 0, 1, 100)
		small := int32(topic.Partitions[0].Size())
		gone := &Topic{Name: "gone", ID: kafkaproto.TopicID{9}}
		c := r.dial()
		tail := asking{topic: topic, offset: 1}
		for _, x := range []struct {
			name string
			min  int32
			asks []asking
			want time.Duration
		}{
			{"enough", small, []asking{{topic: topic}}, 0},
			{"too little", small + 1, []asking{{topic: topic}}, wait},
			{"no minimum", 0, []asking{tail}, 0},
			{"nothing", 1, []asking{tail}, wait},
			{"no partitions", 1, nil, 0},
			{"an error beside", 1, []asking{tail, {topic: topic, partition: 1, offset: 5}}, 0},
			{"unknown beside", 1, []asking{tail, {topic: gone}}, wait},
			{"unknown partition beside", 1, []asking{tail, {topic: topic, partition: 9}}, wait},
			{"unknown alone", 1, []asking{{topic: gone}, {topic: topic, partition: 9}}, 0},
			{"minimum above all limits", 1 << 30, []asking{{topic: topic, maxBytes: 10}}, wait},
		} {
			req := fetchOf(x.asks...)
			req.MaxWaitMillis, req.MinBytes = int32(wait.Milliseconds()), x.min
			req.SetVersion(18)
			began := time.Now()
			c.send(req)
			resp := c.wantWait(x.name, req, began, x.want)
			if got := len(flatFetch(resp)); got != len(x.asks) {
				t.Errorf("%s: %d partitions answered, want %d", x.name, got, len(x.asks))
			}
		}

		// A minimum above the request's own limit is met by what the limit allows.
		req := fetchOf(asking{topic: topic})
		req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 3000, 1<<20, 50
		req.SetVersion(18)
		began := time.Now()
		c.send(req)
		c.wantWait("minimum above max_bytes", req, began, 0)

		// Records that come end the wait, when they are enough.
		req = fetchOf(tail, asking{topic: other})
		req.MaxWaitMillis, req.MinBytes = 3000, 2*small
		req.SetVersion(18)
		began = time.Now()
		c.send(req)
		for i := range 2 {
			time.Sleep(time.Second)
			r.fill([]*Topic{other, topic}[i], 0, 1, 100)
		}
		resp := c.wantWait("enough came", req, began, 2*time.Second)
		for _, p := range flatFetch(resp) {
			if len(offsetsIn(t, p.RecordBatches)) != 1 {
				t.Errorf("partition %+v has not one record", p)
			}
		}

		// So do a partition that fails and a topic that is deleted.
		req = fetchOf(asking{topic: other, offset: 1})
		req.MaxWaitMillis = 3000
		req.SetVersion(18)
		began = time.Now()
		c.send(req)
		time.Sleep(time.Second)
		r.delete("other")
		resp = c.wantWait("deleted", req, began, time.Second)
		if code := flatFetch(resp)[0].ErrorCode; code != kerr.UnknownTopicOrPartition.Code && code != kerr.UnknownTopicID.Code {
			t.Errorf("fetch of a deleted topic: code %d", code)
		}
	})
}

// TestRow28SegmentEnd does not wait for more bytes where the range ends with its segment and the
// next one has them.
func TestRow28SegmentEnd(t *testing.T) {
	pollRig(t, nil, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		r.fill(topic, 0, 2, 100)
		if err := topic.Partitions[0].Log().Roll(); err != nil {
			t.Fatal(err)
		}
		r.fill(topic, 0, 2, 100)
		c := r.dial()
		for offset, want := range map[int64]time.Duration{0: 0, 1: 0, 2: time.Second} {
			req := fetchOf(asking{topic: topic, offset: offset})
			req.MaxWaitMillis, req.MinBytes = 1000, 1<<20
			req.SetVersion(18)
			began := time.Now()
			c.send(req)
			c.wantWait("segment end", req, began, want)
		}
	})
}

// TestRow28StrictWakesOnSync parks a fetch until what was appended is synced: a record that is only
// written does not wake it.
func TestRow28StrictWakesOnSync(t *testing.T) {
	pollRig(t, map[string]string{"sluice.durability": "strict"}, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		r.hold()
		c := r.dial()
		req := fetchOf(asking{topic: topic})
		req.MaxWaitMillis = 60_000
		req.SetVersion(18)
		began := time.Now()
		c.send(req)
		if _, err := topic.Partitions[0].Append(recordsOf(batch.BuilderOptions{}, 10), engine.AppendOptions{NowMs: 1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		r.letGo()
		resp := c.wantWait("synced", req, began, 2*time.Second)
		if p := flatFetch(resp)[0]; p.HighWatermark != 1 || len(offsetsIn(t, p.RecordBatches)) != 1 {
			t.Errorf("got %+v", p)
		}
	})
}

// parkedFetch gives the one fetch that waits.
func (r *rig) parkedFetch() (*ClientInfo, *fetchOp) {
	r.t.Helper()
	synctest.Wait()
	for info := range r.broker.conns.Range {
		if ops := info.(*ClientInfo).waiting(); len(ops) == 1 {
			return info.(*ClientInfo), ops[0]
		}
	}
	r.t.Fatal("no fetch waits")
	return nil, nil
}

// TestWaitEndsWithConnection lets go of a parked fetch when its client is gone, not at its deadline.
func TestWaitEndsWithConnection(t *testing.T) {
	pollRig(t, nil, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		c := r.dial()
		req := fetchOf(asking{topic: topic})
		req.MaxWaitMillis = 1 << 30
		req.SetVersion(18)
		c.send(req)
		info, op := r.parkedFetch()
		if err := c.conn.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		op.mu.Lock()
		defer op.mu.Unlock()
		if !op.done || op.watched != nil || op.timer.Stop() || len(info.waiting()) != 0 {
			t.Errorf("the wait goes on: done %v, %d partitions watched", op.done, len(op.watched))
		}
		if n := r.server.InflightBytes(); n != 0 {
			t.Errorf("%d bytes are still accounted", n)
		}
	})
}

// TestDrain answers parked fetches when the broker stops, so that the server can end at once.
func TestDrain(t *testing.T) {
	pollRig(t, nil, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		c := r.dial()
		req := fetchOf(asking{topic: topic})
		req.MaxWaitMillis = 1 << 30
		req.SetVersion(18)
		c.send(req)
		r.parkedFetch()
		began := time.Now()
		r.broker.Drain()
		if p := flatFetch(c.wantWait("drained", req, began, 0))[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
			t.Errorf("got %+v", p)
		}
		c.send(req)
		c.wantWait("after Drain", req, began, 0)
		if err := r.server.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFetchStats counts traffic by topic, once for each answer.
func TestFetchStats(t *testing.T) {
	pollRig(t, nil, func(t *testing.T, r *rig) {
		topic := r.create("t", 2)
		gone := &Topic{Name: "gone", ID: kafkaproto.TopicID{9}}
		c := r.dial()
		req := fetchOf(asking{topic: topic}, asking{topic: topic, partition: 9}, asking{topic: gone})
		req.MaxWaitMillis, req.MinBytes = 5000, 1<<20
		req.SetVersion(18)
		c.send(req)
		for range 3 { // each is looked at, and is too little
			synctest.Wait()
			r.fill(topic, 0, 1, 100)
		}
		c.receive(req)
		s, all := topic.Stats, &r.broker.Stats.All
		if s.FetchRequests.Load() != 1 || s.FailedFetches.Load() != 1 || all.FailedFetches.Load() != 2 ||
			all.FetchRequests.Load() != 1 || s.BytesOut.Load() != topic.Partitions[0].Size() ||
			all.BytesOut.Load() != s.BytesOut.Load() {
			t.Errorf("topic %+v, all %+v", s, all)
		}
	})
}
