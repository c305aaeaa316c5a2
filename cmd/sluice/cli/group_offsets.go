package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// committedRow is an offset that a group has committed.
type committedRow struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	LeaderEpoch int32  `json:"leader_epoch"`
	Metadata    string `json:"metadata"`
}

func (e *env) groupOffsetsCommand() *cobra.Command {
	var form string
	var topics []string
	cmd := &cobra.Command{
		Use:   "offsets GROUP",
		Short: "Show the offsets that a group has committed",
		Example: `  sluice group offsets billing
  sluice group offsets billing --topic orders
  sluice group offsets billing -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeGroups,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			return e.admin(func(ctx context.Context, c *client) error {
				if _, err := describeGroups(ctx, c, args); err != nil {
					return err
				}
				found, err := c.adm.FetchOffsets(ctx, args[0])
				if err != nil {
					return kafkaf("offsets of group "+args[0], err, "")
				}
				var rows []committedRow
				for _, o := range found.Sorted() {
					if len(topics) == 0 || slices.Contains(topics, o.Topic) {
						rows = append(rows, committedRow{o.Topic, o.Partition, o.At, o.LeaderEpoch, o.Metadata})
					}
				}
				return show(e, form, committedListing(), rows)
			})
		},
	}
	outputFlag(cmd, &form, formTable)
	cmd.Flags().StringArrayVarP(&topics, "topic", "t", nil, "only this topic; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("topic", e.completeTopics)
	return cmd
}

func committedListing() listing[committedRow] {
	return listing[committedRow]{
		name: func(r committedRow) string { return fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset) },
		columns: []column[committedRow]{
			{head: "TOPIC", cell: func(r committedRow) string { return r.Topic }},
			{head: "PARTITION", cell: func(r committedRow) string { return strconv.Itoa(int(r.Partition)) }},
			{head: "OFFSET", cell: func(r committedRow) string { return offsetText(r.Offset) }},
			{head: "EPOCH", cell: func(r committedRow) string { return strconv.Itoa(int(r.LeaderEpoch)) }, wide: true},
			{head: "METADATA", cell: func(r committedRow) string { return strings.TrimSpace(r.Metadata) }, wide: true},
		},
	}
}
