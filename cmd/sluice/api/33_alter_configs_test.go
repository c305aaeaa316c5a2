package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alter replaces the settings of one resource; settings are name, value, name, value.
func (c *client) alter(v int16, validate bool, kind kmsg.ConfigResourceType, name string, settings ...string) kmsg.AlterConfigsResponseResource {
	c.t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	req.ValidateOnly = validate
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for i := 0; i < len(settings); i += 2 {
		cfg := kmsg.NewAlterConfigsRequestResourceConfig()
		cfg.Name, cfg.Value = settings[i], &settings[i+1]
		res.Configs = append(res.Configs, cfg)
	}
	req.Resources = append(req.Resources, res)
	resp := ask[*kmsg.AlterConfigsResponse](c, req, v)
	if len(resp.Resources) != 1 || resp.Resources[0].ResourceName != name || resp.Resources[0].ResourceType != kind {
		c.t.Fatalf("answer %+v", resp)
	}
	return resp.Resources[0]
}

// TestRow59AlterConfigs replaces all settings of a resource by those given, or none of them.
func TestRow59AlterConfigs(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	eachVersion(t, kmsg.AlterConfigs, func(t *testing.T, v int16) {
		r.create("t", 1, "segment.ms", "70000")
		for i, x := range []struct {
			kind      kmsg.ConfigResourceType
			name      string
			validate  bool
			settings  []string
			want      *kerr.Error
			retention string // of t, after
			segment   string
		}{
			{aTopic, "t", false, []string{"retention.ms", "no"}, kerr.InvalidConfig, "604800000", "70000"},
			{aTopic, "t", false, []string{"no.such.key", "1"}, kerr.InvalidConfig, "604800000", "70000"},
			{aTopic, "t", false, []string{"retention.ms", "5", "retention.ms", "6"}, kerr.InvalidRequest, "604800000", "70000"},
			{aTopic, "gone", false, []string{"retention.ms", "5"}, kerr.UnknownTopicOrPartition, "604800000", "70000"},
			{7, "x", false, []string{"retention.ms", "5"}, kerr.InvalidRequest, "604800000", "70000"},
			{aBroker, "8", false, []string{"log.retention.ms", "5"}, kerr.InvalidRequest, "604800000", "70000"},
			{aTopic, "t", true, []string{"retention.ms", "60000"}, nil, "604800000", "70000"},
			{aTopic, "t", false, []string{"retention.ms", "60000"}, nil, "60000", "604800000"},
			{aTopic, "t", false, nil, nil, "604800000", "604800000"},
		} {
			got := c.alter(v, x.validate, x.kind, x.name, x.settings...)
			wantCode(t, x.name, got.ErrorCode, x.want)
			if x.want != nil && unnull(got.ErrorMessage) == "" {
				t.Errorf("case %d: no message", i)
			}
			retention, _ := c.setting(aTopic, "t", "retention.ms")
			segment, _ := c.setting(aTopic, "t", "segment.ms")
			if retention != x.retention || segment != x.segment {
				t.Errorf("case %d: retention %s, segment %s", i, retention, segment)
			}
		}
		r.delete("t")
	})
}
