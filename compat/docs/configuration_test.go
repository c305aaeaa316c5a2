package docs

import (
	"fmt"
	"strings"

	"github.com/sluicelog/sluice/controller/config"
)

// topicKeys lists the settings of topics that have an effect.
func topicKeys() (string, error) {
	t := newTable("key", "type", "default", "values", "broker keys that give the default", "meaning")
	for _, k := range config.TopicKeys() {
		if k.Inert {
			continue
		}
		var aliases []string
		for _, a := range k.Aliases {
			aliases = append(aliases, code(a.Name))
		}
		t.row(code(k.Name), typeName(k), defaultOf(k), k.Valid.Text, strings.Join(aliases, ", "), k.Doc)
	}
	return t.String(), nil
}

// ownKeys lists the broker settings that Kafka does not have.
func ownKeys() (string, error) {
	return brokerTable(func(k config.Key) bool { return k.Ours }), nil
}

// brokerKeys lists Kafka's broker settings that have an effect.
func brokerKeys() (string, error) {
	return brokerTable(func(k config.Key) bool { return !k.Ours && !k.Inert && !k.Hidden }), nil
}

func brokerTable(want func(config.Key) bool) string {
	t := newTable("key", "type", "default", "values", "altered", "meaning")
	for _, k := range config.BrokerKeys() {
		if !want(k) {
			continue
		}
		altered := map[config.Update]string{
			config.AtStart: "at start", config.PerBroker: "per broker", config.Anywhere: "at run time",
		}[k.Update]
		t.row(code(k.Name), typeName(k), defaultOf(k), k.Valid.Text, altered, k.Doc)
	}
	return t.String()
}

// inertKeys lists the keys that are taken and do nothing, by reason.
func inertKeys() (string, error) {
	names := map[string][]string{}
	var reasons []string
	for _, keys := range [][]config.Key{config.TopicKeys(), config.BrokerKeys()} {
		for _, k := range keys {
			if !k.Inert || k.Hidden {
				continue
			}
			reason := strings.TrimSuffix(k.Doc, ": accepted, without effect.")
			if names[reason] == nil {
				reasons = append(reasons, reason)
			}
			names[reason] = append(names[reason], code(k.Name))
		}
	}
	t := newTable("why", "keys")
	for _, r := range reasons {
		t.row(r, strings.Join(names[r], ", "))
	}
	return t.String(), nil
}

func typeName(k config.Key) string { return strings.ToLower(k.Type.String()) }

func defaultOf(k config.Key) string {
	switch {
	case k.Null:
		return "unset"
	case k.Default == "":
		return `""`
	case k.Type == config.Password:
		return "hidden"
	}
	return code(fmt.Sprint(k.Default))
}
