package cli

import (
	"io"
	"strings"
	"syscall"
	"testing"
)

func TestConsume(t *testing.T) { start(t).script("consume") }

// TestConsumeFollows waits for records that come later, and ends at an interrupt with 130.
func TestConsumeFollows(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders")
	r := f.background(nil, "consume", "orders")
	f.ok("one\n", "produce", "orders")
	r.await("first record", func(out, _ string) bool { return out == "one\n" })
	f.ok("two\n", "produce", "orders")
	r.await("second record", func(out, _ string) bool { return out == "one\ntwo\n" })
	if code := r.stop(); code != exitInterrupted {
		t.Fatalf("exit %d, want %d", code, exitInterrupted)
	}
	if said := r.errOut.String(); said != "" {
		t.Fatalf("an interrupt is no error, but it said %q", said)
	}
}

// TestConsumeGroup goes on where the group is, commits only what it printed, and commits at an
// interrupt too.
func TestConsumeGroup(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders")
	f.ok("1\n2\n3\n4\n5\n", "produce", "orders")
	if out := f.ok("", "consume", "orders", "-g", "g", "-n", "2"); out != "1\n2\n" {
		t.Fatalf("first two: %q", out)
	}
	if out := f.ok("", "group", "offsets", "g", "-o", "name"); out != "orders/0/2\n" {
		t.Fatalf("committed %q", out)
	}
	r := f.background(nil, "consume", "orders", "-g", "g")
	r.await("the rest", func(out, _ string) bool { return out == "3\n4\n5\n" })
	if code := r.stop(); code != exitInterrupted {
		t.Fatalf("exit %d", code)
	}
	if out := f.ok("", "group", "offsets", "g", "-o", "name"); out != "orders/0/5\n" {
		t.Fatalf("committed %q after an interrupt", out)
	}
	if out := f.ok("", "consume", "orders", "-g", "g", "-e"); out != "" {
		t.Fatalf("at the end: %q", out)
	}
	f.ok("6\n", "produce", "orders")
	if out := f.ok("", "consume", "orders", "-g", "g", "-e"); out != "6\n" {
		t.Fatalf("to the end: %q", out)
	}
}

// TestConsumeGroupFromEnd begins at the end when the group is nowhere yet.
func TestConsumeGroupFromEnd(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders")
	f.ok("old\n", "produce", "orders")
	if out := f.ok("", "consume", "orders", "-g", "g", "-o", "end", "-e"); out != "" {
		t.Fatalf("printed %q", out)
	}
}

// TestConsumeCompactedEnd ends a bounded read though the last record of the range is gone.
func TestConsumeCompactedEnd(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders")
	f.ok("1\n2\n3\n", "produce", "orders")
	o := &consumeFlags{format: `%v\n`, offsets: offsetRange{bounded: true}}
	var out buffer
	e := &env{ctx: t.Context(), environ: f.env, stdout: &out, stderr: io.Discard}
	e.bootstrap, e.timeout = []string{f.addr}, idleEnd*5
	p, err := newPrinter(e, o)
	if err != nil {
		t.Fatal(err)
	}
	// As if offset 3, which the log does not hold, had been there when the range was made.
	r := directReader(o, map[tp]span{{"orders", 0}: {from: 0, to: 4}})
	if err := r.run(e, p); err != nil {
		t.Fatal(err)
	}
	if out.String() != "1\n2\n3\n" {
		t.Fatalf("printed %q", out.String())
	}
}

// closedPipe is a stdout whose reader has gone.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestClosedPipe is quiet when nobody reads on, as in `sluice consume orders | head -1`.
func TestClosedPipe(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "create", "orders")
	f.ok("1\n", "produce", "orders")
	for _, args := range [][]string{{"consume", "orders", "-e"}, {"topic", "list"}} {
		var errOut buffer
		code := f.start(t.Context(), strings.NewReader(""), closedPipe{}, &errOut, args...)
		if code != exitFailed || errOut.String() != "" {
			t.Errorf("%v: exit %d, said %q", args, code, errOut.String())
		}
	}
}
