package journal

import (
	"github.com/sluicelog/sluice/kafkaproto"
)

// Group names one replica's log on this disk; its 20 bytes stand in every record.
type Group = kafkaproto.PartitionID

// Kind is the first byte of a record's body. The numbers are on disk and never change.
type Kind uint8

// The kinds of record. FORMAT.md draws each body.
const (
	KindHardState  Kind = 1
	KindSide       Kind = 2
	KindTrunc      Kind = 3
	KindReset      Kind = 4
	KindConf       Kind = 5
	KindWindow     Kind = 6
	KindSnap       Kind = 7
	KindCommitHint Kind = 8
	KindDrop       Kind = 9
	KindSynced     Kind = 10
	KindSwapIntent Kind = 11
	KindSwapDone   Kind = 12
	KindOpened     Kind = 13
	KindClean      Kind = 14

	kindMark  Kind = 32 // the journal's own synced mark
	kindBegin Kind = 33 // a checkpoint begins
	kindGroup Kind = 34 // one group (or a part of one) inside a checkpoint
	kindEnd   Kind = 35 // the checkpoint is whole
	maxKind        = kindEnd
)

// Record is one fact about one group. Group is the zero value for Opened and Clean, which speak of
// the whole directory.
type Record struct {
	Group Group
	Body  Body
}

// Body is one of HardState, Side, Trunc, Reset, Conf, Window, Snap, CommitHint, Drop, Synced,
// SwapIntent, SwapDone, Opened and Clean, all by value.
type Body interface {
	kind() Kind
	appendTo(b []byte) []byte
}

// HardState is raft's: what must be durable before a vote or a message of the term leaves. Terms
// fit an int32, as they are Kafka's leader epochs.
type HardState struct {
	Term   uint64
	Vote   uint64
	Commit uint64
}

// SideKind tells what a side entry carries.
type SideKind uint8

// The kinds of side entry.
const (
	SideNoop     SideKind = 1 // first entry of a term; no data
	SideConf     SideKind = 2 // a raft EntryConfChange; data as raft gave it
	SideLogStart SideKind = 3 // the log start moved; data by LogStartData
	SideConfV2   SideKind = 4 // a raft EntryConfChangeV2; data as raft gave it
)

// Side is a raft entry that takes an index but no Kafka offset and no byte of a segment.
// AtOffset is the offset the next data entry takes. Data is not copied and must not change.
type Side struct {
	Index    uint64
	Term     uint64
	Kind     SideKind
	AtOffset kafkaproto.Offset
	Data     []byte
}

// Trunc says that the entries from Index on are void (rule R3); the entry at Index had OldTerm. It
// is durable before the segment is cut. A Synced mark at or above Index is voided with it, so write
// the lowered mark right after it in the same Append.
type Trunc struct {
	Index   uint64
	OldTerm uint64
}

// Reset says that recovery found Last as the last entry: SIDE and TRUNC records past it are void
// (rules R2, R4). It is durable before a recovered replica writes anything.
type Reset struct {
	Last uint64
}

// ConfState is raft's configuration of a group, as replica ids.
type ConfState struct {
	Voters         []uint64
	VotersOutgoing []uint64
	Learners       []uint64
	LearnersNext   []uint64
	AutoLeave      bool
}

// Conf is the configuration in force after the entry at Index was applied.
type Conf struct {
	Index uint64
	State ConfState
}

// Window is raft's visible log: FirstIndex is the first entry raft may ask for, Term the term of
// the entry before it, FirstOffset the offset the first data entry at or after FirstIndex has.
// LogStart, when above zero, raises the log start known below the window. It is durable before
// anything below it is removed (ruling 15). The no-ops below it are folded into one (ruling 7).
type Window struct {
	FirstIndex  uint64
	Term        uint64
	FirstOffset kafkaproto.Offset
	LogStart    kafkaproto.Offset
}

// Snap says that a snapshot was installed: entries up to Index are replaced by files that end
// before NextOffset and begin at LogStart; raft's log continues at Index+1.
type Snap struct {
	Index      uint64
	Term       uint64
	NextOffset kafkaproto.Offset
	LogStart   kafkaproto.Offset
	Conf       ConfState
}

// CommitHint raises the commit index. It needs no sync: losing it costs time at restart, no more.
type CommitHint struct {
	Index uint64
}

// Drop removes the group: nothing of it is left in the state.
type Drop struct{}

// Synced is the mark below which every byte of the group's log is known to be on disk (ruling 4):
// the log end Offset (exclusive), the raft Index of the last entry below it, and where that is: the
// segment with base offset Segment, whose first Position bytes are durable.
type Synced struct {
	Offset   kafkaproto.Offset
	Index    uint64
	Segment  kafkaproto.Offset
	Position int64
}

// SwapKind tells who swaps files.
type SwapKind uint8

// The kinds of swap.
const (
	SwapCompact  SwapKind = 1 // the cleaner replaces closed segments
	SwapSnapshot SwapKind = 2 // a snapshot from a peer replaces the log
	SwapOther    SwapKind = 3 // anything else; Data says what
)

// SwapIntent is written when the new files of a swap are whole and synced, before the first rename
// (ruling 8). Add and Remove are names in the partition's directory, meaning and order being the
// writer's; Data is the writer's too. ID pairs it with its SwapDone.
type SwapIntent struct {
	ID     uint64
	Kind   SwapKind
	Add    []string
	Remove []string
	Data   []byte
}

// SwapDone says that the swap was finished or undone.
type SwapDone struct {
	ID uint64
}

// Opened says that a process opened the directory under this boot of the machine.
type Opened struct {
	BootID string
}

// Clean says that the process that wrote the last Opened closed everything and synced it.
type Clean struct {
	BootID string
}

func (HardState) kind() Kind { return KindHardState }

func (Side) kind() Kind { return KindSide }

func (Trunc) kind() Kind { return KindTrunc }

func (Reset) kind() Kind { return KindReset }

func (Conf) kind() Kind { return KindConf }

func (Window) kind() Kind { return KindWindow }

func (Snap) kind() Kind { return KindSnap }

func (CommitHint) kind() Kind { return KindCommitHint }

func (Drop) kind() Kind { return KindDrop }

func (Synced) kind() Kind { return KindSynced }

func (SwapIntent) kind() Kind { return KindSwapIntent }

func (SwapDone) kind() Kind { return KindSwapDone }

func (Opened) kind() Kind { return KindOpened }

func (Clean) kind() Kind { return KindClean }
