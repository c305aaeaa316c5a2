package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Versions from which on the offset APIs name topics by id, and OffsetFetch asks for many groups
// and has an error for each.
const (
	offsetsByID     = 10
	fetchManyGroups = 8
	fetchGroupError = 2
)

// OffsetCommit answers OffsetCommit. Partitions that do not exist fail alone; the others succeed or
// fail together with the group's checks.
func (s *Service) OffsetCommit(
	req *kmsg.OffsetCommitRequest, reply func(*kmsg.OffsetCommitResponse),
) {
	in := &commitInput{
		version: req.Version, group: req.Group, member: req.MemberID,
		instance: deref(req.InstanceID), generation: req.Generation, retention: -1,
	}
	if req.Version <= 4 {
		in.retention = req.RetentionTimeMillis
	}
	resp, codes := s.resolveCommit(req, in)
	if len(in.partitions) == 0 {
		reply(resp)
		return
	}
	answer := func(code func(i int) int16) {
		for i := range codes {
			*codes[i] = code(i)
		}
		reply(resp)
	}
	if len(req.Group) > maxString {
		answer(func(int) int16 { return kerr.InvalidGroupID.Code })
		return
	}
	s.tell(req.Group, in, func(out any, err error) {
		if e, ok := out.(*kerr.Error); ok && err == nil {
			err = e
		}
		if err != nil {
			answer(func(int) int16 { return kafkaproto.Code(err) })
			return
		}
		each := out.([]int16)
		answer(func(i int) int16 { return each[i] })
	})
}

// resolveCommit makes the answer with the errors that topics have, and gives where the codes of the
// partitions that go to the group belong.
func (s *Service) resolveCommit(
	req *kmsg.OffsetCommitRequest, in *commitInput,
) (*kmsg.OffsetCommitResponse, []*int16) {
	topics := s.o.Topics()
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	var codes []*int16
	for i := range req.Topics {
		t, rt := &req.Topics[i], &resp.Topics[i]
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		rt.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions))
		name, id, count, err := resolve(topics, t.Topic, t.TopicID, req.Version)
		for j := range t.Partitions {
			p, rp := &t.Partitions[j], &rt.Partitions[j]
			rp.Partition = p.Partition
			switch {
			case err != nil:
				rp.ErrorCode = err.Code
			case p.Partition < 0 || p.Partition >= count:
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				in.partitions = append(in.partitions, commitPartition{
					topic: name, topicID: id, partition: p.Partition,
					offset: kafkaproto.Offset(p.Offset),
					epoch:  kafkaproto.LeaderEpoch(p.LeaderEpoch), metadata: deref(p.Metadata),
				})
				codes = append(codes, &rp.ErrorCode)
			}
		}
	}
	return resp, codes
}

// resolve finds a topic by its name, or by its id in a version that names topics so.
func resolve(topics Topics, name string, id kafkaproto.TopicID, version int16) (
	string, kafkaproto.TopicID, int32, *kerr.Error,
) {
	if version >= offsetsByID {
		found, ok := topics.TopicName(id)
		if !ok {
			return "", id, 0, kerr.UnknownTopicID
		}
		name = found
	}
	known, count, ok := topics.Topic(name)
	if !ok {
		return name, known, 0, kerr.UnknownTopicOrPartition
	}
	return name, known, count, nil
}

// OffsetFetch answers OffsetFetch: of one group, or from v8 on of many, each with an error of its
// own. Topics that do not exist have no offsets; asked for by id they are an error.
func (s *Service) OffsetFetch(
	req *kmsg.OffsetFetchRequest, reply func(*kmsg.OffsetFetchResponse),
) {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if req.Version < fetchManyGroups {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = req.Group
		if req.Topics != nil {
			g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
			for i := range req.Topics {
				g.Topics[i].Topic = req.Topics[i].Topic
				g.Topics[i].Partitions = req.Topics[i].Partitions
			}
		}
		s.fetchGroup(req, &g, func(out kmsg.OffsetFetchResponseGroup) {
			oneGroup(req, resp, out)
			reply(resp)
		})
		return
	}
	resp.Groups = make([]kmsg.OffsetFetchResponseGroup, len(req.Groups))
	gather(len(req.Groups), func(i int, done func()) {
		s.fetchGroup(req, &req.Groups[i], func(out kmsg.OffsetFetchResponseGroup) {
			resp.Groups[i] = out
			done()
		})
	}, func() { reply(resp) })
}

// oneGroup writes the answer for one group as versions below 8 have it. Version 1 has no error for
// the group: each partition carries it.
func oneGroup(
	req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse, g kmsg.OffsetFetchResponseGroup,
) {
	if g.ErrorCode != 0 {
		resp.ErrorCode = g.ErrorCode
		if req.Version >= fetchGroupError {
			return
		}
		for i := range req.Topics {
			t := kmsg.NewOffsetFetchResponseGroupTopic()
			t.Topic = req.Topics[i].Topic
			for _, p := range req.Topics[i].Partitions {
				t.Partitions = append(t.Partitions, noOffset(p, g.ErrorCode))
			}
			g.Topics = append(g.Topics, t)
		}
	}
	resp.Topics = make([]kmsg.OffsetFetchResponseTopic, len(g.Topics))
	for i := range g.Topics {
		t, rt := &g.Topics[i], &resp.Topics[i]
		rt.Topic = t.Topic
		rt.Partitions = make([]kmsg.OffsetFetchResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p, rp := &t.Partitions[j], &rt.Partitions[j]
			rp.Partition, rp.Offset, rp.LeaderEpoch = p.Partition, p.Offset, p.LeaderEpoch
			rp.Metadata, rp.ErrorCode = p.Metadata, p.ErrorCode
		}
	}
}

func noOffset(p int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	empty := ""
	rp.Partition, rp.Offset, rp.Metadata, rp.ErrorCode = p, -1, &empty, code
	return rp
}

// fetchGroup fetches one group's offsets.
func (s *Service) fetchGroup(
	req *kmsg.OffsetFetchRequest, g *kmsg.OffsetFetchRequestGroup,
	reply func(kmsg.OffsetFetchResponseGroup),
) {
	resp := kmsg.NewOffsetFetchResponseGroup()
	resp.Group = g.Group
	if len(g.Group) > maxString {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		reply(resp)
		return
	}
	topics := s.o.Topics()
	in := &fetchInput{group: g.Group, requireStable: req.RequireStable}
	var unknown []kmsg.OffsetFetchResponseGroupTopic
	if g.Topics == nil {
		in.all = topics
	}
	for i := range g.Topics {
		t := &g.Topics[i]
		name, id, _, err := resolve(topics, t.Topic, t.TopicID, req.Version)
		if err == kerr.UnknownTopicID {
			unknown = append(unknown, unknownTopic(t))
			continue
		}
		in.topics = append(in.topics, fetchTopic{name, id, t.Partitions})
	}
	s.ask(g.Group, in, func(out any, err error) {
		if err != nil {
			resp.ErrorCode = fetchCode(err)
			reply(resp)
			return
		}
		resp.Topics = append(offsetTopics(out.([]fetchedTopic), req.Version), unknown...)
		reply(resp)
	})
}

// fetchCode is the code of an error for OffsetFetch. Consumers before 3.9 do not retry
// COORDINATOR_NOT_AVAILABLE here; NOT_COORDINATOR makes them look for the coordinator, and retry.
func fetchCode(err error) int16 {
	code := kafkaproto.Code(err)
	if code == kerr.CoordinatorNotAvailable.Code {
		return kerr.NotCoordinator.Code
	}
	return code
}

func unknownTopic(t *kmsg.OffsetFetchRequestGroupTopic) kmsg.OffsetFetchResponseGroupTopic {
	rt := kmsg.NewOffsetFetchResponseGroupTopic()
	rt.TopicID = t.TopicID
	for _, p := range t.Partitions {
		rt.Partitions = append(rt.Partitions, noOffset(p, kerr.UnknownTopicID.Code))
	}
	return rt
}

// offsetTopics writes a group's offsets. Those of topics that are gone have no id to be named by.
func offsetTopics(found []fetchedTopic, version int16) []kmsg.OffsetFetchResponseGroupTopic {
	out := make([]kmsg.OffsetFetchResponseGroupTopic, 0, len(found))
	for i := range found {
		t := &found[i]
		if version >= offsetsByID && t.topicID.IsZero() {
			continue
		}
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.topic, t.topicID
		rt.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(t.partitions))
		for j := range t.partitions {
			p, rp := &t.partitions[j], &rt.Partitions[j]
			rp.Partition, rp.Offset = p.partition, int64(p.offset)
			rp.LeaderEpoch, rp.Metadata, rp.ErrorCode = int32(p.epoch), &p.metadata, p.code
		}
		out = append(out, rt)
	}
	return out
}

// OffsetDelete answers OffsetDelete.
func (s *Service) OffsetDelete(
	req *kmsg.OffsetDeleteRequest, reply func(*kmsg.OffsetDeleteResponse),
) {
	resp := kmsg.NewPtrOffsetDeleteResponse()
	if err := checkGroupID(req.Group); err != nil {
		resp.ErrorCode = err.Code
		reply(resp)
		return
	}
	topics := s.o.Topics()
	in := &deleteOffsetsInput{group: req.Group}
	var codes []*int16 // where the codes of the partitions that exist belong
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t, rt := &req.Topics[i], &resp.Topics[i]
		rt.Topic = t.Topic
		rt.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions))
		_, count, _ := topics.Topic(t.Topic)
		ask := fetchTopic{topic: t.Topic}
		for j := range t.Partitions {
			p, rp := t.Partitions[j].Partition, &rt.Partitions[j]
			rp.Partition = p
			if p < 0 || p >= count {
				rp.ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			ask.partitions = append(ask.partitions, p)
			codes = append(codes, &rp.ErrorCode)
		}
		if len(ask.partitions) > 0 {
			in.topics = append(in.topics, ask)
		}
	}
	if len(in.topics) == 0 {
		reply(resp)
		return
	}
	s.ask(req.Group, in, func(out any, err error) {
		if e, ok := out.(*kerr.Error); ok && err == nil {
			err = e
		}
		if err != nil {
			resp.ErrorCode, resp.Topics = kafkaproto.Code(err), nil
			reply(resp)
			return
		}
		for i, code := range out.([]int16) {
			*codes[i] = code
		}
		reply(resp)
	})
}
