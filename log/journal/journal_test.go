package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/sluicelog/sluice/log/vfs"
)

func TestEveryKindComesBack(t *testing.T) {
	fs := vfs.Memory()
	j, st := mustOpen(t, fs, Options{})
	if !st.Fresh || len(st.Groups) != 0 {
		t.Fatalf("new journal: %+v", st)
	}
	mustAppend(t, j, samples(groupN(1))...)
	want := wantSamples()
	got, ok := j.Group(groupN(1))
	if !ok || !reflect.DeepEqual(*got, want) {
		t.Fatalf("live state\n got %+v\nwant %+v", *got, want)
	}
	text := show(j.live())
	mustDo(t, j.Close())

	for range 2 { // the second time it comes from the checkpoint alone
		j, st = mustOpen(t, fs, Options{})
		if st.Fresh || !st.Clean || st.BootID != "5d9e" {
			t.Fatalf("reopened: fresh %v clean %v boot %q", st.Fresh, st.Clean, st.BootID)
		}
		if got := show(st); got != text {
			t.Fatalf("reopened\n got %s\nwant %s", got, text)
		}
		if !reflect.DeepEqual(*st.Groups[groupN(1)], want) {
			t.Fatalf("reopened\n got %+v\nwant %+v", *st.Groups[groupN(1)], want)
		}
		if _, ok := st.Groups[groupN(98)]; ok {
			t.Fatal("a dropped group came back")
		}
		if n := len(walFiles(t, fs)); n != 1 {
			t.Fatalf("%d files after open", n)
		}
		mustDo(t, j.Close())
	}
}

func TestBodiesRoundTrip(t *testing.T) {
	for _, r := range samples(groupN(1)) {
		raw := r.Body.appendTo(nil)
		got, err := decodeBody(r.Body.kind(), raw)
		if err != nil || !reflect.DeepEqual(got, r.Body) {
			t.Errorf("%v: got %+v, %v, want %+v", r.Body.kind(), got, err, r.Body)
		}
		for n := range raw { // no shorter body means the same
			if got, err := decodeBody(r.Body.kind(), raw[:n]); err == nil && reflect.DeepEqual(got, r.Body) {
				t.Errorf("%v: %d of %d bytes gave the whole", r.Body.kind(), n, len(raw))
			}
		}
	}
}

func TestTheCallersStateIsItsOwn(t *testing.T) {
	fs := vfs.Memory()
	j, st := mustOpen(t, fs, small)
	defer j.Close()
	g := groupN(1)
	noop := func(index, term uint64) Side { return Side{Index: index, Term: term, Kind: SideNoop} }
	mustAppend(t, j, Record{g, noop(1, 1)}, Record{g, noop(2, 2)}, Record{g, noop(3, 3)})
	if len(st.Groups) != 0 {
		t.Fatal("the recovered state changed with the live one")
	}
	mine, _ := j.Group(g)
	before := fmt.Sprintf("%+v", *mine)
	mustAppend(t, j, Record{g, Trunc{Index: 2, OldTerm: 2}}, Record{g, noop(2, 9)}, Record{g,
		noop(7, 10)})
	if now := fmt.Sprintf("%+v", *mine); now != before {
		t.Fatalf("a copy changed:\n got %s\nwant %s", now, before)
	}
	mustDo(t, mine.Apply(noop(4, 4)))
	if live, _ := j.Group(g); live.Sides[1].Term != 9 || len(live.Sides) != 3 {
		t.Fatalf("the live state changed with a copy: %+v", live.Sides)
	}
}

func TestRollKeepsTheOldFileUntilTheNewOneIsDurable(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, small)
	first := walFiles(t, fs)
	for i := uint64(1); len(walFiles(t, fs)) == 1; i++ {
		mustAppend(t, j, Record{groupN(int(i % 5)), HardState{Term: i, Commit: i}})
		if i > 1000 {
			t.Fatal("never rolled")
		}
	}
	if got := walFiles(t, fs); got[0] != first[0] {
		t.Fatalf("files %v after a roll of %v", got, first)
	}
	mustDo(t, j.Sync())
	if got := walFiles(t, fs); len(got) != 1 || got[0] == first[0] {
		t.Fatalf("files %v after the sync of a roll", got)
	}
	if _, err := fs.Stat(path.Join(testDir, reserveName)); err != nil {
		t.Fatalf("no reserve after the sync of a roll: %v", err)
	}
	text := show(j.live())
	mustDo(t, j.Close())
	if _, st := mustOpen(t, fs, small); show(st) != text {
		t.Fatalf("after a roll\n got %s\nwant %s", show(st), text)
	}
}

func TestNoteSyncedServesAsASync(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, small)
	defer j.Close()
	if j.Dirty() {
		t.Fatal("dirty after open")
	}
	var before Pos
	for i := uint64(1); len(walFiles(t, fs)) == 1; i++ {
		before = j.Pos()
		mustAppend(t, j, Record{groupN(1), HardState{Term: i}})
	}
	mustDo(t, j.NoteSynced(before)) // taken before the roll: proves nothing about the new file
	if n := len(walFiles(t, fs)); n != 2 || !j.Dirty() || j.SyncedPos() != before {
		t.Fatalf("%d files, dirty %v, synced %d of %d", n, j.Dirty(), j.SyncedPos(), before)
	}
	mustDo(t, j.NoteSynced(j.Pos()))
	if n := len(walFiles(t, fs)); n != 1 || j.Dirty() {
		t.Fatalf("%d files, dirty %v", n, j.Dirty())
	}
}

func TestNewerFormatIsRefusedAndNotDamage(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, Options{})
	mustDo(t, j.Close())
	name := walFiles(t, fs)[0]
	b := readAll(t, fs, name)
	be.PutUint32(b[8:], formatVersion+1)
	writeAll(t, fs, name, b)
	_, _, err := Open(fs, testDir, Options{})
	if !errors.Is(err, ErrNewerFormat) || isCorrupt(err) {
		t.Fatalf("got %v", err)
	}
	if !bytes.Equal(readAll(t, fs, name), b) {
		t.Fatal("the file was touched")
	}
}

func TestSetAside(t *testing.T) {
	fs := vfs.Memory()
	for n := range 2 {
		j, st := mustOpen(t, fs, Options{})
		if !st.Fresh {
			t.Fatal("not fresh after being set aside")
		}
		mustAppend(t, j, samples(groupN(1))...)
		mustDo(t, j.Close())
		names, err := SetAside(fs, testDir)
		if err != nil || len(names) != 1 || !strings.HasSuffix(names[0], fmt.Sprintf(".damaged-%d",
			n+1)) {
			t.Fatalf("set aside: %v, %v", names, err)
		}
		if _, err := fs.Stat(names[0]); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAppendPanicsOnABrokenRuleAndStaysUsable(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, Options{})
	g := groupN(1)
	mustAppend(t, j, Record{g, HardState{Term: 7}})
	text := show(j.live())
	func() {
		defer func() {
			if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "term 6 after term 8") {
				t.Errorf("recovered %v", r)
			}
		}()
		_, _ = j.Append(Record{g, HardState{Term: 8}}, Record{groupN(2), HardState{Term: 1}},
			Record{g, HardState{Term: 6}})
	}()
	if got := show(j.live()); got != text {
		t.Fatalf("after the panic\n got %s\nwant %s", got, text)
	}
	mustDo(t, j.Close())
	if _, st := mustOpen(t, fs, Options{}); show(st) != text {
		t.Fatalf("on disk\n got %s\nwant %s", show(st), text)
	}
}

func TestOversizedRecordsAreRefused(t *testing.T) {
	j, _ := mustOpen(t, vfs.Memory(), Options{})
	defer j.Close()
	long := strings.Repeat("n", 256)
	for _, b := range []Body{
		Side{Index: 1, Term: 1, Kind: SideNoop, Data: make([]byte, maxSideBytes+1)},
		Opened{BootID: long}, Clean{BootID: long},
		SwapIntent{Add: []string{long}}, SwapIntent{Remove: []string{""}},
		SwapIntent{Data: make([]byte, maxFrame)},
	} {
		if _, err := j.Append(Record{groupN(1), b}); err == nil {
			t.Errorf("%v taken", b.kind())
		}
	}
	if len(j.live().Groups) != 0 || j.Dirty() {
		t.Fatal("a refused record left something")
	}
}

func TestClosed(t *testing.T) {
	j, _ := mustOpen(t, vfs.Memory(), Options{})
	mustDo(t, j.Close())
	mustDo(t, j.Close())
	if _, err := j.Append(Record{groupN(1), HardState{}}); !errors.Is(err, ErrClosed) {
		t.Fatalf("append: %v", err)
	}
	if err := j.Sync(); !errors.Is(err, ErrClosed) {
		t.Fatalf("sync: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, small)
	var wg sync.WaitGroup
	const writers, each = 4, 200
	for w := range writers {
		wg.Go(func() {
			g := groupN(w)
			for i := uint64(1); i <= each; i++ {
				p, err := j.Append(Record{g, HardState{Term: i}}, Record{g, Side{Index: i, Term: i,
					Kind: SideNoop}})
				if err != nil {
					t.Errorf("append: %v", err)
					return
				}
				if i%8 == 0 {
					if err := j.Sync(); err != nil || j.SyncedPos() < p {
						t.Errorf("synced %d of %d, %v", j.SyncedPos(), p, err)
					}
					_, err := j.Append(Record{g, Window{FirstIndex: i, Term: i - 1}})
					if err != nil {
						t.Errorf("window: %v", err)
					}
				}
				if st, ok := j.Group(g); !ok || st.LastTerm() != i {
					t.Errorf("group %d is at %+v, want term %d", w, st, i)
				}
			}
		})
	}
	wg.Wait()
	text := show(j.live())
	mustDo(t, j.Close())
	if _, st := mustOpen(t, fs, small); show(st) != text {
		t.Fatalf("reopened\n got %s\nwant %s", show(st), text)
	}
}

func TestDump(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, Options{ExtendBytes: 512})
	recs := samples(groupN(1))
	mustAppend(t, j, recs[:2]...)
	mustDo(t, j.Sync())
	mustAppend(t, j, recs[2:]...)
	mustDo(t, j.Close())
	name := walFiles(t, fs)[0]

	var out strings.Builder
	mustDo(t, Dump(fs, testDir, &out))
	for _, want := range []string{
		"file 0000000000000001.wal", "checkpoint of 0 groups", "opened {BootID:5d9e}",
		"hardstate BwAAAAAAAAAAAAAAAAAAAQ-1 {Term:3 Vote:2 Commit:1}", "mark synced up to byte",
		"LogStart:12}",
		" {Index:13 OldTerm:5}", " {Last:12}", "Remove:[a b]", "clean {BootID:5d9e}", "drop", " zeros\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("dump lacks %q:\n%s", want, out.String())
		}
	}

	b := readAll(t, fs, name)
	at := bytes.Index(b, []byte("conf")) // inside a side entry
	b[at] ^= 1
	writeAll(t, fs, name, b)
	out.Reset()
	mustDo(t, Dump(fs, testDir, &out))
	if s := out.String(); !strings.Contains(s, "bytes that are no record") || !strings.Contains(s,
		"trunc Bw") {
		t.Errorf("dump of a damaged file:\n%s", s)
	}
}

func TestFrozenBytes(t *testing.T) {
	b := appendFrame(appendHeader(nil, 1), KindHardState, groupN(1), HardState{Term: 2, Vote: 3,
		Commit: 4}.appendTo)
	sealFrames(b[headerBytes:], 1, headerBytes)
	const frozen = "534c55494345574a" + "00000001" + "0ff26a8f" + "0000000000000001" +
		"0000000000000000" +
		"0000002d" + "45f523ca" + "01" + "07000000000000000000000000000001" + "00000001" +
		"0000000000000002" + "0000000000000003" + "0000000000000004"
	if got := fmt.Sprintf("%x", b); got != frozen {
		t.Fatalf("format 1 changed:\n got %s\nwant %s", got, frozen)
	}
}
