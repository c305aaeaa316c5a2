package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupPage is all that group describe knows of a group.
type groupPage struct {
	Name         string      `json:"name"`
	State        string      `json:"state"`
	ProtocolType string      `json:"protocol_type"`
	Protocol     string      `json:"protocol"`
	Coordinator  int32       `json:"coordinator"`
	Members      []memberRow `json:"members"`
	Lag          int64       `json:"lag"`
	Partitions   []lagRow    `json:"partitions"`
}

type memberRow struct {
	ID         string `json:"id"`
	InstanceID string `json:"instance_id,omitempty"`
	ClientID   string `json:"client_id"`
	Host       string `json:"host"`
	Partitions int    `json:"partitions"`
}

// lagRow is how far behind a group is on a partition. A group without an offset there counts from
// the log's start.
type lagRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed_offset"` // -1: none
	Start     int64  `json:"start_offset"`
	End       int64  `json:"end_offset"`
	Lag       int64  `json:"lag"`
	// LagMs is the age of the first record that is not read yet; null when it is not known.
	LagMs  *int64 `json:"lag_ms"`
	Member string `json:"member,omitempty"`
}

func (e *env) groupDescribeCommand() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "describe GROUP...",
		Short: "Show a group's members, offsets, lag and time lag",
		Long:  "The time lag is the age of the first record that the group has not read.",
		Example: `  sluice group describe billing
  sluice group describe billing -o wide          # with the members
  sluice group describe billing -o json | jq .lag`,
		Args:              e.minArgs(1, "the name of a group"),
		ValidArgsFunction: e.completeGroups,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			return e.admin(func(ctx context.Context, c *client) error {
				pages, err := e.groupPages(ctx, c, args)
				if err != nil {
					return err
				}
				return show(e, form, listing[groupPage]{
					name:   func(p groupPage) string { return p.Name },
					single: len(args) == 1,
					text:   e.groupPageText,
				}, pages)
			})
		},
	}
	outputFlag(cmd, &form, formTable)
	return cmd
}

func (e *env) groupPages(ctx context.Context, c *client, names []string) ([]groupPage, error) {
	lags, err := c.adm.Lag(ctx, names...)
	if err != nil {
		return nil, err
	}
	var pages []groupPage
	for _, l := range lags.Sorted() {
		switch {
		case groupMissing(l.State, l.DescribeErr):
			return nil, noGroup(ctx, c, l.Group)
		case l.Error() != nil:
			return nil, kafkaf("group "+l.Group, l.Error(), "")
		}
		page := groupPageOf(l)
		e.addTimeLag(ctx, page.Partitions)
		pages = append(pages, page)
	}
	return pages, nil
}

func groupPageOf(l kadm.DescribedGroupLag) groupPage {
	p := groupPage{
		Name: l.Group, State: l.State, ProtocolType: l.ProtocolType, Protocol: l.Protocol,
		Coordinator: l.Coordinator.NodeID, Members: []memberRow{}, Partitions: []lagRow{},
	}
	for _, m := range l.Members {
		row := memberRow{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost}
		if m.InstanceID != nil {
			row.InstanceID = *m.InstanceID
		}
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				row.Partitions += len(t.Partitions)
			}
		}
		p.Members = append(p.Members, row)
	}
	for _, g := range l.Lag.Sorted() {
		row := lagRow{
			Topic: g.Topic, Partition: g.Partition, Committed: g.Commit.At, Start: g.Start.Offset,
			End: g.End.Offset, Lag: max(g.Lag, 0),
		}
		if g.Member != nil {
			row.Member = memberName(*g.Member)
		}
		if row.Committed < 0 {
			row.Lag = max(row.End-row.Start, 0)
		}
		p.Lag += row.Lag
		p.Partitions = append(p.Partitions, row)
	}
	return p
}

// timeLagBound is how long the records that tell the time lag may take.
const timeLagBound = 2 * time.Second

// addTimeLag reads the first unread record of each partition: only records know their age. What
// does not come in time stays unknown.
func (e *env) addTimeLag(ctx context.Context, rows []lagRow) {
	from := make(map[string]map[int32]kgo.Offset)
	behind := make(map[tp]*lagRow)
	for i := range rows {
		r := &rows[i]
		if r.Lag == 0 {
			r.LagMs = new(int64)
			continue
		}
		if from[r.Topic] == nil {
			from[r.Topic] = make(map[int32]kgo.Offset)
		}
		from[r.Topic][r.Partition] = kgo.NewOffset().At(max(r.Committed, r.Start))
		behind[tp{r.Topic, r.Partition}] = r
	}
	if len(behind) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeLagBound)
	defer cancel()
	c, err := e.connect(ctx, kgo.ConsumePartitions(from), kgo.FetchMaxPartitionBytes(1),
		kgo.FetchMaxWait(500*time.Millisecond))
	if err != nil {
		return
	}
	defer c.Close()
	now := e.now().UnixMilli()
	for len(behind) > 0 && ctx.Err() == nil {
		c.PollFetches(ctx).EachRecord(func(rec *kgo.Record) {
			k := tp{rec.Topic, rec.Partition}
			if r := behind[k]; r != nil {
				age := max(now-rec.Timestamp.UnixMilli(), 0)
				r.LagMs = &age
				delete(behind, k)
			}
		})
	}
}

func (e *env) groupPageText(w io.Writer, wide bool, pages []groupPage) {
	for i, p := range pages {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s: %s, %s, lag %d\n", p.Name, p.State,
			count(int64(len(p.Members)), "member"), p.Lag)
		if wide {
			fmt.Fprintf(w, "protocol: %s %s\ncoordinator: %d\n", p.ProtocolType, p.Protocol, p.Coordinator)
			for _, m := range p.Members {
				fmt.Fprintf(w, "member: %s at %s, client %s, %s\n", m.ID, m.Host, m.ClientID,
					count(int64(m.Partitions), "partition"))
			}
		}
		if len(p.Partitions) == 0 {
			continue
		}
		fmt.Fprintln(w)
		var rows [][]string
		for _, r := range p.Partitions {
			rows = append(rows, []string{
				r.Topic, strconv.Itoa(int(r.Partition)), offsetText(r.Committed),
				strconv.FormatInt(r.End, 10), strconv.FormatInt(r.Lag, 10), lagText(r.LagMs), r.Member,
			})
		}
		head := []string{"TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "TIME-LAG", "MEMBER"}
		writeTable(w, head, rows, e.colorful(e.stdout))
	}
}

func offsetText(o int64) string {
	if o < 0 {
		return "-"
	}
	return strconv.FormatInt(o, 10)
}

// lagText is an age for people.
func lagText(ms *int64) string {
	if ms == nil {
		return "?"
	}
	d := time.Duration(*ms) * time.Millisecond
	steps := []time.Duration{time.Millisecond, time.Second, time.Minute}
	at := slices.IndexFunc([]time.Duration{time.Second, time.Hour}, func(b time.Duration) bool { return d < b })
	if at < 0 {
		at = 2
	}
	return d.Truncate(steps[at]).String()
}
