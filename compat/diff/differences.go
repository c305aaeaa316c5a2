package diff

import (
	"fmt"
	"regexp"
	"strings"
)

// known is one line of differences.txt: a difference that is meant, and why. In the first two columns
// * stands for any run of characters; a value of * stands for any value.
type known struct {
	line   int
	place  *regexp.Regexp
	path   *regexp.Regexp
	kafka  string
	ours   string
	reason string
}

// parseDifferences reads lines of "case#step | path | kafka | ours | reason".
func parseDifferences(text string) ([]known, error) {
	var out []known
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, " | ")
		if len(columns) != 5 {
			return nil, fmt.Errorf("line %d: %d columns where 5 belong", i+1, len(columns))
		}
		for c := range columns {
			columns[c] = strings.TrimSpace(columns[c])
		}
		if columns[4] == "" {
			return nil, fmt.Errorf("line %d: no reason", i+1)
		}
		out = append(out, known{i + 1, glob(columns[0]), glob(columns[1]), columns[2], columns[3], columns[4]})
	}
	return out, nil
}

func glob(pattern string) *regexp.Regexp {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
}

func (k known) matches(d difference) bool {
	return k.place.MatchString(d.place) && k.path.MatchString(d.path) &&
		(k.kafka == "*" || k.kafka == d.kafka) && (k.ours == "*" || k.ours == d.ours)
}

// explain splits differences into those that no line explains and the lines that explained one.
func explain(list []known, found []difference) (unexplained []difference, used map[int]bool) {
	used = map[int]bool{}
	for _, d := range found {
		explained := false
		for _, k := range list {
			if k.matches(d) {
				explained, used[k.line] = true, true
			}
		}
		if !explained {
			unexplained = append(unexplained, d)
		}
	}
	return unexplained, used
}
