package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestCrashEndsTheOldProcess(t *testing.T) {
	p := PowerLoss(1)
	f := create(t, p, "a", "old")
	if _, err := p.Lock("LOCK"); err != nil {
		t.Fatal(err)
	}
	next := p.Crash(KillCrash)
	_, werr := f.WriteAt([]byte("new"), 0)
	_, serr := p.Stat("a")
	for _, err := range []error{werr, serr, f.Sync(), p.MkdirAll("d", 0o755), p.Remove("a"), p.SyncFS("/")} {
		wantErr(t, err, ErrCrashed)
	}
	wantContent(t, next, "a", "old")
	if _, err := next.Lock("LOCK"); err != nil {
		t.Fatalf("the lock outlived its process: %v", err)
	}
}

// TestKillKeepsUnsyncedUnsynced: after kill -9 the bytes are there, and the next power loss may
// still take them.
func TestKillKeepsUnsyncedUnsynced(t *testing.T) {
	lost := false
	for seed := range uint64(50) {
		p := PowerLoss(seed)
		create(t, p, "a", "unsynced")
		p = p.Crash(KillCrash)
		wantContent(t, p, "a", "unsynced")
		p = p.Crash(PowerCrash)
		got, err := ReadFile(p, "a", 100)
		lost = lost || err != nil || string(got) != "unsynced"
	}
	if !lost {
		t.Fatal("50 power losses took nothing")
	}
}

// TestPowerLossReachesEveryOutcome: each state that the rules allow comes up for some seed, and no
// other.
func TestPowerLossReachesEveryOutcome(t *testing.T) {
	outcome := func(p *PowerFS) string {
		var out []string
		for _, dir := range []string{"/", "/d"} {
			entries, _ := p.ReadDir(dir)
			for _, e := range entries {
				text := e.Name()
				if !e.IsDir() {
					data, _ := ReadFile(p, path.Join(dir, e.Name()), 100)
					text += "=" + string(data)
				}
				out = append(out, text)
			}
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		name string
		do   func(p *PowerFS)
		want []string
	}{
		{"create synced file, no directory sync", func(p *PowerFS) {
			f := create(t, p, "a", "1")
			_ = f.Sync()
		}, []string{"", "a=1"}},
		{"create, everything synced", func(p *PowerFS) {
			f := create(t, p, "a", "1")
			_ = f.Sync()
			_ = p.SyncDir("/")
		}, []string{"a=1"}},
		{"entry synced, data not", func(p *PowerFS) {
			create(t, p, "a", "1")
			_ = p.SyncDir("/")
		}, []string{"a=", "a=\x00", "a=1"}},
		{"atomic replace", func(p *PowerFS) {
			create(t, p, "a", "1")
			_ = p.SyncFS("/")
			f := create(t, p, "t", "2")
			_ = f.Sync()
			_ = p.Rename("t", "a")
		}, []string{"a=1", "a=1 t=2", "a=2"}},
		{"remove", func(p *PowerFS) {
			create(t, p, "a", "1")
			_ = p.SyncFS("/")
			_ = p.Remove("a")
		}, []string{"", "a=1"}},
		{"rename away and make anew never loses the old", func(p *PowerFS) {
			create(t, p, "a", "1")
			_ = p.SyncFS("/")
			_ = p.Rename("a", "b")
			f := create(t, p, "a", "2")
			_ = f.Sync()
		}, []string{"a=1", "b=1", "a=2 b=1"}},
		{"rename a directory", func(p *PowerFS) {
			_ = p.MkdirAll("c", 0o755)
			create(t, p, "c/x", "1")
			_ = p.SyncFS("/")
			_ = p.Rename("c", "d")
		}, []string{"c", "d x=1"}},
		{"move between directories", func(p *PowerFS) {
			_ = p.MkdirAll("d", 0o755)
			create(t, p, "a", "1")
			_ = p.SyncFS("/")
			_ = p.Rename("a", "d/a")
		}, []string{"a=1 d", "d a=1"}},
		{"truncate", func(p *PowerFS) {
			f := create(t, p, "a", "12")
			_ = p.SyncFS("/")
			_ = f.Truncate(1)
		}, []string{"a=1", "a=12", "a=1\x00"}},
		{"truncate, synced", func(p *PowerFS) {
			f := create(t, p, "a", "12")
			_ = p.SyncFS("/")
			_ = f.Truncate(1)
			_ = f.Sync()
		}, []string{"a=1"}},
		{"overwrite", func(p *PowerFS) {
			f := create(t, p, "a", "12")
			_ = p.SyncFS("/")
			_, _ = f.WriteAt([]byte("3"), 0)
			_, _ = f.WriteAt([]byte("4"), 1)
		}, []string{"a=12", "a=32", "a=34"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]int{}
			for seed := range uint64(400) {
				p := PowerLoss(seed)
				c.do(p)
				got[outcome(p.Crash(PowerCrash))]++
			}
			slices.Sort(c.want)
			if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, c.want) {
				t.Fatalf("outcomes %q, want %q", keys, c.want)
			}
		})
	}
}

// TestPowerLossIsBySector: a large unsynced write may survive in any mix of sectors, and each
// sector is one that was written or what was there before.
func TestPowerLossIsBySector(t *testing.T) {
	mixed, zeroTail := false, false
	for seed := range uint64(200) {
		p := PowerLoss(seed)
		f := create(t, p, "a", strings.Repeat("o", 4*sectorSize))
		_ = p.SyncFS("/")
		if _, err := f.WriteAt(bytes.Repeat([]byte("n"), 8*sectorSize), 0); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(p.Crash(PowerCrash), "a", 1<<20)
		if err != nil || len(got) < 4*sectorSize {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		kinds := map[byte]bool{}
		for at := 0; at < len(got); at += sectorSize {
			s := got[at:min(at+sectorSize, len(got))]
			if !bytes.Equal(s, bytes.Repeat(s[:1], len(s))) {
				t.Fatalf("seed %d: sector %d is torn inside", seed, at/sectorSize)
			}
			if old := "o\x00"[at/(4*sectorSize)]; s[0] != 'n' && s[0] != old {
				t.Fatalf("seed %d: sector %d holds %q", seed, at/sectorSize, s[0])
			}
			kinds[s[0]] = true
		}
		mixed = mixed || kinds['n'] && kinds['o']
		zeroTail = zeroTail || got[len(got)-1] == 0
	}
	if !mixed || !zeroTail {
		t.Fatalf("never seen: a mix of sectors (%v), a tail of zeros (%v)", mixed, zeroTail)
	}
}

// TestFailedSync: a failed sync reports once; what it lost shows only after the cache is dropped.
func TestFailedSync(t *testing.T) {
	text := strings.Repeat("n", 16*sectorSize)
	lost := false
	for seed := range uint64(20) {
		p := PowerLoss(seed)
		f := create(t, p, "a", text)
		p.FailSync(1)
		wantErr(t, f.Sync(), syscall.EIO)
		if err := f.Sync(); err != nil {
			t.Fatalf("the second sync reports what only the first one may: %v", err)
		}
		wantContent(t, p, "a", text)
		if err := f.DropCache(0, 0); err != nil {
			t.Fatal(err)
		}
		got, _ := ReadFile(p, "a", 1<<20)
		lost = lost || string(got) != text
	}
	if !lost {
		t.Fatal("failed syncs lost nothing")
	}
}

// TestPowerLossKeepsWhatWasSynced runs random operations with a model of what must be there.
func TestPowerLossKeepsWhatWasSynced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := PowerLoss(rapid.Uint64().Draw(t, "seed"))
		synced := map[string]string{} // durable content of files that were not touched since
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := names.Draw(t, "name")
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0, 1:
				f, err := p.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
				if err != nil {
					t.Fatal(err)
				}
				data := bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill")}, rapid.IntRange(1, 2000).Draw(t, "len"))
				if _, err := f.WriteAt(data, rapid.Int64Range(0, 3000).Draw(t, "off")); err != nil {
					t.Fatal(err)
				}
				delete(synced, name)
			case 2:
				f, err := p.OpenFile(name, os.O_RDWR, 0)
				if err == nil {
					_ = f.Truncate(rapid.Int64Range(0, 3000).Draw(t, "size"))
					delete(synced, name)
				}
			case 3:
				if p.Remove(name) == nil {
					delete(synced, name)
				}
			case 4:
				to := names.Draw(t, "to")
				if p.Rename(name, to) == nil && to != name {
					delete(synced, name)
					delete(synced, to)
				}
			case 5:
				data, err := ReadFile(p, name, 1<<20)
				if err == nil && WriteFileAtomic(p, name, data) == nil {
					synced[name] = string(data)
				}
			case 6:
				if err := p.SyncFS("/"); err != nil {
					t.Fatal(err)
				}
				for _, n := range []string{"a", "b", "c"} {
					if data, err := ReadFile(p, n, 1<<20); err == nil {
						synced[n] = string(data)
					}
				}
			}
		}
		after := p.Crash(PowerCrash)
		for name, want := range synced {
			got, err := ReadFile(after, name, 1<<20)
			if err != nil || string(got) != want {
				t.Fatalf("%s was synced with %d bytes and now has %d, %v", name, len(want), len(got), err)
			}
		}
		first := contents(after)
		if again := contents(after.Crash(PowerCrash)); !maps.Equal(first, again) {
			t.Fatalf("a second power loss changed %q to %q", first, again)
		}
	})
}

func contents(fsys FS) map[string]string {
	out := map[string]string{}
	entries, _ := fsys.ReadDir("/")
	for _, e := range entries {
		data, err := ReadFile(fsys, e.Name(), 1<<20)
		out[e.Name()] = fmt.Sprint(string(data), err)
	}
	return out
}

// TestCrashIsDeterministic: one seed, one outcome.
func TestCrashIsDeterministic(t *testing.T) {
	run := func() string {
		p := PowerLoss(42)
		for i := range 20 {
			create(t, p, fmt.Sprint("f", i%7), strings.Repeat(fmt.Sprint(i), 700))
			if i == 9 {
				_ = p.SyncFS("/")
			}
		}
		p = p.Crash(PowerCrash)
		out := ""
		for i := range 7 {
			data, err := ReadFile(p, fmt.Sprint("f", i), 1<<20)
			out += fmt.Sprintln(len(data), err == nil, string(data))
		}
		return out
	}
	if first := run(); first != run() {
		t.Fatal("two runs with one seed differ")
	}
}
