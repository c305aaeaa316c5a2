package transport

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
)

// NoNode is the sender of a call that comes from a node without a number: one that wants to join.
const NoNode kafkaproto.NodeID = -1

// The errors of Call and OpenStream, beside what the other side answered.
var (
	// ErrUnreachable: the request did not leave this broker.
	ErrUnreachable = errors.New("peer is unreachable")
	// ErrLost: the connection broke after the request left. It may have been carried out.
	ErrLost = errors.New("connection to the peer was lost")
	// ErrClosed: the transport is closed.
	ErrClosed = errors.New("transport is closed")
)

// RemoteError is what the other side's Handler answered, when it was no Kafka error. A Kafka error
// arrives as a *kafkaproto.Fault with the same code and sentence.
type RemoteError struct {
	Node kafkaproto.NodeID
	Text string
}

// Error names the node.
func (e *RemoteError) Error() string { return fmt.Sprintf("node %d: %s", e.Node, e.Text) }

// Message is one raft message of one group between two brokers.
type Message struct {
	Group   kafkaproto.PartitionID
	Raft    pb.Message // From and To are replica ids; entries carry descriptors
	Payload Payload    // of a MsgApp with data entries; nil otherwise

	lease lease
}

// Release gives the payload of a received message back; its bytes must not be touched afterwards.
// It must be called once the payload was written or dropped: until then its bytes count against
// what data connections may bring in. More calls, also on copies of m, do nothing.
func (m *Message) Release() { m.lease.end() }

// Payload gives the batches of a message's data entries, back to back.
type Payload interface {
	// Size is the number of bytes, without loading them.
	Size() int64
	// Load gives the bytes, when the frame is written (on a goroutine of the transport). release must
	// be called once. An error drops the message (the log was truncated meanwhile): raft sends again.
	Load() (parts [][]byte, release func(), err error)
}

// Slicer is a Payload of which whole batches can be loaded without the others. A message above the
// size of a frame is then never in memory as a whole.
type Slicer interface {
	Payload
	// Slice is the bytes [from, to) of the payload; both are borders of batches.
	Slice(from, to int64) Payload
}

// Bytes is a payload in memory: what a receiver gets.
type Bytes []byte

// Size is how many bytes there are.
func (b Bytes) Size() int64 { return int64(len(b)) }

// Load gives them in one part.
func (b Bytes) Load() ([][]byte, func(), error) { return [][]byte{b}, func() {}, nil }

// Slice gives a part of them.
func (b Bytes) Slice(from, to int64) Payload { return b[from:to:to] }

// Handler is what a broker does with what comes from its peers. Methods are called by several
// goroutines at once, those about one peer's state by one. Only Call and Stream may block.
type Handler interface {
	// Raft takes messages in the order of their connection. It must not block. The slice is the
	// transport's again when it returns, the messages' entries are the Handler's for good, and each
	// payload, always Bytes, until Message.Release.
	Raft(from kafkaproto.NodeID, m []Message)
	// Liveness takes what a peer gave to SendLiveness. b is the transport's again when it returns.
	Liveness(from kafkaproto.NodeID, b []byte)
	// Call answers a request, on a goroutine of its own. ctx ends when the caller gave up or is gone.
	// from is NoNode for a node that is not a member (see TCP.CallAddr).
	Call(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error)
	// Stream answers OpenStream with what is to be sent, to its end; it is closed in any case.
	Stream(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error)
	// PeerUp tells that n can be sent to. incarnation tells one start of its process from another.
	PeerUp(n kafkaproto.NodeID, incarnation uint64)
	// PeerDown tells that the connection is gone, and again after each attempt that failed since. A
	// refused connection (syscall.ECONNREFUSED in the chain) says that the process has ended.
	PeerDown(n kafkaproto.NodeID, err error)
	// Unreachable tells that messages of the group were dropped: raft's ReportUnreachable.
	Unreachable(to kafkaproto.NodeID, group kafkaproto.PartitionID)
}

// Transport sends to peers.
type Transport interface {
	// Send never blocks. m's entries and payload must not change afterwards.
	Send(to kafkaproto.NodeID, m Message)
	// SendLiveness never blocks; b must not change afterwards. It is dropped when the peer is down.
	SendLiveness(to kafkaproto.NodeID, b []byte)
	// Call sends a request and waits for the answer, each of at most MaxCall bytes.
	Call(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) ([]byte, error)
	// OpenStream asks a peer for a stream of bytes. The end is io.EOF once everything has arrived, and
	// another error otherwise. ctx governs the stream until Close.
	OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error)
	// SetPeers says who the peers are, at any time. Connections to who is gone from it are closed.
	SetPeers(peers map[kafkaproto.NodeID]Peer)
	// Close ends all connections and calls and waits for the transport's goroutines.
	Close() error
}

// Peer is another broker.
type Peer struct {
	Addr string // host:port of its controller listener
}

// MaxCall is the most bytes of a request or an answer: what is larger is a stream, as liveness must
// not wait behind it.
const MaxCall = 1 << 20
