package journal

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// maxTerm is where terms end: they are Kafka's leader epochs, an int32.
const maxTerm = math.MaxInt32

// Apply adds one record of the group (not Drop, Opened or Clean). Callers that keep a GroupState of
// their own give it what they gave to Append. The error says which rule the record breaks; the
// state is unchanged then.
func (g *GroupState) Apply(b Body) error {
	switch v := b.(type) {
	case HardState:
		return g.applyHardState(v)
	case Side:
		return g.applySide(v)
	case Trunc:
		return g.applyTrunc(v)
	case Reset:
		return g.applyReset(v)
	case Conf:
		g.Conf = v
	case Window:
		return g.applyWindow(v)
	case Snap:
		return g.applySnap(v)
	case CommitHint:
		g.HardState.Commit = max(g.HardState.Commit, v.Index)
	case Synced:
		if v.Offset < 0 || v.Segment < 0 || v.Position < 0 {
			return fmt.Errorf("synced mark below zero: %+v", v)
		}
		g.Synced = v
	case SwapIntent:
		for _, s := range g.Swaps {
			if s.ID == v.ID {
				return fmt.Errorf("swap %d begun twice", v.ID)
			}
		}
		g.Swaps = append(g.Swaps, v)
	case SwapDone:
		g.dropSwap(v.ID)
	default:
		return fmt.Errorf("%T is no record of a group", b)
	}
	return nil
}

func (g *GroupState) applyHardState(v HardState) error {
	if v.Term > maxTerm {
		return fmt.Errorf("term %d does not fit a leader epoch", v.Term)
	}
	if v.Term < g.HardState.Term {
		return fmt.Errorf("term %d after term %d", v.Term, g.HardState.Term)
	}
	g.HardState = v
	return nil
}

// applySide adds a side entry. A no-op begins a term; every other entry belongs to the term in
// force: TermAt and the leader-epoch cache rest on that.
func (g *GroupState) applySide(v Side) error {
	last, at := g.FirstIndex()-1, g.Window.FirstOffset
	if g.Window.FirstIndex == 0 {
		last, at = 0, 0
	}
	if n := len(g.Sides); n > 0 {
		last, at = max(last, g.Sides[n-1].Index), max(at, g.Sides[n-1].AtOffset)
	}
	term := g.LastTerm()
	switch {
	case v.Index <= last:
		return fmt.Errorf("%v entry at index %d, not above %d", v.Kind, v.Index, last)
	case v.AtOffset < at:
		return fmt.Errorf("%v entry %d at offset %d, below %d", v.Kind, v.Index, v.AtOffset, at)
	case v.Term > maxTerm:
		return fmt.Errorf("term %d does not fit a leader epoch", v.Term)
	case v.Kind == SideNoop && v.Term <= term:
		return fmt.Errorf("no-op %d of term %d, not above %d", v.Index, v.Term, term)
	case v.Kind != SideNoop && v.Term != term:
		return fmt.Errorf("%v entry %d of term %d, where %d is in force", v.Kind, v.Index, v.Term, term)
	case v.Kind < SideNoop || v.Kind > SideConfV2:
		return fmt.Errorf("side entry %d of unknown kind %d", v.Index, v.Kind)
	}
	if v.Kind == SideLogStart {
		if _, err := ParseLogStart(v.Data); err != nil {
			return err
		}
	}
	g.Sides = append(g.Sides, v)
	return nil
}

// applyTrunc implements R3: what stood from v.Index on is void.
func (g *GroupState) applyTrunc(v Trunc) error {
	if v.Index < g.FirstIndex() {
		return fmt.Errorf("truncation at %d, below the window's %d", v.Index, g.FirstIndex())
	}
	g.voidFrom(v.Index)
	g.Trunc = v
	return nil
}

// applyReset implements R2 and R4: SIDE and TRUNC records past v.Last are void. A TRUNC past it
// must go, as the entry that comes to stand at its index may have its old term again.
func (g *GroupState) applyReset(v Reset) error {
	if v.Last+1 < g.FirstIndex() || v.Last == math.MaxUint64 {
		return fmt.Errorf("reset to %d, below the window's %d", v.Last, g.FirstIndex())
	}
	g.voidFrom(v.Last + 1)
	if g.Trunc.Index > v.Last {
		g.Trunc = Trunc{}
	}
	g.ResetLast = v.Last
	return nil
}

// voidFrom drops the side entries from index on, and a synced mark that speaks of them. The kept
// capacity is cut, so that clones keep what they see.
func (g *GroupState) voidFrom(index uint64) {
	n := sort.Search(len(g.Sides), func(i int) bool { return g.Sides[i].Index >= index })
	g.Sides = g.Sides[:n:n]
	if g.Synced.Index >= index {
		g.Synced = Synced{}
	}
}

// applyWindow moves the window up and folds what fell out of it: of the no-ops the last one stays,
// for the term in force at the window's start; of the log starts the highest, in the window itself.
func (g *GroupState) applyWindow(v Window) error {
	if v.FirstIndex < g.FirstIndex() || v.Term > maxTerm || v.Term < g.Window.Term ||
		v.FirstOffset < g.Window.FirstOffset || v.LogStart < 0 {
		return fmt.Errorf("window %+v after %+v", v, g.Window)
	}
	out := sort.Search(len(g.Sides), func(i int) bool { return g.Sides[i].Index >= v.FirstIndex })
	term := g.Window.Term
	if out > 0 {
		term = g.Sides[out-1].Term
	}
	if out > 0 || g.Window.FirstIndex > 0 {
		if v.Term != term {
			return fmt.Errorf("window at %d says term %d before it, the log says %d",
				v.FirstIndex, v.Term, term)
		}
	}
	if out < len(g.Sides) {
		if s := g.Sides[out]; s.AtOffset < v.FirstOffset || s.Term < v.Term ||
			(s.Kind == SideNoop) == (s.Term == v.Term) {
			return fmt.Errorf("window %+v before %v entry %d of term %d at offset %d",
				v, s.Kind, s.Index, s.Term, s.AtOffset)
		}
	}
	v.LogStart = max(v.LogStart, g.Window.LogStart)
	keep := make([]Side, 0, len(g.Sides)-out+1)
	for _, s := range g.Sides[:out] {
		v.LogStart = max(v.LogStart, logStartOf(s))
		if s.Kind == SideNoop {
			keep = append(keep[:0], s)
		}
	}
	g.Sides = append(keep, g.Sides[out:]...)
	g.Window = v
	if g.Trunc.Index < v.FirstIndex {
		g.Trunc = Trunc{}
	}
	if g.ResetLast+1 < v.FirstIndex {
		g.ResetLast = 0
	}
	return nil
}

// applySnap puts a snapshot in the place of the log.
func (g *GroupState) applySnap(v Snap) error {
	if v.Index+1 < g.FirstIndex() || v.Index == math.MaxUint64 ||
		v.Term > maxTerm || v.Term < g.Window.Term ||
		v.NextOffset < 0 || v.LogStart < 0 || v.LogStart > v.NextOffset {
		return fmt.Errorf("snapshot %+v over window %+v", v, g.Window)
	}
	g.Sides = nil
	g.Window = Window{FirstIndex: v.Index + 1, Term: v.Term, FirstOffset: v.NextOffset,
		LogStart: v.LogStart}
	g.Conf = Conf{Index: v.Index, State: v.Conf}
	g.HardState.Commit = max(g.HardState.Commit, v.Index)
	g.Trunc, g.ResetLast, g.Synced = Trunc{}, 0, Synced{}
	return nil
}

func (g *GroupState) dropSwap(id uint64) {
	i := slices.IndexFunc(g.Swaps, func(s SwapIntent) bool { return s.ID == id })
	if i < 0 {
		return
	}
	rest := append([]SwapIntent(nil), g.Swaps[:i]...)
	g.Swaps = append(rest, g.Swaps[i+1:]...)
}

// bodies gives records that make an empty GroupState equal to g: what a checkpoint holds of it. The
// kept no-op goes before the window, which would refuse it afterwards.
func (g *GroupState) bodies(visit func(Body)) {
	if g.ResetLast > 0 {
		visit(Reset{Last: g.ResetLast})
	}
	sides := g.Sides
	if len(sides) > 0 && sides[0].Index < g.FirstIndex() {
		visit(sides[0])
		sides = sides[1:]
	}
	if g.Window != (Window{}) {
		visit(g.Window)
	}
	if g.Trunc.Index > 0 {
		visit(g.Trunc)
	}
	for _, s := range sides {
		visit(s)
	}
	if g.Conf.Index > 0 || !g.Conf.State.empty() {
		visit(g.Conf)
	}
	if g.HardState != (HardState{}) {
		visit(g.HardState)
	}
	if g.Synced != (Synced{}) {
		visit(g.Synced)
	}
	for _, s := range g.Swaps {
		visit(s)
	}
}

func (c ConfState) empty() bool {
	return len(c.Voters)+len(c.VotersOutgoing)+len(c.Learners)+len(c.LearnersNext) == 0 && !c.AutoLeave
}
