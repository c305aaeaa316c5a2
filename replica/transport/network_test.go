package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// twins starts two nodes that know each other.
func twins() (n *Network, c *clock.Manual, one, two *Endpoint, a, b *recorder) {
	c = clock.NewManual(time.Unix(1000, 0))
	n = NewNetwork(c)
	a, b = &recorder{}, &recorder{}
	one, two = n.Join(1, 1, a), n.Join(2, 1, b)
	all := map[kafkaproto.NodeID]Peer{1: {}, 2: {}, 3: {}}
	one.SetPeers(all)
	two.SetPeers(all)
	drain(n)
	return n, c, one, two, a, b
}

// drain steps until nothing is due.
func drain(n *Network) (steps int) {
	for n.Step() {
		steps++
	}
	return steps
}

// indexes lists the messages that arrived by their index.
func indexes(r *recorder) string {
	var s []string
	for _, m := range r.received() {
		s = append(s, fmt.Sprint(m.Raft.Index))
	}
	return strings.Join(s, " ")
}

// TestNetworkFate drops, duplicates, delays and reorders by the caller's word.
func TestNetworkFate(t *testing.T) {
	n, c, one, _, a, b := twins()
	if a.events() != "up 2.1" || b.events() != "up 1.1" {
		t.Fatalf("events %s; %s", a.events(), b.events())
	}
	n.Fate = func(p Packet) Fate {
		ms := func(d ...int) (f Fate) {
			for _, x := range d {
				f.Delays = append(f.Delays, time.Duration(x)*time.Millisecond)
			}
			return f
		}
		if p.Kind != PacketRaft {
			return ms(0)
		}
		switch p.Message.Raft.Index {
		case 1:
			return ms(20)
		case 2:
			return ms()
		case 3:
			return ms(0, 10, 30)
		case 4:
			return Fate{Refused: true}
		}
		return ms(10)
	}
	for i := range uint64(5) {
		one.Send(2, appendMessage(group(1), i+1, 100))
	}
	var got []string
	for {
		drain(n)
		got = append(got, indexes(b))
		next, ok := n.Next()
		if !ok {
			break
		}
		c.Advance(next.Sub(c.Now()))
	}
	if want := []string{"3", "3 3 5", "3 3 5 1", "3 3 5 1 3"}; !reflect.DeepEqual(got, want) {
		t.Errorf("arrivals %q, want %q", got, want)
	}
	if a.dropped(2, group(1)) != 1 {
		t.Error("a message over the backlog is not reported")
	}
	m := b.received()[0]
	if !bytes.Equal(payloadOf(&m), pattern(4, 100)) {
		t.Error("the payload differs")
	}
}

// TestNetworkCut cuts one way, then breaks a connection, ends a node and starts it anew.
func TestNetworkCut(t *testing.T) {
	n, _, one, two, a, b := twins()
	one.Send(2, voteMessage(group(1), 1))
	n.Cut(1, 2)
	one.Send(2, voteMessage(group(1), 1))
	two.Send(1, voteMessage(group(1), 1))
	drain(n)
	if len(b.received()) != 0 || len(a.received()) != 1 {
		t.Errorf("%d messages over a cut, %d the other way", len(b.received()), len(a.received()))
	}
	if _, err := one.Call(context.Background(), 2, 1, nil); !errors.Is(err, ErrUnreachable) || b.mu.calls != 0 {
		t.Errorf("a call over a cut: %v", err)
	}
	if _, err := two.Call(context.Background(), 1, 1, nil); !errors.Is(err, ErrLost) || a.mu.calls != 1 {
		t.Errorf("a call whose answer is cut off: %v", err)
	}
	n.Heal(1, 2)
	n.Break(1, 2)
	n.Heal(1, 2)
	one.Send(2, voteMessage(group(1), 2))
	drain(n)
	if len(b.received()) != 1 {
		t.Errorf("%d messages after healing", len(b.received()))
	}
	one.Send(2, voteMessage(group(1), 3))
	_ = two.Close()
	_ = two.Close()
	one.Send(2, voteMessage(group(2), 3))
	drain(n)
	if len(b.received()) != 1 || a.dropped(2, group(2)) != 1 {
		t.Error("a message reached a node that had ended, or was not reported")
	}
	n.Join(2, 7, b)
	drain(n)
	if want := "up 2.1, down 2, up 2.1, down 2, up 2.7"; !strings.HasPrefix(a.events(), "up 2.1") || !strings.HasSuffix(a.events(), "down 2, up 2.7") {
		t.Errorf("events %s, want about %s", a.events(), want)
	}
	one.SetPeers(nil)
	one.Send(2, voteMessage(group(3), 3))
	drain(n)
	if a.dropped(2, group(3)) != 1 {
		t.Error("a message to who is no peer is not reported")
	}
}

// TestNetworkPayload loads at once what is on the wire, and late what waits in a queue; splits as the
// wire does; and reports what can't be loaded.
func TestNetworkPayload(t *testing.T) {
	n, _, one, _, a, b := twins()
	n.PieceSize = 250
	one.Send(2, appendMessage(group(1), 1, 100, 100, 100, 300))
	drain(n)
	if indexes(b) != "1 3 4" {
		t.Errorf("pieces begin behind %s", indexes(b))
	}
	late := false
	n.Fate = func(Packet) Fate { return Fate{Delays: make([]time.Duration, 1), Late: late} }
	for _, late = range []bool{false, true} {
		m := appendMessage(group(2), 10, 100)
		log := []byte("as it was when it was sent")
		m.Payload = &whole{parts: [][]byte{log}, release: func() {}}
		one.Send(2, m)
		copy(log, "but now")
		drain(n)
		ms := b.received()
		if got := payloadOf(&ms[len(ms)-1]); strings.HasPrefix(string(got), "but now") != late {
			t.Errorf("late %v: %q", late, got)
		}
	}
	m := appendMessage(group(3), 10, 100)
	m.Payload = &whole{err: errors.New("truncated"), size: 100}
	one.Send(2, m)
	drain(n)
	if a.dropped(2, group(3)) != 1 {
		t.Error("a payload that is gone is not reported")
	}
}

// TestNetworkCalls: calls, errors and streams are as over TCP.
func TestNetworkCalls(t *testing.T) {
	n, _, one, _, _, b := twins()
	b.stream = func(_ context.Context, _ kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
		if method == 1 {
			return nil, errors.New("no such file")
		}
		return io.NopCloser(bytes.NewReader(pattern(1, 300000))), nil
	}
	if got, err := one.Call(context.Background(), 2, 3, []byte("x")); err != nil || string(got) != "1 3 x" {
		t.Errorf("answer %q, %v", got, err)
	}
	var remote *RemoteError
	if _, err := one.OpenStream(context.Background(), 2, 1, nil); !errors.As(err, &remote) || remote.Text != "no such file" {
		t.Errorf("a refused stream: %v", err)
	}
	open := func() io.ReadCloser {
		r, err := one.OpenStream(context.Background(), 2, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if got, err := io.ReadAll(open()); err != nil || !bytes.Equal(got, pattern(1, 300000)) {
		t.Errorf("stream of %d bytes, %v", len(got), err)
	}
	r := open()
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	n.Cut(2, 1)
	if _, err := io.ReadAll(r); !errors.Is(err, ErrLost) {
		t.Errorf("a stream over a cut: %v", err)
	}
}

// TestNetworkRepeats runs the same seed twice: what arrives, and in which order, is the same.
func TestNetworkRepeats(t *testing.T) {
	run := func(seed uint64) string {
		n, c, one, two, a, b := twins()
		r := rand.New(rand.NewPCG(seed, 1))
		n.Fate = func(Packet) (f Fate) {
			for range r.IntN(3) {
				f.Delays = append(f.Delays, time.Duration(r.IntN(100)))
			}
			return f
		}
		for i := range uint64(300) {
			from, to := one, kafkaproto.NodeID(2)
			if r.IntN(2) == 0 {
				from, to = two, 1
			}
			from.Send(to, appendMessage(group(int32(i)), i+1, 100))
			c.Advance(time.Duration(r.IntN(10)))
			drain(n)
		}
		return indexes(a) + "/" + indexes(b)
	}
	if run(1) != run(1) {
		t.Error("one seed gives two runs")
	}
	if run(1) == run(2) {
		t.Error("the seed does not matter")
	}
}
