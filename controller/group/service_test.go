package group

import (
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/coord/coordtest"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// TestOneCreationServesEveryone lets many callers wait for the internal topic.
func TestOneCreationServesEveryone(t *testing.T) {
	defer goleak.VerifyNone(t)
	var calls, made atomic.Int32
	goOn := make(chan struct{})
	s := New(Options{
		Clock: clock.System, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Config: DefaultConfig(), Workers: 1,
		Topics: func() Topics {
			if made.Load() == 0 {
				return image{}
			}
			return image{OffsetsTopic: {kafkaproto.TopicID{1}, 1}}
		},
		Open: func(int32) (coord.Log, error) { return coordtest.NewLog(true), nil },
		EnsureTopic: func() error {
			calls.Add(1)
			<-goOn
			made.Store(1)
			return nil
		},
	})
	var all sync.WaitGroup
	for range 10 {
		all.Add(1)
		s.Ready(func(err error) {
			if err != nil {
				t.Error(err)
			}
			all.Done()
		})
	}
	close(goOn)
	all.Wait()
	if n := calls.Load(); n != 1 {
		t.Errorf("created %d times", n)
	}
	s.Close()
	s.Ready(func(err error) {
		if err != nil {
			t.Error("the topic is there, whoever is closed: ", err)
		}
	})
}

// TestCloseAnswersWhoWaitsForTheTopic closes while the topic is being made.
func TestCloseAnswersWhoWaitsForTheTopic(t *testing.T) {
	defer goleak.VerifyNone(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	s := New(Options{
		Clock: clock.System, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Config: DefaultConfig(), Workers: 1,
		Topics: func() Topics { return image{} },
		EnsureTopic: func() error {
			close(began)
			<-goOn
			return nil
		},
	})
	got := make(chan int16, 2)
	s.Join(Client{ID: "c"}, validJoin("g"), func(r *kmsg.JoinGroupResponse) { got <- r.ErrorCode })
	<-began
	closed := make(chan struct{})
	go func() { s.Close(); close(closed) }()
	if c := <-got; c != kerr.NotCoordinator.Code {
		t.Errorf("the waiting join gets %s", code(c))
	}
	close(goOn)
	<-closed
	s.Ready(func(err error) {
		if kafkaproto.Code(err) != kerr.NotCoordinator.Code {
			t.Errorf("after the close: %v", err)
		}
	})
}

func validJoin(group string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType = 3, group, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	return req
}

// TestTopicDeletedWhileItsShardIsAway sees to it that the removal is tried again.
func TestTopicDeletedWhileItsShardIsAway(t *testing.T) {
	w := newWorld()
	defer func() { w.svc.Close() }()
	w.addTopic("t", 1)
	commit := func(want string) {
		t.Helper()
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group = 8, "g"
		req.Topics = []kmsg.OffsetCommitRequestTopic{{
			Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}},
		}}
		w.svc.OffsetCommit(req, func(r *kmsg.OffsetCommitResponse) {
			if got := code(r.Topics[0].Partitions[0].ErrorCode); got != want {
				t.Errorf("commit: %s, want %s", got, want)
			}
		})
	}
	commit("ok")
	w.log(PartitionOf("g", testShards)).Fail(errDisk)
	commit("NOT_COORDINATOR") // the shard is unloaded, and backs off
	w.svc.TopicDeleted("t", w.dropTopic("t"))
	w.clock.Advance(5 * time.Second)
	w.svc.Stats(func(gs []GroupStats) {
		if len(gs) != 0 {
			t.Errorf("left: %+v", gs)
		}
	})
}

// TestInternalTopicDeleted drops every group with it, and answers who waits.
func TestInternalTopicDeleted(t *testing.T) {
	w := newWorld()
	defer func() { w.svc.Close() }()
	var got []string
	w.svc.Join(Client{ID: "c"}, validJoin("g"), func(r *kmsg.JoinGroupResponse) {
		got = append(got, code(r.ErrorCode))
	})
	id := w.dropTopic(OffsetsTopic)
	w.logs = map[int32]*coordtest.Log{}
	w.svc.TopicDeleted(OffsetsTopic, id)
	w.svc.List(kmsg.NewPtrListGroupsRequest(), func(r *kmsg.ListGroupsResponse) {
		if len(r.Groups) != 0 {
			t.Errorf("groups %+v", r.Groups)
		}
	})
	w.svc.Join(Client{ID: "c"}, validJoin("g"), func(r *kmsg.JoinGroupResponse) {
		got = append(got, code(r.ErrorCode))
	})
	w.clock.Advance(3 * time.Second)
	if want := "NOT_COORDINATOR ok"; strings.Join(got, " ") != want {
		t.Errorf("joins: %v, want %s", got, want)
	}
}

// TestWhatNoRecordCanHold sends strings that are longer than the formats can say.
func TestWhatNoRecordCanHold(t *testing.T) {
	w := newWorld()
	defer func() { w.svc.Close() }()
	w.addTopic("t", 1)
	long := strings.Repeat("x", maxString+1)
	join := func(mod func(*kmsg.JoinGroupRequest), client string) string {
		req := validJoin("g")
		mod(req)
		got := "waiting"
		w.svc.Join(Client{ID: client}, req, func(r *kmsg.JoinGroupResponse) { got = code(r.ErrorCode) })
		return got
	}
	for name, c := range map[string]struct{ got, want string }{
		"group": {join(func(r *kmsg.JoinGroupRequest) { r.Group = long }, "c"), "INVALID_GROUP_ID"},
		"type": {join(func(r *kmsg.JoinGroupRequest) { r.ProtocolType = long }, "c"),
			"INCONSISTENT_GROUP_PROTOCOL"},
		"protocol": {join(func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = long }, "c"),
			"INCONSISTENT_GROUP_PROTOCOL"},
		"instance": {join(func(r *kmsg.JoinGroupRequest) { r.InstanceID = &long }, "c"),
			"INVALID_REQUEST"},
		"offers": {join(func(r *kmsg.JoinGroupRequest) {
			for range 20 {
				r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Metadata: make([]byte,
					900_000)})
			}
		}, "c"), "MESSAGE_TOO_LARGE"},
		"client": {join(func(*kmsg.JoinGroupRequest) {}, long[:maxString]), "waiting"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", name, c.got, c.want)
		}
	}
	w.clock.Advance(3 * time.Second)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = 8, long
	req.Topics = []kmsg.OffsetCommitRequestTopic{{
		Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}},
	}}
	w.svc.OffsetCommit(req, func(r *kmsg.OffsetCommitResponse) {
		if got := r.Topics[0].Partitions[0].ErrorCode; got != kerr.InvalidGroupID.Code {
			t.Errorf("commit: %s", code(got))
		}
	})
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Group = 7, long
	w.svc.OffsetFetch(fetch, func(r *kmsg.OffsetFetchResponse) {
		if r.ErrorCode != kerr.InvalidGroupID.Code {
			t.Errorf("fetch: %s", code(r.ErrorCode))
		}
	})
	emoji := strings.Repeat("\U0001F600", 2048) // 4096 UTF-16 units, 8192 bytes
	meta := []*string{&emoji}
	for _, m := range meta {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Version, req.Group = 8, "g2"
		req.Topics = []kmsg.OffsetCommitRequestTopic{{
			Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Metadata: m}},
		}}
		w.svc.OffsetCommit(req, func(r *kmsg.OffsetCommitResponse) {
			if got := r.Topics[0].Partitions[0].ErrorCode; got != 0 {
				t.Errorf("metadata of 4096 units: %s", code(got))
			}
		})
	}
}

func BenchmarkCommit(b *testing.B) {
	w := newWorld()
	defer func() { w.svc.Close() }()
	w.addTopic("t", 1)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = 8, "g"
	req.Topics = []kmsg.OffsetCommitRequestTopic{{
		Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 5}},
	}}
	b.ReportAllocs()
	for b.Loop() {
		w.svc.OffsetCommit(req, func(*kmsg.OffsetCommitResponse) {})
	}
}
