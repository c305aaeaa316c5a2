package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/controller/config"
)

// keyPage is what the registry knows of a key.
type keyPage struct {
	Name      string   `json:"name"`
	Scope     string   `json:"scope"` // topic or broker
	Type      string   `json:"type"`
	Default   *string  `json:"default"`
	Values    string   `json:"values,omitempty"`
	Altered   string   `json:"altered"`
	DefaultOf []string `json:"default_from,omitempty"` // broker keys that give a topic's default
	Kafka     bool     `json:"kafka"`                  // false: Sluice's own
	Effect    bool     `json:"effect"`                 // false: accepted, without effect
	Doc       string   `json:"doc"`
}

func (e *env) configExplainCommand() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "explain KEY...",
		Short: "Say what a setting means, what it may be, and what it is by default",
		Example: `  sluice config explain retention.ms
  sluice config explain sluice.durability
  sluice config explain advertised.listeners listeners -o json`,
		Args: e.minArgs(1, "the name of a key"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return allKeyNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			var pages []keyPage
			for _, name := range args {
				found := keyPages(name)
				if len(found) == 0 {
					return failf(exitNotFound, "there is no setting %q%s", name, suggest(name, allKeyNames()))
				}
				pages = append(pages, found...)
			}
			return show(e, form, listing[keyPage]{
				name: func(p keyPage) string { return p.Name },
				text: func(w io.Writer, _ bool, pages []keyPage) {
					for i, p := range pages {
						if i > 0 {
							fmt.Fprintln(w)
						}
						p.text(w)
					}
				},
			}, pages)
		},
	}
	outputFlag(cmd, &form, formTable)
	return cmd
}

func allKeyNames() []string {
	names := append(keyNames(config.TopicKeys()), keyNames(config.BrokerKeys())...)
	slices.Sort(names)
	return slices.Compact(names)
}

// keyPages finds a key among the topic's and the broker's; both may have one of that name.
func keyPages(name string) []keyPage {
	var out []keyPage
	if k, ok := config.TopicKey(name); ok {
		out = append(out, keyPageOf(k, "topic"))
	}
	if k, ok := config.BrokerKey(name); ok {
		out = append(out, keyPageOf(k, "broker"))
	}
	return out
}

func keyPageOf(k *config.Key, scope string) keyPage {
	p := keyPage{
		Name: k.Name, Scope: scope, Type: strings.ToLower(k.Type.String()), Values: k.Valid.Text,
		Altered: "at run time", Kafka: !k.Ours, Effect: !k.Inert, Doc: k.Doc,
	}
	if !k.Null {
		p.Default = &k.Default
	}
	for _, a := range k.Aliases {
		p.DefaultOf = append(p.DefaultOf, a.Name)
	}
	if scope == "broker" {
		p.Altered = map[config.Update]string{
			config.AtStart: "at start", config.PerBroker: "at run time, per broker",
			config.Anywhere: "at run time",
		}[k.Update]
	}
	return p
}

func (p keyPage) text(w io.Writer) {
	fmt.Fprintf(w, "%s (%s, %s)\n", p.Name, p.Scope, p.Type)
	if p.Doc != "" {
		fmt.Fprintf(w, "  %s\n", p.Doc)
	}
	fmt.Fprintf(w, "  default: %s\n", valueText(p.Default, false))
	if len(p.DefaultOf) > 0 {
		fmt.Fprintf(w, "  default from: %s\n", strings.Join(p.DefaultOf, ", "))
	}
	if p.Values != "" {
		fmt.Fprintf(w, "  values:  %s\n", p.Values)
	}
	fmt.Fprintf(w, "  altered: %s\n", p.Altered)
	if !p.Kafka {
		fmt.Fprintln(w, "  Kafka does not have it.")
	}
	if !p.Effect {
		fmt.Fprintln(w, "  It is accepted and has no effect.")
	}
}
