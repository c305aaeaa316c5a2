package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe asks for the settings of one resource; no keys means all.
func (c *client) describe(v int16, kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, res)
	resp := ask[*kmsg.DescribeConfigsResponse](c, req, v)
	if len(resp.Resources) != 1 || resp.Resources[0].ResourceName != name || resp.Resources[0].ResourceType != kind {
		c.t.Fatalf("answer %+v", resp)
	}
	return resp.Resources[0]
}

// setting gives the value and source of one setting.
func (c *client) setting(kind kmsg.ConfigResourceType, name, key string) (value string, source kmsg.ConfigSource) {
	c.t.Helper()
	res := c.describe(4, kind, name, key)
	if res.ErrorCode != 0 || len(res.Configs) != 1 || res.Configs[0].Name != key {
		c.t.Fatalf("%s of %q: %+v", key, name, res)
	}
	return unnull(res.Configs[0].Value), res.Configs[0].Source
}

const (
	aTopic  = kmsg.ConfigResourceTypeTopic
	aBroker = kmsg.ConfigResourceTypeBroker
)

// TestRow60DescribeTopic tells each value with its source and synonyms, from version 3 on with type and
// documentation.
func TestRow60DescribeTopic(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{"log.retention.ms": "9000"}})
	r.create("t", 1, "cleanup.policy", "compact", "retention.ms", "5000")
	r.create("u", 1)
	c := r.dial()
	eachVersion(t, kmsg.DescribeConfigs, func(t *testing.T, v int16) {
		all := c.describe(v, aTopic, "t")
		wantCode(t, "all", all.ErrorCode, nil)
		if len(all.Configs) < 30 || len(c.describe(v, aTopic, "t", "retention.ms", "no.such.key").Configs) != 1 {
			t.Errorf("%d settings", len(all.Configs))
		}
		for _, x := range []struct {
			topic, key, value string
			source, kind      int8 // of row 60
			synonyms          int
		}{
			{"t", "cleanup.policy", "compact", 1, 7, 2}, // Connect wants exactly "compact"
			{"t", "retention.ms", "5000", 1, 5, 2},
			{"u", "retention.ms", "9000", 4, 5, 1},
			{"u", "segment.bytes", "1073741824", 5, 3, 1},
			{"u", "preallocate", "false", 5, 1, 1},
			{"u", "compression.type", "producer", 5, 2, 1},
			{"u", "min.cleanable.dirty.ratio", "0.5", 5, 6, 1},
		} {
			cfgs := c.describe(v, aTopic, x.topic, x.key).Configs
			if len(cfgs) != 1 {
				t.Fatalf("%s: %+v", x.key, cfgs)
			}
			got := cfgs[0]
			if got.Name != x.key || unnull(got.Value) != x.value || int8(got.Source) != x.source || got.ReadOnly || got.IsSensitive {
				t.Errorf("%s of %s: %+v", x.key, x.topic, got)
			}
			if len(got.ConfigSynonyms) < x.synonyms || unnull(got.ConfigSynonyms[0].Value) != x.value || int8(got.ConfigSynonyms[0].Source) != x.source {
				t.Errorf("%s of %s: synonyms %+v", x.key, x.topic, got.ConfigSynonyms)
			}
			if v >= 3 && (int8(got.ConfigType) != x.kind || unnull(got.Documentation) == "") {
				t.Errorf("%s: type %d, documentation %v", x.key, got.ConfigType, got.Documentation)
			}
		}
	})
}

// TestRow60DescribeBroker tells this broker's settings under Kafka's names; "" asks for the cluster's
// defaults, and another broker's id is refused.
func TestRow60DescribeBroker(t *testing.T) {
	r := newRig(t, rigOptions{config: map[string]string{
		"num.partitions": "3", "ssl.key.password": "secret",
	}})
	c := r.dial()
	eachVersion(t, kmsg.DescribeConfigs, func(t *testing.T, v int16) {
		for key, want := range map[string]string{
			"num.partitions": "3", "node.id": "7", "default.replication.factor": "1", "delete.topic.enable": "true",
			"offsets.topic.num.partitions": "50",
		} {
			cfgs := c.describe(v, aBroker, "7", key).Configs
			if len(cfgs) != 1 || unnull(cfgs[0].Value) != want || !cfgs[0].ReadOnly {
				t.Errorf("%s: %+v", key, cfgs)
			}
		}
		secret := c.describe(v, aBroker, "7", "ssl.key.password").Configs
		if len(secret) != 1 || !secret[0].IsSensitive || secret[0].Value != nil || len(secret[0].ConfigSynonyms) == 0 {
			t.Fatalf("a password: %+v", secret)
		}
		for _, s := range secret[0].ConfigSynonyms {
			if s.Value != nil {
				t.Errorf("a password is shown: %+v", s)
			}
		}
		if defaults := c.describe(v, aBroker, ""); defaults.ErrorCode != 0 || len(defaults.Configs) != 0 {
			t.Errorf("cluster defaults: %+v", defaults)
		}
	})
}

// TestRow60Refusals gives each resource its own code.
func TestRow60Refusals(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	eachVersion(t, kmsg.DescribeConfigs, func(t *testing.T, v int16) {
		for _, x := range []struct {
			kind kmsg.ConfigResourceType
			name string
			want *kerr.Error
		}{
			{aTopic, "gone", kerr.UnknownTopicOrPartition}, {aTopic, "a b", kerr.InvalidTopicException},
			{aTopic, "", kerr.InvalidTopicException}, {aBroker, "8", kerr.InvalidRequest},
			{aBroker, "x", kerr.InvalidRequest}, {0, "t", kerr.InvalidRequest}, {99, "t", kerr.InvalidRequest},
		} {
			got := c.describe(v, x.kind, x.name)
			wantCode(t, x.name, got.ErrorCode, x.want)
			if len(got.Configs) != 0 || unnull(got.ErrorMessage) == "" {
				t.Errorf("%d %q: %+v", x.kind, x.name, got)
			}
		}
	})
}
