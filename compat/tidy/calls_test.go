package tidy

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// clocks are the calls that read or wait for the machine's time.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// edges are the folders that may call them. All else is given a clock.Clock.
var edges = []string{"kafkaproto/clock", "kafkaproto/server", "cmd", "compat"}

// TestClocks keeps the machine's time out of the cores, which is what lets tests own it.
func TestClocks(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || slices.ContainsFunc(edges, func(e string) bool { return s.folder == e || strings.HasPrefix(s.folder, e+"/") }) {
			continue
		}
		name, imported := importName(s.file, "time")
		if !imported {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(clocks, sel.Sel.Name) {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name {
				t.Errorf("%s:%d: time.%s is for the edges: take a clock.Clock", s.name, s.line(n.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}

// TestPrinting keeps writes to the process's own streams out of all but commands and tests.
func TestPrinting(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || layer(s.folder) >= layer("cmd") {
			continue
		}
		name, imported := importName(s.file, "fmt")
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			if imported && x.Name == name && strings.HasPrefix(sel.Sel.Name, "Print") ||
				x.Name == "os" && (sel.Sel.Name == "Stdout" || sel.Sel.Name == "Stderr" || sel.Sel.Name == "Exit") {
				t.Errorf("%s:%d: %s.%s is for commands", s.name, s.line(n.Pos()), x.Name, sel.Sel.Name)
			}
			return true
		})
	}
}

// importName is the name under which a file knows a package.
func importName(f *ast.File, pkg string) (name string, imported bool) {
	for _, spec := range f.Imports {
		if spec.Path.Value != `"`+pkg+`"` {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name, true
		}
		return path.Base(pkg), true
	}
	return "", false
}

// TestNoInit keeps out code that runs because a package is imported.
func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s:%d: func init hides work in an import", s.name, s.line(f.Pos()))
			}
		}
	}
}
