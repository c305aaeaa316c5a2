package api

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestOffsetCommit(t *testing.T) {
	c := newGroupRig(t).dial()
	eachVersion(t, kmsg.OffsetCommit, func(t *testing.T, v int16) {
		req := commitRequest("g", int64(v))
		unknown := kmsg.NewOffsetCommitRequestTopic()
		unknown.Topic, unknown.TopicID = "nope", [16]byte{9}
		unknown.Partitions = make([]kmsg.OffsetCommitRequestTopicPartition, 1)
		req.Topics = append(req.Topics, unknown)
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, req.Topics[0].Partitions[0])
		req.Topics[0].Partitions[1].Partition = 2 // there are 0 and 1
		resp := ask[*kmsg.OffsetCommitResponse](c, req, v)
		if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 2 ||
			len(resp.Topics[1].Partitions) != 1 {
			t.Fatalf("answer %+v", resp)
		}
		wantCode(t, "t-0", resp.Topics[0].Partitions[0].ErrorCode, nil)
		wantCode(t, "t-2", resp.Topics[0].Partitions[1].ErrorCode, kerr.UnknownTopicOrPartition)
		if v >= 10 {
			wantCode(t, "unknown id", resp.Topics[1].Partitions[0].ErrorCode, kerr.UnknownTopicID)
			if resp.Topics[0].TopicID != req.Topics[0].TopicID {
				t.Errorf("topic id %v", resp.Topics[0].TopicID)
			}
		} else {
			wantCode(t, "unknown name", resp.Topics[1].Partitions[0].ErrorCode,
				kerr.UnknownTopicOrPartition)
		}
		if got := fetchOne(c, "g"); got != int64(v) {
			t.Errorf("fetched %d", got)
		}
	})
}

func TestOffsetCommitWithAGenerationOfNobody(t *testing.T) {
	c := newGroupRig(t).dial()
	for v, want := range map[int16]*kerr.Error{8: kerr.IllegalGeneration, 9: kerr.GroupIDNotFound} {
		req := commitRequest("nobody", 1)
		req.Generation = 0
		resp := ask[*kmsg.OffsetCommitResponse](c, req, v)
		wantCode(t, "commit", resp.Topics[0].Partitions[0].ErrorCode, want)
	}
}

// fetchOne gives the committed offset of t-0.
func fetchOne(c *client, groupID string) int64 {
	c.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = groupID
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = "t", []int32{0}
	req.Topics = append(req.Topics, t)
	resp := ask[*kmsg.OffsetFetchResponse](c, req, 7)
	wantCode(c.t, "fetch", resp.ErrorCode, nil)
	return resp.Topics[0].Partitions[0].Offset
}

// TestRow54OffsetCommit lets members commit in their generation, anyone else only while the group has
// no members; the metadata is bounded.
func TestRow54OffsetCommit(t *testing.T) {
	r := newGroupRig(t)
	c := r.dial()
	id, generation := c.member("g")
	eachVersion(t, kmsg.OffsetCommit, func(t *testing.T, v int16) {
		stale := kerr.IllegalGeneration
		for _, x := range []struct {
			name, group, member string
			generation          int32
			metadata            int
			want                *kerr.Error
		}{
			{"member", "g", id, generation, 4096, nil},
			{"metadata too long", "g", id, generation, 4097, kerr.OffsetMetadataTooLarge},
			{"old generation", "g", id, generation - 1, 0, stale},
			{"newer generation", "g", id, generation + 1, 0, stale},
			{"stranger", "g", "m", generation, 0, kerr.UnknownMemberID},
			{"nobody, though there are members", "g", "", -1, 0, kerr.UnknownMemberID},
			{"nobody", "simple", "", -1, 4096, nil},
			{"empty group id", "", "", -1, 0, nil}, // §3b
		} {
			req := commitRequest(x.group, 7)
			req.MemberID, req.Generation = x.member, x.generation
			text := strings.Repeat("x", x.metadata)
			req.Topics[0].Partitions[0].Metadata = &text
			got := ask[*kmsg.OffsetCommitResponse](c, req, v)
			if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
				t.Fatalf("%s: %+v", x.name, got)
			}
			wantCode(t, x.name, got.Topics[0].Partitions[0].ErrorCode, x.want)
		}
	})
	other := r.dial()
	parked := other.join(3, joinRequest("g"))
	for c.beat("g", id, generation) == 0 {
	}
	commit := commitRequest("g", 8)
	commit.MemberID, commit.Generation = id, generation
	got := ask[*kmsg.OffsetCommitResponse](c, commit, 8) // to what it still owns
	wantCode(t, "while members are awaited", got.Topics[0].Partitions[0].ErrorCode, nil)
	rejoin := joinRequest("g")
	rejoin.MemberID = id
	c.joined(c.join(3, rejoin))
	other.joined(parked)
	commit.Generation = generation + 1
	got = ask[*kmsg.OffsetCommitResponse](c, commit, 8)
	wantCode(t, "while the leader is awaited", got.Topics[0].Partitions[0].ErrorCode, kerr.RebalanceInProgress)
	if offset := fetchOne(c, "g"); offset != 8 {
		t.Errorf("committed %d", offset)
	}
}
