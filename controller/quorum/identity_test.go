package quorum

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

const (
	clusterA = "4L6g3nShT-eMCtK--X86sw"
	clusterB = "MkU3OEVBNTcwNTJENDM2Qg"
)

func properties(t *testing.T, w *world) string {
	t.Helper()
	b, err := vfs.ReadFile(w.fs, "data/meta.properties", 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWantedIDs: the ids asked for are taken on the first start, and kept when nobody asks.
func TestWantedIDs(t *testing.T) {
	w := newWorld(t)
	w.static["sluice.cluster.id"], w.static["node.id"] = clusterA, "7"
	c := w.open()
	if c.ClusterID() != clusterA || c.NodeID() != 7 || c.Image().Node(7) == nil {
		t.Errorf("%+v", c.Identity())
	}
	for _, line := range []string{"version=1", "cluster.id=" + clusterA, "node.id=7", "directory.id=" + c.Identity().Directory} {
		if !strings.Contains(properties(t, w), line+"\n") {
			t.Errorf("%s is missing in\n%s", line, properties(t, w))
		}
	}
	w.static = map[string]string{}
	c = w.reopen(c)
	if c.ClusterID() != clusterA || c.NodeID() != 7 {
		t.Errorf("%+v", c.Identity())
	}
	w.static = map[string]string{"broker.id": "7", "sluice.cluster.id": clusterA}
	c = w.reopen(c)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestForeignIDs: another id is refused before anything is written, with both ids, the place and
// the way out (Q6; usability.md, top 30 #9).
func TestForeignIDs(t *testing.T) {
	w := newWorld(t)
	w.static["sluice.cluster.id"], w.static["node.id"] = clusterA, "7"
	_ = w.open().Close()
	for _, c := range []struct {
		static map[string]string
		want   []string
	}{
		{map[string]string{"sluice.cluster.id": clusterB}, []string{"data directory data", clusterA, clusterB, "sluice.cluster.id (server.properties)", "remove the setting", "log.dirs"}},
		{map[string]string{"node.id": "8"}, []string{"data directory data", "node 7", "node.id (server.properties) asks for 8", "set it to 7", "log.dirs"}},
		{map[string]string{"broker.id": "8"}, []string{"broker.id (server.properties) asks for 8"}},
	} {
		w.static = c.static
		before, end, epoch := properties(t, w), w.log.EndOffset(), w.log.Term()
		s, _, err := config.NewStatic(config.Layer{Name: "server.properties", Values: c.static})
		if err != nil {
			t.Fatal(err)
		}
		_, opened := w.tryOpen()
		for _, err := range []error{opened, Check(w.fs, "data", s)} {
			for _, part := range c.want {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%v: %v\nmisses %q", c.static, err, part)
				}
			}
		}
		if properties(t, w) != before || w.log.EndOffset() != end || w.log.Term() != epoch {
			t.Error("something was written before the refusal")
		}
	}
	s, _, _ := config.NewStatic()
	if err := Check(w.fs, "data", s); err != nil {
		t.Error(err)
	}
	if err := Check(w.fs, "elsewhere", s); err != nil {
		t.Error(err)
	}
}

// TestLostProperties: a single node's file is written again out of the metadata.
func TestLostProperties(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	id := c.Identity()
	_ = c.Close()
	if err := w.fs.Remove("data/meta.properties"); err != nil {
		t.Fatal(err)
	}
	c = w.open()
	if c.Identity() != id {
		t.Errorf("%+v, want %+v", c.Identity(), id)
	}
	if got, err := readIdentity(w.fs, "data"); err != nil || got == nil || *got != id {
		t.Errorf("%+v, %v", got, err)
	}
	// With two nodes registered nobody can say whose it was.
	if _, err := c.Do(meta.RegisterBroker{ID: 2, Directory: "d"}); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if err := w.fs.Remove("data/meta.properties"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tryOpen(); err == nil || !strings.Contains(err.Error(), "restore the file") {
		t.Errorf("%v", err)
	}
}

// TestForeignProperties: a file copied from elsewhere does not pass for ours.
func TestForeignProperties(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	id := c.Identity()
	_ = c.Close()
	for want, other := range map[string]Identity{
		"the metadata beside it is of cluster": {ClusterID: clusterB, NodeID: 1, Directory: id.Directory},
		"is registered with directory":         {ClusterID: id.ClusterID, NodeID: 1, Directory: clusterB},
	} {
		if err := vfs.WriteFileAtomic(w.fs, "data/meta.properties", other.bytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := w.tryOpen(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ... %s", err, want)
		}
	}
}

func TestParseIdentity(t *testing.T) {
	good := Identity{ClusterID: clusterA, NodeID: 3, Directory: clusterB}
	if got, err := parseIdentity(good.bytes()); err != nil || *got != good {
		t.Errorf("%+v, %v", got, err)
	}
	for text, newer := range map[string]bool{
		"": false, "version=2\ncluster.id=x": true, "version=1\n": false,
		strings.Replace(string(good.bytes()), "node.id=3", "node.id=-1", 1): false,
		strings.Replace(string(good.bytes()), "node.id=3", "node.id=x", 1):  false,
		strings.Replace(string(good.bytes()), clusterA, "short", 1):         false,
		strings.Replace(string(good.bytes()), clusterB, "", 1):              false,
		"version=\\u12": false,
		strings.Replace(string(good.bytes()), "version=1", "version=0", 1) + "#\n": true,
	} {
		_, err := parseIdentity([]byte(text))
		if err == nil || errors.Is(err, meta.ErrNewerRelease) != newer || kafkaproto.IsCorrupt(err) == newer {
			t.Errorf("%q: %v", text, err)
		}
	}
	w := newWorld(t)
	if err := vfs.WriteFileAtomic(w.fs, "data/meta.properties", []byte("version=9\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tryOpen(); err == nil || !strings.Contains(err.Error(), "data/meta.properties") {
		t.Errorf("%v", err)
	}
}

// TestNoIdentityWithoutDisk: when meta.properties cannot be written, nothing begins.
func TestNoIdentityWithoutDisk(t *testing.T) {
	w := newWorld(t)
	w.fs = readOnlyFS{w.fs}
	if _, err := w.tryOpen(); !errors.Is(err, errTest) || w.log.EndOffset() != 0 {
		t.Errorf("%v, log end %d", err, w.log.EndOffset())
	}
}

type readOnlyFS struct{ vfs.FS }

func (readOnlyFS) OpenFile(name string, _ int, _ fs.FileMode) (vfs.File, error) {
	if strings.HasSuffix(name, ".tmp") {
		return nil, errTest
	}
	return nil, fs.ErrNotExist
}

func FuzzIdentity(f *testing.F) {
	f.Add(string(Identity{ClusterID: clusterA, NodeID: 3, Directory: clusterB}.bytes()))
	f.Fuzz(func(t *testing.T, text string) {
		id, err := parseIdentity([]byte(text))
		if err != nil {
			return
		}
		if again, err := parseIdentity(id.bytes()); err != nil || *again != *id {
			t.Fatalf("%+v is written so that it reads as %+v, %v", id, again, err)
		}
	})
}
