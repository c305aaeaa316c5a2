package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// alterFlags are the changes that topic alter and config set share.
type alterFlags struct {
	set, unset, add, sub []string
	dryRun               bool
}

func (a *alterFlags) bind(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&a.unset, "unset", nil, "take a key back to its default; may be repeated")
	f.StringArrayVar(&a.add, "append", nil, "add to a list, as key=value")
	f.StringArrayVar(&a.sub, "subtract", nil, "take from a list, as key=value")
	f.BoolVar(&a.dryRun, "dry-run", false, "only check whether it could be done")
}

// changes checks the flags and gives them as the protocol has them. known judges each key.
func (a *alterFlags) changes(known func(string) error) ([]kadm.AlterConfig, error) {
	var out []kadm.AlterConfig
	for _, k := range a.unset {
		out = append(out, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: k})
	}
	for _, group := range []struct {
		flag string
		args []string
		op   kadm.IncrementalOp
	}{
		{"--config", a.set, kadm.SetConfig}, {"--append", a.add, kadm.AppendConfig},
		{"--subtract", a.sub, kadm.SubtractConfig},
	} {
		pairs, err := keyValues(group.flag, group.args)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			out = append(out, kadm.AlterConfig{Op: group.op, Name: p[0], Value: &p[1]})
		}
	}
	if len(out) == 0 {
		return nil, usagef("nothing to change: name a key=value, or --unset KEY")
	}
	for _, c := range out {
		if err := known(c.Name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (e *env) topicAlterCommand() *cobra.Command {
	var a alterFlags
	cmd := &cobra.Command{
		Use:   "alter TOPIC...",
		Short: "Change a topic's settings",
		Example: `  sluice topic alter orders --config retention.ms=3600000
  sluice topic alter orders --config cleanup.policy=compact --unset retention.ms
  sluice topic alter orders --config sluice.durability=strict --dry-run`,
		Args:              e.minArgs(1, "the name of a topic"),
		ValidArgsFunction: e.completeTopics,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			changes, err := a.changes(knownTopicKey)
			if err != nil {
				return err
			}
			return e.admin(func(ctx context.Context, c *client) error {
				return e.topicAlter(ctx, c, args, changes, a.dryRun)
			})
		},
	}
	cmd.Flags().StringArrayVarP(&a.set, "config", "c", nil, "set a key, as key=value; may be repeated")
	a.bind(cmd)
	_ = cmd.RegisterFlagCompletionFunc("config", completeTopicKeys)
	_ = cmd.RegisterFlagCompletionFunc("unset", completeTopicKeys)
	return cmd
}

func (e *env) topicAlter(ctx context.Context, c *client, names []string, changes []kadm.AlterConfig,
	dryRun bool) error {
	if _, err := topicDetails(ctx, c, names); err != nil {
		return err
	}
	alter := c.adm.AlterTopicConfigs
	if dryRun {
		alter = c.adm.ValidateAlterTopicConfigs
	}
	res, err := alter(ctx, changes, names...)
	if err != nil {
		return err
	}
	return e.altered("topic", res, len(changes), dryRun)
}

// altered tells of each resource what came of its changes.
func (e *env) altered(kind string, res kadm.AlterConfigsResponses, n int, dryRun bool) error {
	verb := "changed"
	if dryRun {
		verb = "could change"
	}
	var errs []error
	for _, r := range res {
		subject := kind
		if r.Name != "" {
			subject += " " + r.Name
		}
		if r.Err != nil {
			errs = append(errs, kafkaf("change settings of "+subject, r.Err, r.ErrMessage))
			continue
		}
		e.say("%s %s of %s", verb, count(int64(n), "setting"), subject)
	}
	return errors.Join(errs...)
}
