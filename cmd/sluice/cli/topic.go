package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (e *env) topicCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "List, make, change and delete topics",
		Example: `  sluice topic list
  sluice topic create orders -p 6 --config retention.ms=86400000
  sluice topic describe orders
  sluice topic delete orders --yes`,
		Aliases: []string{"topics"},
		Args:    cobra.ArbitraryArgs,
		RunE:    e.noun,
	}
	cmd.AddCommand(e.topicListCommand(), e.topicCreateCommand(), e.topicDescribeCommand(),
		e.topicDeleteCommand(), e.topicAlterCommand(), e.topicAddPartitionsCommand())
	return cmd
}

// topicDetails asks for topics by name, or for all. A topic that is not there is an error that names
// the nearest one that is.
func topicDetails(ctx context.Context, c *client, names []string) ([]kadm.TopicDetail, error) {
	details, err := c.adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	var out []kadm.TopicDetail
	for _, t := range details {
		switch t.Err {
		case nil:
			out = append(out, t)
		case kerr.UnknownTopicOrPartition:
			return nil, noTopic(ctx, c, t.Topic)
		default:
			return nil, kafkaf("topic "+t.Topic, t.Err, "")
		}
	}
	slices.SortFunc(out, func(a, b kadm.TopicDetail) int { return cmp.Compare(a.Topic, b.Topic) })
	return out, nil
}

// noTopic is the error about a topic that does not exist.
func noTopic(ctx context.Context, c *client, name string) error {
	hint := ""
	if all, err := c.adm.ListTopics(ctx); err == nil {
		hint = suggest(name, all.Names())
	}
	if hint == "" {
		hint = "; create it with \"sluice topic create " + name + "\""
	}
	return failf(exitNotFound, "topic %q does not exist on %s%s", name,
		strings.Join(c.dialer.seeds, ","), hint)
}

// keyValues splits arguments of the form key=value.
func keyValues(flag string, args []string) ([][2]string, error) {
	var out [][2]string
	for _, a := range args {
		k, v, ok := strings.Cut(a, "=")
		if !ok || strings.TrimSpace(k) == "" {
			return nil, usagef("%s %q is not key=value", flag, a)
		}
		out = append(out, [2]string{strings.TrimSpace(k), v})
	}
	return out, nil
}
