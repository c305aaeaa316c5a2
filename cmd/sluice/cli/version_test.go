package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestVersion names the build, the on-disk format and the level of Kafka's API.
func TestVersion(t *testing.T) {
	f := offline(t)
	if out := f.ok("", "version"); out != "sluice "+version()+", on-disk format 1, Kafka API level 4.4\n" {
		t.Errorf("version: %q", out)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(f.ok("", "version", "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	if v["disk_format"] != 1.0 || v["kafka_api_level"] != "4.4" || !strings.HasPrefix(v["go"].(string), "go1.") {
		t.Errorf("version -o json: %v", v)
	}
}

func TestSoftwareVersion(t *testing.T) {
	for in, want := range map[string]string{
		"v1.2.3": "v1.2.3", "(devel)": "devel", "v0.0.0-2026+dirty": "v0.0.0-2026-dirty", "": "devel", "++": "devel",
	} {
		if got := softwareVersion(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
