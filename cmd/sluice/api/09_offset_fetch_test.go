package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchedOffset is one offset of an answer, whatever the version.
type fetchedOffset struct {
	offset int64
	epoch  int32
	meta   string
	code   int16
}

func TestOffsetFetch(t *testing.T) {
	c := newGroupRig(t).dial()
	ask[*kmsg.OffsetCommitResponse](c, commitRequest("g", 42), 8)
	eachVersion(t, kmsg.OffsetFetch, func(t *testing.T, v int16) {
		for _, all := range []bool{false, true} {
			if all && v < 2 {
				continue
			}
			req := fetchRequest(v, all)
			got := flattenFetch(t, ask[*kmsg.OffsetFetchResponse](c, req, v), v)
			want := map[int32]fetchedOffset{0: {42, 3, "note", 0}}
			if !all {
				want[1] = fetchedOffset{-1, -1, "", 0}
			}
			if v < 5 {
				for p, f := range want {
					f.epoch = -1
					want[p] = f
				}
			}
			if len(got) != len(want) {
				t.Fatalf("all %v: %v, want %v", all, got, want)
			}
			for p, f := range want {
				if got[p] != f {
					t.Errorf("all %v, partition %d: %v, want %v", all, p, got[p], f)
				}
			}
		}
	})
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "g"
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{TopicID: [16]byte{9}, Partitions: []int32{0}}}
	req.Groups = append(req.Groups, g)
	resp := ask[*kmsg.OffsetFetchResponse](c, req, 10)
	wantCode(t, "unknown id", resp.Groups[0].Topics[0].Partitions[0].ErrorCode,
		kerr.UnknownTopicID)
}

func fetchRequest(v int16, all bool) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	if v < 8 {
		req.Group = "g"
		if !all {
			req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
		}
		return req
	}
	for _, id := range []string{"g", "nobody"} {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = id
		if !all {
			gt := kmsg.NewOffsetFetchRequestGroupTopic()
			gt.Topic, gt.Partitions = "t", []int32{0, 1}
			copy(gt.TopicID[:], "t")
			g.Topics = append(g.Topics, gt)
		}
		req.Groups = append(req.Groups, g)
	}
	return req
}

func flattenFetch(t *testing.T, resp *kmsg.OffsetFetchResponse, v int16) map[int32]fetchedOffset {
	t.Helper()
	got := map[int32]fetchedOffset{}
	note := func(p int32, off int64, epoch int32, meta *string, code int16) {
		if meta == nil {
			t.Fatalf("partition %d: metadata is null", p)
		}
		got[p] = fetchedOffset{off, epoch, *meta, code}
	}
	if v < 8 {
		wantCode(t, "group", resp.ErrorCode, nil)
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				note(p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
			}
		}
		return got
	}
	if len(resp.Groups) != 2 || resp.Groups[0].Group != "g" || resp.Groups[1].Group != "nobody" {
		t.Fatalf("groups %+v", resp.Groups)
	}
	for _, g := range resp.Groups {
		wantCode(t, g.Group, g.ErrorCode, nil)
	}
	for _, rt := range resp.Groups[0].Topics {
		for _, p := range rt.Partitions {
			note(p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
		}
	}
	return got
}

// TestRow55OffsetFetch takes an unknown group for one without offsets, with and without require_stable.
func TestRow55OffsetFetch(t *testing.T) {
	c := newGroupRig(t).dial()
	eachVersion(t, kmsg.OffsetFetch, func(t *testing.T, v int16) {
		for _, stable := range []bool{false, true} {
			req := fetchRequest(v, false)
			req.RequireStable = stable
			for p, got := range flattenFetch(t, ask[*kmsg.OffsetFetchResponse](c, req, v), v) {
				if want := (fetchedOffset{-1, -1, "", 0}); got != want {
					t.Errorf("partition %d: %+v", p, got)
				}
			}
			if v >= 2 && len(flattenFetch(t, ask[*kmsg.OffsetFetchResponse](c, fetchRequest(v, true), v), v)) != 0 {
				t.Error("all offsets of nobody: some")
			}
		}
	})
}

// TestRow56OffsetExpiry forgets the offsets of a group without members when their time is over, and
// not before.
func TestRow56OffsetExpiry(t *testing.T) {
	pollRig(t, map[string]string{
		"offsets.retention.minutes": "60", "offsets.retention.check.interval.ms": "60000",
	}, func(t *testing.T, r *rig) {
		r.create("t", 1)
		if err := r.makeInternal("__consumer_offsets"); err != nil {
			t.Fatal(err)
		}
		c := r.dial()
		wantCode(t, "commit", ask[*kmsg.OffsetCommitResponse](c, commitRequest("g", 5), 8).Topics[0].Partitions[0].ErrorCode, nil)
		time.Sleep(59 * time.Minute)
		c = r.dial() // the other one was idle for too long
		if got := fetchOne(c, "g"); got != 5 {
			t.Errorf("before its time: %d", got)
		}
		time.Sleep(3 * time.Minute)
		if got := fetchOne(c, "g"); got != -1 {
			t.Errorf("after its time: %d", got)
		}
	})
}
