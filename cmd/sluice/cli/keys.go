package cli

import (
	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/controller/config"
)

// knownTopicKey refuses a topic key that is most likely misspelt. Names that look like nothing we
// know are left to the broker, which may be another's.
func knownTopicKey(name string) error {
	if _, ok := config.TopicKey(name); ok {
		return nil
	}
	if hint := suggest(name, keyNames(config.TopicKeys())); hint != "" {
		return usagef("%q is no setting of a topic%s", name, hint)
	}
	return nil
}

// knownBrokerKey does the same for a broker's.
func knownBrokerKey(name string) error {
	if _, ok := config.BrokerKey(name); ok {
		return nil
	}
	if hint := suggest(name, keyNames(config.BrokerKeys())); hint != "" {
		return usagef("%q is no setting of a broker%s", name, hint)
	}
	return nil
}

// keyNames lists the keys that people set.
func keyNames(keys []config.Key) []string {
	var out []string
	for _, k := range keys {
		if !k.Hidden {
			out = append(out, k.Name)
		}
	}
	return out
}

// sourceName says where a value comes from.
func sourceName(s kmsg.ConfigSource) string {
	switch s {
	case kmsg.ConfigSourceDynamicTopicConfig:
		return "topic"
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return "broker"
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return "cluster"
	case kmsg.ConfigSourceStaticBrokerConfig:
		return "static"
	case kmsg.ConfigSourceDefaultConfig:
		return "default"
	}
	return "unknown"
}

func completeTopicKeys(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return keyNames(config.TopicKeys()),
		cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}
