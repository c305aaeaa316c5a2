package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// CanonicalTopic checks one topic value and gives its canonical spelling. The error is
// kerr.InvalidConfig with Kafka's sentence.
func CanonicalTopic(name, value string) (string, error) {
	k, ok := TopicKey(name)
	if !ok {
		return "", kafkaproto.Faultf(kerr.InvalidConfig, "Unknown topic config name: %s%s",
			name, didYouMean(topicKeys, name))
	}
	canonical, err := k.Parse(value)
	if err != nil {
		return "", kafkaproto.Faultf(kerr.InvalidConfig, "%s", err.Error())
	}
	return canonical, nil
}

// didYouMean is empty for the names Kafka itself would give no hint on: none is close.
func didYouMean(table []Key, name string) string {
	best := nearest(name)
	if _, ok := find(table, best); !ok || best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// ValidateTopic checks a topic's whole set of canonical overrides: what one value alone does not
// show. The error is kerr.InvalidConfig with Kafka's sentence.
func (l *Layers) ValidateTopic(overrides map[string]string) error {
	r := l.topicReader(overrides)
	low, high := r.long("min.compaction.lag.ms"), r.long("max.compaction.lag.ms")
	if low > high {
		return kafkaproto.Faultf(kerr.InvalidConfig, "conflict topic config setting "+
			"min.compaction.lag.ms (%d) > max.compaction.lag.ms (%d)", low, high)
	}
	return nil
}

// TopicList reports whether a topic key is a list, which APPEND and SUBTRACT need.
func TopicList(name string) bool {
	k, ok := TopicKey(name)
	return ok && k.Type == List
}

// BrokerList reports whether a broker key is a list.
func BrokerList(name string) bool {
	k, ok := BrokerKey(name)
	return ok && k.Type == List
}

// CanonicalBroker checks the dynamic settings of a broker, or with clusterWide those of all, and
// gives them in canonical spelling. Unknown names are taken, as Kafka takes them: they may be meant
// for a plug-in. The error is kerr.InvalidRequest, as Kafka answers (KAFKA-13609).
func CanonicalBroker(values map[string]string, clusterWide bool) (map[string]string, error) {
	canonical := make(map[string]string, len(values))
	var readOnly, perBroker []string
	names := slices.Sorted(maps.Keys(values))
	for _, name := range names {
		k, ok := BrokerKey(name)
		switch {
		case !ok:
		case k.Update == AtStart:
			readOnly = append(readOnly, name)
		case clusterWide && (k.Update == PerBroker || strings.HasPrefix(name, "listener.name.")):
			perBroker = append(perBroker, name)
		}
	}
	if len(readOnly) > 0 {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest,
			"Cannot update these configs dynamically: [%s]", strings.Join(readOnly, ", "))
	}
	if len(perBroker) > 0 {
		return nil, kafkaproto.Faultf(kerr.InvalidRequest, "Cannot update these configs at default "+
			"cluster level, broker id must be specified: [%s]", strings.Join(perBroker, ", "))
	}
	for _, name := range names {
		k, ok := BrokerKey(name)
		if !ok {
			canonical[name] = values[name]
			continue
		}
		v, err := k.Parse(values[name])
		if err == nil && name == "max.connections.per.ip.overrides" {
			_, err = parseIPOverrides(v)
		}
		if err != nil {
			return nil, kafkaproto.Faultf(kerr.InvalidRequest, "%s", err.Error())
		}
		canonical[name] = v
	}
	return canonical, nil
}
