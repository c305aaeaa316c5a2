package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"runtime"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
)

// samples are messages of all shapes.
func samples() []Message {
	snap := Message{Group: group(3), Raft: pb.Message{Type: pb.MsgSnap, To: 3, From: 1, Term: 9, Snapshot: &pb.Snapshot{
		Data: []byte("what to fetch"),
		Metadata: pb.SnapshotMetadata{Index: 77, Term: 8, ConfState: pb.ConfState{
			Voters: []uint64{1, 2, 3}, Learners: []uint64{4}, VotersOutgoing: []uint64{1, 2, 5}, LearnersNext: []uint64{5},
			AutoLeave: true,
		}},
	}}}
	conf := appendMessage(group(2), 10, 100, 0, 200)
	conf.Raft.Entries[1].Type, conf.Raft.Entries[1].Data = pb.EntryConfChangeV2, []byte("change")
	return []Message{
		appendMessage(group(1), 0), appendMessage(group(1), 41, 100, 0, 5000), conf, snap, voteMessage(group(4), 3),
		{Raft: pb.Message{Type: pb.MsgAppResp, To: 1, From: 2, Term: 1<<64 - 1, Index: 5, Reject: true, RejectHint: 4, LogTerm: 3}},
		{Raft: pb.Message{Type: pb.MsgHeartbeat, Commit: 8, Context: []byte("read")}},
		{Raft: pb.Message{Type: pb.MsgReadIndex, Entries: []pb.Entry{{Data: []byte("read")}}}},
		{Raft: pb.Message{Type: pb.MsgSnap, Snapshot: &pb.Snapshot{}}},
	}
}

// TestRaftCodec takes each sample through the codec, and refuses it when it is cut anywhere.
func TestRaftCodec(t *testing.T) {
	for i, m := range samples() {
		b, err := appendRaft(nil, m.Group, &m.Raft)
		if err != nil || len(b) != raftSize(&m.Raft) {
			t.Fatalf("sample %d: %d bytes, announced %d, %v", i, len(b), raftSize(&m.Raft), err)
		}
		var got Message
		if err := parseRaft(b, &got); err != nil || got.Group != m.Group || !reflect.DeepEqual(got.Raft, m.Raft) {
			t.Errorf("sample %d: %v\n got %+v\nwant %+v", i, err, got.Raft, m.Raft)
		}
		for n := range b {
			if err := parseRaft(b[:n], &Message{}); !kafkaproto.IsCorrupt(err) {
				t.Errorf("sample %d cut at %d of %d: %v", i, n, len(b), err)
			}
		}
		if err := parseRaft(append(b, 0), &Message{}); !kafkaproto.IsCorrupt(err) {
			t.Errorf("sample %d with a byte more: %v", i, err)
		}
	}
}

// TestRaftRefused lists what no replica sends another, or would make raft panic.
func TestRaftRefused(t *testing.T) {
	for _, typ := range []pb.MessageType{pb.MsgHup, pb.MsgBeat, pb.MsgProp, pb.MsgUnreachable, pb.MsgSnapStatus,
		pb.MsgCheckQuorum, pb.MsgStorageAppend, pb.MsgStorageAppendResp, pb.MsgStorageApply, pb.MsgStorageApplyResp,
		pb.MsgForgetLeader} {
		if _, err := appendRaft(nil, group(1), &pb.Message{Type: typ}); err == nil {
			t.Errorf("%v is sent", typ)
		}
		b, _ := appendRaft(nil, group(1), &pb.Message{Type: pb.MsgVote})
		b[20] = byte(typ)
		if err := parseRaft(b, &Message{}); err == nil {
			t.Errorf("%v is taken", typ)
		}
	}
	for name, change := range map[string]func(*pb.Message){
		"a gap":                    func(m *pb.Message) { m.Entries[1].Index++ },
		"not behind its index":     func(m *pb.Message) { m.Index-- },
		"a term that falls":        func(m *pb.Message) { m.Entries[1].Term = 5 },
		"a term of the future":     func(m *pb.Message) { m.Entries[1].Term = 8 },
		"a term before the one":    func(m *pb.Message) { m.LogTerm = 7 },
		"an unknown entry":         func(m *pb.Message) { m.Entries[0].Type = 3 },
		"a snapshot where none is": func(m *pb.Message) { m.Snapshot = &pb.Snapshot{} },
	} {
		m := appendMessage(group(1), 41, 100, 100)
		change(&m.Raft)
		b, err := appendRaft(nil, m.Group, &m.Raft)
		if err != nil {
			t.Fatal(err)
		}
		if err := parseRaft(b, &Message{}); !kafkaproto.IsCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRaft decodes any bytes: no panic, no more memory than they prove, and what is taken is the same
// when it is encoded again.
func FuzzRaft(f *testing.F) {
	for _, m := range samples() {
		b, _ := appendRaft(nil, m.Group, &m.Raft)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		if err := parseRaft(b, &m); err != nil {
			return
		}
		if n := len(m.Raft.Entries); n*entrySize > len(b) {
			t.Fatalf("%d entries out of %d bytes", n, len(b))
		}
		again, err := appendRaft(nil, m.Group, &m.Raft)
		if err == nil && !bytes.Equal(again, b) {
			t.Fatalf("%x\nbecame %x", b, again)
		}
	})
}

// everything is a connection that takes all kinds of frames.
var everything = allow(1<<20, kindRaft, kindLiveness, kindCall, kindCancel, kindAnswer, kindOpen, kindCredit, kindStop,
	kindChunk, kindEnd)

// FuzzFrames reads any bytes as frames: no panic, and no more memory than a few times what came.
func FuzzFrames(f *testing.F) {
	f.Add(someFrames())
	w := &frameWriter{buf: make([]byte, 0, writeBuffer)}
	for _, m := range samples() {
		_ = w.message(&m)
	}
	f.Add(append([]byte(nil), w.buf...))
	f.Add(idFrame(kindEnd, 3, []byte{0, 1}, []byte("a sentence")))
	big := make([]byte, headerSize)
	big[0] = kindLiveness
	binary.BigEndian.PutUint32(big[4:], maxLiveness)
	f.Add(big)
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := newFrameReader(bytes.NewReader(b), readBuffer, everything, nil)
		err := readAll(r, len(b))
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+8*len(b)); got > most {
			t.Fatalf("%d bytes allocated for %d", got, len(b))
		}
		if err != nil && !kafkaproto.IsCorrupt(err) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	})
}

// readAll takes frames as the connections' readers do.
func readAll(r *frameReader, size int) error {
	for range size/headerSize + 1 {
		r.ready()
		fr, err := r.next()
		if err != nil {
			return err
		}
		if _, err := readGrowing(r.r, nil, fr.payload, nil); err != nil {
			return err
		}
		switch fr.kind {
		case kindRaft:
			if err := parseRaft(fr.body, &Message{}); err != nil {
				return err
			}
		case kindAnswer, kindEnd:
			_, _, _ = parseAnswer(1, fr.body)
		}
	}
	return nil
}

// script is a connection on which the other side says what it says.
type script struct {
	io.Reader
	io.Writer
}

// FuzzHandshake lets any bytes answer both sides of a handshake: nothing gets through without the
// secret, nothing panics.
func FuzzHandshake(f *testing.F) {
	h := hello{Version: 1, Secret: true, Cluster: "c", From: 1, To: 2, Incarnation: 3}
	hb := h.encode()
	w := welcome{Version: 1, Secret: true, Node: 2}
	wb := w.encode()
	f.Add(append(hb[:], make([]byte, proofSize)...))
	f.Add(append(wb[:], make([]byte, verdictSize)...))
	h.Role, h.Secret = roleJoin, false
	hb = h.encode()
	f.Add(append(hb[:], make([]byte, proofSize)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0x16, 3, 1, 0, 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		two := party{cluster: "c", node: 2, secret: testSecret, random: zeros{}}
		if h, err := two.accept(script{bytes.NewReader(b), io.Discard}); err == nil {
			t.Fatalf("accepted %+v", h)
		}
		one := party{cluster: "c", node: 1, secret: testSecret, random: zeros{}}
		if w, err := one.dial(script{bytes.NewReader(b), io.Discard}, roleControl, 2); err == nil {
			t.Fatalf("believed %+v", w)
		}
		if len(b) >= helloSize {
			if h, err := parseHello((*[helloSize]byte)(b)); err == nil {
				if again := h.encode(); !bytes.Equal(again[:], b[:helloSize]) {
					t.Fatalf("%x became %x", b[:helloSize], again)
				}
			}
		}
	})
}

// zeros is randomness that makes runs alike.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestFrameDamage flips each bit of a stream of frames in turn: the reader stops at the damage, and
// gives nothing that was not sent, payloads aside.
func TestFrameDamage(t *testing.T) {
	good := someFrames()
	var want [][]byte
	r := newFrameReader(bytes.NewReader(good), readBuffer, everything, nil)
	for {
		fr, err := r.next()
		if err != nil {
			break
		}
		want = append(want, bytes.Clone(fr.body))
	}
	if len(want) != 3 {
		t.Fatalf("%d frames", len(want))
	}
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		r := newFrameReader(bytes.NewReader(bad), readBuffer, everything, nil)
		n := 0
		for {
			fr, err := r.next()
			if errors.Is(err, io.EOF) {
				t.Fatalf("bit %d: the damage was not seen", bit)
			}
			if err != nil {
				break
			}
			if !bytes.Equal(fr.body, want[n]) {
				t.Fatalf("bit %d: frame %d differs", bit, n)
			}
			n++
		}
	}
}
