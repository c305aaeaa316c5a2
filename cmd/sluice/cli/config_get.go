package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// settingRow is one setting in force. Value is null where there is none, or where it is secret.
type settingRow struct {
	Name      string  `json:"name"`
	Value     *string `json:"value"`
	Source    string  `json:"source"`
	Default   *string `json:"default"`
	Sensitive bool    `json:"sensitive"`
}

func (e *env) configGetCommand() *cobra.Command {
	var form string
	var all bool
	cmd := &cobra.Command{
		Use:   "get (topic NAME | broker [ID]) [KEY...]",
		Short: "Show the settings of a topic or broker that are not defaults",
		Example: `  sluice config get topic orders
  sluice config get topic orders retention.ms segment.bytes
  sluice config get broker --all -o wide
  sluice config get broker 1 log.retention.ms -o json`,
		Args:              e.minArgs(1, "topic NAME, or broker"),
		ValidArgsFunction: e.completeResource,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := parseResource(args)
			if err != nil {
				return err
			}
			return e.admin(func(ctx context.Context, c *client) error {
				found, err := r.describe(ctx, c)
				if err != nil {
					return err
				}
				rows, err := settingRows(found, r, all)
				if err != nil {
					return err
				}
				if len(rows) == 0 {
					e.say("every setting has its default; --all shows them")
				}
				return show(e, form, settingListing(), rows)
			})
		},
	}
	outputFlag(cmd, &form, formTable)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show defaults as well")
	return cmd
}

// settingRows picks the keys asked for, else those that are not defaults, else all.
func settingRows(found kadm.ResourceConfig, r resource, all bool) ([]settingRow, error) {
	var rows []settingRow
	for _, c := range found.Configs {
		if len(r.rest) > 0 && !slices.Contains(r.rest, c.Key) ||
			len(r.rest) == 0 && !all && c.Source == kmsg.ConfigSourceDefaultConfig {
			continue
		}
		row := settingRow{Name: c.Key, Value: c.Value, Source: sourceName(c.Source), Sensitive: c.Sensitive}
		if k, ok := r.key(c.Key); ok && !k.Null {
			row.Default = &k.Default
		}
		for _, s := range c.Synonyms {
			if s.Source == kmsg.ConfigSourceDefaultConfig && s.Key == c.Key {
				row.Default = s.Value
			}
		}
		rows = append(rows, row)
	}
	for _, key := range r.rest {
		if !slices.ContainsFunc(rows, func(row settingRow) bool { return row.Name == key }) {
			if err := r.known(key); err != nil {
				return nil, err
			}
			return nil, failf(exitNotFound, "the broker knows no setting %q", key)
		}
	}
	return rows, nil
}

func settingListing() listing[settingRow] {
	return listing[settingRow]{
		name: func(r settingRow) string { return r.Name },
		columns: []column[settingRow]{
			{head: "NAME", cell: func(r settingRow) string { return r.Name }},
			{head: "VALUE", cell: func(r settingRow) string { return valueText(r.Value, r.Sensitive) }},
			{head: "SOURCE", cell: func(r settingRow) string { return r.Source }},
			{head: "DEFAULT", cell: func(r settingRow) string { return valueText(r.Default, false) }, wide: true},
		},
	}
}

// valueText shows a value in a table, where "" and none must not look alike.
func valueText(v *string, sensitive bool) string {
	switch {
	case sensitive:
		return "(hidden)"
	case v == nil:
		return "-"
	case *v == "":
		return `""`
	}
	return *v
}
