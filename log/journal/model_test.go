package journal

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// modelGroup is the group as a plain map of entries, written without a look at Apply: the raft log
// as a map from index to side entry, and the rest as plain fields.
type modelGroup struct {
	hard   HardState
	sides  map[uint64]Side
	conf   Conf
	window Window
	trunc  Trunc
	reset  uint64
	synced Synced
	swaps  []SwapIntent
}

type model struct {
	groups map[Group]*modelGroup
	boot   string
	clean  bool

	nextSwap uint64 // for drawRecord
}

func (m *model) group(id Group) *modelGroup {
	if m.groups[id] == nil {
		m.groups[id] = &modelGroup{sides: map[uint64]Side{}}
	}
	return m.groups[id]
}

func (m *model) apply(r Record) {
	switch b := r.Body.(type) {
	case Opened:
		m.boot, m.clean = b.BootID, false
	case Clean:
		m.boot, m.clean = b.BootID, true
	case Drop:
		delete(m.groups, r.Group)
	default:
		m.group(r.Group).apply(b)
	}
}

func (g *modelGroup) apply(body Body) {
	dropFrom := func(index uint64) {
		maps.DeleteFunc(g.sides, func(i uint64, _ Side) bool { return i >= index })
		if g.synced.Index >= index {
			g.synced = Synced{}
		}
	}
	switch b := body.(type) {
	case HardState:
		g.hard = b
	case CommitHint:
		g.hard.Commit = max(g.hard.Commit, b.Index)
	case Side:
		g.sides[b.Index] = b
	case Trunc:
		dropFrom(b.Index)
		g.trunc = b
	case Reset:
		dropFrom(b.Last + 1)
		if g.trunc.Index > b.Last {
			g.trunc = Trunc{}
		}
		g.reset = b.Last
	case Conf:
		g.conf = b
	case Window:
		b.LogStart = max(b.LogStart, g.window.LogStart)
		newest := uint64(0)
		for i, s := range g.sides {
			if i < b.FirstIndex && s.Kind == SideNoop {
				newest = max(newest, i)
			}
		}
		for i, s := range g.sides {
			if i >= b.FirstIndex {
				continue
			}
			if s.Kind == SideLogStart {
				start, _ := ParseLogStart(s.Data)
				b.LogStart = max(b.LogStart, start)
			}
			if i != newest {
				delete(g.sides, i)
			}
		}
		g.window = b
		if g.trunc.Index < b.FirstIndex {
			g.trunc = Trunc{}
		}
		if g.reset+1 < b.FirstIndex {
			g.reset = 0
		}
	case Snap:
		*g = modelGroup{hard: g.hard, sides: map[uint64]Side{}, swaps: g.swaps,
			conf:   Conf{b.Index, b.Conf},
			window: Window{b.Index + 1, b.Term, b.NextOffset, b.LogStart}}
		g.hard.Commit = max(g.hard.Commit, b.Index)
	case Synced:
		g.synced = b
	case SwapIntent:
		g.swaps = append(g.swaps, b)
	case SwapDone:
		g.swaps = slices.DeleteFunc(slices.Clone(g.swaps),
			func(s SwapIntent) bool { return s.ID == b.ID })
	}
}

func (g *modelGroup) ordered() []Side {
	var out []Side
	for _, i := range slices.Sorted(maps.Keys(g.sides)) {
		out = append(out, g.sides[i])
	}
	return out
}

func (g *modelGroup) state() *GroupState {
	return &GroupState{HardState: g.hard, Sides: g.ordered(), Conf: g.conf, Window: g.window,
		Trunc: g.trunc, ResetLast: g.reset, Synced: g.synced, Swaps: g.swaps}
}

func (m *model) text() string {
	s := newState()
	s.BootID, s.Clean = m.boot, m.clean
	for id, g := range m.groups {
		s.Groups[id] = g.state()
	}
	return show(s)
}

// first, last and termAt are the model's raft view of the side entries.
func (g *modelGroup) first() uint64 { return max(1, g.window.FirstIndex) }

func (g *modelGroup) last() uint64 {
	last := g.first() - 1
	for i := range g.sides {
		last = max(last, i)
	}
	return last
}

func (g *modelGroup) termAt(index uint64) uint64 {
	term := g.window.Term
	for i, s := range g.sides {
		if i <= index {
			term = max(term, s.Term)
		}
	}
	return term
}

func (g *modelGroup) offset() kafkaproto.Offset {
	off := g.window.FirstOffset
	for _, s := range g.sides {
		off = max(off, s.AtOffset)
	}
	return off
}

// drawRecord gives a record that the group's state allows.
func (m *model) drawRecord(t *rapid.T) Record {
	n := func(lo, hi int, what string) uint64 { return uint64(rapid.IntRange(lo, hi).Draw(t, what)) }
	id := groupN(int(n(0, 3, "group")))
	g := &modelGroup{sides: map[uint64]Side{}}
	if m.groups[id] != nil {
		g = m.groups[id]
	}
	first, last, term, off := g.first(), g.last(), g.termAt(1<<62), g.offset()
	draw := map[string]func() Body{
		"hardstate": func() Body {
			return HardState{Term: g.hard.Term + n(0, 2, "term"), Vote: n(0, 3, "vote"), Commit: n(0, 9,
				"commit")}
		},
		"noop": func() Body {
			return Side{Index: last + n(1, 9, "gap"), Term: term + n(1, 3, "term"), Kind: SideNoop,
				AtOffset: off + kafkaproto.Offset(n(0, 9, "offset"))}
		},
		"side": func() Body {
			s := Side{Index: last + n(1, 9, "gap"), Term: term, AtOffset: off, Kind: SideKind(n(2, 4,
				"kind"))}
			if s.Data = make([]byte, n(0, 700, "data")); s.Kind == SideLogStart {
				s.Data = LogStartData(kafkaproto.Offset(n(0, 99, "start")))
			} else if len(s.Data) == 0 {
				s.Data = nil
			}
			return s
		},
		"trunc": func() Body {
			return Trunc{Index: first + n(0, int(last-first+2), "index"),
				OldTerm: n(0, 9, "old")}
		},
		"reset": func() Body { return Reset{Last: first - 1 + n(0, int(last-first+2), "last")} },
		"conf": func() Body {
			return Conf{Index: n(1, 99, "index"), State: ConfState{Voters: []uint64{n(1, 9, "voter")}}}
		},
		"hint": func() Body { return CommitHint{Index: n(0, 20, "index")} },
		"synced": func() Body {
			return Synced{Offset: off, Index: n(0, int(last), "index"),
				Position: 7}
		},
		"drop": func() Body { return Drop{} },
		"intent": func() Body {
			m.nextSwap++
			return SwapIntent{ID: m.nextSwap, Kind: SwapCompact, Add: []string{"a"}}
		},
		"done": func() Body {
			if len(g.swaps) == 0 {
				return SwapDone{ID: 1}
			}
			return SwapDone{ID: g.swaps[n(0, len(g.swaps)-1, "which")].ID}
		},
		"window": func() Body {
			w := Window{FirstIndex: first + n(0, int(last-first+2), "index"), FirstOffset: off,
				LogStart: kafkaproto.Offset(n(0, 50, "start"))}
			w.Term = g.termAt(w.FirstIndex - 1)
			for _, s := range g.sides { // offsets rise with the index
				if s.Index >= w.FirstIndex {
					w.FirstOffset = min(w.FirstOffset, s.AtOffset)
				}
			}
			return w
		},
		"snap": func() Body {
			return Snap{Index: last + n(0, 9, "index"), Term: term, NextOffset: off + 3, LogStart: off,
				Conf: ConfState{Learners: []uint64{4}}}
		},
		"opened": func() Body { return Opened{BootID: fmt.Sprint(n(1, 3, "boot"))} },
		"clean":  func() Body { return Clean{BootID: fmt.Sprint(n(1, 3, "boot"))} },
	}
	body := draw[rapid.SampledFrom(slices.Sorted(maps.Keys(draw))).Draw(t, "kind")]()
	if k := body.kind(); k == KindOpened || k == KindClean {
		id = Group{}
	}
	return Record{id, body}
}

// machine runs a journal beside the model on a disk that loses power.
type machine struct {
	power *vfs.PowerFS
	fs    *vfs.ErrFS
	j     *Journal
	m     *model
	texts []string // of the model after each record
	sure  int      // texts[sure] is synced
}

func (x *machine) open(t *rapid.T) error {
	j, st, err := Open(x.fs, testDir, small)
	if err != nil {
		return err
	}
	x.j = j
	got := show(st)
	for i := len(x.texts) - 1; i >= x.sure; i-- {
		if x.texts[i] == got {
			x.texts = []string{got}
			x.sure = 0
			x.m.load(st)
			return nil
		}
	}
	t.Fatalf("recovered\n%s\nwhich is none of the %d states since the last sync:\n%s", got,
		len(x.texts)-x.sure, x.texts[x.sure])
	return nil
}

// load makes the model what a recovered state says.
func (m *model) load(s *State) {
	m.groups, m.boot, m.clean = map[Group]*modelGroup{}, s.BootID, s.Clean
	for id, g := range s.Groups {
		mg := &modelGroup{hard: g.HardState, sides: map[uint64]Side{}, conf: g.Conf, window: g.Window,
			trunc: g.Trunc, reset: g.ResetLast, synced: g.Synced, swaps: g.Swaps}
		for _, s := range g.Sides {
			mg.sides[s.Index] = s
		}
		m.groups[id] = mg
	}
}

func (x *machine) append(t *rapid.T) {
	var recs []Record
	for range rapid.IntRange(1, 4).Draw(t, "records") {
		r := x.m.drawRecord(t)
		x.m.apply(r)
		recs = append(recs, r)
		x.texts = append(x.texts, x.m.text())
	}
	if _, err := x.j.Append(recs...); err != nil {
		t.Fatalf("append: %v", err)
	}
	if got, want := show(x.j.live()), x.texts[len(x.texts)-1]; got != want {
		t.Fatalf("live state\n got %s\nwant %s", got, want)
	}
}

func (x *machine) synced() { x.sure = len(x.texts) - 1 }

// crash crashes, and sometimes the recovery after it as well, at any of its calls.
func (x *machine) crash(t *rapid.T) {
	sure, lost := x.sure, false
	calls := rapid.IntRange(-1, 30).Draw(t, "calls until recovery crashes")
	for {
		kind := rapid.SampledFrom([]vfs.CrashKind{vfs.KillCrash, vfs.PowerCrash}).Draw(t, "crash")
		lost = lost || kind == vfs.PowerCrash
		if x.sure = sure; !lost {
			x.synced() // the page cache keeps everything
		}
		x.power = x.power.Crash(kind)
		x.fs = vfs.Inject(x.power)
		n := 0
		x.fs.Hook(func(vfs.Op, string) error {
			if n++; calls >= 0 && n > calls {
				return vfs.ErrCrashed
			}
			return nil
		})
		err := x.open(t)
		if err == nil {
			calls = -1
			return
		}
		if !errors.Is(err, vfs.ErrCrashed) {
			t.Fatalf("recovery: %v", err)
		}
		calls = rapid.IntRange(-1, 30).Draw(t, "calls until recovery crashes again")
	}
}

func TestModelWithCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &machine{power: vfs.PowerLoss(rapid.Uint64().Draw(t, "seed")),
			m: &model{groups: map[Group]*modelGroup{}}}
		x.fs = vfs.Inject(x.power)
		makeDataDir(t, x.power)
		x.texts = []string{x.m.text()}
		if err := x.open(t); err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"append":  x.append,
			"append2": x.append,
			"sync": func(t *rapid.T) {
				if err := x.j.Sync(); err != nil {
					t.Fatal(err)
				}
				x.synced()
			},
			"syncfs": func(t *rapid.T) {
				p := x.j.Pos()
				if err := x.power.SyncFS("/"); err != nil {
					t.Fatal(err)
				}
				if err := x.j.NoteSynced(p); err != nil {
					t.Fatal(err)
				}
				x.synced()
			},
			"reopen": func(t *rapid.T) {
				if err := x.j.Close(); err != nil {
					t.Fatal(err)
				}
				x.synced()
				if err := x.open(t); err != nil {
					t.Fatal(err)
				}
			},
			"crash": x.crash,
			"":      x.checkQueries,
		})
	})
}

// checkQueries compares what raft.Storage asks for with the model.
func (x *machine) checkQueries(t *rapid.T) {
	for id, g := range x.m.groups {
		st, ok := x.j.Group(id)
		if !ok || st.FirstIndex() != g.first() || st.LastTerm() != g.termAt(1<<62) {
			t.Fatalf("group %v: first %d term %d, want %d and %d", id, st.FirstIndex(), st.LastTerm(),
				g.first(), g.termAt(1<<62))
		}
		for i := g.first() - 1; i <= g.last()+2; i++ {
			if term, ok := st.TermAt(i); !ok || term != g.termAt(i) {
				t.Fatalf("group %v: term at %d is %d, want %d", id, i, term, g.termAt(i))
			}
		}
		if i := g.first() - 1; i > 0 {
			if _, ok := st.TermAt(i - 1); ok {
				t.Fatalf("group %v: term below the window at %d", id, i-1)
			}
		}
		start := g.window.LogStart
		for _, s := range g.sides {
			if s.Kind == SideLogStart {
				at, _ := ParseLogStart(s.Data)
				start = max(start, at)
			}
		}
		if st.LogStart() != start {
			t.Fatalf("group %v: log start %d, want %d", id, st.LogStart(), start)
		}
		for off := g.window.FirstOffset; off <= g.offset()+1; off++ {
			n := 0
			for i, s := range g.sides {
				if i >= g.first() && s.AtOffset <= off {
					n++
				}
			}
			if st.SidesBefore(off) != n {
				t.Fatalf("group %v: %d sides before %d, want %d", id, st.SidesBefore(off), off, n)
			}
		}
	}
}

// TestNamesLostByAPowerLoss: two crashes or two rolls in a row leave names of files that are not
// durable. Whatever subset of them a power loss keeps, the journal opens, with what was synced.
func TestNamesLostByAPowerLoss(t *testing.T) {
	for name, prepare := range map[string]func(fs vfs.FS, j *Journal, r Record) *vfs.PowerFS{
		"killed after a roll, and in the recovery": func(fs vfs.FS, j *Journal, r Record) *vfs.PowerFS {
			for j.mu.cur.seq == 1 {
				mustAppend(t, j, r)
			}
			p := fs.(*vfs.PowerFS).Crash(vfs.KillCrash)
			bad := vfs.Inject(p, vfs.Rule{Op: vfs.OpSync, Glob: walName(3), Times: -1})
			if _, _, err := Open(bad, testDir, small); err == nil {
				t.Fatal("the recovery was to crash")
			}
			return p
		},
		"two rolls without a sync": func(fs vfs.FS, j *Journal, r Record) *vfs.PowerFS {
			for j.mu.cur.seq <= 2 {
				mustAppend(t, j, r)
			}
			return fs.(*vfs.PowerFS)
		},
	} {
		for seed := range uint64(200) {
			p := vfs.PowerLoss(seed)
			makeDataDir(t, p)
			j, _ := mustOpen(t, p, small)
			r := Record{groupN(1), HardState{Term: 1}}
			mustAppend(t, j, r)
			mustDo(t, j.Sync())
			p = prepare(p, j, r).Crash(vfs.PowerCrash)
			_, st, err := Open(p, testDir, small)
			if err != nil || st.Groups[groupN(1)] == nil || st.Groups[groupN(1)].HardState.Term != 1 {
				t.Fatalf("%s, seed %d: %v", name, seed, err)
			}
		}
	}
}
