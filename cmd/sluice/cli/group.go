package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (e *env) groupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Look at consumer groups, move and delete them",
		Example: `  sluice group list
  sluice group describe billing
  sluice group seek billing --to @-1h --dry-run
  sluice group delete billing --yes`,
		Aliases: []string{"groups"},
		Args:    cobra.ArbitraryArgs,
		RunE:    e.noun,
	}
	cmd.AddCommand(e.groupListCommand(), e.groupDescribeCommand(), e.groupSeekCommand(),
		e.groupDeleteCommand(), e.groupOffsetsCommand(), e.groupDeleteOffsetsCommand())
	return cmd
}

// dead is the state of a group that is not there.
const dead = "Dead"

// noGroup is the error about a group that does not exist.
func noGroup(ctx context.Context, c *client, name string) error {
	hint := ""
	if all, err := c.adm.ListGroups(ctx); err == nil {
		hint = suggest(name, all.Groups())
	}
	if hint == "" {
		hint = "; see \"sluice group list\""
	}
	return failf(exitNotFound, "group %q does not exist on %s%s", name,
		strings.Join(c.dialer.seeds, ","), hint)
}

// describeGroups asks for groups by name; one that is not there is an error.
func describeGroups(ctx context.Context, c *client, names []string) ([]kadm.DescribedGroup, error) {
	found, err := c.adm.DescribeGroups(ctx, names...)
	if err != nil {
		return nil, err
	}
	var out []kadm.DescribedGroup
	for _, g := range found.Sorted() {
		switch {
		case groupMissing(g.State, g.Err):
			return nil, noGroup(ctx, c, g.Group)
		case g.Err != nil:
			return nil, kafkaf("group "+g.Group, g.Err, g.ErrMessage)
		}
		out = append(out, g)
	}
	return out, nil
}

// groupMissing tells a group that is not there: a broker says so by an error, or, in answers of
// old versions, by a dead group.
func groupMissing(state string, err error) bool {
	return err != nil && codeOf(err) == exitNotFound || err == nil && state == dead
}

// members says who is in a group, for a sentence.
func members(g kadm.DescribedGroup) string {
	var who []string
	for _, m := range g.Members {
		who = append(who, memberName(m))
	}
	const shown = 5
	if len(who) > shown {
		who = append(who[:shown], fmt.Sprintf("and %d more", len(who)-shown))
	}
	return fmt.Sprintf("%s (%s)", count(int64(len(g.Members)), "active member"), strings.Join(who, ", "))
}

// memberName is a member's static name or client id, and where it runs.
func memberName(m kadm.DescribedGroupMember) string {
	name := m.ClientID
	if m.InstanceID != nil {
		name = *m.InstanceID
	}
	return name + "@" + strings.TrimPrefix(m.ClientHost, "/")
}
