package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/sluicelog/sluice/controller/config"
)

func (e *env) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show, explain, check and change settings",
		Example: `  sluice config print server.properties      # what serve would use, and where it comes from
  sluice config explain retention.ms
  sluice config lint server.properties
  sluice config get topic orders
  sluice config set broker log.retention.ms=86400000`,
		Args: cobra.ArbitraryArgs,
		RunE: e.noun,
	}
	cmd.AddCommand(e.configPrintCommand(), e.configExplainCommand(), e.configLintCommand(),
		e.configGetCommand(), e.configSetCommand())
	return cmd
}

// resource is what config get and set are about: a topic, one broker, or all brokers.
type resource struct {
	topic  string
	broker int32 // -1: all, or the only one
	rest   []string
}

// parseResource reads "topic NAME ..." or "broker [ID] ...".
func parseResource(args []string) (resource, error) {
	r := resource{broker: -1}
	if len(args) == 0 {
		return r, usagef("settings of what: topic NAME, or broker [ID]?")
	}
	switch args[0] {
	case "topic", "topics":
		if len(args) < 2 {
			return r, usagef("settings of which topic?")
		}
		r.topic, r.rest = args[1], args[2:]
		return r, nil
	case "broker", "brokers":
		r.rest = args[1:]
		if len(r.rest) > 0 {
			if id, err := strconv.ParseInt(r.rest[0], 10, 32); err == nil && id >= 0 {
				r.broker, r.rest = int32(id), r.rest[1:]
			}
		}
		return r, nil
	}
	return r, usagef("%q is neither topic nor broker%s", args[0],
		suggest(args[0], []string{"topic", "broker"}))
}

// known judges a key of the resource.
func (r resource) known(name string) error {
	if r.topic != "" {
		return knownTopicKey(name)
	}
	return knownBrokerKey(name)
}

// key finds a key of the resource in the registry.
func (r resource) key(name string) (*config.Key, bool) {
	if r.topic != "" {
		return config.TopicKey(name)
	}
	return config.BrokerKey(name)
}

// describe asks for the settings in force. Without an id the only broker is meant.
func (r resource) describe(ctx context.Context, c *client) (kadm.ResourceConfig, error) {
	if r.topic != "" {
		if _, err := topicDetails(ctx, c, []string{r.topic}); err != nil {
			return kadm.ResourceConfig{}, err
		}
		found, err := c.adm.DescribeTopicConfigs(ctx, r.topic)
		if err != nil {
			return kadm.ResourceConfig{}, err
		}
		return one(found, "topic "+r.topic)
	}
	brokers, err := c.adm.ListBrokers(ctx)
	if err != nil {
		return kadm.ResourceConfig{}, err
	}
	id := r.broker
	ids := brokers.NodeIDs()
	switch {
	case id < 0 && len(ids) == 1:
		id = ids[0]
	case id < 0:
		return kadm.ResourceConfig{}, usagef("there are %d brokers; say which: %v", len(ids), ids)
	case !slices.Contains(ids, id):
		return kadm.ResourceConfig{}, failf(exitNotFound, "there is no broker %d; there are %v", id, ids)
	}
	found, err := c.adm.DescribeBrokerConfigs(ctx, id)
	if err != nil {
		return kadm.ResourceConfig{}, err
	}
	return one(found, "broker "+strconv.Itoa(int(id)))
}

func one(found kadm.ResourceConfigs, subject string) (kadm.ResourceConfig, error) {
	if len(found) != 1 {
		return kadm.ResourceConfig{}, failf(exitFailed, "%s: %d answers to one question", subject, len(found))
	}
	slices.SortFunc(found[0].Configs, func(a, b kadm.Config) int { return cmp.Compare(a.Key, b.Key) })
	return found[0], kafkaf(subject, found[0].Err, found[0].ErrMessage)
}

// completeResource offers topic and broker, then topics, then keys.
func (e *env) completeResource(cmd *cobra.Command, args []string, part string) ([]string,
	cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"topic", "broker"}, cobra.ShellCompDirectiveNoFileComp
	case args[0] == "topic" && len(args) == 1:
		return e.completeTopics(cmd, nil, part)
	case args[0] == "topic":
		return keyNames(config.TopicKeys()), cobra.ShellCompDirectiveNoFileComp
	}
	return keyNames(config.BrokerKeys()), cobra.ShellCompDirectiveNoFileComp
}
