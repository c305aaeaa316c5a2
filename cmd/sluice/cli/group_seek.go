package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupSeek is what the flags of group seek say.
type groupSeek struct {
	form   string
	to     string
	by     int64
	topics []string
	dryRun bool
}

// seekRow is where a group stands on a partition, and where it goes.
type seekRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from_offset"` // -1: none
	To        int64  `json:"to_offset"`
	End       int64  `json:"end_offset"`
}

func (e *env) groupSeekCommand() *cobra.Command {
	var o groupSeek
	cmd := &cobra.Command{
		Use:   "seek GROUP --to OFFSET",
		Short: "Move a group's offsets",
		Long: `The group must have no members. Offsets are those of consume: start, end, 100, +5 (after the
start), -10 (before the end), @-1h, @2026-01-01. Without --topic all topics move that the group has
read. What lies outside of a log is taken as its nearest end.`,
		Example: `  sluice group seek billing --to start
  sluice group seek billing --to @-10m --dry-run     # only shows what would change
  sluice group seek billing --to end --topic orders
  sluice group seek billing --by -100 --topic orders:0,1`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: e.completeGroups,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.to == "") == !cmd.Flags().Changed("by") {
				return usagef("say where to: --to OFFSET, or --by N from where the group is")
			}
			return e.admin(func(ctx context.Context, c *client) error {
				return e.groupSeek(ctx, c, o, args[0])
			})
		},
	}
	outputFlag(cmd, &o.form, formTable)
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "where to: start, end, 100, +5, -10, @-1h")
	f.Int64Var(&o.by, "by", 0, "how many records forward, or back when negative")
	f.StringArrayVarP(&o.topics, "topic", "t", nil, "only this topic, or topic:0,1; may be repeated")
	f.BoolVar(&o.dryRun, "dry-run", false, "only show what would change")
	_ = cmd.RegisterFlagCompletionFunc("topic", e.completeTopics)
	return cmd
}

func (e *env) groupSeek(ctx context.Context, c *client, o groupSeek, group string) error {
	if err := idle(ctx, c, group, "seek"); err != nil {
		return err
	}
	committed, err := c.adm.FetchOffsets(ctx, group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return kafkaf("offsets of group "+group, err, "")
	}
	rows, err := e.seekRows(ctx, c, o, group, committed)
	if err != nil {
		return err
	}
	if !o.dryRun {
		moved := kadm.Offsets{}
		for _, r := range rows {
			moved.Add(kadm.Offset{Topic: r.Topic, Partition: r.Partition, At: r.To, LeaderEpoch: -1})
		}
		if err := c.adm.CommitAllOffsets(ctx, group, moved); err != nil {
			return kafkaf("seek group "+group, err, "")
		}
	}
	if err := show(e, o.form, seekListing(), rows); err != nil {
		return err
	}
	if o.dryRun {
		e.say("nothing was changed (--dry-run)")
	} else {
		e.say("moved group %s on %s", group, count(int64(len(rows)), "partition"))
	}
	return nil
}

// idle refuses a group with members: they would write over what is changed.
func idle(ctx context.Context, c *client, group, verb string) error {
	found, err := c.adm.DescribeGroups(ctx, group)
	if err != nil {
		return err
	}
	g := found[group]
	if groupMissing(g.State, g.Err) {
		return nil // offsets may be given to a group that is to come
	}
	if g.Err != nil {
		return kafkaf("group "+group, g.Err, g.ErrMessage)
	}
	if len(g.Members) > 0 {
		return failf(exitConflict, "%s group %q: it has %s; stop them first", verb, group, members(g))
	}
	return nil
}

func (e *env) seekRows(ctx context.Context, c *client, o groupSeek, group string,
	committed kadm.OffsetResponses) ([]seekRow, error) {
	topics, only, err := seekTopics(o.topics, committed)
	if err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		return nil, failf(exitNotFound, "group %q has no offsets; name what it shall read with --topic", group)
	}
	var to offsetRange
	if o.to != "" {
		if to, err = parseRange(o.to, e.now()); err != nil {
			return nil, err
		}
		if to.bounded {
			return nil, usagef("--to %q is a range; a group stands at one offset", o.to)
		}
	}
	spans, err := resolve(ctx, c, topics, nil, to, false)
	if err != nil {
		return nil, err
	}
	var rows []seekRow
	for k, s := range spans {
		if ps := only[k.topic]; len(ps) > 0 && !slices.Contains(ps, k.partition) {
			continue
		}
		r := seekRow{Topic: k.topic, Partition: k.partition, From: -1, To: s.from, End: s.end}
		if at, ok := committed.Lookup(k.topic, k.partition); ok && at.Err == nil {
			r.From = at.At
		}
		if o.to == "" {
			r.To = min(max(max(r.From, s.start)+o.by, s.start), s.end)
		}
		rows = append(rows, r)
	}
	for t, ps := range only {
		for _, p := range ps {
			if _, ok := spans[tp{t, p}]; !ok {
				return nil, failf(exitNotFound, "topic %q has no partition %d", t, p)
			}
		}
	}
	slices.SortFunc(rows, func(a, b seekRow) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	return rows, nil
}

// seekTopics reads --topic, or takes all topics with an offset. only holds the partitions named.
func seekTopics(args []string, committed kadm.OffsetResponses) (topics []string,
	only map[string][]int32, err error) {
	only = make(map[string][]int32)
	for _, a := range args {
		name, list, some := strings.Cut(a, ":")
		topics = append(topics, name)
		if !some {
			continue
		}
		for _, p := range strings.Split(list, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(p), 10, 32)
			if err != nil || n < 0 {
				return nil, nil, usagef("--topic %q: %q is no partition", a, p)
			}
			only[name] = append(only[name], int32(n))
		}
	}
	if len(args) == 0 {
		topics = slices.Collect(mapKeys(committed))
	}
	slices.Sort(topics)
	return slices.Compact(topics), only, nil
}

func seekListing() listing[seekRow] {
	return listing[seekRow]{
		name: func(r seekRow) string { return fmt.Sprintf("%s/%d", r.Topic, r.Partition) },
		columns: []column[seekRow]{
			{head: "TOPIC", cell: func(r seekRow) string { return r.Topic }},
			{head: "PARTITION", cell: func(r seekRow) string { return strconv.Itoa(int(r.Partition)) }},
			{head: "FROM", cell: func(r seekRow) string { return offsetText(r.From) }},
			{head: "TO", cell: func(r seekRow) string { return offsetText(r.To) }},
			{head: "LAG", cell: func(r seekRow) string { return strconv.FormatInt(r.End-r.To, 10) }},
		},
	}
}
