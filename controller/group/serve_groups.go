package group

import (
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/kafkaproto"
)

// Describe answers DescribeGroups, in the order asked.
func (s *Service) Describe(
	req *kmsg.DescribeGroupsRequest, reply func(*kmsg.DescribeGroupsResponse),
) {
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(req.Groups))
	gather(len(req.Groups), func(i int, done func()) {
		id := req.Groups[i]
		s.ask(id, &describeInput{req.Version, id}, func(out any, err error) {
			g := kmsg.NewDescribeGroupsResponseGroup()
			g.Group = id
			if err != nil {
				g.ErrorCode, g.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
			} else {
				g = out.(kmsg.DescribeGroupsResponseGroup)
			}
			resp.Groups[i] = g
			done()
		})
	}, func() { reply(resp) })
}

// List answers ListGroups with the groups of the shards that are this broker's (row 71).
func (s *Service) List(req *kmsg.ListGroupsRequest, reply func(*kmsg.ListGroupsResponse)) {
	resp := kmsg.NewPtrListGroupsResponse()
	n, _ := s.partitions()
	var mu sync.Mutex
	in := &listInput{states: req.StatesFilter, types: req.TypesFilter}
	gather(int(n), func(i int, done func()) {
		s.rt.Submit(int32(i), in, func(out any, err error) {
			mu.Lock()
			switch code := kafkaproto.Code(err); code {
			case 0:
				resp.Groups = append(resp.Groups, out.([]kmsg.ListGroupsResponseGroup)...)
			case kerr.NotCoordinator.Code:
			default:
				resp.ErrorCode = code
			}
			mu.Unlock()
			done()
		})
	}, func() {
		if resp.ErrorCode != 0 {
			resp.Groups = nil
		}
		slices.SortFunc(resp.Groups, func(a, b kmsg.ListGroupsResponseGroup) int {
			return strings.Compare(a.Group, b.Group)
		})
		reply(resp)
	})
}

// Delete answers DeleteGroups, in the order asked; a group that is named twice is deleted once.
func (s *Service) Delete(req *kmsg.DeleteGroupsRequest, reply func(*kmsg.DeleteGroupsResponse)) {
	var ids []string
	seen := make(map[string]bool, len(req.Groups))
	for _, id := range req.Groups {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(ids))
	gather(len(ids), func(i int, done func()) {
		id := ids[i]
		s.ask(id, &deleteGroupInput{id}, func(out any, err error) {
			g := &resp.Groups[i]
			g.Group = id
			if err == nil && out.(*kerr.Error) != nil {
				err = out.(*kerr.Error)
			}
			if err != nil {
				g.ErrorCode, g.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
			}
			done()
		})
	}, func() { reply(resp) })
}

// GroupStats is one group as the metrics show it.
type GroupStats struct {
	Group    string
	State    string
	Protocol string // protocol type
	Members  int
	Offsets  []OffsetStats
}

// OffsetStats is one committed offset.
type OffsetStats struct {
	Topic     string
	Partition int32
	Offset    kafkaproto.Offset
	Committed int64 // milliseconds since 1970
}

// Stats copies what the loaded shards hold, sorted by group within each; done is called once. What
// it shows may not be committed yet, so that a stalled log does not stall the metrics.
func (s *Service) Stats(done func([]GroupStats)) {
	shards := s.rt.Shards()
	slices.Sort(shards)
	parts := make([][]GroupStats, len(shards))
	gather(len(shards), func(i int, ready func()) {
		s.rt.Inspect(shards[i], func(m coord.Machine[input, any]) {
			parts[i] = m.(*Machine).stats()
		}, func(bool) { ready() })
	}, func() { done(slices.Concat(parts...)) })
}
