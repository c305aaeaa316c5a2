package tidy

import (
	"strconv"
	"strings"
	"testing"
)

// banned are packages that are not used here, each with the reason.
var banned = map[string]string{
	"log":                                 "log/slog, with the logger handed in, is the log here; package log is the records'",
	"github.com/pkg/errors":               "fmt.Errorf with %w does it",
	"github.com/stretchr/testify/assert":  "plain testing says what differs",
	"github.com/stretchr/testify/require": "plain testing says what differs",
	"io/ioutil":                           "its functions moved to io and os",
	"math/rand":                           "math/rand/v2, or the seed is hidden",
}

// TestImports keeps imports going left, and unwanted packages out.
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why, ok := banned[imported]; ok {
				t.Errorf("%s:%d imports %q: %s", s.name, s.line(spec.Pos()), imported, why)
			}
			folder, ours := strings.CutPrefix(imported, module+"/")
			if ours && layer(folder) > layer(s.folder) {
				t.Errorf("%s:%d imports %s, which lies to the right of it in %s", s.name, s.line(spec.Pos()), folder,
					strings.Join(layers, " <- "))
			}
			if ours && layer(folder) < 0 {
				t.Errorf("%s:%d imports %s, which is in none of the seven folders", s.name, s.line(spec.Pos()), folder)
			}
		}
	}
}

// TestLayerOrder checks the check: every layer holds code, and the order is the one of the names.
func TestLayerOrder(t *testing.T) {
	seen := make([]bool, len(layers))
	for _, s := range sources(t) {
		i := layer(s.folder)
		if i < 0 {
			t.Errorf("%s: Go code lies only in %s", s.name, strings.Join(layers, ", "))
			continue
		}
		seen[i] = true
	}
	for i, ok := range seen {
		if !ok {
			t.Errorf("folder %s holds no Go code", layers[i])
		}
	}
}

// TestPackageNames keeps out names that say nothing.
func TestPackageNames(t *testing.T) {
	for _, s := range sources(t) {
		switch name := strings.TrimSuffix(s.file.Name.Name, "_test"); name {
		case "util", "utils", "common", "helper", "helpers", "misc", "shared", "base":
			t.Errorf("%s: package %s says nothing of what is in it", s.name, name)
		}
	}
}
