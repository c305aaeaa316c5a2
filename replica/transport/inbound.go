package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
)

const (
	deliverMax      = 128     // messages given to the Handler at once
	deliverMaxBytes = 1 << 20 // or bytes of payload
	callsMax        = 128     // calls of one connection under way; more are refused, so that liveness never waits
	streamsMax      = 64
)

// inbound is an accepted connection.
type inbound struct {
	t      *TCP
	raw    net.Conn
	conn   net.Conn // raw, or TLS over it
	ctx    context.Context
	cancel context.CancelFunc
	key    inboundKey
	from   kafkaproto.NodeID
	role   role
	jobs   sync.WaitGroup // calls and streams

	// msgs are read and not yet given to the Handler. The reader's alone.
	msgs  []Message
	bytes int

	out struct {
		sync.Mutex // held over a write
		w          *frameWriter
	}
	mu struct {
		sync.Mutex
		calls   map[uint64]context.CancelFunc
		streams map[uint64]*served
	}
}

// serve reads frames until the connection ends.
func (in *inbound) serve() {
	t := in.t
	if !in.role.data() {
		in.out.w = newFrameWriter(in.conn, t.guard(in.conn))
	}
	in.mu.calls = map[uint64]context.CancelFunc{}
	in.mu.streams = map[uint64]*served{}
	f := newFrameReader(in.conn, readBuffer, in.allowed(), t.guard(in.conn))
	err := in.read(f)
	in.deliver()
	if t.ctx.Err() == nil && !errors.Is(err, io.EOF) && in.ctx.Err() == nil {
		t.opt.Logger.Warn("a peer's connection broke", "node", in.from, "connection", in.role, "err", err)
	}
}

func (in *inbound) allowed() allowed {
	switch in.role {
	case roleControl:
		return allow(0, kindRaft, kindLiveness, kindCall, kindCancel)
	case roleData0, roleData1:
		return allow(in.t.opt.MaxBatch, kindRaft)
	case roleBulk:
		return allow(0, kindOpen, kindCredit, kindStop)
	default:
		return allow(0, kindCall, kindCancel)
	}
}

func (in *inbound) read(f *frameReader) error {
	for {
		if !f.ready() || len(in.msgs) >= deliverMax || in.bytes >= deliverMaxBytes {
			in.deliver() // before a wait: what has arrived is not held back
		}
		fr, err := f.next()
		if err != nil {
			return err
		}
		if fr.kind == kindRaft {
			err = in.raft(f, fr)
		} else {
			in.deliver()
			err = in.frame(fr)
		}
		if err != nil {
			return err
		}
	}
}

// deliver gives the Handler what was read.
func (in *inbound) deliver() {
	if len(in.msgs) == 0 {
		return
	}
	in.t.handler.Raft(in.from, in.msgs)
	clear(in.msgs)
	in.msgs, in.bytes = in.msgs[:0], 0
}

// raft takes a message and its payload.
func (in *inbound) raft(f *frameReader, fr frame) error {
	in.msgs = append(in.msgs, Message{})
	m := &in.msgs[len(in.msgs)-1]
	err := parseRaft(fr.body, m)
	if err == nil && fr.payload > 0 {
		if len(m.Raft.Entries) == 0 {
			err = in.fail("raft message %v with a payload", m.Raft.Type)
		} else {
			err = in.payload(f, fr.payload)
		}
	}
	if err != nil {
		in.msgs = in.msgs[:len(in.msgs)-1]
	}
	return err
}

// payload reads the payload of the last message, once the budget has room for it.
func (in *inbound) payload(f *frameReader, n int) error {
	b := &in.t.budget
	got := b.try(int64(n))
	if !got || f.r.Buffered() < n {
		// There is a wait: what came before goes first, as it may hold what is waited for.
		last := in.msgs[len(in.msgs)-1]
		in.msgs = in.msgs[:len(in.msgs)-1]
		in.deliver()
		in.msgs = append(in.msgs, last)
	}
	if !got && !b.take(int64(n), in.ctx.Done()) {
		return context.Canceled
	}
	s, err := in.fill(f, n)
	if err != nil {
		b.release(int64(n))
		return err
	}
	s.held, s.budget = int64(n), b
	m := &in.msgs[len(in.msgs)-1]
	m.Payload, m.lease = Bytes(s.b), s.lease()
	in.bytes += n
	return nil
}

// fill reads n bytes. Up to a piece they are the budget's to allow; a larger batch has memory as it
// arrives.
func (in *inbound) fill(f *frameReader, n int) (*slab, error) {
	if n > slabMax {
		b, err := readGrowing(f.r, nil, n, f.stall)
		f.stall.disarm()
		return &slab{b: b, class: -1, owner: &in.t.slabs}, err
	}
	s := in.t.slabs.get(n)
	if err := f.payload(s.b); err != nil {
		s.owner.put(s)
		return nil, err
	}
	return s, nil
}

// frame takes everything but raft.
func (in *inbound) frame(fr frame) error {
	switch fr.kind {
	case kindLiveness:
		in.t.handler.Liveness(in.from, fr.body)
		return nil
	case kindCall:
		return in.call(fr.body)
	case kindCancel:
		in.mu.Lock()
		cancel := in.mu.calls[binary.BigEndian.Uint64(fr.body)]
		in.mu.Unlock()
		if cancel != nil {
			cancel()
		}
		return nil
	case kindOpen:
		return in.open(fr.body)
	case kindCredit:
		return in.credit(binary.BigEndian.Uint64(fr.body), int64(binary.BigEndian.Uint32(fr.body[idSize:])))
	case kindStop:
		if s := in.served(binary.BigEndian.Uint64(fr.body)); s != nil {
			s.cancel()
		}
		return nil
	default:
		return in.fail("a frame of kind %d", fr.kind)
	}
}

// write sends one frame to who dialled.
func (in *inbound) write(b []byte) error {
	in.out.Lock()
	defer in.out.Unlock()
	err := in.out.w.frame(b)
	if err == nil {
		err = in.out.w.flush()
	}
	if err != nil {
		in.close()
	}
	return err
}
