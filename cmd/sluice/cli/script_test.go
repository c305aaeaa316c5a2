package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the scripts print as what they should print")

// script runs testdata/<name>.txt and compares. A script reads like a terminal:
//
//	# a comment
//	@ file.properties          the lines that begin with '<' go into a file
//	< num.partitions=3
//	$ produce orders -K:       a command line, after the word sluice; '...' holds blanks together
//	< u1:a                     its input
//	sent 1 record to orders    what it prints: stderr lines begin with "! "
//	[exit 4]                   unless it is 0
//
// An empty line that is printed stands as "~".
// $ADDR is the broker, $DIR a directory for files. Ids and times are replaced by names.
func (f *fixture) script(name string) {
	f.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	want, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	got := f.play(string(want))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			f.t.Fatal(err)
		}
		return
	}
	if got != string(want) {
		f.t.Errorf("%s differs (go test -update writes it anew):\n%s", path, lineDiff(string(want), got))
	}
}

// play runs the commands of a script and gives it with their true output.
func (f *fixture) play(text string) string {
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		command, isCommand := strings.CutPrefix(line, "$ ")
		file, isFile := strings.CutPrefix(line, "@ ")
		if !isCommand && !isFile {
			if line == "" || strings.HasPrefix(line, "#") {
				out.WriteString(line + "\n")
			}
			continue // the old output
		}
		out.WriteString(line + "\n")
		var input strings.Builder
		for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "<") {
			i++
			out.WriteString(lines[i] + "\n")
			input.WriteString(strings.TrimPrefix(strings.TrimPrefix(lines[i], "<"), " ") + "\n")
		}
		if isFile {
			if err := os.WriteFile(filepath.Join(f.dir, file), []byte(input.String()), 0o644); err != nil {
				f.t.Fatal(err)
			}
			continue
		}
		r := f.run(input.String(), words(f.expand(command))...)
		out.WriteString(f.normal(r.out))
		for l := range strings.Lines(f.normal(r.errOut)) {
			out.WriteString("! " + l)
		}
		if r.code != 0 {
			fmt.Fprintf(&out, "[exit %d]\n", r.code)
		}
	}
	return out.String()
}

func (f *fixture) expand(s string) string {
	return strings.NewReplacer("$ADDR", f.addr, "$DIR", f.dir).Replace(s)
}

// words splits a command line at blanks; single quotes hold together.
func words(s string) []string {
	var out []string
	var word strings.Builder
	quoted, begun := false, false
	for _, c := range s {
		switch {
		case c == '\'':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				out = append(out, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	if begun {
		out = append(out, word.String())
	}
	return out
}

// changing are the parts of output that differ from run to run.
var changing = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\b1[789]\d{11}\b`), "MILLIS"},
	{regexp.MustCompile(`(lag_ms"?: )[1-9]\d*`), "${1}AGE"},
	{regexp.MustCompile(`(id: )"?[A-Za-z0-9_-]{22}"?`), "${1}ID"},
	{regexp.MustCompile(`(?m)(^|[\s"])[A-Za-z0-9_-]{22}($|[\s",])`), "${1}ID${2}"},
	{regexp.MustCompile(`(crc: )\d+`), "${1}CRC"},
	{regexp.MustCompile(`(sluice-)[0-9a-f-]{36}`), "${1}UUID"},
}

var emptyLine = regexp.MustCompile(`(?m)^\n`)

// normal replaces what changes from run to run.
func (f *fixture) normal(s string) string {
	if f.addr != "" {
		s = strings.ReplaceAll(s, f.addr, "$ADDR")
	}
	s = strings.ReplaceAll(s, f.dir, "$DIR")
	for _, c := range changing {
		s = c.pattern.ReplaceAllString(s, c.name)
	}
	if s != "" && !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return emptyLine.ReplaceAllString(s, "~\n")
}

// lineDiff shows the first lines that differ.
func lineDiff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		var a, b string
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			from := max(i-3, 0)
			return fmt.Sprintf("line %d\nwant:\n%s\ngot:\n%s", i+1,
				strings.Join(w[min(from, len(w)):min(i+8, len(w))], "\n"),
				strings.Join(g[min(from, len(g)):min(i+8, len(g))], "\n"))
		}
	}
	return ""
}

// TestWords checks the check.
func TestWords(t *testing.T) {
	got := words(`produce orders -f '%k %v\n' ''`)
	if want := []string{"produce", "orders", "-f", `%k %v\n`, ""}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Fatalf("got %q", got)
	}
}
