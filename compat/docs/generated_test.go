package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of the documents")

const root = "../.."

// parts are the generated parts by document.
var parts = []struct {
	document, name string
	make           func() (string, error)
}{
	{"docs/compatibility.md", "apis", apiTable},
	{"docs/compatibility.md", "gaps", gapsTable},
	{"docs/compatibility.md", "differences", differencesTables},
	{"docs/configuration.md", "topic keys", topicKeys},
	{"docs/configuration.md", "own keys", ownKeys},
	{"docs/configuration.md", "broker keys", brokerKeys},
	{"docs/configuration.md", "keys without effect", inertKeys},
	{"docs/metrics.md", "metrics", metricFamilies},
}

// TestGenerated compares each generated part with what the code says now.
func TestGenerated(t *testing.T) {
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			path := filepath.Join(root, filepath.FromSlash(p.document))
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			made, err := p.make()
			if err != nil {
				t.Fatal(err)
			}
			now, err := replacePart(string(text), p.name, made)
			if err != nil {
				t.Fatalf("%s: %v", p.document, err)
			}
			if now == string(text) {
				return
			}
			if !*update {
				t.Fatalf("%s is not what the code says: run make generate", p.document)
			}
			if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// replacePart puts made between the marks of the named part.
func replacePart(text, name, made string) (string, error) {
	begin := fmt.Sprintf("<!-- begin %s: made from the code by make generate -->\n", name)
	end := fmt.Sprintf("<!-- end %s -->\n", name)
	head, rest, ok := strings.Cut(text, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no part %q between its marks", name)
	}
	return head + begin + made + end + tail, nil
}

func TestReplacePart(t *testing.T) {
	const text = "a\n<!-- begin x: made from the code by make generate -->\nold\n<!-- end x -->\nb\n"
	got, err := replacePart(text, "x", "new\n")
	if want := strings.Replace(text, "old", "new", 1); err != nil || got != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := replacePart(text, "y", ""); err == nil {
		t.Error("a part that is not there was replaced")
	}
}

// table is a Markdown table under construction.
type table struct{ strings.Builder }

func newTable(columns ...string) *table {
	t := new(table)
	t.row(columns...)
	t.WriteString("|" + strings.Repeat(" --- |", len(columns)) + "\n")
	return t
}

// row adds a row; what a cell may not hold is escaped.
func (t *table) row(cells ...string) {
	for _, c := range cells {
		c = strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(c)
		t.WriteString("| " + c + " ")
	}
	t.WriteString("|\n")
}

// code sets text as code.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
