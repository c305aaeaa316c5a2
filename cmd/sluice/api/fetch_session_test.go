package api

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// session is a consumer that keeps its fetch session as clients do.
type session struct {
	c       *client
	version int16
	id      int32
	epoch   int32
}

// fetch sends the changes of the session and gives the answer.
func (s *session) fetch(forget []asking, asks ...asking) *kmsg.FetchResponse {
	s.c.t.Helper()
	req := fetchOf(asks...)
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	for _, f := range forget {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.Topic, t.TopicID, t.Partitions = f.topic.Name, f.topic.ID, []int32{f.partition}
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	resp := ask[*kmsg.FetchResponse](s.c, req, s.version)
	if resp.ErrorCode == 0 {
		s.id = resp.SessionID
		s.epoch++
	}
	return resp
}

// named lists the partitions that an answer names.
func named(resp *kmsg.FetchResponse) []int32 {
	out := []int32{}
	for _, p := range flatFetch(resp) {
		out = append(out, p.Partition)
	}
	return out
}

func wantNamed(t *testing.T, what string, resp *kmsg.FetchResponse, want ...int32) {
	t.Helper()
	wantCode(t, what, resp.ErrorCode, nil)
	if got := named(resp); !slices.Equal(got, append([]int32{}, want...)) {
		t.Errorf("%s: partitions %v, want %v", what, got, want)
	}
}

// TestRow29Sessions names in an incremental answer what changed: records, high watermark, log start
// or an error, and takes in what a request adds, changes and forgets.
func TestRow29Sessions(t *testing.T) {
	for v := int16(7); v <= 18; v++ {
		r := newRig(t, rigOptions{})
		topic := r.create("t", 4)
		at := func(n int32, offset int64) asking { return asking{topic: topic, partition: n, offset: offset} }
		s := &session{c: r.dial(), version: v}
		wantNamed(t, "first", s.fetch(nil, at(0, 0), at(1, 0), at(2, 0)), 0, 1, 2)
		if s.id == 0 {
			t.Fatal("no session was made")
		}
		wantNamed(t, "nothing changed", s.fetch(nil))
		r.fill(topic, 1, 2, 10)
		wantNamed(t, "records", s.fetch(nil), 1)
		wantNamed(t, "records not acknowledged come again", s.fetch(nil), 1)
		wantNamed(t, "acknowledged", s.fetch(nil, at(1, 2)))
		wantNamed(t, "added", s.fetch(nil, at(3, 0)), 3)
		if _, err := topic.Partitions[1].DeleteRecords(1); err != nil {
			t.Fatal(err)
		}
		wantNamed(t, "log start moved", s.fetch(nil), 1)
		wantNamed(t, "log start was told", s.fetch(nil))
		wantNamed(t, "error", s.fetch(nil, at(1, 99)), 1)
		wantNamed(t, "error again", s.fetch(nil), 1)
		wantNamed(t, "error gone", s.fetch(nil, at(1, 2)), 1)
		r.fill(topic, 1, 1, 10)
		wantNamed(t, "high watermark behind a forgotten partition", s.fetch([]asking{at(1, 0)}))
		wantNamed(t, "forgotten and unknown", s.fetch([]asking{at(1, 0), at(9, 0)}))
		wantNamed(t, "added again", s.fetch(nil, at(1, 3)), 1)
		if r.broker.Sessions() != 1 {
			t.Errorf("%d sessions", r.broker.Sessions())
		}
		old := s.id
		resp := s.fetch([]asking{at(0, 0), at(1, 0), at(2, 0), at(3, 0)})
		wantNamed(t, "last one forgotten", resp)
		if resp.SessionID != 0 || r.broker.Sessions() != 0 {
			t.Errorf("session %d after the last partition, %d sessions", resp.SessionID, r.broker.Sessions())
		}
		s.id = old
		wantCode(t, "ended session", s.fetch(nil).ErrorCode, kerr.FetchSessionIDNotFound)
		r.close()
	}
}

// TestRow29SessionErrors refuses what does not go on where the session is.
func TestRow29SessionErrors(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	c := r.dial()
	s := &session{c: c, version: 18}
	s.fetch(nil, asking{topic: topic})
	for _, x := range []struct {
		name    string
		id      int32
		epoch   int32
		version int16
		want    *kerr.Error
	}{
		{"unknown id", s.id ^ 1, 1, 18, kerr.FetchSessionIDNotFound},
		{"no id", 0, 1, 18, kerr.FetchSessionIDNotFound},
		{"epoch too high", s.id, 2, 18, kerr.InvalidFetchSessionEpoch},
		{"epoch too low", s.id, -7, 18, kerr.InvalidFetchSessionEpoch},
		{"names instead of ids", s.id, 1, 12, kerr.FetchSessionTopicIDError},
		{"none of that moved the session", s.id, 1, 18, nil},
		{"epoch repeated", s.id, 1, 18, kerr.InvalidFetchSessionEpoch},
	} {
		req := fetchOf(asking{topic: topic})
		req.SessionID, req.SessionEpoch = x.id, x.epoch
		resp := ask[*kmsg.FetchResponse](c, req, x.version)
		wantCode(t, x.name, resp.ErrorCode, x.want)
		if x.want != nil && (len(resp.Topics) != 0 || resp.SessionID != 0) {
			t.Errorf("%s: answered %+v", x.name, resp)
		}
	}
}

// TestRow29SessionEnds drops the old session for a new one (epoch 0) and for none (epoch -1).
func TestRow29SessionEnds(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	c := r.dial()
	s := &session{c: c, version: 18}
	s.fetch(nil, asking{topic: topic})
	first := s.id
	s.epoch = 0
	wantNamed(t, "anew", s.fetch(nil, asking{topic: topic}), 0)
	if s.id == first || s.id == 0 || r.broker.Sessions() != 1 {
		t.Errorf("session %d after %d, %d sessions", s.id, first, r.broker.Sessions())
	}
	s.epoch = -1
	resp := s.fetch(nil, asking{topic: topic})
	wantNamed(t, "without", resp, 0)
	if resp.SessionID != 0 || r.broker.Sessions() != 0 {
		t.Errorf("session %d after epoch -1, %d sessions", resp.SessionID, r.broker.Sessions())
	}
}

// TestRow29Slots declines a session when all slots are taken, and evicts the one that was idle
// longest after two minutes.
func TestRow29Slots(t *testing.T) {
	pollRig(t, map[string]string{"max.incremental.fetch.session.cache.slots": "2"}, func(t *testing.T, r *rig) {
		topic := r.create("t", 1)
		c := r.dial()
		a, b := &session{c: c, version: 18}, &session{c: c, version: 18}
		a.fetch(nil, asking{topic: topic})
		b.fetch(nil, asking{topic: topic})
		time.Sleep(evictAfter - time.Second)
		wantNamed(t, "in use", a.fetch(nil))
		declined := &session{c: c, version: 18}
		resp := declined.fetch(nil, asking{topic: topic})
		wantNamed(t, "declined", resp, 0)
		if resp.SessionID != 0 {
			t.Error("a session above the slots")
		}
		time.Sleep(time.Second)
		late := &session{c: c, version: 18}
		late.fetch(nil, asking{topic: topic})
		if late.id == 0 || r.broker.Sessions() != 2 {
			t.Errorf("session %d, %d sessions", late.id, r.broker.Sessions())
		}
		wantNamed(t, "kept", a.fetch(nil))
		wantCode(t, "evicted", b.fetch(nil).ErrorCode, kerr.FetchSessionIDNotFound)
	})
}

// TestRow29IdsOfAnotherLife makes ids that a restarted broker does not give again: a consumer of the
// old broker must not read another's session by chance.
func TestRow29IdsOfAnotherLife(t *testing.T) {
	seen := make(map[int32]bool)
	for range 20 {
		var c sessionCache
		for range 20 {
			fc := c.create([]*fetchPart{{}}, true, time.Time{}, 100)
			if fc.id <= 0 || seen[fc.id] {
				t.Fatalf("session id %d", fc.id)
			}
			seen[fc.id] = true
		}
	}
}

// TestRow30Rotation moves the partitions that returned data behind the others, so that each comes
// first in turn when the answer is too small for all.
func TestRow30Rotation(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 4)
	var asks []asking
	for n := range int32(4) {
		asks = append(asks, asking{topic: topic, partition: n})
	}
	s := &session{c: r.dial(), version: 18}
	wantNamed(t, "first", s.fetch(nil, asks...), 0, 1, 2, 3)
	for n := range int32(4) {
		r.fill(topic, n, 1, 1000)
	}
	one := int32(topic.Partitions[0].Size())
	data := func(limit int32) []int32 {
		req := fetchOf()
		req.SessionID, req.SessionEpoch, req.MaxBytes = s.id, s.epoch, limit
		s.epoch++
		out := []int32{}
		for _, p := range flatFetch(ask[*kmsg.FetchResponse](s.c, req, 18)) {
			if len(p.RecordBatches) > 0 {
				out = append(out, p.Partition)
			}
		}
		return out
	}
	for i, want := range [][]int32{{0}, {1}, {2}, {3}, {0}} {
		if got := data(one); !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v", i, got, want)
		}
	}
	for i, want := range [][]int32{{1, 2}, {3, 0}, {1, 2}} {
		if got := data(2 * one); !slices.Equal(got, want) {
			t.Errorf("round %d of two: %v, want %v", i, got, want)
		}
	}
}

// TestSessionKeepsWaiting answers a parked fetch from what it was sent with, although the next one
// of its session, sent before the answer, has moved on.
func TestSessionKeepsWaiting(t *testing.T) {
	pollRig(t, nil, func(t *testing.T, r *rig) {
		topic := r.create("t", 2)
		s := &session{c: r.dial(), version: 18}
		s.fetch(nil, asking{topic: topic})
		var reqs []*kmsg.FetchRequest
		for i := range int32(2) {
			req := fetchOf()
			if i == 1 {
				req = fetchOf(asking{topic: topic, partition: 1})
				forget := kmsg.NewFetchRequestForgottenTopic()
				forget.TopicID, forget.Partitions = topic.ID, []int32{0}
				req.ForgottenTopics = append(req.ForgottenTopics, forget)
			}
			req.SessionID, req.SessionEpoch, req.MaxWaitMillis = s.id, s.epoch, 60_000
			s.epoch++
			req.SetVersion(18)
			s.c.send(req)
			reqs = append(reqs, req)
		}
		for i := range int32(2) {
			synctest.Wait()
			r.fill(topic, i, 1, 10)
			wantNamed(t, "parked", s.c.receive(reqs[i]).(*kmsg.FetchResponse), i)
		}
	})
}

// FuzzFetchSession drives a session with any sequence of requests and holds it against a plain list
// of partitions: the next request finds what the earlier ones left.
func FuzzFetchSession(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 0x10, 0x21, 0x32})
	f.Add([]byte{0x80, 0x91, 0xa2, 0x11, 0x11, 0x91})
	f.Fuzz(func(t *testing.T, script []byte) {
		var c sessionCache
		now := time.Unix(0, 0)
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.SessionEpoch = 18, 0
		add := func(n int32, offset int64) {
			rt := kmsg.NewFetchRequestTopic()
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.FetchOffset = n, offset
			rt.Partitions = append(rt.Partitions, p)
			req.Topics = append(req.Topics, rt)
		}
		add(0, 0)
		fc, err := c.begin(req, now, 10)
		if err != nil || fc.session == nil {
			t.Fatal(err)
		}
		id, epoch := fc.id, int32(1)
		type want struct {
			n      int32
			offset int64
		}
		model := []want{{0, 0}}
		for i, op := range script {
			req = kmsg.NewPtrFetchRequest()
			req.Version, req.SessionID, req.SessionEpoch = 18, id, epoch
			n := int32(op & 0x0f)
			at := slices.IndexFunc(model, func(w want) bool { return w.n == n })
			switch op >> 6 {
			case 0, 1: // ask for n at a new offset
				add(n, int64(i))
				if at < 0 {
					model = append(model, want{n, int64(i)})
				} else {
					model[at].offset = int64(i)
				}
			case 2: // forget n
				ft := kmsg.NewFetchRequestForgottenTopic()
				ft.Partitions = []int32{n, n}
				req.ForgottenTopics = append(req.ForgottenTopics, ft)
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
			case 3: // n has returned data
			}
			fc, err := c.begin(req, now, 10)
			if err != nil {
				t.Fatal(err)
			}
			if len(model) == 0 {
				if fc.id != 0 || len(c.byID) != 0 {
					t.Fatal("an empty session lives on")
				}
				return
			}
			var results []fetchResult
			for j, p := range fc.parts {
				if (want{p.partition, int64(p.offset)}) != model[j] {
					t.Fatalf("step %d: partition %d is %d at %d, want %v", i, j, p.partition, p.offset, model)
				}
				res := fetchResult{part: p, hw: 5}
				if op>>6 == 3 && p.partition == n {
					res.records.Len = 1
				}
				results = append(results, res)
			}
			if len(fc.parts) != len(model) {
				t.Fatalf("step %d: %d partitions, want %d", i, len(fc.parts), len(model))
			}
			fc.filter(results)
			if op>>6 == 3 && at >= 0 {
				w := model[at]
				model = append(slices.Delete(model, at, at+1), w)
			}
			epoch++
		}
	})
}

// BenchmarkSessionUpdate changes every partition of a large session in one request.
func BenchmarkSessionUpdate(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var c sessionCache
			req := kmsg.NewPtrFetchRequest()
			req.Version = 18
			rt := kmsg.NewFetchRequestTopic()
			for i := range n {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition = int32(i)
				rt.Partitions = append(rt.Partitions, p)
			}
			req.Topics = append(req.Topics, rt)
			req.SessionEpoch = 0
			fc, err := c.begin(req, time.Time{}, 10)
			if err != nil {
				b.Fatal(err)
			}
			req.SessionID, req.SessionEpoch = fc.id, 1
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.begin(req, time.Time{}, 10); err != nil {
					b.Fatal(err)
				}
				req.SessionEpoch++
			}
		})
	}
}
