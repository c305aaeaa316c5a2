package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// alterConfigs answers key 33, versions 0 to 2: replaces all settings of a resource; AKHQ and old
// tools use it. ACL: AlterConfigs on Topic or Cluster.
func (b *Broker) alterConfigs(r *Request) {
	req := r.Body.(*kmsg.AlterConfigsRequest)
	cmd := meta.AlterConfigs{ValidateOnly: req.ValidateOnly, Replace: true}
	for i := range req.Resources {
		ask := &req.Resources[i]
		res := meta.AlterResource{Type: meta.ResourceType(ask.ResourceType), Name: ask.ResourceName}
		for _, c := range ask.Configs {
			res.Ops = append(res.Ops, meta.AlterOp{Name: c.Name, Op: meta.OpSet, Value: c.Value})
		}
		cmd.Resources = append(cmd.Resources, res)
	}
	b.alter(cmd, func(altered []meta.AlteredResource) {
		resp := kmsg.NewPtrAlterConfigsResponse()
		for _, a := range altered {
			rr := kmsg.NewAlterConfigsResponseResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceType(a.Type), a.Name
			rr.ErrorCode, rr.ErrorMessage = kafkaproto.Code(a.Err), kafkaproto.Message(a.Err)
			resp.Resources = append(resp.Resources, rr)
		}
		r.Respond(resp)
	})
}

// alter runs the command; when it cannot be made durable every resource gets that error.
func (b *Broker) alter(cmd meta.AlterConfigs, done func([]meta.AlteredResource)) {
	b.Controller.Submit(cmd, func(res meta.Result, err error) {
		altered, _ := res.(meta.AlterConfigsResult)
		if err != nil {
			for _, a := range cmd.Resources {
				altered.Resources = append(altered.Resources,
					meta.AlteredResource{Type: a.Type, Name: a.Name, Err: err})
			}
		}
		done(altered.Resources)
	})
}
