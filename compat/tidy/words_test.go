package tidy

import (
	"bytes"
	"regexp"
	"testing"
)

// words are what no file of the repository holds, each with the reason. Brackets keep the patterns
// from finding themselves.
var words = []struct{ pattern, why string }{
	{`[/](?:root|Users|work)/`, "a path of one machine"},
	{`[/]home/[a-z]`, "a path of one machine"},
	{`(?:[p]roxy\.golang\.org|[r]egistry\.npmjs|[f]iles\.pythonhosted|[p]ypi\.org|[r]epo1?\.maven)`, "a registry's host: ordinary clients know it"},
	{`^[<]{7} |^[>]{7} |^[=]{7}$`, "a conflict that was not resolved"},
	{`\b[F]IXME\b|\b[X]XX\b`, "unfinished work belongs into an issue"},
	{`\b(?:L[L]M|A[I])\b|(?i)\bsub-?a[g]ent|\bchat-?b[o]t`, "says how it was made, not what it is"},
	{`panic\("[t]odo`, "a skeleton that was not filled"},
}

// TestWords looks into every text file, test data and recorded answers left out.
func TestWords(t *testing.T) {
	var patterns []*regexp.Regexp
	for _, w := range words {
		patterns = append(patterns, regexp.MustCompile(`(?m)`+w.pattern))
	}
	err := walk(func(name string, text []byte) error {
		if name == "LICENSE" || name == "go.sum" {
			return nil
		}
		for i, p := range patterns {
			for _, at := range p.FindAllIndex(text, 3) {
				line := bytes.Count(text[:at[0]], []byte("\n")) + 1
				t.Errorf("%s:%d: %q: %s", name, line, text[at[0]:at[1]], words[i].why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
