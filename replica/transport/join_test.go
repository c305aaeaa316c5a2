package transport

import (
	"errors"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
)

// TestJoin has a node without a number call two others, get its number, and be a peer. Before that
// it can do nothing but call, and be called.
func TestJoin(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	joining := startNode(t, NoNode, a, func(o *Options) { o.ClusterID = "" })
	member := startNode(t, 2, b, nil)
	got, err := joining.CallAddr(t.Context(), member.Addr().String(), 7, []byte("may I?"))
	if err != nil || string(got) != "-1 7 may I?" {
		t.Fatalf("answer %q, %v", got, err)
	}
	// A founder is asked by others that have no number either.
	if got, err = member.CallAddr(t.Context(), joining.Addr().String(), 8, nil); err != nil || string(got) != "-1 8 " {
		t.Fatalf("answer %q, %v", got, err)
	}
	member.SetPeers(map[kafkaproto.NodeID]Peer{3: {Addr: joining.Addr().String()}})
	eventually(t, "it can't be reached by a number", func() bool { return b.events() == "down 3" })
	if err := joining.SetIdentity("c", 3); err != nil {
		t.Fatal(err)
	}
	if err := joining.SetIdentity("c", 4); err == nil {
		t.Error("a number is changed")
	}
	eventually(t, "it is up", func() bool { return b.events() == "down 3, up 3.1" })
	joining.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: member.Addr().String()}, 3: {Addr: "self"}})
	joining.SendLiveness(2, nil)
	eventually(t, "the member is up", func() bool { return a.events() == "up 2.1" })
	// A peer whose address changes, and one that is no longer one.
	joining.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: joining.Addr().String()}})
	eventually(t, "the address belongs to another", func() bool { return a.events() == "up 2.1, down 2" })
	joining.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: member.Addr().String()}})
	eventually(t, "it is back", func() bool { return a.events() == "up 2.1, down 2, up 2.1" })
	joining.SetPeers(nil)
	eventually(t, "it is gone", func() bool { return a.events() == "up 2.1, down 2, up 2.1, down 2" })
	if _, err := joining.Call(t.Context(), 2, 1, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a call to who is no peer: %v", err)
	}
	if _, err := joining.CallAddr(t.Context(), "127.0.0.1:1", 1, nil); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a call to a closed port: %v", err)
	}
	_ = joining.Close()
	if _, err := joining.CallAddr(t.Context(), member.Addr().String(), 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
	joining.Send(2, voteMessage(group(1), 1))
	joining.SetPeers(map[kafkaproto.NodeID]Peer{2: {Addr: member.Addr().String()}})
}
