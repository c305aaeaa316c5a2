package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// written makes a data directory with two records in orders-0 and stops the broker.
func written(t *testing.T) (*fixture, string) {
	t.Helper()
	f := offline(t)
	data := filepath.Join(f.dir, "data")
	r := f.background(nil, "serve", "--data", data, "--override", "listeners=PLAINTEXT://127.0.0.1:0",
		"--override", "sluice.http.listeners=")
	listener := readyLine(t, r)["listeners"].([]any)[0].(map[string]any)
	addr := listener["bound"].(string)
	f.ok("u1 1700000000000 one\nu2 1700000000001 two\n", "produce", "orders", "-b", addr, "-f", `%k %T %v\n`)
	for _, verb := range []string{"dump", "verify", "import"} {
		got := f.run("", "log", verb, data)
		if got.code != exitConflict || !strings.Contains(got.errOut, "a broker uses "+data+"; stop it first") {
			t.Errorf("log %s under a broker: exit %d, said %q", verb, got.code, got.errOut)
		}
	}
	if got := f.run("", "log", "dump", "--live", filepath.Join(data, "orders-0")); got.code != 0 {
		t.Errorf("log dump --live: exit %d, said %q", got.code, got.errOut)
	}
	if code := r.stop(); code != 0 {
		t.Fatalf("exit %d\n%s", code, r.errOut.String())
	}
	return f, data
}

// TestLog dumps and verifies a data directory, its partitions and files.
func TestLog(t *testing.T) {
	f, data := written(t)
	f.script("log")
	f.damage(filepath.Join(data, "orders-0", "00000000000000000000.log"))
	f.script("log_damaged")
}

// damage flips a byte of the first batch's records.
func (f *fixture) damage(name string) {
	f.t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		f.t.Fatal(err)
	}
	b[70] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// TestLogImport takes over a directory as Kafka leaves it: partitions, and nothing of ours.
func TestLogImport(t *testing.T) {
	f, data := written(t)
	for _, name := range []string{"journal", "sluice.format", "meta.properties", lockName} {
		if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
	}
	f.script("log_import")
}
