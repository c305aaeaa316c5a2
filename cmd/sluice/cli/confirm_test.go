package cli

import (
	"strings"
	"testing"
)

// TestConfirm asks somebody who is there, and takes only a whole yes.
func TestConfirm(t *testing.T) {
	f := start(t)
	f.asked = true
	f.ok("", "topic", "create", "orders")
	for _, answer := range []string{"", "no\n", "y\n", "YES\n"} {
		r := f.run(answer, "topic", "delete", "orders")
		if r.code != exitFailed || !strings.Contains(r.errOut, "orders: 1 partition, 0 records") ||
			!strings.Contains(r.errOut, "nothing was changed") {
			t.Errorf("answer %q: exit %d, said %q", answer, r.code, r.errOut)
		}
	}
	if out := f.ok("", "topic", "list", "-o", "name"); out != "orders\n" {
		t.Fatalf("topics %q", out)
	}
	if r := f.run("yes\n", "topic", "delete", "orders"); r.code != 0 {
		t.Fatalf("yes: exit %d, said %q", r.code, r.errOut)
	}
	if out := f.ok("", "topic", "list", "-o", "name"); out != "" {
		t.Fatalf("topics %q", out)
	}
}
