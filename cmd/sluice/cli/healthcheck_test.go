package cli

import (
	"slices"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	f := start(t)
	r := f.run("", "healthcheck")
	if r.code != 0 || r.out != "" || r.errOut != "healthy: 1 broker of cluster clusterclusterclusterA\n" {
		t.Errorf("exit %d, %q, said %q", r.code, r.out, r.errOut)
	}
	// Container engines know 0 and 1 alone.
	if r := f.run("", "healthcheck", "-b", "127.0.0.1:1"); r.code != 1 {
		t.Errorf("no broker: exit %d, want 1", r.code)
	}
}

// TestOwnListener finds the port of the broker that the same environment configures.
func TestOwnListener(t *testing.T) {
	for listeners, want := range map[string][]string{
		"":                           nil,
		"PLAINTEXT://:19092":         {"localhost:19092"},
		"PLAINTEXT://0.0.0.0:19092":  {"localhost:19092"},
		"PLAINTEXT://10.0.0.1:19092": {"10.0.0.1:19092"},
		"SSL://:9093":                nil,
		"nonsense":                   nil,
	} {
		e := &env{environ: []string{"KAFKA_LISTENERS=" + listeners}}
		if got := e.ownListener(); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", listeners, got, want)
		}
	}
}
