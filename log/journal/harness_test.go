package journal

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

const testDir = "/data/journal"

// small makes files roll after a few records.
var small = Options{FileBytes: 2048, ExtendBytes: 512}

// makeDataDir makes what the journal's directory is in, durably, as the store does.
func makeDataDir(t interface{ Fatal(...any) }, fs vfs.FS) {
	if err := fs.MkdirAll(path.Dir(testDir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fs.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
}

func groupN(n int) Group {
	g := Group{Partition: int32(n)}
	g.Topic[0], g.Topic[15] = 7, byte(n)
	return g
}

func mustOpen(t testing.TB, fs vfs.FS, o Options) (*Journal, *State) {
	t.Helper()
	j, st, err := Open(fs, testDir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return j, st
}

func mustAppend(t testing.TB, j *Journal, recs ...Record) Pos {
	t.Helper()
	p, err := j.Append(recs...)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return p
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// show writes a state as text: two states are the same when their texts are.
func show(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "boot %q clean %v\n", s.BootID, s.Clean)
	for _, id := range s.sorted() {
		fmt.Fprintf(&b, "%v: %+v\n", id, *s.Groups[id])
	}
	return b.String()
}

func (j *Journal) live() *State {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.state.Clone()
}

func walFiles(t testing.TB, fs vfs.FS) []string {
	t.Helper()
	seqs, err := listFiles(fs, testDir)
	mustDo(t, err)
	var names []string
	for _, s := range seqs {
		names = append(names, path.Join(testDir, walName(s)))
	}
	return names
}

func readAll(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	b, err := vfs.ReadFile(fs, name, 1<<30)
	mustDo(t, err)
	return b
}

func writeAll(t testing.TB, fs vfs.FS, name string, b []byte) {
	t.Helper()
	mustDo(t, fs.MkdirAll(path.Dir(name), 0o755))
	mustDo(t, vfs.WriteFileAtomic(fs, name, b))
}

// samples has one record of every kind, in an order that Apply accepts for one group.
func samples(g Group) []Record {
	conf := ConfState{Voters: []uint64{1, 2, 3}, VotersOutgoing: []uint64{1}, Learners: []uint64{4,
		5}, LearnersNext: []uint64{2}, AutoLeave: true}
	bodies := []Body{
		Opened{BootID: "5d9e"},
		HardState{Term: 3, Vote: 2, Commit: 1},
		Side{Index: 1, Term: 3, Kind: SideNoop},
		Side{Index: 4, Term: 3, Kind: SideConf, AtOffset: 20, Data: []byte("conf")},
		Conf{Index: 4, State: conf},
		Side{Index: 9, Term: 3, Kind: SideLogStart, AtOffset: 50, Data: LogStartData(12)},
		Synced{Offset: 50, Index: 8, Segment: 0, Position: 4711},
		Side{Index: 12, Term: 5, Kind: SideNoop, AtOffset: 70},
		Side{Index: 13, Term: 5, Kind: SideConfV2, AtOffset: 70, Data: []byte{1}},
		Trunc{Index: 13, OldTerm: 5},
		Reset{Last: 12},
		CommitHint{Index: 10},
		SwapIntent{ID: 8, Kind: SwapCompact, Add: []string{"00000000000000000000.log.cleaned"},
			Remove: []string{"a", "b"}, Data: []byte("x")},
		SwapIntent{ID: 9, Kind: SwapSnapshot},
		SwapDone{ID: 8},
		Window{FirstIndex: 10, Term: 3, FirstOffset: 50, LogStart: 11},
		Clean{BootID: "5d9e"},
	}
	var recs []Record
	for _, b := range bodies {
		r := Record{Group: g, Body: b}
		if k := b.kind(); k == KindOpened || k == KindClean {
			r.Group = Group{}
		}
		recs = append(recs, r)
	}
	recs = append(recs,
		Record{groupN(99), Snap{Index: 100, Term: 4, NextOffset: 900, LogStart: 800, Conf: conf}},
		Record{groupN(98), HardState{Term: 1}},
		Record{groupN(98), Drop{}})
	return recs
}

// wantSamples is what samples must come to for the group g.
func wantSamples() GroupState {
	return GroupState{
		HardState: HardState{Term: 3, Vote: 2, Commit: 10},
		Sides: []Side{
			{Index: 1, Term: 3, Kind: SideNoop},
			{Index: 12, Term: 5, Kind: SideNoop, AtOffset: 70},
		},
		Conf: Conf{Index: 4, State: ConfState{Voters: []uint64{1, 2, 3}, VotersOutgoing: []uint64{1},
			Learners: []uint64{4, 5}, LearnersNext: []uint64{2}, AutoLeave: true}},
		Window:    Window{FirstIndex: 10, Term: 3, FirstOffset: 50, LogStart: 12},
		ResetLast: 12,
		Synced:    Synced{Offset: 50, Index: 8, Position: 4711},
		Swaps:     []SwapIntent{{ID: 9, Kind: SwapSnapshot}},
	}
}

func isCorrupt(err error) bool { return kafkaproto.IsCorrupt(err) }

func clone(b []byte) []byte { return slices.Clone(b) }
