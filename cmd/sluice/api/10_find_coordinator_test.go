package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/group"
)

func TestFindCoordinator(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	eachVersion(t, kmsg.FindCoordinator, func(t *testing.T, v int16) {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "g", []string{"g", "h"}
		resp := ask[*kmsg.FindCoordinatorResponse](c, req, v)
		if v < 4 {
			wantCode(t, "answer", resp.ErrorCode, nil)
			if resp.NodeID != 7 || resp.Host != "broker.example" || resp.Port != 9092 {
				t.Errorf("coordinator %d at %s:%d", resp.NodeID, resp.Host, resp.Port)
			}
			return
		}
		if len(resp.Coordinators) != 2 {
			t.Fatalf("%d coordinators", len(resp.Coordinators))
		}
		for i, key := range req.CoordinatorKeys {
			rc := resp.Coordinators[i]
			wantCode(t, key, rc.ErrorCode, nil)
			if rc.Key != key || rc.NodeID != 7 || rc.Host != "broker.example" || rc.Port != 9092 {
				t.Errorf("coordinator %+v", rc)
			}
		}
	})
	if _, n, ok := r.topics.Topic(group.OffsetsTopic); !ok || n != 3 {
		t.Errorf("the internal topic was not made")
	}
}

func TestFindCoordinatorOfWhatIsNotServed(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	for kind, want := range map[int8]*kerr.Error{
		1: kerr.TransactionalIDAuthorizationFailed, 2: kerr.InvalidRequest, 9: kerr.InvalidRequest,
	} {
		for _, v := range []int16{1, 4, 6} {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, "x", []string{"x"}
			resp := ask[*kmsg.FindCoordinatorResponse](c, req, v)
			code, text, node := resp.ErrorCode, resp.ErrorMessage, resp.NodeID
			if v >= 4 {
				code, text, node = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].ErrorMessage,
					resp.Coordinators[0].NodeID
			}
			wantCode(t, "answer", code, want)
			if text == nil || node != -1 {
				t.Errorf("kind %d version %d: text %v, node %d", kind, v, text, node)
			}
		}
	}
	if _, _, ok := r.topics.Topic(group.OffsetsTopic); ok {
		t.Error("the internal topic was made")
	}
}

// TestRow48Coordinator makes __consumer_offsets when a coordinator is first asked for, and keeps each
// group in the partition that Java's hash of its id names.
func TestRow48Coordinator(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("t", 1)
	c := r.dial()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = "g"
	resp := ask[*kmsg.FindCoordinatorResponse](c, req, 3)
	wantCode(t, "first", resp.ErrorCode, nil)
	if resp.NodeID != 7 {
		t.Errorf("coordinator %+v", resp)
	}
	offsets := r.topic(group.OffsetsTopic)
	if len(offsets.Partitions) != 50 || !offsets.Internal || !offsets.Config.Compact {
		t.Fatalf("made: %+v", offsets)
	}
	used := map[int]bool{}
	for id, want := range map[string]int{
		"g":                  103 % 50,
		"hello":              99162322 % 50,
		"polygenelubricants": 0, // hashes to the least integer, whose absolute value Kafka takes for 0
	} {
		commit := commitRequest(id, 5)
		commit.Topics[0].TopicID = r.topic("t").ID
		got := ask[*kmsg.OffsetCommitResponse](c, commit, 8)
		wantCode(t, id, got.Topics[0].Partitions[0].ErrorCode, nil)
		used[want] = true
		for n, p := range offsets.Partitions {
			if (p.LogEnd() > 0) != used[n] {
				t.Errorf("after %q: partition %d ends at %d", id, n, p.LogEnd())
			}
		}
	}
}
