package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (e *env) groupDeleteCommand() *cobra.Command {
	var yes, dryRun bool
	cmd := &cobra.Command{
		Use:     "delete GROUP...",
		Aliases: []string{"rm"},
		Short:   "Delete groups and their offsets",
		Example: `  sluice group delete billing                # asks first
  sluice group delete billing audit --yes
  sluice group delete billing --dry-run      # only says what would go`,
		Args:              e.minArgs(1, "the name of a group"),
		ValidArgsFunction: e.completeGroups,
		Annotations:       map[string]string{clientVerb: "yes"},
		RunE: func(_ *cobra.Command, args []string) error {
			return e.admin(func(ctx context.Context, c *client) error {
				what, err := groupLosses(ctx, c, args)
				if err != nil {
					return err
				}
				if ok, err := e.confirm("delete group", what, yes, dryRun); !ok {
					return err
				}
				return e.groupDelete(c, args)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say what would go")
	return cmd
}

// groupLosses says of each group what goes with it.
func groupLosses(ctx context.Context, c *client, names []string) ([]string, error) {
	groups, err := describeGroups(ctx, c, names)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range groups {
		if len(g.Members) > 0 {
			return nil, failf(exitConflict, "delete group %q: it has %s; stop them first", g.Group, members(g))
		}
		offsets, err := c.adm.FetchOffsets(ctx, g.Group)
		if err != nil {
			return nil, kafkaf("offsets of group "+g.Group, err, "")
		}
		n := 0
		for _, ps := range offsets {
			n += len(ps)
		}
		out = append(out, fmt.Sprintf("%s: %s of %s", g.Group, count(int64(n), "offset"),
			count(int64(len(offsets)), "topic")))
	}
	return out, nil
}

// groupDelete has its own bound: the question may have taken long.
func (e *env) groupDelete(c *client, names []string) error {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	res, err := c.adm.DeleteGroups(ctx, names...)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range res.Sorted() {
		switch {
		case errors.Is(r.Err, kerr.NonEmptyGroup):
			errs = append(errs, failf(exitConflict, "delete group %q: a member has joined; stop it first", r.Group))
		case r.Err != nil:
			errs = append(errs, kafkaf("delete group "+r.Group, r.Err, ""))
		default:
			e.say("deleted group %s", r.Group)
		}
	}
	return errors.Join(errs...)
}
