package cli

import (
	"strings"
	"testing"
)

func TestGroup(t *testing.T) { start(t).script("group") }

// TestGroupMembers refuses to move or delete what somebody uses, and names who it is.
func TestGroupMembers(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders", "-p", "2")
	r := f.background(nil, "consume", "orders", "-g", "billing")
	r.await("membership", func(string, string) bool {
		return strings.Contains(f.run("", "group", "list").out, "Stable")
	})
	for _, c := range []struct {
		args []string
		said string
	}{
		{[]string{"group", "seek", "billing", "--to", "end"},
			`seek group "billing": it has 1 active member (sluice@127.0.0.1); stop them first`},
		{[]string{"group", "delete", "billing", "--yes"},
			`delete group "billing": it has 1 active member (sluice@127.0.0.1); stop them first`},
	} {
		got := f.run("", c.args...)
		if got.code != exitConflict || !strings.Contains(got.errOut, c.said) {
			t.Errorf("%v: exit %d, said %q", c.args, got.code, got.errOut)
		}
	}
	got := f.run("", "topic", "delete", "orders")
	if !strings.Contains(got.errOut, "orders: 2 partitions, 0 records, 1 active group (billing)") {
		t.Errorf("topic delete said %q", got.errOut)
	}
	out := f.ok("", "group", "describe", "billing", "-o", "wide")
	if !strings.Contains(out, "Stable, 1 member, lag 0") || !strings.Contains(out, "2 partitions") {
		t.Errorf("describe: %s", out)
	}
	r.stop()
}

// TestTimeLag is the age of the first record that is not read.
func TestTimeLag(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders", "--config", "message.timestamp.before.max.ms=9223372036854775807")
	f.ok("1000 a\n5000 b\n", "produce", "orders", "-f", `%T %v\n`)
	f.ok("", "consume", "orders", "-g", "g", "-n", "1")
	out := f.ok("", "group", "describe", "g", "-o", "jsonl")
	if !strings.Contains(out, `"lag":1,"lag_ms":17`) {
		t.Errorf("an age since 1970 has 13 digits and begins with 17 or 18: %s", out)
	}
}

func TestLagText(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		ms   *int64
		want string
	}{
		{nil, "?"}, {ms(0), "0s"}, {ms(999), "999ms"}, {ms(61_500), "1m1s"}, {ms(7_261_000), "2h1m0s"},
	} {
		if got := lagText(c.ms); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
