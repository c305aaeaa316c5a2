package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (e *env) topicDeleteCommand() *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:     "delete TOPIC...",
		Aliases: []string{"rm"},
		Short:   "Delete topics and all their records",
		Example: `  sluice topic delete orders                     # asks first
  sluice topic delete orders payments --yes
  sluice topic delete orders --dry-run           # only says what would go`,
		Args:              e.minArgs(1, "the name of a topic"),
		ValidArgsFunction: e.completeTopics,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			return e.admin(func(ctx context.Context, c *client) error {
				what, err := topicLosses(ctx, c, args)
				if err != nil {
					return err
				}
				if ok, err := e.confirm("delete", what, yes, dryRun); !ok {
					return err
				}
				return e.topicDelete(c, args)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would go")
	return cmd
}

// topicDelete has its own bound: the question may have taken long.
func (e *env) topicDelete(c *client, names []string) error {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	res, err := c.adm.DeleteTopics(ctx, names...)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(res)) {
		r := res[name]
		if r.Err != nil {
			errs = append(errs, kafkaf("delete topic "+r.Topic, r.Err, r.ErrMessage))
			continue
		}
		e.say("deleted topic %s", r.Topic)
	}
	return errors.Join(errs...)
}

// topicLosses says of each topic what goes with it: "orders: 12 partitions, 3 records, 3.1 GB,
// 2 active groups". A broker that does not tell sizes leaves them out.
func topicLosses(ctx context.Context, c *client, names []string) ([]string, error) {
	pages, err := topicPages(ctx, c, names, false)
	if err != nil {
		return nil, err
	}
	active, err := activeGroups(ctx, c)
	if err != nil {
		return nil, err
	}
	sizes := topicSizes(ctx, c, names)
	var out []string
	for _, p := range pages {
		parts := []string{
			count(int64(len(p.Partitions)), "partition"), count(p.Records, "record"),
		}
		if size, ok := sizes[p.Name]; ok {
			parts = append(parts, bytesText(size))
		}
		if n := len(active[p.Name]); n > 0 {
			parts = append(parts, fmt.Sprintf("%s (%s)", count(int64(n), "active group"),
				strings.Join(active[p.Name], ", ")))
		}
		out = append(out, p.Name+": "+strings.Join(parts, ", "))
	}
	return out, nil
}

// activeGroups maps topics to the groups with members that subscribe to them.
func activeGroups(ctx context.Context, c *client) (map[string][]string, error) {
	listed, err := c.adm.ListGroups(ctx)
	if err != nil || len(listed) == 0 {
		return nil, err
	}
	described, err := c.adm.DescribeGroups(ctx, listed.Groups()...)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]string)
	for _, g := range described.Sorted() {
		topics := kadm.TopicsSet{}
		for _, m := range g.Members {
			if meta, ok := m.Join.AsConsumer(); ok {
				for _, t := range meta.Topics {
					topics.Add(t, 0)
				}
			}
		}
		for t := range topics {
			out[t] = append(out[t], g.Group)
		}
	}
	return out, nil
}

// topicSizes asks for the size on disk of each topic's largest replicas; empty when the broker does
// not tell.
func topicSizes(ctx context.Context, c *client, names []string) map[string]int64 {
	var set kadm.TopicsSet
	for _, n := range names {
		if set == nil {
			set = kadm.TopicsSet{}
		}
		set[n] = nil
	}
	out := make(map[string]int64)
	dirs, err := c.adm.DescribeAllLogDirs(ctx, set)
	if err != nil {
		return out
	}
	dirs.Each(func(d kadm.DescribedLogDir) {
		d.Topics.Each(func(p kadm.DescribedLogDirPartition) {
			if slices.Contains(names, p.Topic) {
				out[p.Topic] += p.Size
			}
		})
	})
	return out
}
