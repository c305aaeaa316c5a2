package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// image is the content of a data directory: nil stands for a directory that stands in a file's place.
type image map[string][]byte

func imageOf(t testing.TB, fsys vfs.FS, dir string) image {
	t.Helper()
	out := image{}
	for _, e := range must(fsys.ReadDir(dir)) {
		name := path.Join(dir, e.Name())
		if e.IsDir() {
			maps.Copy(out, imageOf(t, fsys, name))
			continue
		}
		out[name] = must(vfs.ReadFile(fsys, name, 64<<20))
	}
	return out
}

func (m image) write(t testing.TB) vfs.FS {
	t.Helper()
	fsys := vfs.Memory()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		dir := path.Dir(name)
		if m[name] == nil {
			dir = name
		}
		if err := fsys.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if m[name] != nil {
			if err := vfs.WriteFileAtomic(fsys, name, m[name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return fsys
}

// removeAll takes away the files whose name begins so.
func (m image) removeAll(prefix string) {
	maps.DeleteFunc(m, func(name string, _ []byte) bool { return strings.HasPrefix(name, prefix) })
}

// cut leaves n bytes of a file, or all but -n.
func (m image) cut(name string, n int) {
	if n < 0 {
		n += len(m[name])
	}
	m[name] = append([]byte{}, m[name][:n]...)
}

// logs are the .log files of a log, by base offset.
func (m image) logs(dir string) (names []string) {
	for name := range m {
		if path.Dir(name) == dir && strings.HasSuffix(name, ".log") {
			names = append(names, strings.TrimSuffix(name, ".log"))
		}
	}
	slices.Sort(names)
	return names
}

// lossy is a data directory with a plain log (topic2), of which retention has taken the front away, and a
// compacted one (topic1), after a clean stop; and the same directory as it was earlier.
func lossy(t *testing.T) (earlier, later image, recs map[string][]rec) {
	fsys := vfs.Memory()
	c := &compacted{t: t, rng: rand.New(rand.NewPCG(1, 3)), clk: clock.NewManual(testStart), keys: 40}
	c.open(fsys)
	plain := openLog(t, c.s, 2, Config{SegmentBytes: 600})
	fill := func(n int) {
		for i := range n {
			appendTo(t, plain, values(1, fmt.Sprint("value", i), strings.Repeat("x", 50)))
		}
		commitAll(t, plain)
		settle(c.s)
	}
	c.write(80)
	fill(60)
	if err := plain.DeleteRecords(40); err != nil {
		t.Fatal(err)
	}
	settle(c.s)
	if !c.s.cleaner.cleanFilthiest() {
		t.Fatal("nothing was cleaned")
	}
	closeStore(t, c.s)
	earlier = imageOf(t, fsys, "/data")
	c.open(fsys)
	plain = openLog(t, c.s, 2, Config{SegmentBytes: 600})
	fill(1)
	c.write(10)
	recs = map[string][]rec{"topic1-0": readAll(t, c.l, 0), "topic2-0": readAll(t, plain, 40)}
	closeStore(t, c.s)
	return earlier, imageOf(t, fsys, "/data"), recs
}

const plainDir, cleanedDir = "/data/topic2-0", "/data/topic1-0"

// TestMissing takes away, cuts and puts back files of a stopped broker. The log that they belong to goes
// offline, and says what is missing; nothing of it is changed, and the other log is served.
// Putting right what is wrong brings it back. Verify finds the same.
func TestMissing(t *testing.T) {
	earlier, whole, recs := lossy(t)
	nth := func(m image, dir string, n int) string { // of those with records: cleaning may leave one without
		names := slices.DeleteFunc(m.logs(dir), func(name string) bool { return len(m[name+".log"]) == 0 })
		return names[n]
	}
	first := func(m image, dir string) string { return nth(m, dir, 0) }
	last := func(m image, dir string) string { return slices.Max(m.logs(dir)) }
	for _, tc := range []struct {
		name, dir, want string
		damage          func(m image)
		unseen          bool // by Verify
	}{
		{"cleaned segment emptied", cleanedDir, "its end is missing",
			func(m image) { m.cut(first(m, cleanedDir)+".log", 0) }, false},
		{"cleaned segment and its index emptied", cleanedDir, "is empty, and other segments follow",
			func(m image) {
				name := first(m, cleanedDir)
				m.cut(name+".log", 0)
				m.cut(name+".raftindex", 0) // and .sum knows better
			}, false},
		{"cleaned segment shortened", cleanedDir, "its end is missing",
			func(m image) { m.cut(first(m, cleanedDir)+".log", 61) }, false},
		{"first cleaned segment removed", cleanedDir, ".log is missing (offsets",
			func(m image) { delete(m, first(m, cleanedDir)+".log") }, false},
		{"second cleaned segment removed", cleanedDir, ".log is missing (offsets",
			func(m image) { delete(m, nth(m, cleanedDir, 1)+".log") }, false},
		{"first segment removed with its indexes", plainDir, "the log starts at 40, and its first segment at",
			func(m image) { m.removeAll(first(m, plainDir)) }, false},
		{"first segment removed", plainDir, ".log is missing (offsets",
			func(m image) { delete(m, first(m, plainDir)+".log") }, false},
		{"second segment removed with its indexes", plainDir, "are missing",
			func(m image) { m.removeAll(nth(m, plainDir, 1)) }, false},
		{"sealed segment emptied", plainDir, "its end is missing",
			func(m image) { m.cut(nth(m, plainDir, 1)+".log", 0) }, false},
		{"sealed segment without its last byte", plainDir, "its end is missing",
			func(m image) { m.cut(nth(m, plainDir, 1)+".log", -1) }, false},
		{"garbage behind a sealed segment", plainDir, "was appended to it by another hand",
			func(m image) {
				name := nth(m, plainDir, 1) + ".log"
				m[name] = append(slices.Clone(m[name]), strings.Repeat("garbage", 20)...)
			}, false},
		{"active segment emptied", plainDir, "newer records are missing",
			func(m image) { m.cut(last(m, plainDir)+".log", 0) }, false},
		{"active segment removed with its indexes", plainDir, "newer records are missing",
			func(m image) { m.removeAll(last(m, plainDir)) }, false},
		{"all segments removed", plainDir, "no segment is there",
			func(m image) {
				for _, name := range m.logs(plainDir) {
					m.removeAll(name)
				}
			}, false},
		{"directory removed", plainDir, "its directory is missing",
			func(m image) { m.removeAll(plainDir + "/") }, true},
		{"older copy of the directory", plainDir, "newer records are missing",
			func(m image) { m.putBack(earlier, plainDir) }, false},
		{"older copy of a compacted log", cleanedDir, "newer records are missing",
			func(m image) { m.putBack(earlier, cleanedDir) }, false},
		{"directory in the place of a segment", plainDir, "is a directory",
			func(m image) { m[nth(m, plainDir, 1)+".log"] = nil }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := maps.Clone(whole)
			tc.damage(m)
			fsys := m.write(t)
			if found := must(Verify(fsys, "/data")); !tc.unseen {
				checkVerified(t, found, tc.dir)
			}
			o := testOptions(t, fsys, clock.NewManual(testStart))
			s := openStore(t, o)
			for n := byte(1); n <= 2; n++ {
				l, err := s.OpenLog(testID(n), testTP(n), Config{})
				if err != nil {
					t.Fatal(err)
				}
				switch err := l.Offline(); {
				case l.dir != tc.dir && err != nil:
					t.Errorf("%s is offline: %v", l.tp, err)
				case l.dir == tc.dir && (err == nil || !kafkaproto.IsCorrupt(err) || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("%s: %v; want %q", l.tp, err, tc.want)
				}
			}
			closeStore(t, s)
			now := imageOf(t, fsys, "/data")
			for name, b := range m {
				if b != nil && strings.HasPrefix(name, tc.dir+"/") && string(now[name]) != string(b) {
					t.Errorf("%s was changed", name)
				}
			}
			now.putBack(whole, tc.dir)
			checkWhole(t, now.write(t), recs)
		})
	}
}

// putBack replaces a directory with that of another image.
func (m image) putBack(from image, dir string) {
	m.removeAll(dir + "/")
	for name, b := range from {
		if path.Dir(name) == dir {
			m[name] = b
		}
	}
}

func checkVerified(t *testing.T, found []Verified, damaged string) {
	t.Helper()
	for _, v := range found {
		if got := len(v.Problems) > 0; got != (v.Dir == damaged) {
			t.Errorf("Verify says of %s: %q", v.Dir, v.Problems)
		}
	}
}

// checkWhole opens a directory, reads all records and appends one to each log.
func checkWhole(t *testing.T, fsys vfs.FS, recs map[string][]rec) {
	t.Helper()
	checkVerified(t, must(Verify(fsys, "/data")), "")
	s := openStore(t, testOptions(t, fsys, clock.NewManual(testStart)))
	defer closeStore(t, s)
	for n := byte(1); n <= 2; n++ {
		l := openLog(t, s, n, Config{})
		if got, want := readAll(t, l, l.StartOffset()), recs[l.tp.String()]; !slices.Equal(got, want) {
			t.Errorf("%s has %d records, want %d", l.tp, len(got), len(want))
		}
		appendTo(t, l, values(1, "more"))
	}
}

// TestDirectoryInPlaceOfFile: indexes, sidecars and epochs are made again; what stood there is kept.
func TestDirectoryInPlaceOfFile(t *testing.T) {
	_, whole, recs := lossy(t)
	for name := range whole {
		base := path.Base(name)
		if dir := path.Dir(name); dir != plainDir && dir != cleanedDir || strings.HasSuffix(base, ".log") ||
			base == segment.MetadataFile {
			continue
		}
		m := maps.Clone(whole)
		m[name] = nil
		fsys := m.write(t)
		checkWhole(t, fsys, recs)
		if st, err := fsys.Stat(name + ".aside"); err != nil || !st.IsDir() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMetadataOfPartitionFlipped: a bit of partition.metadata takes the log away from its topic. Nothing of
// it is forgotten: with the bit back it goes on where it was.
func TestMetadataOfPartitionFlipped(t *testing.T) {
	_, whole, recs := lossy(t)
	name := path.Join(plainDir, segment.MetadataFile)
	for bit := range 8 * len(whole[name]) {
		m := maps.Clone(whole)
		flipped := slices.Clone(m[name])
		flipped[bit/8] ^= 1 << (bit % 8)
		m[name] = flipped
		fsys := m.write(t)
		s, err := Open(testOptions(t, fsys, clock.NewManual(testStart)))
		if err == nil {
			l, err := s.OpenLog(testID(2), testTP(2), Config{})
			if err == nil && l.Offline() == nil {
				t.Fatalf("bit %d: the log is open", bit)
			}
			closeStore(t, s)
		}
		if err := vfs.WriteFileAtomic(fsys, name, whole[name]); err != nil {
			t.Fatal(err)
		}
		checkWhole(t, fsys, recs)
	}
}

// TestSummaryAheadOfLog: after a power cut .raftindex may speak of bytes that were lost, above the mark. It
// is no witness then, and must not become one: another start, with the mark behind the segment, would
// look for them.
func TestSummaryAheadOfLog(t *testing.T) {
	fsys := vfs.Memory()
	o := testOptions(t, fsys, clock.NewManual(testStart))
	s := openStore(t, o)
	l := openLog(t, s, 1, Config{})
	appendTo(t, l, values(1, "a"))
	commitAll(t, l)
	m := imageOf(t, fsys, "/data") // as the power cut leaves it, but for one file
	appendTo(t, l, values(1, "b"))
	closeStore(t, s)
	name := path.Join(l.dir, segmentName(0)+".raftindex")
	m[name] = imageOf(t, fsys, l.dir)[name]
	fsys2 := m.write(t)
	size := int64(len(m[path.Join(l.dir, segmentName(0)+".log")]))
	if sum := must(segment.ReadSummary(fsys2, l.dir, 0)); sum == nil || sum.LogSize <= size {
		t.Fatalf("summary %+v is not ahead of %d bytes", sum, size)
	}
	o.FS = fsys2
	s = openStore(t, o)
	defer closeStore(t, s)
	if sum := must(segment.ReadSummary(fsys2, l.dir, 0)); sum != nil && sum.LogSize > size {
		t.Errorf("the summary still speaks of %d bytes, the log has %d", sum.LogSize, size)
	}
	wantValues(t, readAll(t, openLog(t, s, 1, Config{}), 0), 0, []string{"a"})
}

// TestRemovalsTakenBack: a power cut may take back the removal of some files of segments that were deleted.
// What is left of them lies below the log start, and is no damage.
func TestRemovalsTakenBack(t *testing.T) {
	fsys, clk := vfs.Memory(), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	s := openStore(t, o)
	l := openLog(t, s, 1, Config{SegmentBytes: 200, Strict: true})
	for i := range 20 {
		appendTo(t, l, values(1, fmt.Sprint("value", i)))
	}
	commitAll(t, l)
	settle(s)
	before := imageOf(t, fsys, "/data")
	if err := l.DeleteRecords(12); err != nil {
		t.Fatal(err)
	}
	settle(s)
	settle(s)
	closeStore(t, s)
	after := imageOf(t, fsys, "/data")
	names := before.logs(l.dir)
	if len(names) < 5 || after[names[0]+".log"] != nil || after[names[1]+".log"] != nil {
		t.Fatalf("nothing was deleted of %q", names)
	}
	for name, b := range before { // the first segment whole, of the second its indexes
		if strings.HasPrefix(name, names[0]) || strings.HasPrefix(name, names[1]) && !strings.HasSuffix(name, ".log") {
			after[name] = b
		}
	}
	o.FS = after.write(t)
	s = openStore(t, o)
	defer closeStore(t, s)
	l = openLog(t, s, 1, Config{SegmentBytes: 200, Strict: true})
	if err := l.Offline(); err != nil || l.StartOffset() != 12 || l.EndOffset() != 20 {
		t.Errorf("%v, offsets %d to %d", err, l.StartOffset(), l.EndOffset())
	}
}
