package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// clientVerb marks a command that talks to a broker, so that its help shows how to reach one.
const clientVerb = "client"

// flagEnv names the variable that gives a flag its default.
var flagEnv = map[string]string{
	"bootstrap-server": "SLUICE_BOOTSTRAP_SERVER",
	"command-config":   "SLUICE_COMMAND_CONFIG",
	"color":            "NO_COLOR",
}

// help prints what a command is, then examples, then the rest: who looks for help wants a line to
// copy first.
func (e *env) help(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", cmd.Short)
	if cmd.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(cmd.Long))
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.TrimRight(cmd.Example, "\n"))
	}
	fmt.Fprintf(&b, "\nUsage:\n  %s\n", usageLine(cmd))
	helpCommands(&b, cmd)
	helpFlags(&b, "Flags", cmd.LocalNonPersistentFlags(), func(f *pflag.Flag) bool {
		return f.Name != "help"
	})
	if cmd.Annotations[clientVerb] != "" || !cmd.HasParent() {
		helpFlags(&b, "Connection", cmd.Root().PersistentFlags(), isConnection)
	}
	helpFlags(&b, "Everywhere", cmd.Root().PersistentFlags(), func(f *pflag.Flag) bool {
		return !isConnection(f)
	})
	_, _ = io.WriteString(e.stdout, b.String()) // nobody to tell when stdout is gone
}

func isConnection(f *pflag.Flag) bool {
	return f.Name == "bootstrap-server" || f.Name == "command-config" || f.Name == "timeout"
}

func usageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " <command> [flags]"
	}
	return cmd.UseLine()
}

func helpCommands(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	b.WriteString("\nCommands:\n")
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(b, "  %-16s %s\n", c.Name(), c.Short)
		}
	}
}

func helpFlags(b *strings.Builder, title string, set *pflag.FlagSet, want func(*pflag.Flag) bool) {
	var rows [][2]string
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || !want(f) {
			return
		}
		rows = append(rows, flagHelp(f))
	})
	if len(rows) == 0 {
		return
	}
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, r := range rows {
		fmt.Fprintf(b, "  %-*s  %s\n", width, r[0], r[1])
	}
}

// flagHelp is a flag's names and its text with default and variable.
func flagHelp(f *pflag.Flag) [2]string {
	name := "    --" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", --" + f.Name
	}
	value, text := pflag.UnquoteUsage(f)
	switch value {
	case "int32Slice":
		value = "ints"
	case "stringArray", "strings":
		value = "string"
	}
	if value != "" {
		name += " " + value
	}
	switch f.DefValue {
	case "", "false", "[]", "0", "-1":
	default:
		text += " (default " + f.DefValue + ")"
	}
	if v := flagEnv[f.Name]; v != "" {
		text += " [$" + v + "]"
	}
	return [2]string{name, text}
}
