package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicelog/sluice/log/vfs"
)

// devDirs are the data directories of dev brokers under tmp.
func devDirs(t *testing.T, tmp string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(tmp, devPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDev is usable by other programs through its ready file, and leaves nothing behind.
func TestDev(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	f := offline(t)
	name := filepath.Join(f.dir, "ready.json")
	if err := os.WriteFile(name, []byte("of an earlier run"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := f.background(nil, "dev", "--port", "0", "--ready-file", name)
	var ready readyFile
	r.await("ready file", func(string, string) bool {
		text, err := os.ReadFile(name)
		return err == nil && json.Unmarshal(text, &ready) == nil
	})
	if !strings.HasPrefix(ready.Bootstrap, "localhost:") || len(ready.HTTP) != 1 || ready.PID != os.Getpid() ||
		ready.ClusterID == "" || len(ready.Listeners) != 1 {
		t.Errorf("the ready file says %+v", ready)
	}
	if n := len(devDirs(t, tmp)); n != 1 {
		t.Errorf("%d data directories while it runs", n)
	}
	f.env = append(f.env, "SLUICE_BOOTSTRAP_SERVER="+ready.Bootstrap)
	f.pasted(r.errOut.String())
	if out := f.ok("", "config", "get", "broker", "sluice.durability"); !strings.Contains(out, "relaxed") {
		t.Errorf("dev is relaxed, but: %s", out)
	}
	if code := r.stop(); code != 0 {
		t.Fatalf("exit %d\n%s", code, r.errOut.String())
	}
	if left := devDirs(t, tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := os.Stat(name); err == nil {
		t.Error("the ready file outlives the broker")
	}
}

// TestHangUp closes the terminal of a dev broker: it leaves as little behind as after Ctrl-C.
func TestHangUp(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests run under nohup")
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	name := filepath.Join(tmp, "ready.json")
	done := make(chan int, 1)
	var out buffer
	go func() {
		done <- Main([]string{"dev", "--port", "0", "--ready-file", name,
			"--override", "sluice.http.listeners="}, nil, &bytes.Buffer{}, &out, &out)
	}()
	for {
		if _, err := os.Stat(name); err == nil {
			break
		}
		select {
		case code := <-done:
			t.Fatalf("exit %d\n%s", code, out.String())
		default:
			runtime.Gosched()
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != 0 {
		t.Errorf("exit %d\n%s", code, out.String())
	}
	if left := devDirs(t, tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// pasted runs the lines that dev prints, as a user would.
func (f *fixture) pasted(said string) {
	f.t.Helper()
	last := ""
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		input, command, piped := strings.Cut(line, "| sluice ")
		if !piped {
			var ok bool
			if command, ok = strings.CutPrefix(line, "sluice "); !ok || strings.Contains(command, "ready in") {
				continue
			}
			input = ""
		}
		if input != "" {
			input = unescape(words(input)[1])
		}
		last = f.ok(input, words(command)...)
	}
	if !strings.Contains(last, `u1={"total":10}`) || !strings.Contains(last, `u2={"total":7}`) {
		f.t.Errorf("the last line to paste printed %q, of\n%s", last, said)
	}
}

// TestDevFails removes its directory also when it does not start.
func TestDevFails(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	f := start(t)
	_, port, _ := strings.Cut(f.addr, ":")
	r := f.run("", "dev", "--port", port)
	if r.code != exitConflict || !strings.Contains(r.errOut, "--port 0 for any") {
		t.Errorf("exit %d, said %q", r.code, r.errOut)
	}
	if left := devDirs(t, tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSweepDev removes what a killed dev left, and nothing that is in use or is not ours.
func TestSweepDev(t *testing.T) {
	tmp := t.TempDir()
	for _, name := range []string{"sluice-dev-dead", "sluice-dev-alive", "other", "sluice-dev-new"} {
		if err := os.MkdirAll(filepath.Join(tmp, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if name != "sluice-dev-new" {
			if err := os.WriteFile(filepath.Join(tmp, name, lockName), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	lock, err := vfs.OS().Lock(filepath.Join(tmp, "sluice-dev-alive", lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	sweepDev(tmp)
	entries, err := os.ReadDir(tmp)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != "other sluice-dev-alive sluice-dev-new" {
		t.Errorf("left: %s", got)
	}
}
