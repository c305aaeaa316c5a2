package tidy

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/sluicelog/sluice"
)

// layers are the folders that hold Go code, in the order in which they may import: to the left.
var layers = []string{"kafkaproto", "log", "replica", "controller", "txn", "cmd", "compat"}

// source is one Go file.
type source struct {
	name   string // slash-separated, from the repository's root
	folder string // of its package
	test   bool
	text   []byte
	file   *ast.File
	fset   *token.FileSet
}

// layer is the index of a folder's first element in layers, -1 when it is none of them.
func layer(folder string) int {
	first, _, _ := strings.Cut(folder, "/")
	for i, l := range layers {
		if l == first {
			return i
		}
	}
	return -1
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// tree reads and parses the repository once for all tests of the package.
var tree = sync.OnceValues(func() ([]*source, error) {
	var out []*source
	fset := token.NewFileSet()
	err := walk(func(name string, text []byte) error {
		if path.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		out = append(out, &source{
			name: name, folder: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			text: text, file: file, fset: fset,
		})
		return nil
	})
	return out, err
})

// walk visits each file of this module that is text. Folders that git ignores, test data and
// modules nested in this one are left out.
func walk(visit func(name string, text []byte) error) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(p, root+string(filepath.Separator)))
		if d.IsDir() {
			switch d.Name() {
			case ".git", ".cache", "bin", "dist", "node_modules", "testdata", ".venv", "__pycache__", "golden":
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != root {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || ignored(name) {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil || bytes.IndexByte(text, 0) >= 0 {
			return err
		}
		return visit(name, text)
	})
}

// ignored tells a file that git is told to leave out and that lies outside ignored folders.
func ignored(name string) bool {
	return name == "tools.tmp.go" || strings.HasSuffix(name, ".prof") || strings.HasSuffix(name, ".out")
}

func sources(t *testing.T) []*source {
	t.Helper()
	list, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 200 {
		t.Fatalf("%d Go files found: the walk is broken", len(list))
	}
	return list
}
