package api

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// describeConfigs answers key 32, versions 1 to 4: the settings of topics and of this broker, with
// the layer each value comes from (row 60).
//
// v1 brings synonyms, v3 types and documentation. Another broker's id is refused, so that tools
// ask each broker for itself. ACL: DescribeConfigs on Topic or Cluster.
func (b *Broker) describeConfigs(r *Request) {
	req := r.Body.(*kmsg.DescribeConfigsRequest)
	resp := kmsg.NewPtrDescribeConfigsResponse()
	req.Resources = withoutRepeats(req.Resources, func(ask *kmsg.DescribeConfigsRequestResource) describedResource {
		return describedResource{ask.ResourceType, ask.ResourceName}
	})
	for i := range req.Resources {
		ask := &req.Resources[i]
		rr := kmsg.NewDescribeConfigsResponseResource()
		rr.ResourceType, rr.ResourceName = ask.ResourceType, ask.ResourceName
		entries, err := b.described(ask)
		rr.ErrorCode, rr.ErrorMessage = kafkaproto.Code(err), kafkaproto.Message(err)
		if err == nil {
			rr.ErrorMessage = kmsg.StringPtr("") // as Kafka answers, not null
		}
		rr.Configs = []kmsg.DescribeConfigsResponseResourceConfig{}
		for _, e := range entries {
			if len(ask.ConfigNames) == 0 || slices.Contains(ask.ConfigNames, e.Name) {
				rr.Configs = append(rr.Configs, describedEntry(e, req))
			}
		}
		resp.Resources = append(resp.Resources, rr)
	}
	r.Respond(resp)
}

type describedResource struct {
	kind kmsg.ConfigResourceType
	name string
}

func (b *Broker) described(ask *kmsg.DescribeConfigsRequestResource) ([]config.Entry, error) {
	switch ask.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := meta.CheckTopicName(ask.ResourceName); err != nil {
			return nil, err
		}
		t := b.Controller.Image().Topic(ask.ResourceName)
		if t == nil {
			return nil, kerr.UnknownTopicOrPartition
		}
		return b.Config.DescribeTopic(t.Config), nil
	case kmsg.ConfigResourceTypeBroker:
		if ask.ResourceName == "" {
			return b.Config.DescribeDefaults(), nil
		}
		if ask.ResourceName != strconv.Itoa(int(b.NodeID)) {
			return nil, kafkaproto.Faultf(kerr.InvalidRequest,
				"Unexpected broker id, expected %d or empty string, but received %s",
				b.NodeID, ask.ResourceName)
		}
		return b.Config.DescribeBroker(), nil
	}
	return nil, kafkaproto.Faultf(kerr.InvalidRequest,
		"resource type %d has no settings here", ask.ResourceType)
}

func describedEntry(
	e config.Entry, req *kmsg.DescribeConfigsRequest,
) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly, c.IsSensitive = e.Name, e.Value, e.ReadOnly, e.Sensitive
	c.Source, c.ConfigType = kmsg.ConfigSource(e.Source), kmsg.ConfigType(e.Type)
	if e.Sensitive {
		c.Value = nil
	}
	if req.IncludeDocumentation {
		c.Documentation = kmsg.StringPtr(e.Doc)
	}
	c.ConfigSynonyms = []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{}
	if req.IncludeSynonyms {
		for _, s := range e.Synonyms {
			cs := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			cs.Name, cs.Value, cs.Source = s.Name, s.Value, kmsg.ConfigSource(s.Source)
			if e.Sensitive {
				cs.Value = nil
			}
			c.ConfigSynonyms = append(c.ConfigSynonyms, cs)
		}
	}
	return c
}
