package store

import (
	"fmt"
	"path"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

// TestJournalLost goes on above the highest term when the journal is gone or damaged (ruling 7).
func TestJournalLost(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(t *testing.T, fsys vfs.FS)
	}{
		{"gone", func(t *testing.T, fsys vfs.FS) {
			if err := fsys.RemoveAll(path.Join("/data", journalDir)); err != nil {
				t.Fatal(err)
			}
		}},
		{"damaged", func(t *testing.T, fsys vfs.FS) {
			files, err := fsys.ReadDir(path.Join("/data", journalDir))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				name := path.Join("/data", journalDir, f.Name())
				b, err := vfs.ReadFile(fsys, name, 1<<30)
				if err != nil {
					t.Fatal(err)
				}
				for i := 60; i < min(len(b), 4000); i += 5 {
					b[i] ^= 0xff
				}
				if err := vfs.WriteFileAtomic(fsys, name, b); err != nil {
					t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys, clk := vfs.Memory(), clock.NewManual(testStart)
			o := testOptions(t, fsys, clk)
			cfg := Config{SegmentBytes: 500, Strict: true}
			var want []string
			var term kafkaproto.LeaderEpoch
			var ends []kafkaproto.Offset
			write := func(l *Log, n int) {
				for range n {
					v := fmt.Sprint("v", len(want))
					appendTo(t, l, produced(5, int32(len(want)), false, v))
					want = append(want, v)
				}
				commitAll(t, l)
			}
			for range 3 {
				s := openStore(t, o)
				l := openLog(t, s, 1, cfg)
				openLog(t, s, 2, cfg) // stays empty
				write(l, 12)
				term = l.Term()
				ends = append(ends, l.EndOffset())
				closeStore(t, s)
			}
			c.harm(t, fsys)
			for round := range 3 {
				s := openStore(t, o)
				l := openLog(t, s, 1, cfg)
				if l.Term() <= term {
					t.Fatalf("round %d: term %d after term %d", round, l.Term(), term)
				}
				wantValues(t, readAll(t, l, 0), 0, want)
				a, err := l.Append(produced(5, int32(len(want)-5), false, want[len(want)-5]),
					AppendOptions{})
				if err != nil || !a.Duplicate || int(a.BaseOffset) != len(want)-5 {
					t.Fatalf("retry: %+v %v", a, err)
				}
				for e, end := range ends[:3] {
					if _, got := l.EpochEnd(kafkaproto.LeaderEpoch(e + 1)); got != end {
						t.Fatalf("epoch %d ends at %d, want %d", e+1, got, end)
					}
				}
				checkIndexes(t, l)
				write(l, 7)
				checkIndexes(t, l)
				term = l.Term()
				if e := openLog(t, s, 2, cfg); e.EndOffset() != 0 || e.Term() < 1 {
					t.Fatalf("empty log ends at %d, term %d", e.EndOffset(), e.Term())
				}
				closeStore(t, s)
			}
		})
	}
}

// TestCorruptBelowMark takes a log offline, and only that one, when bytes that were synced are
// damaged; nothing is cut (S4).
func TestCorruptBelowMark(t *testing.T) {
	fsys, clk := vfs.Memory(), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	s := openStore(t, o)
	l, other := openLog(t, s, 1, Config{Strict: true}), openLog(t, s, 2, Config{Strict: true})
	for i := range 10 {
		appendTo(t, l, values(1, fmt.Sprint(i)))
		appendTo(t, other, values(1, fmt.Sprint(i)))
	}
	name := (*l.segs.Load())[0].Path()
	size := l.Size()
	commitAll(t, l)
	closeStore(t, s)
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	if err != nil || int64(len(b)) != size {
		t.Fatal(len(b), err)
	}
	good := append([]byte(nil), b...)
	for _, c := range []struct {
		name string
		harm func() []byte
	}{
		{"flipped byte", func() []byte { b[len(b)/2] ^= 1; return b }},
		{"cut", func() []byte { return good[:len(good)-10] }},
		{"gone", func() []byte { return nil }},
	} {
		harmed := c.harm()
		if err := vfs.WriteFileAtomic(fsys, name, harmed); err != nil {
			t.Fatal(err)
		}
		if harmed == nil {
			if err := fsys.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			s = openStore(t, o)
			l, err := s.OpenLog(testID(1), testTP(1), Config{Strict: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.StartSolo(s.Logs()...); err != nil {
				t.Fatal(err)
			}
			var got error
			if got = l.Offline(); got == nil { // found by the first read
				for off := kafkaproto.Offset(0); off < l.EndOffset() && got == nil; off++ {
					_, got = l.Read(off, 1, l.EndOffset(), true)
				}
			}
			if !kafkaproto.IsCorrupt(got) || !kafkaproto.IsCorrupt(l.Offline()) {
				t.Fatalf("%s: read %v, offline %v", c.name, got, l.Offline())
			}
			if _, err := l.Append(values(1, "x"), AppendOptions{}); err == nil {
				t.Fatalf("%s: an append was taken", c.name)
			}
			other := openLog(t, s, 2, Config{})
			if n := len(readAll(t, other, 0)); n < 10 {
				t.Fatalf("%s: the other log has %d records", c.name, n)
			}
			appendTo(t, other, values(1, "more"))
			closeStore(t, s)
			if harmed != nil {
				if now, err := vfs.ReadFile(fsys, name, 1<<20); err != nil ||
					len(now) != len(harmed) {
					t.Fatalf("%s: the file has %d bytes, %v", c.name, len(now), err)
				}
			}
		}
	}
	if err := vfs.WriteFileAtomic(fsys, name, good); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, o)
	defer closeStore(t, s)
	if n := len(readAll(t, openLog(t, s, 1, Config{}), 0)); n != 10 {
		t.Fatalf("%d records after the file was put back", n)
	}
}
