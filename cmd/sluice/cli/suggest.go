package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggest is the end of a sentence about an unknown name: the nearest of the known ones, if any is
// near.
func suggest(name string, known []string) string {
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

func suggestFlag(cmd *cobra.Command, name string) string {
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if best := nearest(name, known); best != "" {
		return fmt.Sprintf("; did you mean --%s?", best)
	}
	return ""
}

// nearest finds the known name with the fewest edits to name; "" when all are far.
func nearest(name string, known []string) string {
	best, least := "", min(max(len(name)/3, 1)+1, len(name))
	for _, k := range known {
		if d := edits(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// edits counts the insertions, deletions, replacements and swaps of neighbours that make b of a.
func edits(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
