package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/cmd/sluice/api"
)

// apiTable lists what is served, as the request table says.
func apiTable() (string, error) {
	t := newTable("key", "API", "versions", "may wait", "an authorizer is asked for")
	for _, row := range api.Table {
		versions := fmt.Sprintf("%d–%d", row.Min, row.Max)
		if row.Min == row.Max {
			versions = strconv.Itoa(int(row.Min))
		}
		if row.Shown != row.Min {
			versions += fmt.Sprintf(" (shown from %d)", row.Shown)
		}
		waits := ""
		if row.MayBlock {
			waits = "yes"
		}
		t.row(strconv.Itoa(int(row.Key)), row.Name, versions, waits, row.ACL)
	}
	return t.String(), nil
}

// gapsTable is the table of the list that lies beside the handlers.
func gapsTable() (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "cmd", "sluice", "api", "GAPS.md"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(line)
		}
	}
	if b.Len() == 0 {
		return "", fmt.Errorf("GAPS.md holds no table")
	}
	return b.String(), nil
}

// differencesTables turns the list of the differential test into one table per section: a comment
// behind an empty line opens a section.
func differencesTables() (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "compat", "diff", "differences.txt"))
	if err != nil {
		return "", err
	}
	var out strings.Builder
	var heading []string
	var rows *table
	flush := func() {
		if rows != nil {
			fmt.Fprintf(&out, "%s\n\n%s\n", strings.Join(heading, " "), rows)
		}
		heading, rows = nil, nil
	}
	first := true
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		comment, isComment := strings.CutPrefix(line, "#")
		switch {
		case line == "":
			flush()
			first = false
		case isComment && !first:
			heading = append(heading, strings.TrimSpace(comment))
		case !isComment:
			c := strings.Split(line, " | ")
			if len(c) != 5 {
				return "", fmt.Errorf("differences.txt: %q", line)
			}
			if rows == nil {
				rows = newTable("why", "cases", "field", "Kafka 4.4.0", "Sluice")
			}
			rows.row(c[4], code(strings.ReplaceAll(c[0], "#*", "")), code(c[1]), anything(c[2]), anything(c[3]))
		}
	}
	flush()
	return out.String(), nil
}

// anything shows a compared value; a lone star stands for any and is left out.
func anything(s string) string {
	if s == "*" {
		return ""
	}
	return code(s)
}
