package docs

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicelog/sluice/compat/cluster"
)

// allVar asks for the blocks that need a JVM or modules from outside as well; a program that is
// missing is then a failure. Its value may name a folder with Kafka's kafka-*.sh, or a script that
// runs them by name.
const allVar = "SLUICE_README"

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// block is one fenced sh block of a document and the text block behind it, if any.
type block struct {
	line   int
	note   string // the HTML comment on the line before
	script string
	expect []string // lines that the output must hold, in order
}

// TestReadme pastes the blocks of README.md into a shell, one after the other, against a broker of
// this build, and looks for the output that the document shows.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := parseBlocks(string(text))
	if len(blocks) < 5 {
		t.Fatalf("%d blocks found", len(blocks))
	}
	broker := cluster.Start(t, cluster.Options{})
	dir := t.TempDir()
	if err := os.Symlink(cluster.Binary(t), filepath.Join(dir, "sluice")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.Join([]string{dir, kafkaTools(t, blocks), os.Getenv("PATH")}, string(filepath.ListSeparator)))
	for _, b := range blocks {
		switch {
		case strings.HasPrefix(b.note, "not run:"):
			continue
		case b.note == "run after: kill -9 and a new start":
			broker.Kill()
			broker.Restart()
		case b.note != "":
			t.Fatalf("README.md:%d: what does %q mean?", b.line, b.note)
		}
		if missing := b.missing(); missing != "" {
			if os.Getenv(allVar) != "" {
				t.Errorf("README.md:%d: %s", b.line, missing)
			}
			t.Logf("README.md:%d: left out: %s", b.line, missing)
			continue
		}
		b.run(t, dir, broker.Address())
	}
}

// kafkaTools is the folder with Kafka's tools that the environment names. Where it names a script
// that runs a tool by its name (script topics ...) the folder is made.
func kafkaTools(t *testing.T, blocks []block) string {
	t.Helper()
	script := os.Getenv(allVar)
	if info, err := os.Stat(script); err != nil || info.IsDir() {
		return script
	}
	dir := t.TempDir()
	for _, b := range blocks {
		for _, m := range program.FindAllStringSubmatch(b.script, -1) {
			tool, ok := strings.CutPrefix(m[1], "kafka-")
			if !ok {
				continue
			}
			text := "#!/bin/sh\nexec '" + script + "' " + strings.TrimSuffix(tool, ".sh") + " \"$@\"\n"
			if err := os.WriteFile(filepath.Join(dir, m[1]), []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// run executes the block as a shell would that it is pasted into, but stops at the first failure.
func (b block) run(t *testing.T, dir, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	script := "set -euo pipefail\n" + strings.ReplaceAll(b.script, "localhost:9092", address)
	command := exec.CommandContext(ctx, "bash", "-c", script)
	command.Dir = dir
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("README.md:%d: %v\n%s", b.line, err, out)
	}
	rest := string(out)
	for _, want := range b.expect {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("README.md:%d: %q is not in the output, or not in this order:\n%s", b.line, want, out)
		}
		rest = after
	}
}

// program finds the foreign programs that a block calls.
var program = regexp.MustCompile(`(?m)(?:^|[|&;]\s*)(kcat|kafka-[a-z-]+\.sh|go|curl|jq)\s`)

// missing says why a block cannot be run here, "" when it can.
func (b block) missing() string {
	for _, m := range program.FindAllStringSubmatch(b.script, -1) {
		foreign := m[1] == "go" || strings.HasPrefix(m[1], "kafka-")
		if foreign && os.Getenv(allVar) == "" {
			return m[1] + " is for make compat"
		}
		if _, err := exec.LookPath(m[1]); err != nil {
			return m[1] + " is not installed"
		}
	}
	return ""
}

// parseBlocks finds the sh blocks of a Markdown text.
func parseBlocks(text string) []block {
	var out []block
	var open *block
	fence, last := "", ""
	scan := bufio.NewScanner(strings.NewReader(text))
	for n := 1; scan.Scan(); n++ {
		line := scan.Text()
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = strings.TrimPrefix(line, "```")
			if fence == "" {
				fence = "plain"
			}
			if fence == "sh" {
				note := strings.TrimSuffix(strings.TrimPrefix(last, "<!-- "), " -->")
				if note == last {
					note = ""
				}
				out = append(out, block{line: n, note: note})
				open = &out[len(out)-1]
			}
		case line == "```":
			fence = ""
		case fence == "sh":
			open.script += line + "\n"
		case fence == "text" && open != nil:
			open.expect = append(open.expect, line)
		case line != "" && fence == "":
			// Words in between: a text block then belongs to nothing.
			open = nil
		}
		last = line
	}
	return out
}

func TestParseBlocks(t *testing.T) {
	got := parseBlocks("a\n<!-- not run: x -->\n```sh\none\ntwo\n```\n\n```text\nout\n```\nwords\n```text\nno\n```\n```go\nx\n```\n")
	if len(got) != 1 || got[0].script != "one\ntwo\n" || got[0].note != "not run: x" || got[0].line != 3 ||
		!slices.Equal(got[0].expect, []string{"out"}) {
		t.Errorf("%+v", got)
	}
}
