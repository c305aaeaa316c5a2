package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func (e *env) topicAddPartitionsCommand() *cobra.Command {
	var add, total int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "add-partitions TOPIC...",
		Short: "Give a topic more partitions",
		Long:  "Records of a key may go to another partition from then on; those already there stay.",
		Example: `  sluice topic add-partitions orders --add 3
  sluice topic add-partitions orders --total 12
  sluice topic add-partitions orders --total 12 --dry-run`,
		Args:              e.minArgs(1, "the name of a topic"),
		ValidArgsFunction: e.completeTopics,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			if (add > 0) == (total > 0) {
				return usagef("say how many: --add N more, or --total N in all")
			}
			return e.admin(func(ctx context.Context, c *client) error {
				return e.topicAddPartitions(ctx, c, args, add, total, dryRun)
			})
		},
	}
	cmd.Flags().IntVar(&add, "add", 0, "how many more")
	cmd.Flags().IntVar(&total, "total", 0, "how many in all")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check whether it could be done")
	return cmd
}

func (e *env) topicAddPartitions(ctx context.Context, c *client, names []string, add, total int,
	dryRun bool) error {
	if _, err := topicDetails(ctx, c, names); err != nil {
		return err
	}
	change, n, verb := c.adm.CreatePartitions, add, "added "+count(int64(add), "partition")+" to"
	switch {
	case add > 0 && dryRun:
		change, verb = c.adm.ValidateCreatePartitions, "could add "+count(int64(add), "partition")+" to"
	case add > 0:
	case dryRun:
		change, n, verb = c.adm.ValidateUpdatePartitions, total, "could make "+count(int64(total), "partition")+" of"
	default:
		change, n, verb = c.adm.UpdatePartitions, total, "made "+count(int64(total), "partition")+" of"
	}
	res, err := change(ctx, n, names...)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range res.Sorted() {
		if r.Err != nil {
			errs = append(errs, kafkaf("add partitions to "+r.Topic, r.Err, r.ErrMessage))
			continue
		}
		e.say("%s topic %s", verb, r.Topic)
	}
	return errors.Join(errs...)
}
