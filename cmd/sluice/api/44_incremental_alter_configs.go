package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// incrementalAlterConfigs answers key 44, versions 0 and 1: sets, deletes, appends to and
// subtracts from single settings (row 59). ACL: AlterConfigs on Topic or Cluster.
func (b *Broker) incrementalAlterConfigs(r *Request) {
	req := r.Body.(*kmsg.IncrementalAlterConfigsRequest)
	cmd := meta.AlterConfigs{ValidateOnly: req.ValidateOnly}
	for i := range req.Resources {
		ask := &req.Resources[i]
		res := meta.AlterResource{Type: meta.ResourceType(ask.ResourceType), Name: ask.ResourceName}
		for _, c := range ask.Configs {
			res.Ops = append(res.Ops, meta.AlterOp{Name: c.Name, Op: meta.Op(c.Op), Value: c.Value})
		}
		cmd.Resources = append(cmd.Resources, res)
	}
	b.alter(cmd, func(altered []meta.AlteredResource) {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, a := range altered {
			rr := kmsg.NewIncrementalAlterConfigsResponseResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceType(a.Type), a.Name
			rr.ErrorCode, rr.ErrorMessage = kafkaproto.Code(a.Err), kafkaproto.Message(a.Err)
			resp.Resources = append(resp.Resources, rr)
		}
		r.Respond(resp)
	})
}
