package cli

import (
	"context"
	"slices"
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
