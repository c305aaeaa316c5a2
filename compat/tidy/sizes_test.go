package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// The limits in lines: above soft by ratchet only, above hard never. Tests know only the hard ones:
// a scenario is told in one piece.
const (
	functionSoft, functionHard = 70, 100
	fileSoft, fileHard         = 500, 800
	exportedSoft               = 40 // names of one package
)

// TestFunctionSizes keeps functions short enough to be seen whole. A function whose longest literal
// table makes it long is counted without the table.
func TestFunctionSizes(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			lines := s.line(f.End()) - s.line(f.Pos()) + 1 - tableLines(s, f)
			subject := s.name + ":" + funcName(f)
			why := fmt.Sprintf("%d lines, more than %d", lines, functionSoft)
			switch {
			case lines > functionHard:
				t.Errorf("%s: %d lines, more than %d", subject, lines, functionHard)
			case lines > functionSoft && !strings.HasSuffix(s.name, "_test.go"):
				held.over(t, "function", subject, lines, why)
			}
		}
	}
}

// tableLines counts the lines of composite literals that are at the top of a test's or function's
// statements, which are data and not steps.
func tableLines(s *source, f *ast.FuncDecl) int {
	n := 0
	ast.Inspect(f.Body, func(node ast.Node) bool {
		lit, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if lines := s.line(lit.End()) - s.line(lit.Pos()); lines > 10 {
			n += lines
		}
		return false
	})
	return n
}

// funcName is a function's name with its receiver's.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return receiver(f) + "." + f.Name.Name
}

// TestFileSizes keeps files to one idea.
func TestFileSizes(t *testing.T) {
	for _, s := range sources(t) {
		lines := bytes.Count(s.text, []byte("\n"))
		switch {
		case lines > fileHard:
			t.Errorf("%s: %d lines, more than %d", s.name, lines, fileHard)
		case lines > fileSoft && !strings.HasSuffix(s.name, "_test.go"): // a table of cases may be longer
			held.over(t, "file", s.name, lines, fmt.Sprintf("%d lines, more than %d", lines, fileSoft))
		}
	}
}

// TestPackageSizes keeps what a package offers small enough to be learnt: its exported functions and
// types, without their methods.
func TestPackageSizes(t *testing.T) {
	names := map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() {
					names[s.folder]++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() {
						names[s.folder]++
					}
				}
			}
		}
	}
	for folder, n := range names {
		if n > exportedSoft {
			held.over(t, "exported", folder, n, fmt.Sprintf("%d exported functions and types, more than %d", n, exportedSoft))
		}
	}
}
