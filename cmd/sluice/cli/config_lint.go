package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/controller/config"
)

// finding is one thing that lint found.
type finding struct {
	Level string `json:"level"` // error or warning
	Key   string `json:"key,omitempty"`
	Text  string `json:"text"`
}

func (e *env) configLintCommand() *cobra.Command {
	var form string
	var overrides []string
	cmd := &cobra.Command{
		Use:   "lint server.properties",
		Short: "Check a configuration without starting a broker",
		Long:  "Exit code 1 when a broker would refuse it; warnings alone are no failure.",
		Example: `  sluice config lint server.properties
  sluice config lint server.properties -o json
  KAFKA_LISTENERS=SASL_SSL://:9093 sluice config lint /dev/null`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			layers, err := e.layers(args, overrides)
			if err != nil {
				return err
			}
			_, warnings, err := config.NewStatic(layers...)
			found := findings(warnings, err)
			if err := show(e, form, findingListing(), found); err != nil {
				return err
			}
			if err != nil {
				return failf(exitFailed, "%s: a broker would not start with it", args[0])
			}
			e.say("%s: %s, no error", args[0], count(int64(len(found)), "warning"))
			return nil
		},
	}
	outputFlag(cmd, &form, formTable)
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "set one key, as key=value; may be repeated")
	return cmd
}

func findings(warnings []config.Warning, err error) []finding {
	var out []finding
	for _, e := range unjoined(err) {
		out = append(out, finding{Level: "error", Text: e.Error()})
	}
	for _, w := range warnings {
		out = append(out, finding{Level: "warning", Key: w.Key, Text: w.Text})
	}
	return out
}

// unjoined takes errors.Join apart.
func unjoined(err error) []error {
	if err == nil {
		return nil
	}
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return []error{err}
	}
	var out []error
	for _, e := range many.Unwrap() {
		out = append(out, unjoined(e)...)
	}
	return out
}

func findingListing() listing[finding] {
	return listing[finding]{
		name: func(f finding) string { return f.Key },
		columns: []column[finding]{
			{head: "LEVEL", cell: func(f finding) string { return f.Level }},
			{head: "TEXT", cell: func(f finding) string { return f.Text }},
		},
	}
}
