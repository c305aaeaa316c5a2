package quorum

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// files lists the snapshots in the metadata directory.
func (w *world) files() []string {
	w.t.Helper()
	entries, err := w.fs.ReadDir(w.log.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// settle waits for a snapshot under way by giving the loop something to do.
func settle(t testing.TB, c *Controller, ready func() bool) {
	t.Helper()
	for i := 0; !ready(); i++ {
		if i > 100_000 {
			t.Fatal("no snapshot came")
		}
		_, err := c.Do(meta.DeleteTopics{})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// withSnapshots makes a world with two snapshots; topics a, b and c lie before the first, between
// them, and behind the second.
func withSnapshots(t *testing.T) (*world, []snapshotID) {
	t.Helper()
	w := newWorld(t)
	w.static["metadata.log.max.snapshot.interval.ms"] = "60000"
	c := w.open()
	for n := range 2 {
		create(t, c, string(rune('a'+n)))
		w.age(c, time.Minute)
		settle(t, c, func() bool { return len(w.files()) == n+1 && !busy(c) })
	}
	create(t, c, "c")
	_ = c.Close()
	ids, err := listSnapshots(w.fs, w.log.dir)
	if err != nil || len(ids) != 2 {
		t.Fatal(ids, err)
	}
	if w.log.StartOffset() != ids[1].offset || w.log.rolls != 2 {
		t.Fatalf("the log begins at %d, snapshots %v, %d rolls", w.log.StartOffset(), ids, w.log.rolls)
	}
	return w, ids
}

// busy reports whether a snapshot is being written, as the loop sees it.
func busy(c *Controller) bool {
	answer := make(chan bool, 1)
	c.Submit(meta.DeleteTopics{}, func(meta.Result, error) { answer <- c.snap.writing != nil })
	return <-answer
}

// age lets time pass after the loop has looked at what came before.
func (w *world) age(c *Controller, d time.Duration) {
	busy(c)
	w.clock.Advance(d)
}

func (w *world) damage(id snapshotID, at int) {
	w.t.Helper()
	name := path.Join(w.log.dir, id.file())
	data, err := vfs.ReadFile(w.fs, name, 1<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	data[(at+len(data))%len(data)] ^= 0x40
	if err := vfs.WriteFileAtomic(w.fs, name, data); err != nil {
		w.t.Fatal(err)
	}
}

// TestRestartFromSnapshot: the newest snapshot and the log behind it give the image.
func TestRestartFromSnapshot(t *testing.T) {
	w, ids := withSnapshots(t)
	if !strings.HasPrefix(ids[0].file(), fmt.Sprintf("%020d-%010d", ids[0].offset, 1)) {
		t.Errorf("file %s", ids[0].file())
	}
	w.log = w.log.restart(false)
	c := w.open()
	defer c.Close()
	if got := topics(c.Image()); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("topics %v", got)
	}
	if c.Image().Version() != int64(w.log.EndOffset()) {
		t.Errorf("version %d, end %d", c.Image().Version(), w.log.EndOffset())
	}
}

// TestSnapshotByBytes: a snapshot is made when enough was appended, also over restarts.
func TestSnapshotByBytes(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	for n := range 20 {
		create(t, c, fmt.Sprint("t", n))
	}
	if busy(c) || len(w.files()) != 0 {
		t.Errorf("files %v", w.files())
	}
	w.static["metadata.log.max.record.bytes.between.snapshots"] = "2000"
	c = w.reopen(c)
	defer c.Close()
	settle(t, c, func() bool { return len(w.files()) == 1 && !busy(c) })
}

// TestSnapshotByAge: a snapshot is made when the oldest record behind the last has grown old, and
// none when there is no record.
func TestSnapshotByAge(t *testing.T) {
	w := newWorld(t)
	w.static["metadata.log.max.snapshot.interval.ms"] = "60000"
	c := w.open()
	defer func() { _ = c.Close() }()
	create(t, c, "a")
	w.age(c, 59*time.Second)
	if busy(c); len(w.files()) != 0 {
		t.Errorf("too early: %v", w.files())
	}
	w.age(c, 2*time.Second)
	settle(t, c, func() bool { return len(w.files()) == 1 && !busy(c) })
	w.age(c, time.Hour)
	if busy(c); len(w.files()) != 1 {
		t.Errorf("a snapshot of nothing new: %v", w.files())
	}
	create(t, c, "b")
	w.age(c, time.Hour)
	settle(t, c, func() bool { return len(w.files()) == 2 && !busy(c) })
}

// TestDamagedSnapshots: one damaged snapshot is survived, wherever the damage is (Q5).
func TestDamagedSnapshots(t *testing.T) {
	for _, at := range []int{0, 7, 15, 16, 17, 22, 60, 100, -1} {
		w, ids := withSnapshots(t)
		w.damage(ids[0], at)
		w.log = w.log.restart(false)
		c := w.open()
		if got := topics(c.Image()); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("damage at %d: topics %v", at, got)
		}
		if !strings.Contains(w.logged.String(), ids[0].file()) {
			t.Errorf("damage at %d is not told: %s", at, w.logged)
		}
		_ = c.Close()

		w.damage(ids[1], at)
		w.log = w.log.restart(false)
		if _, err := w.tryOpen(); !kafkaproto.IsCorrupt(err) || !strings.Contains(err.Error(), "restore the .checkpoint files") {
			t.Errorf("both damaged at %d: %v", at, err)
		}
	}
}

// TestFirstSnapshotDamaged: the log is whole until there are two snapshots.
func TestFirstSnapshotDamaged(t *testing.T) {
	w := newWorld(t)
	w.static["metadata.log.max.snapshot.interval.ms"] = "60000"
	c := w.open()
	create(t, c, "a")
	w.age(c, time.Minute)
	settle(t, c, func() bool { return len(w.files()) == 1 && !busy(c) })
	create(t, c, "b")
	_ = c.Close()
	ids, _ := listSnapshots(w.fs, w.log.dir)
	w.damage(ids[0], 80)
	w.log = w.log.restart(false)
	c = w.open()
	defer c.Close()
	if got := topics(c.Image()); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("topics %v", got)
	}
}

// TestSnapshotBeyondLog: a log shorter than a snapshot has lost what was acknowledged.
func TestSnapshotBeyondLog(t *testing.T) {
	w, _ := withSnapshots(t)
	w.log = newFakeLog()
	if _, err := w.tryOpen(); !kafkaproto.IsCorrupt(err) || !strings.Contains(err.Error(), "lost records") {
		t.Errorf("%v", err)
	}
}

// TestNewerSnapshot is refused, and no older one is taken in its place.
func TestNewerSnapshot(t *testing.T) {
	w, ids := withSnapshots(t)
	name := path.Join(w.log.dir, ids[0].file())
	data, err := vfs.ReadFile(w.fs, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	img, err := decodeSnapshot(data, ids[0])
	if err != nil {
		t.Fatal(err)
	}
	data, err = encodeSnapshot(img, ids[0].epoch, 0)
	if err != nil {
		t.Fatal(err)
	}
	data = reseal(t, []byte(strings.Replace(string(data), "CLUSTER_RECORD", "FUTURES_RECORD", 1)))
	if err := vfs.WriteFileAtomic(w.fs, name, data); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tryOpen(); !errors.Is(err, meta.ErrNewerRelease) {
		t.Errorf("%v", err)
	}
}

// TestSnapshotFails: the log holds everything, so a snapshot that cannot be written is told and
// tried again later; what it left is removed by the next.
func TestSnapshotFails(t *testing.T) {
	w := newWorld(t)
	w.static["metadata.log.max.snapshot.interval.ms"] = "60000"
	fail := &failRename{FS: w.fs}
	w.fs = fail
	c := w.open()
	defer func() { _ = c.Close() }()
	create(t, c, "a")
	fail.on.Store(true)
	w.age(c, time.Minute)
	settle(t, c, func() bool { return fail.failed.Load() > 0 && !busy(c) })
	fail.on.Store(false)
	if files := w.files(); slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix(f, snapshotSuffix) }) {
		t.Errorf("files %v", files)
	}
	create(t, c, "b")
	w.age(c, time.Minute)
	settle(t, c, func() bool {
		files := w.files()
		return len(files) > 0 && strings.HasSuffix(files[len(files)-1], snapshotSuffix) && !busy(c)
	})
	if len(w.files()) != 1 {
		t.Errorf("files %v", w.files())
	}
}

// failRename fails renames of snapshots, and leaves the temporary file as a crash would.
type failRename struct {
	vfs.FS
	on     atomic.Bool
	failed atomic.Int32
}

func (f *failRename) Rename(from, to string) error {
	if f.on.Load() && strings.HasSuffix(to, snapshotSuffix) {
		f.failed.Add(1)
		return errTest
	}
	return f.FS.Rename(from, to)
}

func (f *failRename) Remove(name string) error {
	if f.on.Load() {
		return errTest
	}
	return f.FS.Remove(name)
}

// TestSnapshotOfManyTopics takes several batches.
func TestSnapshotOfManyTopics(t *testing.T) {
	w := newWorld(t)
	c := w.open()
	defer c.Close()
	for n := range 20 {
		var cmd meta.CreateTopics
		for i := range 10 {
			cmd.Topics = append(cmd.Topics, meta.NewTopic{Name: fmt.Sprintf("t%d-%d", n, i), Partitions: 900, Replication: 1})
		}
		if _, err := c.Do(cmd); err != nil {
			t.Fatal(err)
		}
	}
	data, err := encodeSnapshot(c.Image(), 5, 1)
	if err != nil || len(data) < 2*snapshotBatch {
		t.Fatal(len(data), err)
	}
	id := snapshotID{kafkaproto.Offset(c.Image().Version()), 5}
	img, err := decodeSnapshot(data, id)
	if err != nil || img.TopicCount() != 200 || img.Version() != c.Image().Version() {
		t.Fatalf("%v", err)
	}
	for _, cut := range []int{0, 1, 60, len(data) / 2, len(data) - 1} {
		if _, err := decodeSnapshot(data[:cut], id); !kafkaproto.IsCorrupt(err) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	if _, err := decodeSnapshot(append(slices.Clone(data), data[:100]...), id); !kafkaproto.IsCorrupt(err) {
		t.Error("bytes behind the last batch pass")
	}
	if _, err := decodeSnapshot(data, snapshotID{id.offset + 1, 5}); !kafkaproto.IsCorrupt(err) {
		t.Error("a file under another's name passes")
	}
}

func TestSnapshotName(t *testing.T) {
	id := snapshotID{1234, 7}
	if got := id.file(); got != "00000000000000001234-0000000007.checkpoint" {
		t.Error(got)
	}
	if got, ok := parseSnapshotName(id.file()); !ok || got != id {
		t.Error(got, ok)
	}
	for _, name := range []string{"", "1-2.checkpoint", id.file() + ".tmp", "99999999999999999999-0000000007.checkpoint",
		"00000000000000001234-9999999999.checkpoint", "leader-epoch-checkpoint"} {
		if got, ok := parseSnapshotName(name); ok {
			t.Errorf("%s passes as %v", name, got)
		}
	}
}
