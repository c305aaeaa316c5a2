package meta

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/kafkaproto"
)

// alterConfigs follows Kafka's checks and their order (kafka-protocol.md row 59 and its measured
// corrections).
func (e *execution) alterConfigs(c AlterConfigs) Result {
	type resource struct {
		kind ResourceType
		name string
	}
	copies := make(map[resource]int, len(c.Resources))
	for _, r := range c.Resources {
		copies[resource{r.Type, r.Name}]++
	}
	var res AlterConfigsResult
	for _, r := range c.Resources {
		row := AlteredResource{Type: r.Type, Name: r.Name}
		var record Record
		if copies[resource{r.Type, r.Name}] > 1 {
			row.Err = kafkaproto.Faultf(kerr.InvalidRequest, "Each resource must appear at most once.")
		} else if record, row.Err = e.alter(r, c.Replace); record != nil && !c.ValidateOnly {
			e.emit(record)
		}
		res.Resources = append(res.Resources, row)
	}
	return res
}

// alter makes the record of one resource's change; nil when nothing changes.
func (e *execution) alter(r AlterResource, replace bool) (Record, error) {
	if err := checkOps(r.Ops, replace); err != nil {
		return nil, err
	}
	switch r.Type {
	case ResourceTopic:
		return e.alterTopic(r, replace)
	case ResourceBroker:
		return e.alterBroker(r, replace)
	case 8, 16, 32:
		return nil, kafkaproto.Faultf(kerr.InvalidRequest,
			"settings of resource type %d are not served", r.Type)
	}
	return nil, kafkaproto.Faultf(kerr.InvalidRequest, "Unknown resource type %d", r.Type)
}

// checkOps refuses what is wrong whatever the keys are.
func checkOps(ops []AlterOp, replace bool) error {
	seen := make(map[string]bool, len(ops))
	var null []string
	for _, op := range ops {
		if seen[op.Name] {
			return kafkaproto.Faultf(kerr.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[op.Name] = true
		if op.Value == nil && (replace || op.Op != OpDelete) {
			null = append(null, op.Name)
		}
	}
	if len(null) > 0 {
		return kafkaproto.Faultf(kerr.InvalidRequest, "Null value not supported for : %s",
			strings.Join(null, ","))
	}
	for _, op := range ops {
		if !replace && (op.Op < OpSet || op.Op > OpSubtract) {
			return kafkaproto.Faultf(kerr.InvalidRequest, "Unknown operation %d on key %s", op.Op, op.Name)
		}
	}
	return nil
}

func (e *execution) alterTopic(r AlterResource, replace bool) (Record, error) {
	if r.Name == "" {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "Default topic resources are not allowed.")
	}
	if err := CheckTopicName(r.Name); err != nil {
		return nil, err
	}
	t := e.image.Topic(r.Name)
	if t == nil {
		return nil, kafkaproto.Faultf(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.",
			r.Name)
	}
	if r.IfVersion > 0 && r.IfVersion != t.Version {
		return nil, kafkaproto.Faultf(kerr.InvalidUpdateVersion,
			"topic %s is at version %d, the change was made for %d", t.Name, t.Version, r.IfVersion)
	}
	next, err := altered(t.Config, r.Ops, replace, keyRules{
		list:      config.TopicList,
		inForce:   func(name string) string { v, _ := e.layers.TopicText(name, t.Config); return v },
		canonical: config.CanonicalTopic,
	})
	if err != nil {
		return nil, err
	}
	if err := e.layers.ValidateTopic(next); err != nil {
		return nil, err
	}
	set, remove := difference(t.Config, next)
	if len(set)+len(remove) == 0 {
		return nil, nil
	}
	return topicConfigRecord{ID: id(t.ID), Version: t.Version + 1, Set: set, Delete: remove}, nil
}

func (e *execution) alterBroker(r AlterResource, replace bool) (Record, error) {
	if r.Name != "" {
		n, err := strconv.ParseInt(r.Name, 10, 32)
		if err != nil {
			return nil, kafkaproto.Faultf(kerr.InvalidRequest,
				"Node id must be an integer, but it is: %s", r.Name)
		}
		if r.Name = strconv.FormatInt(n, 10); e.image.Node(kafkaproto.NodeID(n)) == nil {
			return nil, kafkaproto.Faultf(kerr.InvalidRequest,
				"Unexpected broker id, expected %d, but received %s", e.env.Node, r.Name)
		}
	}
	old, version := map[string]string(nil), int64(0)
	if c := e.image.brokers[r.Name]; c != nil {
		old, version = c.values, c.version
	}
	touched := make(map[string]string)
	next, err := altered(old, r.Ops, replace, keyRules{
		list: config.BrokerList,
		inForce: func(name string) string {
			if v, ok := old[name]; ok {
				return v
			}
			return e.layers.BrokerText(name)
		},
		canonical: func(name, value string) (string, error) {
			touched[name] = value
			return value, nil
		},
	})
	if err != nil {
		return nil, err
	}
	// Checked together: Kafka names all read-only keys of a request in one sentence.
	canonical, err := config.CanonicalBroker(touched, r.Name == "")
	if err != nil {
		return nil, err
	}
	maps.Copy(next, canonical)
	set, remove := difference(old, next)
	if len(set)+len(remove) == 0 {
		return nil, nil
	}
	return brokerConfigRecord{Broker: r.Name, Version: version + 1, Set: set, Delete: remove}, nil
}

// keyRules are how the keys of one kind of resource are treated.
type keyRules struct {
	list      func(name string) bool
	inForce   func(name string) string
	canonical func(name, value string) (string, error)
}

// altered gives the settings after the operations.
func altered(
	old map[string]string, ops []AlterOp, replace bool, rules keyRules,
) (map[string]string, error) {
	next := make(map[string]string, len(old)+len(ops))
	if !replace {
		maps.Copy(next, old)
	}
	for _, op := range ops {
		value := ""
		switch {
		case replace || op.Op == OpSet:
			value = *op.Value
		case op.Op == OpDelete:
			delete(next, op.Name)
			continue
		default:
			word := "APPEND"
			if op.Op == OpSubtract {
				word = "SUBTRACT"
			}
			if !rules.list(op.Name) {
				return nil, kafkaproto.Faultf(kerr.InvalidConfig,
					"Can't %s to key %s because its type is not LIST.", word, op.Name)
			}
			value = joined(rules.inForce(op.Name), *op.Value, op.Op)
		}
		canonical, err := rules.canonical(op.Name, value)
		if err != nil {
			return nil, err
		}
		next[op.Name] = canonical
	}
	return next, nil
}

// joined appends items to a list, or takes them out. Items that are there already are not added
// again, and taking out what is not there is no error.
func joined(list, items string, op Op) string {
	var all []string
	for _, item := range strings.Split(list, ",") {
		if item != "" {
			all = append(all, item)
		}
	}
	for _, item := range strings.Split(items, ",") {
		item = strings.TrimSpace(item)
		switch at := slices.Index(all, item); {
		case op == OpSubtract && at >= 0:
			all = slices.Delete(all, at, at+1)
		case op == OpAppend && at < 0:
			all = append(all, item)
		}
	}
	return strings.Join(all, ",")
}

// difference gives what turns old into next.
func difference(old, next map[string]string) (set map[string]string, remove []string) {
	set = make(map[string]string)
	for name, value := range next {
		if was, ok := old[name]; !ok || was != value {
			set[name] = value
		}
	}
	for name := range old {
		if _, ok := next[name]; !ok {
			remove = append(remove, name)
		}
	}
	slices.Sort(remove)
	return set, remove
}
