package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// alteration is one change of a setting.
type alteration struct {
	key   string
	op    kmsg.IncrementalAlterConfigOp
	value string // "-": null
}

func (c *client) incrementally(v int16, validate bool, kind kmsg.ConfigResourceType, name string, changes ...alteration) kmsg.IncrementalAlterConfigsResponseResource {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validate
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kind, name
	for _, ch := range changes {
		cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		cfg.Name, cfg.Op = ch.key, ch.op
		if ch.value != "-" {
			cfg.Value = kmsg.StringPtr(ch.value)
		}
		res.Configs = append(res.Configs, cfg)
	}
	req.Resources = append(req.Resources, res)
	resp := ask[*kmsg.IncrementalAlterConfigsResponse](c, req, v)
	if len(resp.Resources) != 1 || resp.Resources[0].ResourceName != name || resp.Resources[0].ResourceType != kind {
		c.t.Fatalf("answer %+v", resp)
	}
	return resp.Resources[0]
}

const (
	opSet = iota
	opDelete
	opAppend
	opSubtract
)

// TestRow59IncrementalAlterConfigs sets, deletes, appends and subtracts; what is refused changes nothing.
func TestRow59IncrementalAlterConfigs(t *testing.T) {
	r := newRig(t, rigOptions{})
	c := r.dial()
	eachVersion(t, kmsg.IncrementalAlterConfigs, func(t *testing.T, v int16) {
		r.create("t", 1)
		policy, retention := "delete", "604800000"
		for i, x := range []struct {
			change            alteration
			validate          bool
			want              *kerr.Error
			policy, retention string // after, "" as before
		}{
			{alteration{"retention.ms", opSet, "60000"}, true, nil, "", ""},
			{alteration{"retention.ms", opSet, "60000"}, false, nil, "", "60000"},
			{alteration{"cleanup.policy", opAppend, "compact"}, false, nil, "delete,compact", ""},
			{alteration{"cleanup.policy", opAppend, "compact"}, false, nil, "", ""}, // once is enough
			{alteration{"cleanup.policy", opSubtract, "delete"}, false, nil, "compact", ""},
			{alteration{"cleanup.policy", opSubtract, "nothing"}, false, nil, "", ""},
			{alteration{"retention.ms", opAppend, "5"}, false, kerr.InvalidConfig, "", ""},
			{alteration{"retention.ms", opSubtract, "5"}, false, kerr.InvalidConfig, "", ""},
			{alteration{"retention.ms", opSet, "no"}, false, kerr.InvalidConfig, "", ""},
			{alteration{"retention.ms", opSet, "-"}, false, kerr.InvalidRequest, "", ""},
			{alteration{"cleanup.policy", opAppend, "-"}, false, kerr.InvalidRequest, "", ""},
			{alteration{"cleanup.policy", opSubtract, "-"}, false, kerr.InvalidRequest, "", ""},
			{alteration{"retention.ms", 9, "5"}, false, kerr.InvalidRequest, "", ""},
			{alteration{"no.such.key", opSet, "5"}, false, kerr.InvalidConfig, "", ""},
			{alteration{"no.such.key", opDelete, "-"}, false, nil, "", ""},
			{alteration{"retention.ms", opDelete, "-"}, false, nil, "", "604800000"},
		} {
			got := c.incrementally(v, x.validate, aTopic, "t", x.change)
			wantCode(t, x.change.key, got.ErrorCode, x.want)
			if x.want != nil && unnull(got.ErrorMessage) == "" {
				t.Errorf("case %d: no message", i)
			}
			if x.policy != "" {
				policy = x.policy
			}
			if x.retention != "" {
				retention = x.retention
			}
			gotPolicy, _ := c.setting(aTopic, "t", "cleanup.policy")
			gotRetention, _ := c.setting(aTopic, "t", "retention.ms")
			if gotPolicy != policy || gotRetention != retention {
				t.Errorf("case %d: policy %s, retention %s", i, gotPolicy, gotRetention)
			}
		}
		twice := alteration{"retention.ms", opSet, "5"}
		wantCode(t, "twice", c.incrementally(v, false, aTopic, "t", twice, twice).ErrorCode, kerr.InvalidRequest)
		wantCode(t, "topic", c.incrementally(v, false, aTopic, "gone", twice).ErrorCode, kerr.UnknownTopicOrPartition)
		wantCode(t, "no topic", c.incrementally(v, false, aTopic, "", twice).ErrorCode, kerr.InvalidRequest)
		wantCode(t, "kind", c.incrementally(v, false, 3, "x", twice).ErrorCode, kerr.InvalidRequest)
		r.delete("t")
	})
}

// TestRow59TakesEffect is seen by the requests that follow.
func TestRow59TakesEffect(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1)
	c := r.dial()
	big := recordsOf(batch.BuilderOptions{}, 1000)
	wantCode(t, "before", c.produceOne(topic, -1, big, 9).ErrorCode, nil)
	c.incrementally(1, false, aTopic, "t", alteration{"max.message.bytes", opSet, "500"})
	wantCode(t, "set", c.produceOne(topic, -1, big, 9).ErrorCode, kerr.MessageTooLarge)
	c.incrementally(1, false, aTopic, "t", alteration{"max.message.bytes", opDelete, "-"})
	wantCode(t, "deleted", c.produceOne(topic, -1, big, 9).ErrorCode, nil)
}

// TestRow59BrokerDefaults lets a topic follow the broker's dynamic values, each layer over the one
// before.
func TestRow59BrokerDefaults(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.create("t", 1)
	c := r.dial()
	for i, x := range []struct {
		broker string
		change alteration
		want   *kerr.Error
		value  string
		source kmsg.ConfigSource
	}{
		{"", alteration{"log.retention.ms", opSet, "60000"}, nil, "60000", 3},
		{"7", alteration{"log.retention.ms", opSet, "70000"}, nil, "70000", 2},
		{"7", alteration{"log.retention.ms", opSet, "no"}, kerr.InvalidRequest, "70000", 2},
		{"7", alteration{"node.id", opSet, "5"}, kerr.InvalidRequest, "70000", 2},
		{"", alteration{"auto.create.topics.enable", opSet, "true"}, kerr.InvalidRequest, "70000", 2},
		{"8", alteration{"log.retention.ms", opSet, "5"}, kerr.InvalidRequest, "70000", 2},
		{"x", alteration{"log.retention.ms", opSet, "5"}, kerr.InvalidRequest, "70000", 2},
		{"7", alteration{"log.retention.ms", opDelete, "-"}, nil, "60000", 3},
		{"", alteration{"log.retention.ms", opDelete, "-"}, nil, "604800000", 5},
	} {
		wantCode(t, x.change.key, c.incrementally(1, false, aBroker, x.broker, x.change).ErrorCode, x.want)
		if value, source := c.setting(aTopic, "t", "retention.ms"); value != x.value || source != x.source {
			t.Errorf("case %d: %s from %d", i, value, source)
		}
	}
}
