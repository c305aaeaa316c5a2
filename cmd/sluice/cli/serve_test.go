package cli

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/log/store"
)

// readyLine is the first screen as one line of the log.
func readyLine(t *testing.T, r *running) map[string]any {
	t.Helper()
	var line map[string]any
	r.await("ready line", func(_, errOut string) bool {
		for l := range strings.Lines(errOut) {
			if strings.Contains(l, `"msg":"ready"`) {
				return json.Unmarshal([]byte(l), &line) == nil
			}
		}
		return false
	})
	return line
}

// TestServe starts, says what it is, serves, and stops cleanly at a signal; the data is there when
// it starts again.
func TestServe(t *testing.T) {
	f := offline(t)
	data := filepath.Join(f.dir, "data")
	args := []string{
		"serve", "--data", data, "--override", "listeners=PLAINTEXT://127.0.0.1:0",
		"--override", "sluice.http.listeners=127.0.0.1:0", "--override", "num.network.threads=9",
	}
	for round, want := range []string{"one\n", "one\none\n"} {
		r := f.background(nil, args...)
		line := readyLine(t, r)
		for _, key := range []string{"version", "cluster_id", "listeners", "http", "data", "security"} {
			if line[key] == nil || line[key] == "" {
				t.Errorf("the first screen lacks %s: %v", key, line)
			}
		}
		if line["durability"] != "strict" {
			t.Errorf("durability %v: serve is strict", line["durability"])
		}
		listener := line["listeners"].([]any)[0].(map[string]any)
		if listener["advertised"] != "auto" {
			t.Errorf("advertised %v", listener["advertised"])
		}
		addr := listener["bound"].(string)
		f.ok("one\n", "produce", "orders", "-b", addr)
		if out := f.ok("", "consume", "orders", "-e", "-b", addr); out != want {
			t.Errorf("round %d: %q, want %q", round, out, want)
		}
		if code := r.stop(); code != 0 {
			t.Fatalf("exit %d\n%s", code, r.errOut.String())
		}
		said := r.errOut.String()
		if n := strings.Count(said, "without effect here: num.network.threads"); n != 1 {
			t.Errorf("the inert keys are named %d times, want one line", n)
		}
		if !strings.Contains(said, `"clean":true`) {
			t.Errorf("no word of a clean stop:\n%s", said)
		}
	}
}

// TestServeRefuses holds the sentences about what keeps a broker from starting.
func TestServeRefuses(t *testing.T) {
	f := start(t)
	t.Run("errors", func(t *testing.T) {
		dir := filepath.Join(f.dir, "foreign")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := "version=1\ncluster.id=clusterclusterclusterB\nnode.id=1\ndirectory.id=clusterclusterclusterC\n"
		if err := os.WriteFile(filepath.Join(dir, "meta.properties"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		newer := filepath.Join(f.dir, "newer")
		if err := os.MkdirAll(newer, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(newer, "sluice.format"), []byte("version: 99\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		kafkas := filepath.Join(f.dir, "kafkas", "orders-0")
		if err := os.MkdirAll(kafkas, 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(store.Options{Dir: filepath.Join(f.dir, "locked")})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f.script("serve_refuses")
	})
}

// TestNotify tells systemd when it is ready and when it stops.
func TestNotify(t *testing.T) {
	f := offline(t)
	name := filepath.Join(f.dir, "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Skipf("no datagram sockets here: %v", err)
	}
	defer l.Close()
	f.env = append(f.env, "NOTIFY_SOCKET="+name)
	r := f.background(nil, "dev", "--port", "0")
	for _, want := range []string{"READY=1\nSTATUS=serving", "STOPPING=1"} {
		buf := make([]byte, 100)
		if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := l.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Fatalf("got %q, %v; want %q", buf[:n], err, want)
		}
		r.cancel()
	}
}

func TestDataDir(t *testing.T) {
	for _, c := range []struct {
		env        []string
		configured string
		want       string
	}{
		{[]string{"HOME=/h", "XDG_DATA_HOME=/x"}, "/data", "/data"},
		{[]string{"HOME=/h", "XDG_DATA_HOME=/x"}, "", "/x/sluice"},
		{[]string{"HOME=/h"}, " ", "/h/.local/share/sluice"},
		{nil, "", ""},
	} {
		e := &env{environ: c.env}
		got, err := e.dataDir(c.configured)
		if got != filepath.FromSlash(c.want) || (err != nil) != (c.want == "") {
			t.Errorf("%v, %q: got %q, %v", c.env, c.configured, got, err)
		}
	}
}

// TestFirstScreen is what somebody at a terminal sees.
func TestFirstScreen(t *testing.T) {
	var b strings.Builder
	s := &screen{
		version: "1.2.3", took: 38 * time.Millisecond, cluster: "ID", nodeID: 1, dir: "/data",
		durability: "strict", security: "PLAINTEXT, no authentication: whoever can connect may do all",
		http: []string{"http://127.0.0.1:8080/"},
		listeners: []listenerRow{
			{Name: "PLAINTEXT", Bound: "[::]:9092", Advertised: auto, local: "localhost:9092"},
			{Name: "OUT", Bound: "[::]:9093", Advertised: "kafka.example:9093"},
		},
	}
	s.text(&b)
	want := `sluice 1.2.3 ready in 38 ms
  cluster   ID, node 1
  kafka     PLAINTEXT [::]:9092 -> auto (each client is told the address it came by)
  kafka     OUT [::]:9093 -> kafka.example:9093
  http      http://127.0.0.1:8080/
  data      /data (strict: on disk before it is acknowledged)
  security  PLAINTEXT, no authentication: whoever can connect may do all
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
