package group

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/log/vfs"
)

// TestOfflineOffsets takes the log of one group's offsets away. That group has no coordinator then:
// an answer without an error would send its consumers to where auto.offset.reset says (G13, G18).
func TestOfflineOffsets(t *testing.T) {
	defer goleak.VerifyNone(t)
	n := &node{t: t, fs: vfs.PowerLoss(1)}
	n.start()
	for _, group := range []string{"lost", "kept"} {
		settle(func() (*kmsg.OffsetCommitResponse, int16) {
			r := wait(n.svc.OffsetCommit, commitOf(group, 7))
			return r, r.Topics[0].Partitions[0].ErrorCode
		})
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	lost := PartitionOf("lost", testShards)
	if lost == PartitionOf("kept", testShards) {
		t.Fatal("both groups are of one shard")
	}
	if err := n.fs.Remove(fmt.Sprintf("/data/%s-%d/%020d.log", OffsetsTopic, lost, 0)); err != nil {
		t.Fatal(err)
	}
	n.start()
	if got := n.fetch("kept"); got != 7 {
		t.Errorf("the other group's offset is %d", got)
	}
	for range 3 { // the first makes the shard, later ones find it
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group = 7, "lost"
		if r := wait(n.svc.OffsetFetch, req); code(r.ErrorCode) != "NOT_COORDINATOR" {
			t.Errorf("fetch: %s, topics %v", code(r.ErrorCode), r.Topics)
		}
		r := wait(n.svc.OffsetCommit, commitOf("lost", 8))
		if c := code(r.Topics[0].Partitions[0].ErrorCode); c != "NOT_COORDINATOR" {
			t.Errorf("commit: %s", c)
		}
		list := wait(n.svc.List, kmsg.NewPtrListGroupsRequest())
		if list.ErrorCode != 0 || len(list.Groups) != 1 || list.Groups[0].Group != "kept" {
			t.Errorf("list: %s, %v", code(list.ErrorCode), list.Groups)
		}
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
}

// commitOf commits an offset of partition 0 of t without a member.
func commitOf(group string, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = 8, group
	t := kmsg.NewOffsetCommitRequestTopic()
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, p.Offset = "t", offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
