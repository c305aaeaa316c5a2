package transport

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TestDelivery sends all kinds of traffic and looks at what arrives: equal, and in order per group.
func TestDelivery(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	one, _ := startPair(t, a, b, nil)
	want := map[kafkaproto.PartitionID][]Message{}
	const groups, each = 8, 50
	for i := range each {
		for g := range int32(groups) {
			m := appendMessage(group(g), uint64(100+i), 100+i*97, 0, 5000)
			want[group(g)] = append(want[group(g)], m)
			one.Send(2, m)
		}
	}
	one.SendLiveness(2, []byte("alive"))
	eventually(t, "all messages arrive", func() bool { return len(b.received()) == groups*each })
	got := map[kafkaproto.PartitionID][]Message{}
	for _, m := range b.received() {
		got[m.Group] = append(got[m.Group], m)
	}
	for g, ms := range want {
		for i := range ms {
			if x := &got[g][i]; !reflect.DeepEqual(x.Raft, ms[i].Raft) || !bytes.Equal(payloadOf(x), payloadOf(&ms[i])) {
				t.Fatalf("group %v message %d: %+v", g, i, x.Raft)
			}
		}
	}
	eventually(t, "liveness arrives", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return reflect.DeepEqual(b.mu.liveness, []string{"1: alive"})
	})
	if n := one.peer(2).bytes[1].Load(); n != 0 {
		t.Errorf("backlog holds %d bytes when all is sent", n)
	}
}

// TestPieces sends one message above the size of a frame: whole batches in frames of at most a piece,
// each piece following the one before, and a giant batch in a frame of its own.
func TestPieces(t *testing.T) {
	for _, sliced := range []bool{true, false} {
		a, b := &recorder{}, &recorder{}
		one, two := startPair(t, a, b, nil)
		m := appendMessage(group(1), 41, 400<<10, 500<<10, 0, 300<<10, 3<<20, 100, 0)
		want := bytes.Clone(payloadOf(&m))
		released := make(chan struct{})
		if !sliced {
			m.Payload = &whole{parts: [][]byte{want}, release: func() { close(released) }}
		}
		one.Send(2, m)
		var all []byte
		index, term := uint64(41), uint64(5)
		eventually(t, "all pieces arrive", func() bool { return len(b.received()) == 4 })
		for i, p := range b.received() {
			if p.Raft.Index != index || p.Raft.LogTerm != term || p.Raft.Commit != 41 {
				t.Errorf("piece %d begins at index %d term %d commit %d, want %d %d", i, p.Raft.Index, p.Raft.LogTerm, p.Raft.Commit, index, term)
			}
			if n := len(payloadOf(&p)); n > pieceSize && n != 3<<20 {
				t.Errorf("piece %d has %d bytes", i, n)
			}
			last := p.Raft.Entries[len(p.Raft.Entries)-1]
			index, term = last.Index, last.Term
			all = append(all, payloadOf(&p)...)
		}
		if index != 48 || !bytes.Equal(all, want) {
			t.Errorf("pieces end at index %d with %d bytes", index, len(all))
		}
		if !sliced {
			<-released
		}
		if n := two.budget.inUse(); n != 0 {
			t.Errorf("%d bytes are still held", n)
		}
	}
}

// whole is a payload that can't be sliced, in parts.
type whole struct {
	parts   [][]byte
	size    int64 // if not the parts'
	err     error
	release func()
}

func (w *whole) Size() int64 {
	if w.size != 0 {
		return w.size
	}
	var n int64
	for _, p := range w.parts {
		n += int64(len(p))
	}
	return n
}

func (w *whole) Load() ([][]byte, func(), error) {
	if w.err != nil {
		return nil, nil, w.err
	}
	return w.parts, w.release, nil
}

// TestPayloadGone drops a message whose payload can't be loaded, or isn't what it said, and goes on.
func TestPayloadGone(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	one, _ := startPair(t, a, b, nil)
	for i, p := range []Payload{
		&whole{err: errors.New("truncated"), size: 100},
		&whole{parts: [][]byte{make([]byte, 99)}, size: 100, release: func() {}},
		&whole{err: errors.New("truncated"), size: 2 << 20},
	} {
		m := appendMessage(group(int32(i)), 1, int(p.Size()))
		m.Payload = p
		one.Send(2, m)
	}
	m := appendMessage(group(3), 1, 1<<20, 1<<20)
	m.Payload = Bytes(make([]byte, 3<<20)) // not what the entries describe
	one.Send(2, m)
	one.Send(2, appendMessage(group(0), 9, 100))
	one.Send(2, appendMessage(group(1), 9, 100))
	eventually(t, "the good ones arrive", func() bool { return len(b.received()) == 2 })
	for i := range int32(4) {
		eventually(t, "the dropped ones are reported", func() bool { return a.dropped(2, group(i)) > 0 })
	}
}

// TestCalls makes calls in both directions at once, with errors of all kinds.
func TestCalls(t *testing.T) {
	stuck := make(chan struct{})
	b := &recorder{}
	b.call = func(ctx context.Context, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
		switch method {
		case 1:
			return bytes.ToUpper(body), nil
		case 2:
			return nil, kafkaproto.Faultf(kerr.NotController, "node %d leads", 3)
		case 3:
			return nil, errors.New("disk on fire")
		case 4:
			stuck <- struct{}{}
			<-ctx.Done()
			stuck <- struct{}{}
			return nil, ctx.Err()
		}
		return make([]byte, MaxCall+1), nil
	}
	one, two := startPair(t, &recorder{}, b, nil)
	ctx := context.Background()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if got, err := one.Call(ctx, 2, 1, []byte("abc")); err != nil || string(got) != "ABC" {
				t.Errorf("answer %q, %v", got, err)
			}
		})
	}
	all.Wait()
	_, err := one.Call(ctx, 2, 2, nil)
	var fault *kafkaproto.Fault
	if !errors.As(err, &fault) || fault.Kafka != kerr.NotController || fault.Text != "node 3 leads" {
		t.Errorf("a Kafka error arrives as %v", err)
	}
	var remote *RemoteError
	if _, err := one.Call(ctx, 2, 3, nil); !errors.As(err, &remote) || *remote != (RemoteError{2, "disk on fire"}) {
		t.Errorf("another error arrives as %v", err)
	}
	if _, err := one.Call(ctx, 2, 9, nil); !errors.As(err, &remote) {
		t.Errorf("an answer that is too large: %v", err)
	}
	if _, err := one.Call(ctx, 2, 1, make([]byte, MaxCall+1)); err == nil {
		t.Error("a request that is too large passes")
	}
	if got, err := one.Call(ctx, 2, 1, bytes.Repeat([]byte("a"), MaxCall)); err != nil || len(got) != MaxCall {
		t.Errorf("the largest request: %d bytes, %v", len(got), err)
	}
	if _, err := one.Call(ctx, 7, 1, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a call to a stranger: %v", err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	go func() { <-stuck; cancel() }()
	if _, err := one.Call(cancelled, 2, 4, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	<-stuck // the other side's context has ended too
	go func() { <-stuck; go func() { <-stuck }(); _ = two.Close() }()
	if _, err := one.Call(ctx, 2, 4, nil); !errors.Is(err, ErrLost) {
		t.Errorf("a call over a connection that broke: %v", err)
	}
	eventually(t, "calls fail at once", func() bool {
		_, err := one.Call(ctx, 2, 1, nil)
		return errors.Is(err, ErrUnreachable)
	})
}

// TestRestart ends the peer and starts it again: the sender hears down, then up with the new
// incarnation, what was sent meanwhile is reported, and messages arrive again.
func TestRestart(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	one, two := startPair(t, a, b, nil)
	addr := two.Addr().String()
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "node 2 is down", func() bool { return strings.HasSuffix(a.events(), "down 2") })
	eventually(t, "a message to it is reported", func() bool {
		one.Send(2, voteMessage(group(1), 3))
		one.Send(2, appendMessage(group(2), 3, 100))
		return a.dropped(2, group(1)) > 0 && a.dropped(2, group(2)) > 0
	})
	b = &recorder{}
	startNode(t, 2, b, func(o *Options) { o.Incarnation, o.Listen = 5, addr })
	eventually(t, "node 2 is up again", func() bool { return strings.HasSuffix(a.events(), "up 2.5") })
	eventually(t, "messages arrive", func() bool {
		one.Send(2, appendMessage(group(2), 3, 100))
		return len(b.received()) > 0
	})
	if want := "up 2.1, down 2, up 2.5"; a.events() != want {
		t.Errorf("events %s, want %s", a.events(), want)
	}
}

// TestBacklog fills the backlog of a peer that does not read: Send returns, what is over is reported,
// and the control connection goes on.
func TestBacklog(t *testing.T) {
	a, b := &recorder{}, &recorder{hold: true}
	one, _ := startPair(t, a, b, func(o *Options) {
		o.BacklogBytes, o.ReceiveBytes = 4<<20, 1<<20
	})
	n := 0
	for ; a.dropped(2, group(1)) == 0; n++ {
		if n > 1000 {
			t.Fatal("a thousand megabytes went into a backlog of four")
		}
		one.Send(2, appendMessage(group(1), uint64(n), 1<<20))
	}
	one.Send(2, voteMessage(group(1), 3))
	one.SendLiveness(2, []byte("alive"))
	if got, err := one.Call(context.Background(), 2, 1, nil); err != nil || string(got) != "1 1 " {
		t.Errorf("call beside a full data connection: %q, %v", got, err)
	}
	votes := func() (votes, apps int) {
		for _, m := range b.received() {
			if m.Raft.Type == pb.MsgVote {
				votes++
			} else {
				apps++
			}
		}
		return votes, apps
	}
	eventually(t, "the vote arrives", func() bool { v, _ := votes(); return v == 1 })
	// The receiver holds one payload, and reads no other before it is released.
	if _, apps := votes(); apps > 1 {
		t.Errorf("%d MiB were received with a budget of one", apps)
	}
	seen := 0
	eventually(t, "everything in the backlog arrives once payloads are released", func() bool {
		ms := b.received()
		for ; seen < len(ms); seen++ {
			ms[seen].Release()
		}
		return one.peer(2).bytes[1].Load() == 0
	})
}
