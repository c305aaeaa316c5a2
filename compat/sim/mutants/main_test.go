package main

import (
	"errors"
	"go/parser"
	"go/token"
	"testing"
)

// TestPlaces: every bug has its place still, and is Go.
func TestPlaces(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("%s stands twice", m.name)
		}
		names[m.name] = true
		text, err := m.planted()
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, text, 0); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

func TestCaught(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, c := range []struct {
		out  string
		err  error
		seed int
		how  string
	}{
		{"ok", nil, -1, ""},
		{"   run.go:1: seed 17 (all), heals: x is not led\n", failed, 17, "heals"},
		{"panic: seed 4 (fair): store: entry 3 is gone\nmore", failed, 4, "panic: store: entry 3 is gone"},
		{"=== RUN   TestWorlds/0\n=== RUN   TestWorlds/1\npanic: test timed out", failed, 1, "panic: test timed out"},
		{"=== RUN   TestWorlds/0", failed, -1, "exit status 1: === RUN   TestWorlds/0"},
	} {
		if seed, how := caught(c.out, c.err); seed != c.seed || how != c.how {
			t.Errorf("%q: %d %q", c.out, seed, how)
		}
	}
}
