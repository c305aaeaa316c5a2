package transport

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Message is one raft message of one group between two brokers.
type Message struct {
	Group   kafkaproto.PartitionID
	Raft    pb.Message // From and To are replica ids; entries carry descriptors
	Payload Payload    // of a MsgApp with data entries; nil otherwise
}

// Payload gives the batches of a message's data entries, back to back.
type Payload interface {
	Size() int64
	// Load gives the bytes; release must be called once. An error drops the message: raft sends again.
	Load() (parts [][]byte, release func(), err error)
}

// Bytes is a payload in memory.
type Bytes []byte

// Size is how many bytes there are.
func (b Bytes) Size() int64 { return int64(len(b)) }

// Load gives them.
func (b Bytes) Load() ([][]byte, func(), error) { return [][]byte{b}, func() {}, nil }
