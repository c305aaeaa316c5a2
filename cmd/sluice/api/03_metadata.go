package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// What is allowed when no authorizer is configured, as bits (row 41).
const (
	topicOperations   = 0x0df8
	clusterOperations = 0x1fa0
	notAsked          = -1 << 31
)

// metadata answers key 3, versions 0 to 13: brokers, topics and where their leaders are.
//
// v0 takes an empty list for "all", v1 and later null; v4 brings allow_auto_topic_creation, v8 to
// v10 the cluster's authorized operations, v10 topic ids in answers, v12 topics asked by id, v13 an
// error of its own (KIP-1102). An unknown topic is created first and then answered (ruling 26; Kafka's
// first answer is an error). ACL: Describe Topic, and Create for auto-creation.
func (b *Broker) metadata(r *Request) {
	req := r.Body.(*kmsg.MetadataRequest)
	if malformedTopics(r, req) {
		b.metadataRefused(r, req)
		return
	}
	missing := b.missingTopics(r, req)
	if len(missing) == 0 {
		b.metadataAnswer(r, req, nil)
		return
	}
	cmd := meta.CreateTopics{}
	for _, name := range missing {
		cmd.Topics = append(cmd.Topics, meta.NewTopic{Name: name, Partitions: -1, Replication: -1})
	}
	b.Controller.Submit(cmd, func(res meta.Result, err error) {
		failed := make(map[string]error)
		if err != nil {
			b.Log.Error("auto-creation failed", "topics", missing, "err", err)
			for _, name := range missing {
				failed[name] = kerr.UnknownTopicOrPartition
			}
		} else {
			for _, t := range res.(meta.CreateTopicsResult).Topics {
				if t.Err != nil && kafkaproto.Code(t.Err) != kerr.TopicAlreadyExists.Code {
					failed[t.Name] = t.Err
				}
			}
		}
		b.metadataAnswer(r, req, failed)
	})
}

// missingTopics lists the named topics to be created: only when the broker and the request allow
// it (row 39).
func (b *Broker) missingTopics(r *Request, req *kmsg.MetadataRequest) []string {
	if !b.Config.Broker().AutoCreateTopics || r.Version >= 4 && !req.AllowAutoTopicCreation {
		return nil
	}
	img := b.Controller.Image()
	var missing []string
	for _, t := range req.Topics {
		if t.Topic == nil || *t.Topic == "" || t.TopicID != [16]byte{} || img.Topic(*t.Topic) != nil {
			continue
		}
		if meta.IsInternal(*t.Topic) {
			continue // made by their coordinators
		}
		missing = append(missing, *t.Topic)
	}
	return missing
}

func (b *Broker) metadataAnswer(
	r *Request, req *kmsg.MetadataRequest, failed map[string]error,
) {
	img := b.Controller.Image()
	resp := kmsg.NewPtrMetadataResponse()
	resp.ThrottleMillis = 0
	for _, n := range b.nodes(r.Conn) {
		mb := kmsg.NewMetadataResponseBroker()
		mb.NodeID, mb.Host, mb.Port, mb.Rack = n.id, n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, mb)
	}
	cluster := b.ClusterID
	resp.ClusterID = &cluster
	resp.ControllerID = int32(b.NodeID)
	resp.AuthorizedOperations = notAsked
	if r.Version >= 8 && r.Version <= 10 && req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	all := req.Topics == nil || r.Version == 0 && len(req.Topics) == 0
	if all {
		for t := range img.Topics() {
			resp.Topics = append(resp.Topics, b.metadataTopic(t, req.IncludeTopicAuthorizedOperations))
		}
		r.Respond(resp)
		return
	}
	byID := false
	for i := range req.Topics {
		byID = byID || req.Topics[i].TopicID != [16]byte{}
	}
	type asked struct {
		id   kafkaproto.TopicID
		name string
	}
	req.Topics = withoutRepeats(req.Topics, func(t *kmsg.MetadataRequestTopic) asked {
		if byID {
			return asked{id: t.TopicID}
		}
		return asked{name: unnull(t.Topic)}
	})
	for i := range req.Topics {
		t := &req.Topics[i]
		switch {
		case byID && t.TopicID != [16]byte{}:
			resp.Topics = append(resp.Topics, b.metadataByID(img, req, t.TopicID, r.Version))
		case byID:
			// ids and names mixed: only the ids are answered (§3b, row 31)
		default:
			name := unnull(t.Topic)
			resp.Topics = append(resp.Topics, b.metadataByName(img, req, name, failed[name]))
		}
	}
	r.Respond(resp)
}

// unnull takes null for the empty string.
func unnull(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (b *Broker) metadataByID(
	img *meta.Image, req *kmsg.MetadataRequest, id kafkaproto.TopicID, version int16,
) kmsg.MetadataResponseTopic {
	if t := img.TopicByID(id); t != nil && version >= 12 {
		return b.metadataTopic(t, req.IncludeTopicAuthorizedOperations)
	}
	mt := kmsg.NewMetadataResponseTopic()
	mt.TopicID, mt.ErrorCode = id, kerr.UnknownTopicID.Code
	mt.AuthorizedOperations = notAsked
	return mt
}

func (b *Broker) metadataByName(
	img *meta.Image, req *kmsg.MetadataRequest, name string, failed error,
) kmsg.MetadataResponseTopic {
	if t := img.Topic(name); t != nil {
		return b.metadataTopic(t, req.IncludeTopicAuthorizedOperations)
	}
	mt := kmsg.NewMetadataResponseTopic()
	mt.Topic, mt.AuthorizedOperations = &name, notAsked
	if req.IncludeTopicAuthorizedOperations {
		mt.AuthorizedOperations = topicOperations
	}
	mt.IsInternal = meta.IsInternal(name)
	switch {
	case failed != nil:
		mt.ErrorCode = kafkaproto.Code(failed)
	case meta.CheckTopicName(name) != nil:
		mt.ErrorCode = kerr.InvalidTopicException.Code
	default:
		mt.ErrorCode = kerr.UnknownTopicOrPartition.Code
	}
	return mt
}

func (b *Broker) metadataTopic(t *meta.Topic, wantOps bool) kmsg.MetadataResponseTopic {
	mt := kmsg.NewMetadataResponseTopic()
	name := t.Name
	mt.Topic, mt.TopicID, mt.IsInternal = &name, t.ID, t.Internal
	mt.AuthorizedOperations = notAsked
	if wantOps {
		mt.AuthorizedOperations = topicOperations
	}
	mt.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		mp := &mt.Partitions[i]
		mp.Default()
		st := b.partitionState(t, int32(i))
		mp.Partition, mp.ErrorCode = int32(i), st.code
		mp.Leader, mp.LeaderEpoch = st.leader, st.epoch
		mp.Replicas, mp.ISR, mp.OfflineReplicas = st.replicas, st.isr, st.offline
	}
	return mt
}

// malformedTopics finds what Kafka refuses as a whole: topics by id before v12, and a topic with
// neither name nor id (§3b, row 31).
func malformedTopics(r *Request, req *kmsg.MetadataRequest) bool {
	for i := range req.Topics {
		hasID := req.Topics[i].TopicID != [16]byte{}
		if hasID && r.Version < 12 || !hasID && req.Topics[i].Topic == nil {
			return true
		}
	}
	return false
}

// metadataRefused answers every topic with INVALID_REQUEST and names no broker.
func (b *Broker) metadataRefused(r *Request, req *kmsg.MetadataRequest) {
	resp := kmsg.NewPtrMetadataResponse()
	resp.ControllerID, resp.AuthorizedOperations = -1, notAsked
	for i := range req.Topics {
		mt := kmsg.NewMetadataResponseTopic()
		mt.Topic, mt.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		if mt.Topic == nil && r.Version < 12 {
			mt.Topic = kmsg.StringPtr("")
		}
		mt.ErrorCode, mt.AuthorizedOperations = kerr.InvalidRequest.Code, notAsked
		resp.Topics = append(resp.Topics, mt)
	}
	r.Respond(resp)
}
