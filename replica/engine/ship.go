package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/group"
	"github.com/sluicelog/sluice/replica/transport"
)

// A replica that has fallen behind raft's window gets the segments as files:
//
//	leader                                  follower
//	raft's MsgSnap, without files ────────► OpenStream(StreamSnapshot, request)
//	store.Export ◄──────────────────────────┘
//	   └─ stream: snapshot, manifest, bytes of the segments ──► store.Stage, Write, Finish
//	ReportSnapshot at the stream's end                          MsgSnap into raft, InstallSnapshot
//
// What goes wrong on the way is reported as a failure, and raft begins again.

// StreamSnapshot is the method of transport.OpenStream by which a follower asks for a group's files.
const StreamSnapshot uint16 = 1

const (
	requestSize = 1 + 16 + 4 + 8 // version u8 = 1 | topic id | partition i32 | follower's replica id u64
	snapLimit   = 1 << 20        // bytes of a snapshot's description
	listLimit   = 256 << 20      // bytes of a manifest, which holds the producers
	shipChunk   = 256 << 10
)

// shipTicks is how long a leader waits between telling a replica of files and the end of their stream's
// last piece before it takes the shipping for failed.
const shipTicks = 100

// ship tells a replica that it must fetch files.
func (r *replicated) ship(m pb.Message) {
	node, ok := r.nodes[m.To]
	if !ok {
		r.g.ReportSnapshot(m.To, false)
		return
	}
	r.shipped[m.To] = r.ticks
	r.e.transport.Send(node, transport.Message{Group: r.p.id, Raft: m})
}

// giveUpShipping reports files that nobody fetched. The caller holds mu and leads.
func (r *replicated) giveUpShipping() {
	for id, at := range r.shipped {
		if r.ticks-at > shipTicks {
			delete(r.shipped, id)
			r.g.ReportSnapshot(id, false)
		}
	}
}

// Stream answers a follower's request for files (transport.Handler).
func (e *Engine) Stream(_ context.Context, _ kafkaproto.NodeID, body []byte) (io.ReadCloser, error) {
	if len(body) != requestSize || body[0] != 1 {
		return nil, kafkaproto.Corruptf("%d bytes are no request for files", len(body))
	}
	id := kafkaproto.PartitionID{Topic: kafkaproto.TopicID(body[1:17]), Partition: int32(binary.BigEndian.Uint32(body[17:]))}
	r := e.group(id)
	if r == nil || !r.lead.Load().Leading {
		return nil, fmt.Errorf("files of %s: this broker does not lead it", id)
	}
	x, err := r.p.log.Export()
	if err != nil {
		return nil, fmt.Errorf("files of %s: %w", r.p.tp, err)
	}
	snap, err := x.Snapshot.Marshal()
	if err != nil {
		x.Close()
		return nil, fmt.Errorf("files of %s: %w", r.p.tp, err)
	}
	list := x.Manifest.Append(nil)
	head := binary.BigEndian.AppendUint32(nil, uint32(len(snap)))
	head = append(head, snap...)
	head = binary.BigEndian.AppendUint32(head, uint32(len(list)))
	return &shipment{r: r, to: binary.BigEndian.Uint64(body[21:]), x: x, head: append(head, list...)}, nil
}

// shipment is the leader's end of a stream of files.
type shipment struct {
	r    *replicated
	to   uint64
	x    *store.Export
	head []byte // what is left of it
	at   int    // segment
	pos  int64  // in it
	done bool
}

// Read gives the head, then the segments.
func (s *shipment) Read(b []byte) (int, error) {
	s.r.do(func(*group.Group) { s.r.shipped[s.to] = s.r.ticks })
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	for s.at < len(s.x.Manifest.Segments) {
		if s.pos == s.x.Manifest.Segments[s.at].Size {
			s.at, s.pos = s.at+1, 0
			continue
		}
		n, err := s.x.ReadAt(s.at, b, s.pos)
		s.pos += int64(n)
		if n == 0 && err == nil {
			err = io.ErrUnexpectedEOF
		}
		if n > 0 {
			err = nil
		}
		return n, err
	}
	s.done = true
	return 0, io.EOF
}

// Close lets go of the files and tells raft how it went.
func (s *shipment) Close() error {
	s.x.Close()
	s.r.do(func(g *group.Group) {
		delete(s.r.shipped, s.to)
		g.ReportSnapshot(s.to, s.done)
	})
	return nil
}

// fetch has files brought here. The caller holds mu.
func (r *replicated) fetch(m pb.Message) {
	node, ok := r.nodes[m.From]
	if !ok || r.fetching || m.Snapshot == nil || m.To != r.self || m.Term < r.g.Role().Term {
		return
	}
	r.fetching = true
	r.e.spawn(func(ctx context.Context) {
		staged, snap, err := r.receive(ctx, node)
		if err != nil {
			r.e.log.Warn("fetch files", "partition", r.p.tp.String(), "from", node, "error", err)
		}
		r.do(func(g *group.Group) {
			r.fetching = false
			if err != nil {
				return
			}
			m.Snapshot = snap
			if err := g.StepSnapshot(m, staged); err != nil {
				r.e.log.Warn("snapshot refused", "partition", r.p.tp.String(), "error", err)
			}
		})
	})
}

// receive stages the files that node ships.
func (r *replicated) receive(ctx context.Context, node kafkaproto.NodeID) (*store.Staging, *pb.Snapshot, error) {
	body := append(make([]byte, 0, requestSize), 1)
	body = append(body, r.p.id.Topic[:]...)
	body = binary.BigEndian.AppendUint32(body, uint32(r.p.id.Partition))
	body = binary.BigEndian.AppendUint64(body, r.self)
	stream, err := r.e.files.OpenStream(ctx, node, StreamSnapshot, body)
	if err != nil {
		return nil, nil, err
	}
	defer stream.Close() //nolint:errcheck // what was read counts
	raw, err := readSized(stream, snapLimit)
	if err != nil {
		return nil, nil, err
	}
	var snap pb.Snapshot
	if err := snap.Unmarshal(raw); err != nil {
		return nil, nil, kafkaproto.Corruptf("snapshot of %s: %v", r.p.tp, err)
	}
	if raw, err = readSized(stream, listLimit); err != nil {
		return nil, nil, err
	}
	list, err := store.ParseManifest(raw)
	if err != nil {
		return nil, nil, err
	}
	staged, err := r.p.log.Stage(list)
	if err != nil {
		return nil, nil, err
	}
	err = writeSegments(staged, list, stream)
	if err == nil {
		err = staged.Finish()
	}
	if err != nil {
		return nil, nil, errors.Join(err, staged.Discard())
	}
	return staged, &snap, nil
}

func writeSegments(staged *store.Staging, list *store.Manifest, stream io.Reader) error {
	buf := make([]byte, shipChunk)
	for i, s := range list.Segments {
		if s.Size == 0 {
			if err := staged.Write(i, nil); err != nil {
				return err
			}
		}
		for left := s.Size; left > 0; {
			n, err := io.ReadFull(stream, buf[:min(left, shipChunk)])
			if err != nil {
				return err
			}
			if err := staged.Write(i, buf[:n]); err != nil {
				return err
			}
			left -= int64(n)
		}
	}
	if n, err := stream.Read(buf[:1]); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("files do not end where they should: %w", err)
	}
	return nil
}

// readSized reads a length and that many bytes; memory grows with what arrives.
func readSized(r io.Reader, limit uint32) ([]byte, error) {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > limit {
		return nil, kafkaproto.Corruptf("%d bytes announced, %d are the most", size, limit)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(size)))
	if err == nil && len(b) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}
