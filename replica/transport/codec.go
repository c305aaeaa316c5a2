package transport

import (
	"encoding/binary"
	"fmt"
	"math"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
)

// The body of kindRaft. Lists are a count and their elements.
//
//	0         16             20      21       22 … 86
//	| topic id | partition i32 | type u8 | flags u8 | to from term logTerm index commit vote rejectHint u64 |
//	| context: u16, bytes | entries: u32, each type u8 | term u64 | index u64 | data: u32, bytes |
//	| with flagSnapshot: index u64 | term u64 | four lists of replica ids: u16, u64… | data: u32, bytes |
const (
	raftFixed = 16 + 4 + 1 + 1 + 8*8 + 2 + 4
	entrySize = 1 + 8 + 8 + 4

	flagReject    = 1
	flagSnapshot  = 2
	flagAutoLeave = 4
)

// travels says which messages go between replicas. The others are a replica's to itself, or would
// make one append what it has not numbered (MsgProp).
func travels(t pb.MessageType) bool {
	switch t {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgSnap, pb.MsgHeartbeat,
		pb.MsgHeartbeatResp, pb.MsgTransferLeader, pb.MsgTimeoutNow, pb.MsgReadIndex, pb.MsgReadIndexResp,
		pb.MsgPreVote, pb.MsgPreVoteResp:
		return true
	default:
		return false
	}
}

// raftSize is the number of bytes that appendRaft adds.
func raftSize(m *pb.Message) int {
	n := raftFixed + len(m.Context)
	for i := range m.Entries {
		n += entrySize + len(m.Entries[i].Data)
	}
	if s := m.Snapshot; s != nil {
		c := &s.Metadata.ConfState
		n += 16 + 4*2 + 4 + len(s.Data) +
			8*(len(c.Voters)+len(c.Learners)+len(c.VotersOutgoing)+len(c.LearnersNext))
	}
	return n
}

// appendRaft encodes a message without its payload. What can't be encoded is an error.
func appendRaft(b []byte, group kafkaproto.PartitionID, m *pb.Message) ([]byte, error) {
	if !travels(m.Type) || len(m.Responses) > 0 {
		return b, fmt.Errorf("raft message %v does not go to other replicas", m.Type)
	}
	if n := raftSize(m); n > maxRaft || len(m.Context) > math.MaxUint16 {
		return b, fmt.Errorf("raft message %v takes %d bytes, more than %d", m.Type, n, maxRaft)
	}
	var flags uint8
	if m.Reject {
		flags |= flagReject
	}
	if m.Snapshot != nil {
		flags |= flagSnapshot
		if m.Snapshot.Metadata.ConfState.AutoLeave {
			flags |= flagAutoLeave
		}
	}
	be := binary.BigEndian
	b = append(b, group.Topic[:]...)
	b = be.AppendUint32(b, uint32(group.Partition))
	b = append(b, uint8(m.Type), flags)
	for _, v := range [...]uint64{m.To, m.From, m.Term, m.LogTerm, m.Index, m.Commit, m.Vote, m.RejectHint} {
		b = be.AppendUint64(b, v)
	}
	b = append(be.AppendUint16(b, uint16(len(m.Context))), m.Context...)
	b = be.AppendUint32(b, uint32(len(m.Entries)))
	for i := range m.Entries {
		e := &m.Entries[i]
		b = be.AppendUint64(append(b, uint8(e.Type)), e.Term)
		b = be.AppendUint64(b, e.Index)
		b = append(be.AppendUint32(b, uint32(len(e.Data))), e.Data...)
	}
	if s := m.Snapshot; s != nil {
		b = be.AppendUint64(be.AppendUint64(b, s.Metadata.Index), s.Metadata.Term)
		c := &s.Metadata.ConfState
		for _, ids := range [...][]uint64{c.Voters, c.Learners, c.VotersOutgoing, c.LearnersNext} {
			b = be.AppendUint16(b, uint16(len(ids)))
			for _, id := range ids {
				b = be.AppendUint64(b, id)
			}
		}
		b = append(be.AppendUint32(b, uint32(len(s.Data))), s.Data...)
	}
	return b, nil
}

// cursor reads integers off a body; past its end it gives zeros and remembers that.
type cursor struct {
	b     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.short, c.b = true, nil
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// parseRaft decodes what appendRaft wrote. Nothing of the message aliases b.
func parseRaft(b []byte, m *Message) error {
	c := cursor{b: b}
	copy(m.Group.Topic[:], c.take(16))
	m.Group.Partition = int32(c.u32())
	r := &m.Raft
	r.Type = pb.MessageType(c.u8())
	flags := c.u8()
	for _, v := range [...]*uint64{&r.To, &r.From, &r.Term, &r.LogTerm, &r.Index, &r.Commit, &r.Vote, &r.RejectHint} {
		*v = c.u64()
	}
	if c.short || !travels(r.Type) || flags > flagReject|flagSnapshot|flagAutoLeave || m.Group.Partition < 0 {
		return kafkaproto.Corruptf("raft message of type %d, flags %d, partition %d, %d bytes", r.Type, flags,
			m.Group.Partition, len(b))
	}
	r.Reject = flags&flagReject != 0
	if ctx := c.take(int(c.u16())); len(ctx) > 0 {
		r.Context = append([]byte(nil), ctx...)
	}
	if err := parseEntries(&c, r); err != nil {
		return err
	}
	if flags&flagSnapshot != 0 {
		r.Snapshot = parseSnapshot(&c)
		r.Snapshot.Metadata.ConfState.AutoLeave = flags&flagAutoLeave != 0
	} else if flags&flagAutoLeave != 0 {
		c.short = true
	}
	if c.short || len(c.b) > 0 || (r.Snapshot != nil) != (r.Type == pb.MsgSnap) {
		return kafkaproto.Corruptf("raft message %v of %d bytes does not end where it should", r.Type, len(b))
	}
	return nil
}

// parseEntries reads the entries. Those of MsgApp must be what a leader's are, as raft takes that for
// granted: without gaps, terms rising from LogTerm to at most the leader's.
func parseEntries(c *cursor, r *pb.Message) error {
	n := int64(c.u32())
	if n > int64(len(c.b)/entrySize) {
		return kafkaproto.Corruptf("raft message %v of %d entries in %d bytes", r.Type, n, len(c.b))
	}
	if n == 0 {
		return nil
	}
	if r.Type != pb.MsgApp && r.Type != pb.MsgReadIndex && r.Type != pb.MsgReadIndexResp {
		return kafkaproto.Corruptf("raft message %v with %d entries", r.Type, n)
	}
	r.Entries = make([]pb.Entry, n)
	data := make([]byte, 0, max(0, len(c.b)-int(n)*entrySize)) // of all entries; they are small
	last := r.LogTerm
	for i := range r.Entries {
		e := &r.Entries[i]
		e.Type, e.Term, e.Index = pb.EntryType(c.u8()), c.u64(), c.u64()
		if d := c.take(int(c.u32())); len(d) > 0 {
			at := len(data)
			data = append(data, d...)
			e.Data = data[at:len(data):len(data)]
		}
		if c.short || e.Type > pb.EntryConfChangeV2 {
			return kafkaproto.Corruptf("entry %d of %d is cut short or of type %d", i, n, e.Type)
		}
		if r.Type == pb.MsgApp && (e.Index != r.Index+1+uint64(i) || e.Index == 0 || e.Term < last || e.Term > r.Term) {
			return kafkaproto.Corruptf("entry %d has index %d and term %d behind index %d and term %d, in term %d", i,
				e.Index, e.Term, r.Index, last, r.Term)
		}
		last = e.Term
	}
	return nil
}

func parseSnapshot(c *cursor) *pb.Snapshot {
	s := &pb.Snapshot{}
	s.Metadata.Index, s.Metadata.Term = c.u64(), c.u64()
	conf := &s.Metadata.ConfState
	for _, ids := range [...]*[]uint64{&conf.Voters, &conf.Learners, &conf.VotersOutgoing, &conf.LearnersNext} {
		raw := cursor{b: c.take(8 * int(c.u16()))}
		for len(raw.b) > 0 {
			*ids = append(*ids, raw.u64())
		}
	}
	if d := c.take(int(c.u32())); len(d) > 0 {
		s.Data = append([]byte(nil), d...)
	}
	return s
}
