package api

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
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

// groupConn is one client connection, without anything of a client library behind it, so that a
// test chooses versions.
type groupConn struct {
	t    *testing.T
	conn net.Conn
	next int32
}

func (r *groupRig) dial() *groupConn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return &groupConn{t: r.t, conn: c}
}

// send writes a request.
func (c *groupConn) send(req kmsg.Request) {
	c.t.Helper()
	c.next++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("tester"))
	if _, err := c.conn.Write(f.AppendRequest(nil, req, c.next)); err != nil {
		c.t.Fatal(err)
	}
}

// receive reads the answer to req.
func (c *groupConn) receive(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		c.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, frame); err != nil {
		c.t.Fatal(err)
	}
	body := frame[4:]
	if req.IsFlexible() {
		body = body[1:]
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("%s version %d does not decode: %v", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp
}

// askGroup sends a request and reads its answer.
func askGroup[R kmsg.Response](c *groupConn, req kmsg.Request, version int16) R {
	c.t.Helper()
	req.SetVersion(version)
	c.send(req)
	return c.receive(req).(R)
}

// wantGroupCode compares an error code by its name.
func wantGroupCode(t *testing.T, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		t.Errorf("%s: code %d, want %d", what, got, code)
	}
}

// eachGroupVersion runs fn for the versions that the table serves of an API.
func eachGroupVersion(t *testing.T, key kmsg.Key, fn func(t *testing.T, version int16)) {
	t.Helper()
	row := lookup(int16(key))
	if row == nil {
		t.Fatalf("%s is not served", key.Name())
	}
	for v := row.Min; v <= row.Max; v++ {
		fn(t, v)
		if t.Failed() {
			t.Fatalf("in %s version %d", key.Name(), v)
		}
	}
}

// member joins a group of its own and is made its leader with an assignment.
func (c *groupConn) member(groupID string) (id string, generation int32) {
	c.t.Helper()
	join := joinRequest(groupID)
	resp := askGroup[*kmsg.JoinGroupResponse](c, join, 3)
	wantGroupCode(c.t, "join", resp.ErrorCode, nil)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = groupID, resp.MemberID, resp.Generation
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = resp.MemberID, []byte("all")
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	synced := askGroup[*kmsg.SyncGroupResponse](c, sync, 3)
	wantGroupCode(c.t, "sync", synced.ErrorCode, nil)
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
