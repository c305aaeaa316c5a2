package store

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/journal"
)

// entryNode is one entry that a leader wrote. All entries that ever were form a tree, in which each
// log that a replica may have is a path from the root: raft's log matching. Index and term name it.
type entryNode struct {
	parent *entryNode // nil: the empty log
	e      Entry
	at     kafkaproto.Offset // where it begins
	next   kafkaproto.Offset // where the log ends behind it
	start  kafkaproto.Offset // the log start that it and those before it give
}

type entryID struct{ index, term uint64 }

// entryTree is what all leaders together wrote.
type entryTree struct {
	rng     *rand.Rand
	nodes   map[entryID]*entryNode
	order   []*entryNode // as they were made
	leaders []*entryNode // newest entry of the leader of each term, term 1 first
}

func newEntryTree(rng *rand.Rand) *entryTree {
	return &entryTree{rng: rng, nodes: map[entryID]*entryNode{}}
}

func (n *entryNode) index() uint64 {
	if n == nil {
		return 0
	}
	return n.e.Index
}

func (n *entryNode) end() kafkaproto.Offset {
	if n == nil {
		return 0
	}
	return n.next
}

// path is the log that ends with n.
func (n *entryNode) path() []*entryNode {
	out := make([]*entryNode, n.index())
	for ; n != nil; n = n.parent {
		out[n.e.Index-1] = n
	}
	return out
}

// within reports whether m is n or lies on n's path; the empty log lies on every one.
func (n *entryNode) has(m *entryNode) bool {
	for n.index() > m.index() {
		n = n.parent
	}
	return n == m
}

// add puts an entry behind parent.
func (x *entryTree) add(parent *entryNode, e Entry) *entryNode {
	n := &entryNode{parent: parent, e: e, at: parent.end(), next: parent.end()}
	n.e.Index = parent.index() + 1
	if parent != nil {
		n.start = parent.start
	}
	switch e.Kind {
	case EntryData:
		b := batch.Batch(bytes.Clone(e.Batch))
		b.SetBaseOffset(n.at)
		b.SetLeaderEpoch(kafkaproto.LeaderEpoch(e.Term))
		n.e.Batch, n.next = b, b.NextOffset()
	case EntryLogStart:
		start, _ := journal.ParseLogStart(e.Data)
		n.start = max(n.start, start)
	}
	id := entryID{n.e.Index, e.Term}
	if x.nodes[id] != nil {
		panic(fmt.Sprintf("two entries at %+v", id))
	}
	x.nodes[id] = n
	x.order = append(x.order, n)
	return n
}

// elect makes the leader of the next term, whose log is that of base and a no-op.
func (x *entryTree) elect(base *entryNode) {
	term := uint64(len(x.leaders) + 1)
	x.leaders = append(x.leaders, x.add(base, Entry{Term: term, Kind: EntryNoop}))
}

// write lets the newest leader add an entry. hw is what is committed: a log start never passes it.
func (x *entryTree) write(hw kafkaproto.Offset) {
	term := uint64(len(x.leaders))
	tip := x.leaders[term-1]
	e := Entry{Term: term, Kind: EntryData}
	switch n := x.rng.IntN(20); {
	case n < 2:
		e.Kind, e.Data = EntryConf, []byte(fmt.Sprint("conf", x.rng.IntN(100)))
	case n < 3:
		e.Kind = EntryConfV2
	case n < 4 && hw > tip.start:
		e.Kind, e.Data = EntryLogStart, journal.LogStartData(tip.start+
			kafkaproto.Offset(x.rng.Int64N(int64(hw-tip.start)+1)))
	default:
		e.Batch = x.batch()
	}
	x.leaders[term-1] = x.add(tip, e)
}

func (x *entryTree) batch() batch.Batch {
	o := batch.BuilderOptions{}
	if x.rng.IntN(3) == 0 {
		o.Producer = &batch.Producer{ID: kafkaproto.ProducerID(x.rng.IntN(3)), BaseSequence: -1}
	}
	b := batch.NewBuilder(o)
	for range 1 + x.rng.IntN(3) {
		b.Add(batch.Record{
			Timestamp: testStart.UnixMilli(), Key: []byte(fmt.Sprint(x.rng.IntN(8))),
			Value: []byte(strings.Repeat(fmt.Sprint(x.rng.IntN(1000), "."), x.rng.IntN(60))),
		})
	}
	return must(b.Build())
}

// entries copies the entries of a path, for a log that may keep or patch them.
func entries(path []*entryNode) []Entry {
	out := make([]Entry, len(path))
	for i, n := range path {
		out[i] = n.e
		out[i].Batch = bytes.Clone(n.e.Batch)
	}
	return out
}
