package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// deleteTopics answers key 20, versions 1 to 6: the topics are gone for every reader when the
// answer goes out; their files follow after file.delete.delay.ms.
//
// v5 brings error messages, v6 topics by id. ACL: Delete Topic.
func (b *Broker) deleteTopics(r *Request) {
	req := r.Body.(*kmsg.DeleteTopicsRequest)
	refs := deleteRefs(req)
	if !b.Config.Broker().DeleteTopicEnable {
		code := kerr.TopicDeletionDisabled
		if r.Version < 3 {
			code = kerr.InvalidRequest
		}
		b.deletedTopics(r, refs, nil, kafkaproto.Faultf(code, "delete.topic.enable is false"))
		return
	}
	b.Controller.Submit(meta.DeleteTopics{Topics: refs}, func(res meta.Result, err error) {
		deleted, _ := res.(meta.DeleteTopicsResult)
		b.deletedTopics(r, refs, deleted.Topics, err)
	})
}

func deleteRefs(req *kmsg.DeleteTopicsRequest) []meta.TopicRef {
	var refs []meta.TopicRef
	if req.Version < 6 {
		for _, name := range req.TopicNames {
			refs = append(refs, meta.TopicRef{Name: name})
		}
		return refs
	}
	for _, t := range req.Topics {
		ref := meta.TopicRef{ID: t.TopicID}
		if t.Topic != nil {
			ref.Name = *t.Topic
		}
		refs = append(refs, ref)
	}
	return refs
}

func (b *Broker) deletedTopics(
	r *Request, refs []meta.TopicRef, deleted []meta.DeletedTopic, err error,
) {
	if err != nil {
		for _, ref := range refs {
			deleted = append(deleted, meta.DeletedTopic{Name: ref.Name, ID: ref.ID, Err: err})
		}
	}
	resp := kmsg.NewPtrDeleteTopicsResponse()
	for _, d := range deleted {
		rt := kmsg.NewDeleteTopicsResponseTopic()
		if d.Name != "" {
			rt.Topic = &d.Name
		}
		rt.TopicID = d.ID
		rt.ErrorCode, rt.ErrorMessage = kafkaproto.Code(d.Err), kafkaproto.Message(d.Err)
		resp.Topics = append(resp.Topics, rt)
	}
	r.Respond(resp)
}
