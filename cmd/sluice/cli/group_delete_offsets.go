package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (e *env) groupDeleteOffsetsCommand() *cobra.Command {
	var yes, dryRun bool
	var topics []string
	cmd := &cobra.Command{
		Use:   "delete-offsets GROUP --topic TOPIC",
		Short: "Make a group forget topics",
		Example: `  sluice group delete-offsets billing --topic orders
  sluice group delete-offsets billing --topic orders:0,1 --yes
  sluice group delete-offsets billing --topic orders --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeGroups,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(topics) == 0 {
				return usagef("say which with --topic; \"sluice group delete %s\" deletes all", args[0])
			}
			return e.admin(func(ctx context.Context, c *client) error {
				set, what, err := offsetLosses(ctx, c, args[0], topics)
				if err != nil {
					return err
				}
				if ok, err := e.confirm("delete", []string{what}, yes, dryRun); !ok {
					return err
				}
				return e.groupDeleteOffsets(c, args[0], set)
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&topics, "topic", "t", nil, "a topic, or topic:0,1; may be repeated")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	f.BoolVar(&dryRun, "dry-run", false, "only say what would go")
	_ = cmd.RegisterFlagCompletionFunc("topic", e.completeTopics)
	return cmd
}

// offsetLosses finds the offsets that are meant, and says what they are.
func offsetLosses(ctx context.Context, c *client, group string, args []string) (kadm.TopicsSet,
	string, error) {
	if _, err := describeGroups(ctx, c, []string{group}); err != nil {
		return nil, "", err
	}
	found, err := c.adm.FetchOffsets(ctx, group)
	if err != nil {
		return nil, "", kafkaf("offsets of group "+group, err, "")
	}
	topics, only, err := seekTopics(args, found)
	if err != nil {
		return nil, "", err
	}
	set, n := kadm.TopicsSet{}, 0
	for _, t := range topics {
		for p := range found[t] {
			if ps := only[t]; len(ps) == 0 || slices.Contains(ps, p) {
				set.Add(t, p)
				n++
			}
		}
	}
	if n == 0 {
		return nil, "", failf(exitNotFound, "group %q has no such offsets; see \"sluice group offsets %s\"",
			group, group)
	}
	return set, fmt.Sprintf("%s of group %s on %s", count(int64(n), "offset"), group,
		count(int64(len(set)), "topic")), nil
}

func (e *env) groupDeleteOffsets(c *client, group string, set kadm.TopicsSet) error {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	res, err := c.adm.DeleteOffsets(ctx, group, set)
	if err != nil {
		return kafkaf("delete offsets of group "+group, err, "")
	}
	var errs []error
	res.EachError(func(t string, p int32, err error) {
		if errors.Is(err, kerr.GroupSubscribedToTopic) {
			errs = append(errs, failf(exitConflict, "delete offsets of group %q: a member reads topic %s; "+
				"stop it first", group, t))
			return
		}
		errs = append(errs, kafkaf(fmt.Sprintf("delete the offset of %s/%d", t, p), err, ""))
	})
	if len(errs) == 0 {
		e.say("deleted offsets of group %s", group)
	}
	return errors.Join(errs...)
}
