package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// createTopics answers key 19, versions 2 to 7: makes topics, all of them durable and open when
// the answer goes out, so that the next request can use them (lessons.md 5).
//
// v4 takes -1 for the broker's defaults, v5 returns the topic's settings, v7 its id. ACL: Create
// Cluster, or Create on the topic.
func (b *Broker) createTopics(r *Request) {
	req := r.Body.(*kmsg.CreateTopicsRequest)
	cmd := meta.CreateTopics{ValidateOnly: req.ValidateOnly}
	for i := range req.Topics {
		cmd.Topics = append(cmd.Topics, newTopic(&req.Topics[i]))
	}
	b.Controller.Submit(cmd, func(res meta.Result, err error) {
		resp := kmsg.NewPtrCreateTopicsResponse()
		if err != nil {
			for i := range req.Topics {
				rt := kmsg.NewCreateTopicsResponseTopic()
				rt.Topic = req.Topics[i].Topic
				rt.ErrorCode, rt.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
				resp.Topics = append(resp.Topics, rt)
			}
			r.Respond(resp)
			return
		}
		for _, t := range res.(meta.CreateTopicsResult).Topics {
			resp.Topics = append(resp.Topics, b.createdTopic(t))
		}
		r.Respond(resp)
	})
}

func newTopic(t *kmsg.CreateTopicsRequestTopic) meta.NewTopic {
	n := meta.NewTopic{Name: t.Topic, Partitions: t.NumPartitions, Replication: t.ReplicationFactor}
	for _, a := range t.ReplicaAssignment {
		n.Assignment = append(n.Assignment, meta.Assignment{
			Partition: a.Partition, Replicas: nodeIDs(a.Replicas),
		})
	}
	for _, c := range t.Configs {
		n.Config = append(n.Config, meta.ConfigValue{Name: c.Name, Value: c.Value})
	}
	return n
}

func nodeIDs(ids []int32) []kafkaproto.NodeID {
	nodes := make([]kafkaproto.NodeID, len(ids))
	for i, id := range ids {
		nodes[i] = kafkaproto.NodeID(id)
	}
	return nodes
}

func (b *Broker) createdTopic(t meta.CreatedTopic) kmsg.CreateTopicsResponseTopic {
	rt := kmsg.NewCreateTopicsResponseTopic()
	rt.Topic, rt.TopicID = t.Name, t.ID
	if t.Err != nil {
		rt.ErrorCode, rt.ErrorMessage = kafkaproto.Code(t.Err), kafkaproto.Message(t.Err)
		rt.NumPartitions, rt.ReplicationFactor = -1, -1
		rt.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		return rt
	}
	rt.NumPartitions, rt.ReplicationFactor = t.Partitions, t.Replication
	for _, e := range b.Config.DescribeTopic(t.Config) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Value, c.ReadOnly = e.Name, e.Value, e.ReadOnly
		c.Source, c.IsSensitive = int8(e.Source), e.Sensitive
		rt.Configs = append(rt.Configs, c)
	}
	return rt
}
