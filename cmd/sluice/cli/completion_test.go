package cli

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestCompletionScripts prints a script for each shell.
func TestCompletionScripts(t *testing.T) {
	f := offline(t)
	for shell, want := range map[string]string{
		"bash": "__start_sluice", "zsh": "#compdef sluice", "fish": "complete -c sluice",
		"powershell": "Register-ArgumentCompleter",
	} {
		if out := f.ok("", "completion", shell); !strings.Contains(out, want) {
			t.Errorf("%s: the script lacks %q", shell, want)
		}
	}
}

// completed gives what a shell would offer.
func (f *fixture) completed(args ...string) string {
	f.t.Helper()
	out := f.ok("", append([]string{"__complete"}, args...)...)
	lines := strings.Split(out, "\n")
	for i, l := range lines {
		lines[i], _, _ = strings.Cut(l, "\t")
	}
	return strings.Join(lines[:len(lines)-2], " ") // without the directive
}

// TestCompleteNames offers topics and groups of the broker, each once.
func TestCompleteNames(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders", "audit")
	f.ok("1\n", "produce", "orders")
	f.ok("", "consume", "orders", "-g", "billing", "-e")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"topic", "describe", ""}, "audit orders"},
		{[]string{"topic", "describe", "orders", ""}, "audit"},
		{[]string{"consume", "-b", f.addr, ""}, "audit orders"},
		{[]string{"group", "describe", ""}, "billing"},
		{[]string{"consume", "orders", "-g", ""}, "billing"},
		{[]string{"topic", "list", "-o", ""}, "table wide json jsonl yaml name"},
		{[]string{"config", "get", "t"}, "topic broker"},
		{[]string{"config", "get", "topic", ""}, "audit orders"},
		{[]string{"group", "del"}, "delete delete-offsets"},
		{[]string{"topic", "list", ""}, ""},
	} {
		if got := f.completed(c.args...); got != c.want {
			t.Errorf("%v: offers %q, want %q", c.args, got, c.want)
		}
	}
}

// TestCompleteWithoutBroker is silent, and does not keep the shell waiting.
func TestCompleteWithoutBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := offline(t)
	for _, addr := range []string{"127.0.0.1:1", l.Addr().String()} {
		began := time.Now()
		if got := f.completed("topic", "describe", "-b", addr, ""); got != "" {
			t.Errorf("offers %q", got)
		}
		if took := time.Since(began); took > completionBound+700*time.Millisecond {
			t.Errorf("%s: it took %s", addr, took)
		}
	}
}
