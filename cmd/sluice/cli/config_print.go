package cli

import (
	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/controller/config"
)

func (e *env) configPrintCommand() *cobra.Command {
	var form string
	var overrides []string
	var all bool
	cmd := &cobra.Command{
		Use:   "print [server.properties]",
		Short: "Show the settings that serve would use, and where each comes from",
		Long:  "File, then KAFKA_* environment, then --override; the later wins. No broker is asked.",
		Example: `  sluice config print
  sluice config print server.properties --override num.partitions=3
  KAFKA_NUM_PARTITIONS=3 sluice config print
  sluice config print --all -o json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			layers, err := e.layers(args, overrides)
			if err != nil {
				return err
			}
			static, warnings, err := config.NewStatic(layers...)
			for _, w := range warnings {
				e.say("warning: %s", w.Text)
			}
			if err != nil {
				return usagef("%w", err)
			}
			return show(e, form, settingListing(), staticRows(static, all))
		},
	}
	outputFlag(cmd, &form, formTable)
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "set one key, as key=value; may be repeated")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show defaults as well")
	return cmd
}

// staticRows lists what is set, or with all every key that has an effect. What is not known is not
// shown, as it may be a password (C5 of controller/config).
func staticRows(s *config.Static, all bool) []settingRow {
	var rows []settingRow
	seen := make(map[string]bool)
	add := func(name string, k *config.Key) {
		seen[name] = true
		row := settingRow{Name: name, Source: "default", Sensitive: k == nil || k.Sensitive()}
		if k != nil && !k.Null {
			row.Default = &k.Default
		}
		value, layer, set := s.Lookup(name)
		switch {
		case set:
			row.Source = layer
		case k != nil && !k.Null || s.Get(name) != "":
			value, set = s.Get(name), true
		}
		if set && !row.Sensitive {
			row.Value = &value
		}
		rows = append(rows, row)
	}
	for _, name := range s.Names() {
		k, ok := config.BrokerKey(name)
		if !ok {
			k = nil
		}
		add(name, k)
	}
	if !all {
		return rows
	}
	for _, k := range config.BrokerKeys() {
		if !seen[k.Name] && !k.Inert && !k.Hidden {
			add(k.Name, &k)
		}
	}
	return rows
}
