package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (e *env) configSetCommand() *cobra.Command {
	var a alterFlags
	cmd := &cobra.Command{
		Use:   "set (topic NAME | broker [ID]) [KEY=VALUE...]",
		Short: "Change settings of a topic, of one broker, or of all brokers",
		Long:  "Without an ID a broker's setting is set for all brokers, as a default of the cluster.",
		Example: `  sluice config set topic orders retention.ms=3600000
  sluice config set topic orders --unset retention.ms
  sluice config set broker log.retention.ms=86400000
  sluice config set broker 1 --append log.cleanup.policy=compact --dry-run`,
		Args:              e.minArgs(1, "topic NAME, or broker"),
		ValidArgsFunction: e.completeResource,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := parseResource(args)
			if err != nil {
				return err
			}
			for _, arg := range r.rest {
				if !strings.Contains(arg, "=") {
					return usagef("%q is not key=value", arg)
				}
			}
			a.set = r.rest
			changes, err := a.changes(r.known)
			if err != nil {
				return err
			}
			return e.admin(func(ctx context.Context, c *client) error {
				if r.topic != "" {
					return e.topicAlter(ctx, c, []string{r.topic}, changes, a.dryRun)
				}
				return e.brokerAlter(ctx, c, r.broker, changes, a.dryRun)
			})
		},
	}
	a.bind(cmd)
	return cmd
}

func (e *env) brokerAlter(ctx context.Context, c *client, id int32, changes []kadm.AlterConfig,
	dryRun bool) error {
	var brokers []int32 // none means the cluster's defaults
	kind := "all brokers"
	if id >= 0 {
		brokers, kind = []int32{id}, "broker"
	}
	alter := c.adm.AlterBrokerConfigs
	if dryRun {
		alter = c.adm.ValidateAlterBrokerConfigs
	}
	res, err := alter(ctx, changes, brokers...)
	if err != nil {
		return err
	}
	return e.altered(kind, res, len(changes), dryRun)
}
