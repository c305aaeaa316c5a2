package api

import (
	"io"
	"log/slog"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/coord/coordtest"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/server"
)

// groupTopics is a fixed set of topics, to which __consumer_offsets comes when it is asked for.
type groupTopics struct {
	mu     sync.Mutex
	counts map[string]int32
}

func (g *groupTopics) Topic(name string) (kafkaproto.TopicID, int32, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ok := g.counts[name]
	var id kafkaproto.TopicID
	copy(id[:], name)
	return id, n, ok
}

func (g *groupTopics) TopicName(id kafkaproto.TopicID) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.counts {
		var own kafkaproto.TopicID
		copy(own[:], name)
		if own == id {
			return name, true
		}
	}
	return "", false
}

// groupRig serves the group APIs on a socket, with logs in memory.
type groupRig struct {
	t      *testing.T
	addr   string
	topics *groupTopics
	mu     sync.Mutex
	logs   map[int32]*coordtest.Log
}

func newGroupRig(t *testing.T) *groupRig {
	t.Helper()
	r := &groupRig{
		t: t, topics: &groupTopics{counts: map[string]int32{"t": 2}}, logs: map[int32]*coordtest.Log{},
	}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg := group.DefaultConfig()
	cfg.InitialDelayMs = 0
	svc := group.New(group.Options{
		Clock: clock.System, Logger: quiet, Config: cfg, Workers: 1,
		Topics: func() group.Topics { return r.topics },
		Open:   func(p int32) (coord.Log, error) { return r.log(p), nil },
		EnsureTopic: func() error {
			r.topics.mu.Lock()
			defer r.topics.mu.Unlock()
			r.topics.counts[group.OffsetsTopic] = 3
			return nil
		},
	})
	b := &Broker{
		Groups: svc, Clock: clock.System, Log: quiet, NodeID: 7,
		Advertise: func(*server.Conn) (string, int32) { return "broker.example", 9092 },
	}
	srv, err := server.New(server.Options{
		Listeners: []server.Listener{{Name: "PLAINTEXT", Protocol: server.Plaintext,
			Addr: "127.0.0.1:0"}},
		Handler: b, Poison: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		svc.Close() // answers what is parked
		srv.Close()
		b.Close()
	})
	r.addr = srv.Addrs()["PLAINTEXT"].String()
	return r
}

func (r *groupRig) log(p int32) *coordtest.Log {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logs[p] == nil {
		r.logs[p] = coordtest.NewLog(true)
	}
	return r.logs[p]
}

func (r *groupRig) dial() *client {
	r.t.Helper()
	return dialTCP(r.t, r.addr)
}

// member joins a group of its own and is made its leader with an assignment.
func (c *client) member(groupID string) (id string, generation int32) {
	c.t.Helper()
	join := joinRequest(groupID)
	resp := ask[*kmsg.JoinGroupResponse](c, join, 3)
	wantCode(c.t, "join", resp.ErrorCode, nil)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = groupID, resp.MemberID, resp.Generation
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = resp.MemberID, []byte("all")
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	synced := ask[*kmsg.SyncGroupResponse](c, sync, 3)
	wantCode(c.t, "sync", synced.ErrorCode, nil)
	return resp.MemberID, resp.Generation
}

func joinRequest(groupID string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType = groupID, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte("meta")
	req.Protocols = append(req.Protocols, p)
	return req
}

// commitRequest commits an offset of t-0.
func commitRequest(groupID string, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = groupID
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	copy(t.TopicID[:], "t")
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.LeaderEpoch = offset, 3
	note := "note"
	p.Metadata = &note
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
