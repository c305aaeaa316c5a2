package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// damaged is a broker whose topic t has a sound partition 0 and a partition 1 that hurt has changed
// the log file of.
func damaged(t *testing.T, hurt func(log []byte) []byte) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := startIn(t, dir)
	f.ok("", "topic", "create", "t", "-p", "2")
	for p := range 2 {
		f.ok("a\nb\n", "produce", "t", "-p", fmt.Sprint(p))
	}
	f.stop()
	name := filepath.Join(dir, "t-1", "00000000000000000000.log")
	log, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, hurt(log), 0o644); err != nil {
		t.Fatal(err)
	}
	return startIn(t, dir)
}

// TestOfflinePartition works on a topic of which one partition has no leader.
func TestOfflinePartition(t *testing.T) {
	f := damaged(t, func(log []byte) []byte { return log[:len(log)-1] })
	page := f.ok("", "topic", "describe", "t")
	var rows []string
	for _, line := range strings.Split(strings.TrimSpace(page), "\n") {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	want := []string{"PARTITION LEADER REPLICAS IN-SYNC START END", "0 1 1 1 0 2", "1 - 1 - -"}
	if n := len(rows); n < 3 || !slices.Equal(rows[n-3:], want) {
		t.Errorf("describe says\n%s", page)
	}
	if got := f.run("", "consume", "t", "-e", "-p", "0"); got.code != 0 || got.out != "a\nb\n" {
		t.Errorf("the sound partition: %+v", got)
	}
	if got := f.run("", "consume", "t", "-e"); got.code != exitUnreachable ||
		!strings.Contains(got.errOut, "t/1: the partition has no leader") {
		t.Errorf("both: %+v", got)
	}
}

// TestRangeOfDamage reads a range in which the broker finds damage only then: what could not be read
// is no end.
func TestRangeOfDamage(t *testing.T) {
	f := damaged(t, func(log []byte) []byte { log[len(log)-2] ^= 1; return log })
	got := f.run("", "consume", "t", "-o", "start:end")
	if got.code == 0 || !strings.Contains(got.errOut, "t/1") || got.out != "a\nb\n" {
		t.Errorf("%+v", got)
	}
}
