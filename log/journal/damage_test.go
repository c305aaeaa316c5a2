package journal

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/sluicelog/sluice/log/vfs"
)

// written gives the bytes of a cleanly closed journal file with number seq, and its state.
func written(t testing.TB, seq uint64) ([]byte, string) {
	t.Helper()
	fs := vfs.Memory()
	var j *Journal
	for n := uint64(0); n < seq; n++ {
		if j != nil {
			mustDo(t, j.Close())
		}
		j, _ = mustOpen(t, fs, Options{ExtendBytes: 300})
	}
	recs := samples(groupN(1))
	mustAppend(t, j, recs[:9]...)
	mustDo(t, j.Sync())
	mustAppend(t, j, recs[9:]...)
	text := show(j.live())
	mustDo(t, j.Close())
	return readAll(t, fs, walFiles(t, fs)[0]), text
}

func openBytes(t testing.TB, seq uint64, b []byte) (string, error) {
	t.Helper()
	fs := vfs.Memory()
	writeAll(t, fs, testDir+"/"+walName(seq), b)
	j, st, err := Open(fs, testDir, Options{ExtendBytes: 300})
	if err != nil {
		if got := readAll(t, fs, testDir+"/"+walName(seq)); !bytes.Equal(got, b) {
			t.Fatalf("open failed with %v and changed the file", err)
		}
		return "", err
	}
	text := show(st)
	mustDo(t, j.Close())
	return text, nil
}

// TestEveryFlippedByteIsFound flips each byte of a closed journal: it is reported, or it was one
// that held nothing.
func TestEveryFlippedByteIsFound(t *testing.T) {
	for _, seq := range []uint64{1, 2} {
		good, want := written(t, seq)
		lastMark := bytes.LastIndexFunc(good, func(r rune) bool { return r != 0 }) - (minFrame + 8) + 1
		harmless := 0
		for i := range good {
			for _, flip := range []byte{0x01, 0x80} {
				b := clone(good)
				b[i] ^= flip
				got, err := openBytes(t, seq, b)
				switch {
				case err != nil && (isCorrupt(err) || errors.Is(err, ErrNewerFormat)):
				case err == nil && got == want && i >= lastMark:
					harmless++ // the last mark itself, and the zeros
				default:
					t.Fatalf("file %d, byte %d of %d flipped by %#x: %v\n%s", seq, i, len(good), flip, err, got)
				}
			}
		}
		if harmless != 2*(len(good)-lastMark) {
			t.Errorf("file %d: %d harmless flips, want %d", seq, harmless, 2*(len(good)-lastMark))
		}
	}
}

// TestEveryCut shortens a closed journal at each byte. What is gone without a trace cannot be
// missed, so a cut gives the state of a prefix of the records, or is reported.
func TestEveryCut(t *testing.T) {
	good, want := written(t, 2)
	states := map[string]bool{}
	fr := newFrameReader(bytes.NewReader(good), 2, int64(len(good)))
	st := newState()
	for {
		f, stop, err := fr.next()
		mustDo(t, err)
		if stop != stopNot {
			break
		}
		if body, err := decodeBody(f.kind, f.body); err == nil {
			mustDo(t, st.Apply(Record{f.group, body}))
		}
		states[show(st)] = true
	}
	for n := range good {
		got, err := openBytes(t, 2, good[:n])
		if err != nil {
			if !isCorrupt(err) {
				t.Fatalf("cut at %d: %v", n, err)
			}
			continue
		}
		if !states[got] {
			t.Fatalf("cut at %d gave a state that never was:\n%s", n, got)
		}
	}
	if !states[want] {
		t.Fatal("the whole file's state is not among the prefixes")
	}
}

func TestDamageTable(t *testing.T) {
	good, whole := written(t, 2)
	frames := framesOf(t, good, 2)
	first := frames[2] // behind the checkpoint: a mark
	for name, c := range map[string]struct {
		change  func(b []byte) []byte
		corrupt bool
		state   string // when it opens
	}{
		"as written":     {func(b []byte) []byte { return b }, false, whole},
		"garbage behind": {func(b []byte) []byte { return append(b, "garbage"...) }, false, whole},
		"zeros behind": {func(b []byte) []byte { return append(b, make([]byte, 70000)...) },
			false, whole},
		"old frame behind": {func(b []byte) []byte { return append(b, b[first:frames[4]]...) },
			false, whole},
		"header gone": {func(b []byte) []byte { clear(b[:headerBytes]); return b }, true, ""},
		"checkpoint zeroed": {func(b []byte) []byte { clear(b[headerBytes:first]); return b },
			true, ""},
		"middle zeroed": {func(b []byte) []byte { clear(b[frames[5]:frames[7]]); return b },
			true, ""},
		"frames swapped": {func(b []byte) []byte {
			return swapFrames(b, frames[5], frames[6],
				frames[7])
		}, true, ""},
		"empty":                {func([]byte) []byte { return nil }, true, ""},
		"all zero":             {func(b []byte) []byte { return make([]byte, len(b)) }, true, ""},
		"another file's bytes": {func([]byte) []byte { b, _ := written(t, 1); return b }, true, ""},
	} {
		got, err := openBytes(t, 2, c.change(clone(good)))
		if isCorrupt(err) != c.corrupt || err != nil != c.corrupt || got != c.state {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

func framesOf(t testing.TB, b []byte, seq uint64) []int64 {
	t.Helper()
	fr := newFrameReader(bytes.NewReader(b), seq, int64(len(b)))
	var at []int64
	for {
		f, stop, err := fr.next()
		mustDo(t, err)
		if stop != stopNot {
			return at
		}
		at = append(at, f.pos)
	}
}

func swapFrames(b []byte, from, mid, to int64) []byte {
	turned := append(clone(b[mid:to]), b[from:mid]...)
	copy(b[from:], turned)
	return b
}

func TestTornEndIsCut(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, Options{})
	g := groupN(1)
	mustAppend(t, j, Record{g, HardState{Term: 1}})
	mustDo(t, j.Sync())
	mustAppend(t, j, Record{g, HardState{Term: 2}}) // behind a mark that covers term 1
	text := show(j.live())
	at := j.mu.cur.off
	mustAppend(t, j, Record{g, HardState{Term: 3}}, Record{g, HardState{Term: 4}})
	name := walFiles(t, fs)[0]
	b := readAll(t, fs, name)

	torn := clone(b)
	torn[at+40] ^= 1 // term 3 is gone, term 4 stands behind it: neither was synced
	if got, err := openBytes(t, 1, torn); err != nil || got != text {
		t.Errorf("torn in what was not synced: %v\n%s", err, got)
	}
	torn = clone(b)
	torn[bytes.Index(b, HardState{Term: 1}.appendTo(nil))] ^= 1
	_, err := openBytes(t, 1, torn)
	var d *DamageError
	if !isCorrupt(err) || !errors.As(err, &d) || d.File != walName(1) {
		t.Errorf("damage in what was synced: %v", err)
	}
}

func TestStateBeforeTheDamageIsGiven(t *testing.T) {
	good, _ := written(t, 1)
	frames := framesOf(t, good, 1)
	b := clone(good)
	b[frames[len(frames)-5]+20] ^= 1
	fs := vfs.Memory()
	writeAll(t, fs, testDir+"/"+walName(1), b)
	j, st, err := Open(fs, testDir, Options{})
	if j != nil || !isCorrupt(err) || st == nil || st.Groups[groupN(1)].HardState.Term != 3 {
		t.Fatalf("%v, %+v, %v", j, st, err)
	}
}

// TestPoisonIsRefused: good checksums over records that break the rules.
func TestPoisonIsRefused(t *testing.T) {
	g := groupN(1)
	head := func() []byte {
		b := newState().appendCheckpoint(appendHeader(nil, 1))
		return newState().appendCheckpointEnd(b)
	}
	side := Side{Index: 5, Term: 3, Kind: SideNoop, AtOffset: 9}
	for name, bodies := range map[string][]Body{
		"term goes back":   {HardState{Term: 2}, HardState{Term: 1}},
		"term above int32": {HardState{Term: 1 << 31}},
		"index stands still": {side, Side{Index: 5, Term: 4, Kind: SideNoop,
			AtOffset: 9}},
		"offset goes back": {side, Side{Index: 6, Term: 4, Kind: SideNoop,
			AtOffset: 8}},
		"no-op of an old term": {side, Side{Index: 6, Term: 3, Kind: SideNoop,
			AtOffset: 9}},
		"side of another term": {side, Side{Index: 6, Term: 4, Kind: SideConf,
			AtOffset: 9}},
		"unknown side": {side, Side{Index: 6, Term: 3, Kind: 9, AtOffset: 9}},
		"short log start": {side, Side{Index: 6, Term: 3, Kind: SideLogStart,
			AtOffset: 9, Data: []byte{1}}},
		"index zero":                            {Side{Index: 0, Term: 1, Kind: SideNoop}},
		"window goes back":                      {Window{FirstIndex: 9}, Window{FirstIndex: 8}},
		"window of a false term":                {side, Window{FirstIndex: 6, Term: 2, FirstOffset: 9}},
		"window before a no-op of its own term": {side, Window{FirstIndex: 4, Term: 3}},
		"trunc below the window":                {Window{FirstIndex: 9}, Trunc{Index: 8}},
		"reset below the window":                {Window{FirstIndex: 9}, Reset{Last: 7}},
		"reset to the last index":               {Reset{Last: 1<<64 - 1}},
		"snap below the window":                 {Window{FirstIndex: 9}, Snap{Index: 7}},
		"snap that starts behind its end":       {Snap{Index: 7, NextOffset: 1, LogStart: 2}},
		"negative mark":                         {Synced{Offset: -1}},
		"swap twice":                            {SwapIntent{ID: 1}, SwapIntent{ID: 1}},
	} {
		b := head()
		for _, body := range bodies {
			b = appendFrame(b, body.kind(), g, body.appendTo)
		}
		sealFrames(b[headerBytes:], 1, headerBytes)
		if _, err := openBytes(t, 1, b); !isCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
		st := &GroupState{}
		var err error
		for _, body := range bodies {
			before := fmt.Sprintf("%+v", *st)
			if err = st.Apply(body); err != nil && fmt.Sprintf("%+v", *st) != before {
				t.Errorf("%s: a refused record changed the state", name)
			}
		}
		if err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	for name, frame := range map[string][]byte{
		"unknown kind":      appendFrame(nil, 77, g, func(b []byte) []byte { return b }),
		"second checkpoint": newState().appendCheckpoint(nil),
		"group behind it":   (&GroupState{}).appendFrames(nil, g),
		"mark of the future": appendFrame(nil, kindMark, Group{},
			func(b []byte) []byte { return appendU64s(b, 1<<40) }),
		"short body": appendFrame(nil, KindReset, g, func(b []byte) []byte {
			return append(b,
				1)
		}),
		"long body": appendFrame(nil, KindReset, g,
			func(b []byte) []byte { return appendU64s(b, 1, 1) }),
		"opened of a group": appendFrame(nil, kindGroup, g, func(b []byte) []byte {
			return append(b,
				byte(KindOpened), 0, 0, 0, 0)
		}),
	} {
		b := append(head(), frame...)
		sealFrames(b[headerBytes:], 1, headerBytes)
		if _, err := openBytes(t, 1, b); !isCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		short int
	}{
		{"nothing written", syscall.EIO, 0}, {"half a record", syscall.ENOSPC, 60},
		{"one of two records", syscall.ENOSPC, 95},
	} {
		fs := vfs.Inject(vfs.Memory())
		j, _ := mustOpen(t, fs, Options{ExtendBytes: 4096})
		g := groupN(1)
		mustAppend(t, j, samples(g)...)
		text, pos := show(j.live()), j.Pos()
		fs.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.wal", Err: c.err, Short: c.short})
		_, err := j.Append(Record{g, Trunc{Index: 12, OldTerm: 5}}, Record{g, HardState{Term: 9}},
			Record{groupN(5), HardState{Term: 1}},
			Record{groupN(99), Drop{}}, Record{Group{}, Opened{BootID: "other"}})
		if !errors.Is(err, c.err) {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := show(j.live()); got != text || j.Pos() != pos {
			t.Fatalf("%s: at %d, was %d, state\n got %s\nwant %s", c.name, j.Pos(), pos, got, text)
		}
		mustAppend(t, j, Record{g, HardState{Term: 4}}) // shorter than what failed
		text = show(j.live())
		mustDo(t, j.Close())
		if _, st := mustOpen(t, fs, Options{}); show(st) != text {
			t.Fatalf("%s: reopened\n got %s\nwant %s", c.name, show(st), text)
		}
	}
}

func TestFailedCutStopsTheJournal(t *testing.T) {
	fs := vfs.Inject(vfs.Memory())
	j, _ := mustOpen(t, fs, Options{})
	fs.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.wal", Short: 10})
	fs.Add(vfs.Rule{Op: vfs.OpTruncate, Glob: "*.wal"})
	r := Record{groupN(1), HardState{Term: 1}}
	if _, err := j.Append(r); err == nil {
		t.Fatal("the write succeeded")
	}
	if _, err := j.Append(r); !errors.Is(err, syscall.EIO) {
		t.Fatalf("append after a failed cut: %v", err)
	}
	if err := j.Sync(); err == nil {
		t.Fatal("sync after a failed cut")
	}
}

func TestFailedSyncIsFinal(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpSync, vfs.OpSyncDir} {
		fs := vfs.Inject(vfs.Memory())
		j, _ := mustOpen(t, fs, small)
		for len(walFiles(t, fs)) == 1 { // so that the next sync syncs the directory too
			mustAppend(t, j, Record{groupN(1), HardState{Term: 1}})
		}
		synced := j.SyncedPos()
		fs.Add(vfs.Rule{Op: op})
		for range 2 {
			if err := j.Sync(); !errors.Is(err, syscall.EIO) {
				t.Fatalf("sync: %v", err)
			}
		}
		if _, err := j.Append(Record{groupN(1), HardState{Term: 2}}); !errors.Is(err, syscall.EIO) {
			t.Fatalf("append: %v", err)
		}
		if j.SyncedPos() != synced || len(walFiles(t, fs)) != 2 {
			t.Fatalf("synced to %d from %d, files %v", j.SyncedPos(), synced, walFiles(t, fs))
		}
	}
}

// TestFullDisk fills the disk: appends go on in the zeros, then in the reserve, then fail and
// change nothing, and go on when there is space again.
func TestFullDisk(t *testing.T) {
	fs := vfs.Inject(vfs.Memory())
	o := Options{FileBytes: 1 << 20, ExtendBytes: 4096}
	j, _ := mustOpen(t, fs, o)
	defer j.Close()
	g := groupN(1)
	fs.SetBudget(0)
	term, rolled, failed := uint64(0), false, 0
	for range 400 {
		_, err := j.Append(Record{g, HardState{Term: term + 1}})
		switch {
		case err == nil && failed > 0:
			t.Fatalf("append %d succeeded on a full disk after one failed", term)
		case err == nil:
			term++
		case vfs.IsNoSpace(err):
			failed++
		default:
			t.Fatal(err)
		}
		rolled = rolled || len(walFiles(t, fs)) > 1
		if st, _ := j.Group(g); st.HardState.Term != term {
			t.Fatalf("term %d, want %d", st.HardState.Term, term)
		}
	}
	if !rolled || failed == 0 || term < 2*4096/60 {
		t.Fatalf("rolled %v, %d failed, %d appends fitted", rolled, failed, term)
	}
	mustDo(t, j.Sync()) // frees the file before the roll
	for range 30 {
		term++
		mustAppend(t, j, Record{g, HardState{Term: term}})
	}
	text := show(j.live())
	mustDo(t, j.Sync())

	// A restart on a disk that is still full goes by the reserve.
	again, st, err := Open(fs, testDir, o)
	if err != nil || show(st) != text {
		t.Fatalf("open on a full disk: %v", err)
	}
	mustDo(t, again.Close())
}

// TestFailedRoll: the current file goes on when the next one cannot be made.
func TestFailedRoll(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite} {
		fs := vfs.Inject(vfs.Memory())
		j, _ := mustOpen(t, fs, small)
		fs.Hook(func(o vfs.Op, name string) error {
			if o == op && name == testDir+"/"+walName(2) {
				return syscall.ENOSPC
			}
			return nil
		})
		for i := uint64(1); i < 200; i++ {
			mustAppend(t, j, Record{groupN(int(i % 3)), HardState{Term: i}})
			if i%10 == 0 {
				mustDo(t, j.Sync())
			}
		}
		if files := walFiles(t, fs); len(files) != 1 {
			t.Fatalf("files %v", files)
		}
		fs.Hook(func(vfs.Op, string) error { return nil })
		for i := uint64(200); j.mu.cur.seq == 1 && i < 300; i++ {
			mustAppend(t, j, Record{groupN(1), HardState{Term: i}})
		}
		if j.mu.cur.seq != 2 {
			t.Fatal("did not roll when it could again")
		}
		text := show(j.live())
		mustDo(t, j.Close())
		if _, st := mustOpen(t, fs, small); show(st) != text {
			t.Fatalf("reopened\n got %s\nwant %s", show(st), text)
		}
	}
}

// TestReserveWithContentIsNotUsed: a power loss may undo the renaming of the reserve and keep what
// was written to it.
func TestReserveWithContentIsNotUsed(t *testing.T) {
	fs := vfs.Memory()
	j, _ := mustOpen(t, fs, small)
	text := show(j.live())
	mustDo(t, j.Close())
	stale := newState().appendCheckpoint(appendHeader(nil, 2))
	stale = newState().appendCheckpointEnd(stale)
	for i := range 20 {
		stale = appendFrame(stale, KindHardState, groupN(1), HardState{Term: uint64(i + 1)}.appendTo)
	}
	sealFrames(stale[headerBytes:], 2, headerBytes)
	writeAll(t, fs, testDir+"/"+reserveName, stale)
	j, _ = mustOpen(t, fs, small) // makes file 2
	mustDo(t, j.Close())
	if _, st := mustOpen(t, fs, small); show(st) != text {
		t.Fatalf("old records came back:\n%s", show(st))
	}
}

// TestFailedWriteDoesNotComeBack: a power loss right after a failed append must not find it done.
func TestFailedWriteDoesNotComeBack(t *testing.T) {
	for seed := range uint64(100) {
		power := vfs.PowerLoss(seed)
		makeDataDir(t, power)
		fs := vfs.Inject(power)
		j, _ := mustOpen(t, fs, small)
		fs.Add(vfs.Rule{Op: vfs.OpWrite, Glob: "*.wal", Err: syscall.ENOSPC, Short: 95})
		_, err := j.Append(Record{groupN(1), HardState{Term: 5}}, Record{groupN(1), HardState{Term: 6}})
		if !vfs.IsNoSpace(err) {
			t.Fatal(err)
		}
		_, st := mustOpen(t, power.Crash(vfs.PowerCrash), small)
		if len(st.Groups) != 0 {
			t.Fatalf("seed %d: a failed append came back:\n%s", seed, show(st))
		}
	}
}
