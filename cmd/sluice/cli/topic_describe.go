package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicPage is all that topic describe knows of a topic.
type topicPage struct {
	topicRow
	Records    int64          `json:"records"` // by offsets: compaction leaves fewer
	Partitions []partitionRow `json:"partition_list"`
	Config     []topicSetting `json:"config"`
}

type topicSetting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

type partitionRow struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	InSync      []int32 `json:"in_sync"`
	Start       int64   `json:"start_offset"`
	End         int64   `json:"end_offset"`
}

func (e *env) topicDescribeCommand() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show a topic's partitions, offsets and settings",
		Example: `  sluice topic describe orders
  sluice topic describe orders -o wide           # all settings, not only those that were changed
  sluice topic describe orders -o json`,
		Args:              e.minArgs(1, "the name of a topic"),
		ValidArgsFunction: e.completeTopics,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			return e.admin(func(ctx context.Context, c *client) error {
				pages, err := topicPages(ctx, c, args, form == formWide)
				if err != nil {
					return err
				}
				return show(e, form, listing[topicPage]{
					name:   func(p topicPage) string { return p.Name },
					single: len(args) == 1,
					text:   e.topicPageText,
				}, pages)
			})
		},
	}
	outputFlag(cmd, &form, formTable)
	return cmd
}

func topicPages(ctx context.Context, c *client, names []string, all bool) ([]topicPage, error) {
	details, err := topicDetails(ctx, c, names)
	if err != nil {
		return nil, err
	}
	starts, err := c.adm.ListStartOffsets(ctx, names...)
	if _, err = withoutLeader(err); err != nil {
		return nil, err
	}
	ends, err := c.adm.ListEndOffsets(ctx, names...)
	if _, err = withoutLeader(err); err != nil {
		return nil, err
	}
	configs, err := c.adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, err
	}
	var pages []topicPage
	for _, t := range details {
		p := topicPage{topicRow: topicRowOf(t), Config: []topicSetting{}}
		for _, d := range t.Partitions.Sorted() {
			row := partitionRowOf(d, starts, ends)
			p.Records += max(row.End-row.Start, 0)
			p.Partitions = append(p.Partitions, row)
		}
		found, err := configs.On(t.Topic, nil)
		if err != nil {
			return nil, err
		}
		p.Config = append(p.Config, settingsOf(found, all)...)
		pages = append(pages, p)
	}
	return pages, nil
}

func partitionRowOf(d kadm.PartitionDetail, starts, ends kadm.ListedOffsets) partitionRow {
	row := partitionRow{
		Partition: d.Partition, Leader: d.Leader, LeaderEpoch: d.LeaderEpoch,
		Replicas: d.Replicas, InSync: d.ISR, Start: -1, End: -1,
	}
	if o, ok := starts.Lookup(d.Topic, d.Partition); ok && o.Err == nil {
		row.Start = o.Offset
	}
	if o, ok := ends.Lookup(d.Topic, d.Partition); ok && o.Err == nil {
		row.End = o.Offset
	}
	return row
}

// settingsOf gives a topic's own settings, or all.
func settingsOf(r kadm.ResourceConfig, all bool) []topicSetting {
	var out []topicSetting
	for _, c := range r.Configs {
		if all || c.Source == kmsg.ConfigSourceDynamicTopicConfig {
			out = append(out, topicSetting{c.Key, c.MaybeValue(), sourceName(c.Source)})
		}
	}
	slices.SortFunc(out, func(a, b topicSetting) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (e *env) topicPageText(w io.Writer, wide bool, pages []topicPage) {
	for i, p := range pages {
		if i > 0 {
			fmt.Fprintln(w)
		}
		internal := ""
		if p.Internal {
			internal = ", internal"
		}
		fmt.Fprintf(w, "%s: %s, %s, %s%s\nid: %s\n", p.Name,
			count(int64(len(p.Partitions)), "partition"), count(int64(p.Replicas), "replica"),
			count(p.Records, "record"), internal, p.ID)
		for _, c := range p.Config {
			if wide {
				fmt.Fprintf(w, "%s=%s (%s)\n", c.Name, c.Value, c.Source)
			} else {
				fmt.Fprintf(w, "%s=%s\n", c.Name, c.Value)
			}
		}
		fmt.Fprintln(w)
		var rows [][]string
		for _, r := range p.Partitions {
			rows = append(rows, []string{
				strconv.Itoa(int(r.Partition)), known(int64(r.Leader)), ids(r.Replicas),
				ids(r.InSync), known(r.Start), known(r.End),
			})
		}
		writeTable(w, []string{"PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "START", "END"}, rows,
			e.colorful(e.stdout))
	}
}

// known writes a number; what a partition without a leader has not is -1.
func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func ids(list []int32) string {
	var out []string
	for _, id := range list {
		out = append(out, strconv.Itoa(int(id)))
	}
	return strings.Join(out, ",")
}
