package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// createPartitions answers key 37, versions 0 to 3: grows topics to a total count (row 45); the
// new partitions are open when the answer goes out. ACL: Alter Topic.
func (b *Broker) createPartitions(r *Request) {
	req := r.Body.(*kmsg.CreatePartitionsRequest)
	cmd := meta.CreatePartitions{ValidateOnly: req.ValidateOnly}
	for _, t := range req.Topics {
		g := meta.GrowTopic{Name: t.Topic, Count: t.Count}
		if t.Assignment != nil {
			g.Assignment = make([][]kafkaproto.NodeID, 0, len(t.Assignment))
		}
		for _, a := range t.Assignment {
			g.Assignment = append(g.Assignment, nodeIDs(a.Replicas))
		}
		cmd.Topics = append(cmd.Topics, g)
	}
	b.Controller.Submit(cmd, func(res meta.Result, err error) {
		grown, _ := res.(meta.CreatePartitionsResult)
		if err != nil {
			for _, t := range req.Topics {
				grown.Topics = append(grown.Topics, meta.GrownTopic{Name: t.Topic, Err: err})
			}
		}
		resp := kmsg.NewPtrCreatePartitionsResponse()
		for _, t := range grown.Topics {
			rt := kmsg.NewCreatePartitionsResponseTopic()
			rt.Topic = t.Name
			rt.ErrorCode, rt.ErrorMessage = kafkaproto.Code(t.Err), kafkaproto.Message(t.Err)
			resp.Topics = append(resp.Topics, rt)
		}
		r.Respond(resp)
	})
}
