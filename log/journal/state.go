package journal

import (
	"fmt"
	"slices"
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
)

// GroupState is what the journal knows of one group: enough to answer for raft.Storage, beside the
// segments. Its slices are never changed in place, so Clone is cheap and a clone never changes.
type GroupState struct {
	HardState HardState
	Sides     []Side       // by index; the first may be the one no-op kept below the window
	Conf      Conf         // the stored configuration; Index 0 when none was
	Window    Window       // FirstIndex 0 when none was
	Trunc     Trunc        // the last one that still counts; Index 0 when none
	ResetLast uint64       // Last of the last Reset that still counts; 0 when none
	Synced    Synced       // zero when nothing is known to be synced
	Swaps     []SwapIntent // begun and neither finished nor undone
}

// State is what the journal knows of a data directory.
type State struct {
	Groups map[Group]*GroupState
	BootID string // of the last Opened or Clean record; empty for a new journal
	Clean  bool   // the last process closed properly
	Fresh  bool   // Open found no journal: everything in it begins now
}

func newState() *State { return &State{Groups: map[Group]*GroupState{}} }

// Apply adds one record. The same function serves live appends, replay and checkpoints. The error
// says which rule the record breaks; the state is unchanged then.
func (s *State) Apply(r Record) error {
	switch b := r.Body.(type) {
	case Opened:
		s.BootID, s.Clean = b.BootID, false
		return nil
	case Clean:
		s.BootID, s.Clean = b.BootID, true
		return nil
	case Drop:
		delete(s.Groups, r.Group)
		return nil
	}
	g := s.Groups[r.Group]
	if g != nil {
		return g.Apply(r.Body)
	}
	g = &GroupState{}
	if err := g.Apply(r.Body); err != nil {
		return err
	}
	s.Groups[r.Group] = g
	return nil
}

// Clone gives a copy that shares no memory which either side may write to.
func (s *State) Clone() *State {
	c := *s
	c.Groups = make(map[Group]*GroupState, len(s.Groups))
	for id, g := range s.Groups {
		c.Groups[id] = g.Clone()
	}
	return &c
}

// sorted gives the groups in the order of their bytes, so that checkpoints and dumps are the same
// for the same state.
func (s *State) sorted() []Group {
	ids := make([]Group, 0, len(s.Groups))
	for id := range s.Groups {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, compareGroups)
	return ids
}

func compareGroups(a, b Group) int {
	if c := slices.Compare(a.Topic[:], b.Topic[:]); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// Clone gives a copy that shares no memory which either side may write to: appending to a slice of
// the copy moves it elsewhere.
func (g *GroupState) Clone() *GroupState {
	c := *g
	c.Sides = slices.Clip(c.Sides)
	c.Swaps = slices.Clip(c.Swaps)
	return &c
}

// FirstIndex is the first index raft may ask for: 1 before there is a window.
func (g *GroupState) FirstIndex() uint64 { return max(g.Window.FirstIndex, 1) }

// TermAt gives the term of the entry at index, which must not lie past the log's end: where that
// is, the journal does not know. Below FirstIndex-1 it is not known any more.
func (g *GroupState) TermAt(index uint64) (term uint64, ok bool) {
	if index+1 < g.FirstIndex() {
		return 0, false
	}
	if index+1 == g.FirstIndex() {
		return g.Window.Term, true
	}
	n := sort.Search(len(g.Sides), func(i int) bool { return g.Sides[i].Index > index })
	if n > 0 { // every side entry carries the term in force
		return g.Sides[n-1].Term, true
	}
	return g.Window.Term, true
}

// LastTerm is the term of the last no-op known, or the window's: 0 when there is neither.
func (g *GroupState) LastTerm() uint64 {
	if n := len(g.Sides); n > 0 {
		return g.Sides[n-1].Term
	}
	return g.Window.Term
}

// LogStart is the highest log start that the window or a side entry gave.
func (g *GroupState) LogStart() kafkaproto.Offset {
	start := g.Window.LogStart
	for _, s := range g.Sides {
		start = max(start, logStartOf(s))
	}
	return start
}

// SidesBefore counts the side entries in the window with AtOffset at or below off: the raft index
// of the batch with base offset off is FirstIndex + SidesBefore(off) + the batches from the
// window's first offset up to it.
func (g *GroupState) SidesBefore(off kafkaproto.Offset) int {
	n := sort.Search(len(g.Sides), func(i int) bool { return g.Sides[i].AtOffset > off })
	if n > 0 && g.Sides[0].Index < g.FirstIndex() {
		n--
	}
	return n
}

// LogStartData makes the data of a SideLogStart entry.
func LogStartData(start kafkaproto.Offset) []byte { return be.AppendUint64(nil, uint64(start)) }

// ParseLogStart reads what LogStartData made.
func ParseLogStart(data []byte) (kafkaproto.Offset, error) {
	if len(data) != 8 || be.Uint64(data) > 1<<63-1 {
		return 0, kafkaproto.Corruptf("log start entry with %d bytes of data", len(data))
	}
	return kafkaproto.Offset(be.Uint64(data)), nil
}

func logStartOf(s Side) kafkaproto.Offset {
	if s.Kind != SideLogStart {
		return 0
	}
	start, err := ParseLogStart(s.Data)
	if err != nil {
		panic(fmt.Sprintf("journal: side entry %d passed Apply with %d bytes of log start", s.Index,
			len(s.Data)))
	}
	return start
}
