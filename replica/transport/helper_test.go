package transport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testSecret = []byte("a secret of all nodes")

// recorder is a Handler that keeps what it is told.
type recorder struct {
	call   func(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error)
	stream func(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error)
	hold   bool // payloads are not released

	mu struct {
		sync.Mutex
		messages    []Message
		liveness    []string
		events      []string // up and down
		unreachable map[drop]int
		calls       int
	}
}

// Raft keeps the messages, with copies of their payloads unless hold is set.
func (r *recorder) Raft(_ kafkaproto.NodeID, ms []Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range ms {
		if b, ok := m.Payload.(Bytes); ok && !r.hold {
			m.Payload = Bytes(bytes.Clone(b))
			m.Release()
			m.Release() // harmless
		}
		r.mu.messages = append(r.mu.messages, m)
	}
}

func (r *recorder) Liveness(from kafkaproto.NodeID, b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.liveness = append(r.mu.liveness, fmt.Sprintf("%d: %s", from, b))
}

func (r *recorder) Call(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	r.mu.Lock()
	r.mu.calls++
	r.mu.Unlock()
	if r.call == nil {
		return fmt.Appendf(nil, "%d %d %s", from, method, body), nil
	}
	return r.call(ctx, from, method, body)
}

func (r *recorder) Stream(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	r.mu.Lock()
	r.mu.calls++
	r.mu.Unlock()
	return r.stream(ctx, from, method, body)
}

func (r *recorder) PeerUp(n kafkaproto.NodeID, incarnation uint64) {
	r.event(fmt.Sprintf("up %d.%d", n, incarnation))
}

func (r *recorder) PeerDown(n kafkaproto.NodeID, err error) {
	if err == nil {
		panic("down without a reason")
	}
	r.event(fmt.Sprintf("down %d", n))
}

func (r *recorder) event(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.mu.events); n == 0 || r.mu.events[n-1] != s { // a peer stays down for many attempts
		r.mu.events = append(r.mu.events, s)
	}
}

func (r *recorder) Unreachable(to kafkaproto.NodeID, group kafkaproto.PartitionID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.unreachable == nil {
		r.mu.unreachable = map[drop]int{}
	}
	r.mu.unreachable[drop{to, group}]++
}

func (r *recorder) events() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.mu.events, ", ")
}

// received gives the messages so far.
func (r *recorder) received() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Message(nil), r.mu.messages...)
}

func (r *recorder) dropped(to kafkaproto.NodeID, g kafkaproto.PartitionID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.unreachable[drop{to, g}]
}

// silent reports whether nothing whatever came.
func (r *recorder) silent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.messages)+len(r.mu.liveness)+r.mu.calls == 0
}

// logs gathers what is logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// startNode starts a node on loopback.
func startNode(t testing.TB, id kafkaproto.NodeID, r *recorder, change func(*Options)) *TCP {
	t.Helper()
	opt := Options{ClusterID: "c", Node: id, Incarnation: 1, Listen: "127.0.0.1:0", Secret: testSecret}
	if change != nil {
		change(&opt)
	}
	n, err := NewTCP(opt)
	if err != nil {
		t.Fatal(err)
	}
	n.Start(r)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close node %d: %v", id, err)
		}
	})
	return n
}

// startPair starts node 1 that sends to node 2.
func startPair(t testing.TB, a, b *recorder, change func(*Options)) (one, two *TCP) {
	t.Helper()
	one, two = startNode(t, 1, a, change), startNode(t, 2, b, change)
	one.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: two.Addr().String()}})
	eventually(t, "node 2 is up", func() bool { return strings.Contains(a.events(), "up 2.1") })
	return one, two
}

// eventually polls a condition on real sockets, where nothing can be waited for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func group(n int32) kafkaproto.PartitionID {
	return kafkaproto.PartitionID{Topic: kafkaproto.TopicID{15: byte(n)}, Partition: n}
}

// pattern fills n bytes that differ everywhere, so that a shifted range shows.
func pattern(seed uint32, n int) []byte {
	b := make([]byte, n)
	x := seed*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// appendMessage makes a MsgApp of entries with batches of these sizes behind index.
func appendMessage(g kafkaproto.PartitionID, index uint64, sizes ...int) Message {
	m := Message{Group: g, Raft: pb.Message{Type: pb.MsgApp, To: 2, From: 1, Term: 7, LogTerm: 5, Index: index, Commit: index}}
	var payload Bytes
	for i, size := range sizes {
		at := index + 1 + uint64(i)
		e := pb.Entry{Index: at, Term: 6}
		if size > 0 {
			e.Data = store.Descriptor{Base: kafkaproto.Offset(at), Span: 1, Size: uint32(size)}.Append(nil)
			payload = append(payload, pattern(uint32(at), size)...)
		}
		m.Raft.Entries = append(m.Raft.Entries, e)
	}
	if len(payload) > 0 {
		m.Payload = payload
	}
	return m
}

func voteMessage(g kafkaproto.PartitionID, term uint64) Message {
	return Message{Group: g, Raft: pb.Message{Type: pb.MsgVote, To: 2, From: 1, Term: term, LogTerm: 5, Index: 10}}
}

// payloadOf gives a received message's bytes.
func payloadOf(m *Message) []byte {
	if m.Payload == nil {
		return nil
	}
	return m.Payload.(Bytes)
}

// addressed is a listener on loopback that is closed with the test.
func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func logTo(l *logs) func(*Options) {
	return func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(l, nil)) }
}
