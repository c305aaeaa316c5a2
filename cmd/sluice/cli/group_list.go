package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// groupRow is one group of a list.
type groupRow struct {
	Name         string `json:"name"`
	State        string `json:"state"`
	Type         string `json:"type"`
	ProtocolType string `json:"protocol_type"`
	Coordinator  int32  `json:"coordinator"`
}

func (e *env) groupListCommand() *cobra.Command {
	var form string
	var states []string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List groups",
		Example: `  sluice group list
  sluice group list --state empty
  sluice group list -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(*cobra.Command, []string) error {
			return e.admin(func(ctx context.Context, c *client) error {
				found, err := c.adm.ListGroups(ctx)
				if err != nil {
					return err
				}
				var rows []groupRow
				for _, g := range found.Sorted() {
					if wantedState(states, g.State) {
						rows = append(rows, groupRow{g.Group, g.State, g.GroupType, g.ProtocolType, g.Coordinator})
					}
				}
				return show(e, form, groupListing(), rows)
			})
		},
	}
	outputFlag(cmd, &form, formTable)
	cmd.Flags().StringSliceVar(&states, "state", nil, "only groups in these states: stable, empty, ...")
	return cmd
}

func wantedState(states []string, state string) bool {
	for _, s := range states {
		if strings.EqualFold(s, state) {
			return true
		}
	}
	return len(states) == 0
}

func groupListing() listing[groupRow] {
	return listing[groupRow]{
		name: func(g groupRow) string { return g.Name },
		columns: []column[groupRow]{
			{head: "NAME", cell: func(g groupRow) string { return g.Name }},
			{head: "STATE", cell: func(g groupRow) string { return g.State }},
			{head: "PROTOCOL", cell: func(g groupRow) string { return g.ProtocolType }},
			{head: "TYPE", cell: func(g groupRow) string { return g.Type }, wide: true},
			{head: "COORDINATOR", cell: func(g groupRow) string { return strconv.Itoa(int(g.Coordinator)) }, wide: true},
		},
	}
}
