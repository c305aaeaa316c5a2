package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/sluicelog/sluice/kafkaproto"
)

// topicRow is one topic of a list.
type topicRow struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Internal   bool   `json:"internal"`
}

func topicListing() listing[topicRow] {
	return listing[topicRow]{
		name: func(t topicRow) string { return t.Name },
		columns: []column[topicRow]{
			{head: "NAME", cell: func(t topicRow) string { return t.Name }},
			{head: "PARTITIONS", cell: func(t topicRow) string { return strconv.Itoa(t.Partitions) }},
			{head: "REPLICAS", cell: func(t topicRow) string { return strconv.Itoa(t.Replicas) }},
			{head: "ID", cell: func(t topicRow) string { return t.ID }, wide: true},
			{head: "INTERNAL", cell: func(t topicRow) string { return strconv.FormatBool(t.Internal) }, wide: true},
		},
	}
}

func (e *env) topicListCommand() *cobra.Command {
	var form string
	var internal bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List topics",
		Example: `  sluice topic list
  sluice topic list --internal -o wide
  sluice topic list -o name | xargs -n1 sluice topic describe`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(*cobra.Command, []string) error {
			return e.admin(func(ctx context.Context, c *client) error {
				details, err := topicDetails(ctx, c, nil)
				if err != nil {
					return err
				}
				var rows []topicRow
				for _, t := range details {
					if !t.IsInternal || internal {
						rows = append(rows, topicRowOf(t))
					}
				}
				return show(e, form, topicListing(), rows)
			})
		},
	}
	outputFlag(cmd, &form, formTable)
	cmd.Flags().BoolVarP(&internal, "internal", "i", false, "show internal topics as well")
	return cmd
}

func topicRowOf(t kadm.TopicDetail) topicRow {
	return topicRow{
		Name: t.Topic, ID: kafkaproto.TopicID(t.ID).String(), Partitions: len(t.Partitions),
		Replicas: t.Partitions.NumReplicas(), Internal: t.IsInternal,
	}
}
