package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp holds what the help of the main commands says.
func TestHelp(t *testing.T) { offline(t).script("help") }

// TestHelpOfAll wants of each command a line that says what it does, and examples that parse.
func TestHelpOfAll(t *testing.T) {
	f := offline(t)
	e := &env{ctx: t.Context(), stdout: &buffer{}, stderr: &buffer{}}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden || strings.HasPrefix(cmd.Name(), "_") {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q is no summary", cmd.CommandPath(), cmd.Short)
		}
		wanted := 3
		if strings.HasPrefix(cmd.CommandPath(), "sluice completion ") {
			wanted = 1
		}
		if n := strings.Count(cmd.Example, "\n") + 1; cmd.Example == "" || n < wanted {
			t.Errorf("%s: %d examples, want %d", cmd.CommandPath(), n, wanted)
		}
		f.examples(e, cmd)
		out := f.ok("", append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		for line := range strings.Lines(out) {
			if len(line) > 121 {
				t.Errorf("%s: a line of help has %d columns: %s", cmd.CommandPath(), len(line), line)
			}
		}
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(e.root())
}

// examples checks that flags and arguments of a command's examples exist.
func (f *fixture) examples(e *env, cmd *cobra.Command) {
	f.t.Helper()
	for line := range strings.Lines(cmd.Example) {
		line, _, _ = strings.Cut(line, "  #")
		_, rest, ok := strings.Cut(line, "sluice ")
		if !ok || strings.Contains(line, "source <(") {
			continue
		}
		for _, end := range []string{" | ", " && ", " > ", " < ", " 2>", "; do"} {
			rest, _, _ = strings.Cut(rest, end)
		}
		root := e.root()
		found, args, err := root.Find(words(strings.TrimSpace(rest)))
		if err == nil {
			err = found.ParseFlags(args)
		}
		if err == nil && found.Args != nil {
			err = found.Args(found, found.Flags().Args())
		}
		if err != nil {
			f.t.Errorf("%s: example %q: %v", cmd.CommandPath(), strings.TrimSpace(line), err)
		}
	}
}
