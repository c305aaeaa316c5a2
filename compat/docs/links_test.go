package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	// named is a file of the repository that a text names as code.
	named = regexp.MustCompile("`((?:kafkaproto|log|replica|controller|txn|cmd|compat|docs)/[a-zA-Z0-9_./-]+)`")
	// testName is a test that a text names as code.
	testName = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
)

// TestLinks looks for what the documents point at: files, folders and tests.
func TestLinks(t *testing.T) {
	tests := allTests(t)
	documents, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(documents, more...) {
		raw, err := os.ReadFile(d)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(d), m[1])); err != nil {
				t.Errorf("%s: link to %s leads nowhere", d, m[1])
			}
		}
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "NN_") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s: %s is not there", d, m[1])
			}
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s: there is no %s", d, m[1])
			}
		}
	}
}

// allTests is the names of all tests of the repository.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	out := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != root {
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			out[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
