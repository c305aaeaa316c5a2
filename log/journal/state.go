package journal

import (
	"github.com/sluicelog/sluice/kafkaproto"
)

// GroupState is what the journal knows of one group: enough to answer for raft.Storage, beside the
// segments. Its slices are never changed in place: a copy of the struct is a snapshot.
type GroupState struct {
	HardState HardState
	Sides     []Side // by index; the first may be the one no-op kept below the window
	Conf      Conf   // the stored configuration; Index 0 when none was
	Window    Window // FirstIndex 0 when none was
	Trunc     Trunc  // the last one that still counts; Index 0 when none
	ResetLast uint64 // Last of the last Reset that still counts; 0 when none
	Synced    Synced // zero when nothing is known to be synced
	Swaps     []SwapIntent
}

// State is what the journal knows of a data directory.
type State struct {
	Groups map[Group]*GroupState
	BootID string // of the last Opened or Clean record; empty for a new journal
	Clean  bool   // the last process closed properly
	Fresh  bool   // Open found no journal: everything in it begins now
}

// Apply adds one record. The same function serves live appends, replay and checkpoints. The error
// says which rule the record breaks; the state is unchanged then.
func (s *State) Apply(r Record) error { panic("todo") }

// Apply adds one record of the group (not Drop, Opened or Clean). Callers that keep a GroupState of
// their own give it what they gave to Append.
func (g *GroupState) Apply(b Body) error { panic("todo") }

// Clone gives a copy that shares no memory which either side may write to.
func (g *GroupState) Clone() *GroupState { panic("todo") }

// FirstIndex is the first index raft may ask for.
func (g *GroupState) FirstIndex() uint64 { panic("todo") }

// TermAt gives the term of the entry at index, which must be one that exists: at or above
// FirstIndex-1 and not past the log's end, which the journal does not know.
func (g *GroupState) TermAt(index uint64) (term uint64, ok bool) { panic("todo") }

// LastTerm is the term of the last no-op known, 0 when there is none.
func (g *GroupState) LastTerm() uint64 { panic("todo") }

// LogStart is the highest log start that a side entry or the window gave.
func (g *GroupState) LogStart() kafkaproto.Offset { panic("todo") }

// SidesBefore counts the side entries of the window with AtOffset at or below off: what must be
// added when an index is counted from batches.
func (g *GroupState) SidesBefore(off kafkaproto.Offset) int { panic("todo") }

// LogStartData makes the data of a SideLogStart entry.
func LogStartData(start kafkaproto.Offset) []byte { panic("todo") }

// ParseLogStart reads what LogStartData made.
func ParseLogStart(data []byte) (kafkaproto.Offset, error) { panic("todo") }
