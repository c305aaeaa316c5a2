package node

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/controller/quorum"
)

// TestDeletionIsFinished puts a partition of a deleted topic back, as a kill in the midst of the
// deletion leaves it. The next start removes it, so that the topic can be made anew; a directory
// whose deletion nobody committed stays.
func TestDeletionIsFinished(t *testing.T) {
	dir, aside := t.TempDir(), t.TempDir()
	life := func(f func(n *Node)) {
		t.Helper()
		n, err := start(t, dir, io.Discard, map[string]string{"sluice.http.listeners": ""})
		if err != nil {
			t.Fatal(err)
		}
		f(n)
		stop(t, n)
	}
	makeTopic := func(n *Node) {
		t.Helper()
		res, err := quorum.Call[meta.CreateTopicsResult](n.controller, meta.CreateTopics{
			Topics: []meta.NewTopic{{Name: "t", Partitions: 2, Replication: 1}},
		})
		if err != nil || res.Topics[0].Err != nil {
			t.Fatal(err, res)
		}
	}
	life(makeTopic)
	if err := os.CopyFS(aside, os.DirFS(filepath.Join(dir, "t-1"))); err != nil {
		t.Fatal(err)
	}
	life(func(n *Node) {
		res, err := quorum.Call[meta.DeleteTopicsResult](n.controller, meta.DeleteTopics{
			Topics: []meta.TopicRef{{Name: "t"}},
		})
		if err != nil || res.Topics[0].Err != nil {
			t.Fatal(err, res)
		}
	})
	for _, name := range []string{"t-1", "stranger-0"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(aside)); err != nil {
			t.Fatal(err)
		}
	}
	foreign := "version: 0\ntopic_id: strangerstrangerstrang\n"
	if err := os.WriteFile(filepath.Join(dir, "stranger-0", "partition.metadata"), []byte(foreign), 0o644); err != nil {
		t.Fatal(err)
	}
	life(func(n *Node) {
		if _, err := os.Stat(filepath.Join(dir, "t-1")); !os.IsNotExist(err) {
			t.Errorf("t-1: %v", err)
		}
		if _, err := os.Stat(filepath.Join(dir, "stranger-0")); err != nil {
			t.Error(err)
		}
		makeTopic(n)
		for p := range int32(2) {
			if got := n.engine.Get("t", p); got == nil || got.Offline() != nil {
				t.Errorf("partition %d is not served", p)
			}
		}
	})
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "t-") || strings.HasPrefix(e.Name(), "stranger-") {
			kept = append(kept, e.Name())
		}
	}
	if got := strings.Join(kept, " "); got != "stranger-0 t-0 t-1" {
		t.Errorf("there are %s", got)
	}
}
