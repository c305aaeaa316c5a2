package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionBound is how long a shell may be kept waiting for names.
const completionBound = 300 * time.Millisecond

// minArgs wants at least n arguments and says what they are.
func (e *env) minArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef("%q needs %s; see %q", cmd.CommandPath(), what, cmd.CommandPath()+" --help")
		}
		return nil
	}
}

// completeTopics offers the cluster's topics. It is silent when no broker answers in time.
func (e *env) completeTopics(_ *cobra.Command, args []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	return e.complete(args, func(ctx context.Context, c *client) ([]string, error) {
		topics, err := c.adm.ListTopics(ctx)
		return topics.Names(), err
	})
}

// completeGroups offers the cluster's groups.
func (e *env) completeGroups(_ *cobra.Command, args []string, _ string) ([]string,
	cobra.ShellCompDirective) {
	return e.complete(args, func(ctx context.Context, c *client) ([]string, error) {
		groups, err := c.adm.ListGroups(ctx)
		return groups.Groups(), err
	})
}

func (e *env) complete(args []string, names func(context.Context, *client) ([]string, error)) (
	[]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(e.ctx, completionBound)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	found, err := names(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(found, func(n string) bool { return slices.Contains(args, n) }),
		cobra.ShellCompDirectiveNoFileComp
}

func (e *env) completionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion",
		Short: "Print a script that completes commands, topics and groups in a shell",
		Example: `  source <(sluice completion bash)
  sluice completion zsh > "${fpath[1]}/_sluice"
  sluice completion fish > ~/.config/fish/completions/sluice.fish
  sluice completion powershell | Out-String | Invoke-Expression`,
		Args: cobra.ArbitraryArgs,
		RunE: e.noun,
	}
	for name, write := range map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	} {
		cmd.AddCommand(&cobra.Command{
			Use:     name,
			Short:   "Print the script for " + name,
			Example: exampleOf(cmd, name),
			Args:    cobra.NoArgs,
			RunE:    func(c *cobra.Command, _ []string) error { return write(c.Root(), e.stdout) },
		})
	}
	return cmd
}

// exampleOf picks the line of the parent's examples that is about one shell.
func exampleOf(cmd *cobra.Command, name string) string {
	for line := range strings.Lines(cmd.Example) {
		if strings.Contains(line, "completion "+name) {
			return strings.TrimRight(line, "\n")
		}
	}
	return ""
}
