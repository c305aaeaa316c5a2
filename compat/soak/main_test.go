package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAReportCountsOnlyForWhatWasAsked(t *testing.T) {
	out := "=== RUN TestX\n    x_test.go:3: SOAK amount=60 seed=7 61 kills, 0 violations\nPASS\n"
	if told, ok := reported(out, 60, 7); !ok || told != "61 kills, 0 violations" {
		t.Errorf("%q %v", told, ok)
	}
	for _, asked := range [][2]uint64{{200, 7}, {60, 8}, {6, 7}} {
		if _, ok := reported(out, asked[0], asked[1]); ok {
			t.Errorf("counts for amount %d seed %d", asked[0], asked[1])
		}
	}
}

func TestTheLedgerIsAppendedTo(t *testing.T) {
	name := filepath.Join(t.TempDir(), "soak", "ledger.md")
	for _, line := range []string{"| one |\n", "| two |\n"} {
		if err := appendLine(name, line); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil || string(got) != header+"| one |\n| two |\n" {
		t.Fatalf("%v\n%s", err, got)
	}
}

// TestProofsExist: a renamed test would make the soak tier run nothing, and say so only at night.
func TestProofsExist(t *testing.T) {
	for _, p := range proofs {
		files, err := filepath.Glob(filepath.Join("..", "..", p.pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "func "+p.test+"(t *testing.T)")
		}
		if !found {
			t.Errorf("%s: no %s in %s", p.name, p.test, p.pkg)
		}
	}
}
