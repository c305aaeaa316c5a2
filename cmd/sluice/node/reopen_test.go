package node

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/controller/quorum"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// TestReopenBackoff: attempts come ever more seldom, are told of once, and end with the broker.
func TestReopenBackoff(t *testing.T) {
	clk, full := clock.NewManual(time.UnixMilli(0)), errors.New("no space left")
	var log output
	var at []time.Duration
	err := full
	r := &reopener{clock: clk, log: slog.New(slog.NewTextHandler(&log, nil))}
	r.open = func() (int, error) {
		at = append(at, clk.Now().Sub(time.UnixMilli(0)))
		return 2, err
	}
	fail := func() {
		r.mu.Lock()
		r.failedLocked(2, full)
		r.mu.Unlock()
	}
	fail()
	if got := r.note(); got != "2 cannot be opened, which is tried again: no space left" {
		t.Error(got)
	}
	for range 1000 {
		clk.Advance(100 * time.Millisecond)
	}
	want := []time.Duration{500, 1500, 3500, 7500, 15500, 31500, 61500, 91500}
	if len(at) != len(want) {
		t.Fatalf("tried at %v, want %v ms", at, want)
	}
	for i := range want {
		if at[i] != want[i]*time.Millisecond {
			t.Errorf("tried at %v, want %v ms", at, want)
		}
	}
	err = nil
	clk.Advance(reopenMost)
	if len(at) != len(want)+1 || r.note() != "" {
		t.Errorf("tried %d times, note %q", len(at), r.note())
	}
	if got := strings.Count(log.String(), "level=ERROR"); got != 1 {
		t.Errorf("%d lines:\n%s", got, log.String())
	}
	fail()
	r.close()
	fail()
	clk.Advance(time.Hour)
	if len(at) != len(want)+1 {
		t.Error("tried after close")
	}
}

// TestReopen: a partition that cannot be made with its topic is made once what was in the way is gone,
// without a restart; until then /readyz tells of it, and the broker is ready.
func TestReopen(t *testing.T) {
	dir := t.TempDir()
	n := running(t, dir)
	obstacle := filepath.Join(dir, "t-1")
	if err := os.WriteFile(obstacle, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	res, err := quorum.Call[meta.CreateTopicsResult](n.controller, meta.CreateTopics{
		Topics: []meta.NewTopic{{Name: "t", Partitions: 3, Replication: 1}},
	})
	if err != nil || res.Topics[0].Err != nil {
		t.Fatal(err, res)
	}
	if n.engine.Get("t", 0) == nil || n.engine.Get("t", 1) != nil || n.engine.Get("t", 2) == nil {
		t.Error("not only partition 1 is missing")
	}
	n.health() // the offsets are known to be loaded from here on
	code, text := readyz(t, n)
	if code != 200 || !strings.Contains(text, "[!] partitions: 1 cannot be opened, which is tried again: ") {
		t.Errorf("%d %s", code, text)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); n.reopen.note() != ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(n.reopen.note())
		}
	}
	if p := n.engine.Get("t", 1); p == nil || p.Offline() != nil || n.broker.Topics()["t"].Partitions[1] != p {
		t.Error("partition 1 is not served")
	}
	if code, text := readyz(t, n); code != 200 || !strings.Contains(text, "[+] partitions\n") {
		t.Errorf("%d %s", code, text)
	}
}

// TestOlderDirectoriesPutBack: an older copy of the metadata log is refused with a sentence, a flipped bit of
// its partition.metadata as well, and what is put right afterwards is as it was.
func TestOlderDirectoriesPutBack(t *testing.T) {
	dir, aside := t.TempDir(), t.TempDir()
	const metadata = "__cluster_metadata-0"
	life := func(topic string) {
		n, err := start(t, dir, io.Discard, map[string]string{"sluice.http.listeners": ""})
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, n)
		res, err := quorum.Call[meta.CreateTopicsResult](n.controller, meta.CreateTopics{
			Topics: []meta.NewTopic{{Name: topic, Partitions: 1, Replication: 1}},
		})
		if err != nil || res.Topics[0].Err != nil {
			t.Fatal(err, res)
		}
		if err := n.ensureOffsetsTopic(); err != nil {
			t.Fatal(err)
		}
	}
	copyTo := func(from, to string) {
		t.Helper()
		if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(from))); err != nil {
			t.Fatal(err)
		}
	}
	live, older, newer := filepath.Join(dir, metadata), filepath.Join(aside, "older"), filepath.Join(aside, "newer")
	life("first")
	copyTo(live, older)
	life("second")
	copyTo(live, newer)
	refused := func(want string) {
		t.Helper()
		var log output
		n, err := start(t, dir, &log, map[string]string{"sluice.http.listeners": ""})
		if err == nil {
			stop(t, n)
			t.Fatal("it started")
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(log.String(), "forgetting") {
			t.Errorf("%v\n%s", err, log.String())
		}
	}
	copyTo(older, live)
	refused("newer records are missing, as in an older copy of the directory")
	copyTo(newer, live)
	name := filepath.Join(live, "partition.metadata")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, len(b) - 5} {
		flipped := append([]byte{}, b...)
		flipped[at] ^= 1
		if err := os.WriteFile(name, flipped, 0o644); err != nil {
			t.Fatal(err)
		}
		refused("")
	}
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	life("third")

	if err := os.Remove(filepath.Join(dir, "first-0", "00000000000000000000.log")); err != nil {
		t.Fatal(err)
	}
	n := running(t, dir)
	for _, topic := range []string{"first", "second", "third"} {
		if p := n.engine.Get(topic, 0); p == nil || p.Offline() != nil {
			t.Errorf("%s is not served", topic) // an empty log has nothing to miss
		}
	}
}

// TestOffsetsPartitionOffline: /readyz names it, and the broker is ready for the others.
func TestOffsetsPartitionOffline(t *testing.T) {
	dir := t.TempDir()
	n, err := start(t, dir, io.Discard, map[string]string{"sluice.http.listeners": ""})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.ensureOffsetsTopic(); err != nil {
		t.Fatal(err)
	}
	stop(t, n)
	name := filepath.Join(dir, "__consumer_offsets-2", "00000000000000000000.log")
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o755)); err != nil {
		t.Fatal(err)
	}
	n = running(t, dir)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		code, text := readyz(t, n)
		if code == 200 {
			if !strings.Contains(text, "[!] offsets: partition 2 of __consumer_offsets is offline\n") {
				t.Error(text)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(text)
		}
	}
}
