package tidy

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// TestPackageDocs wants one package comment per package, in doc.go, or in main.go for a command.
func TestPackageDocs(t *testing.T) {
	documented := map[string]bool{}
	all := map[string]bool{}
	for _, s := range sources(t) {
		if strings.HasSuffix(s.file.Name.Name, "_test") {
			continue
		}
		all[s.folder] = true
		if s.file.Doc == nil {
			continue
		}
		name, opening := s.file.Name.Name, "Package "+s.file.Name.Name+" "
		want := "doc.go"
		if name == "main" {
			opening, want = "Command ", "main.go"
		}
		if !strings.HasPrefix(s.file.Doc.Text(), opening) {
			t.Errorf("%s: the package comment does not open with %q", s.name, opening)
		}
		if got := path.Base(s.name); got != want {
			t.Errorf("%s: the package comment belongs into %s", s.name, want)
		}
		documented[s.folder] = true
	}
	for folder := range all {
		if !documented[folder] {
			t.Errorf("%s has no doc.go with a package comment", folder)
		}
	}
}

// TestExportedDocs wants a comment on each exported name.
func TestExportedDocs(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		for _, d := range s.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s:%d: exported %s has no comment", s.name, s.line(d.Pos()), name)
			}
		}
	}
}

// undocumented lists the exported names of a declaration without a comment. A comment over a group
// of constants or variables counts for all of them; methods count when their receiver is exported.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Doc != nil || wellKnown[d.Name.Name] && d.Recv != nil {
			return nil
		}
		if d.Recv != nil && !ast.IsExported(receiver(d)) {
			return nil
		}
		return []string{d.Name.Name}
	case *ast.GenDecl:
		var out []string
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil && spec.Comment == nil && d.Doc == nil {
					out = append(out, spec.Name.Name)
				}
			case *ast.ValueSpec:
				if d.Doc != nil || spec.Doc != nil || spec.Comment != nil {
					continue
				}
				for _, n := range spec.Names {
					if n.IsExported() {
						out = append(out, n.Name)
					}
				}
			}
		}
		return out
	}
	return nil
}

// wellKnown methods mean what the interface they implement says.
var wellKnown = map[string]bool{
	"Error": true, "Unwrap": true, "String": true, "Len": true, "Less": true, "Swap": true, "Close": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "Describe": true, "Collect": true, "Is": true,
	"Read": true, "Write": true, "ReadAt": true, "WriteAt": true,
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	for e := d.Recv.List[0].Type; ; {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
