package tidy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/sluicelog/sluice/cmd/sluice/api"
)

// handlerFile is how a handler's file is named: key and name.
var handlerFile = regexp.MustCompile(`^\d\d_[a-z_]+\.go$`)

// TestHandlerFiles wants one file per row of the request table and no other, so that a listing of
// the folder shows what is served; and a test beside each.
func TestHandlerFiles(t *testing.T) {
	folder := filepath.Join(root, "cmd", "sluice", "api")
	want := map[string]bool{}
	for _, row := range api.Table {
		want[fmt.Sprintf("%02d_%s.go", row.Key, snake(row.Name))] = true
	}
	found := map[string]bool{}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range names {
		found[filepath.Base(p)] = true
	}
	for name := range found {
		if handlerFile.MatchString(name) && !strings.HasSuffix(name, "_test.go") && !want[name] {
			t.Errorf("cmd/sluice/api/%s handles no row of the table", name)
		}
	}
	for name := range want {
		if !found[name] {
			t.Errorf("cmd/sluice/api/%s is missing: its row is in the table", name)
		}
		test := strings.TrimSuffix(name, ".go") + "_test.go"
		if !found[test] {
			held.over(t, "untested", "cmd/sluice/api/"+name, 1, "has no "+test+" beside it")
		}
	}
}

// TestTable checks what the literal table must hold for its readers to be right.
func TestTable(t *testing.T) {
	last := int16(-1)
	for _, row := range api.Table {
		if row.Key <= last {
			t.Errorf("%s: keys must rise", row.Name)
		}
		last = row.Key
		if row.Shown > row.Min || row.Min > row.Max || row.Shown < 0 {
			t.Errorf("%s: versions %d-%d, shown from %d", row.Name, row.Min, row.Max, row.Shown)
		}
		if row.ACL == "" && row.Name != "ApiVersions" {
			t.Errorf("%s has no ACL rule", row.Name)
		}
	}
}

// snake turns an API's name into the middle of its file's name.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
