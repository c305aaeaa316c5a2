package store

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/vfs"
)

// storageModel holds a log in its replicated form against raft's own MemoryStorage: both are told
// the same, and must answer the same.
type storageModel struct {
	t   testing.TB
	fs  *vfs.PowerFS
	clk *clock.Manual
	cfg Config
	s   *Store
	l   *Log

	want   *raft.MemoryStorage
	conf   pb.ConfState // in force; MemoryStorage knows it with the next snapshot only
	confAt uint64       // the entry that brought it
	ends   []kafkaproto.Offset
	starts []kafkaproto.Offset // log start by index, as its entries give it
	commit uint64
	term   uint64
	boot   int
	handed []handedOut
	seen   storageSeen
}

// handedOut is what Entries gave, and a copy of it: raft keeps what it was given.
type handedOut struct{ got, copied []pb.Entry }

// storageSeen counts what the runs have met.
type storageSeen struct{ compacted, cleaned, cut, disk, pending, restarts, power int }

func newStorageModel(t testing.TB, cfg Config, seed uint64) *storageModel {
	m := &storageModel{
		t: t, fs: vfs.PowerLoss(seed), clk: clock.NewManual(testStart), cfg: cfg,
		want: raft.NewMemoryStorage(), conf: pb.ConfState{Voters: []uint64{1, 2, 3}},
		ends: []kafkaproto.Offset{0}, starts: []kafkaproto.Offset{0},
	}
	m.open()
	return m
}

func (m *storageModel) open() {
	o := testOptions(m.t, m.fs, m.clk)
	o.BootID = fmt.Sprint("boot", m.boot)
	o.knobs = knobs{manual: true}
	m.s = openStore(m.t, o)
	l, err := m.s.OpenLog(testID(1), testTP(1), m.cfg)
	if err == nil {
		err = errors.Join(l.Offline(), l.StartReplica(pb.ConfState{Voters: []uint64{1, 2, 3}}))
	}
	if err != nil {
		m.t.Fatalf("open: %v", err)
	}
	m.l = l
}

func (m *storageModel) last() uint64 { return uint64(len(m.ends)) - 1 }

// write appends entries behind the first keep ones, as a new leader's when elect is set.
func (m *storageModel) write(t *rapid.T, keep uint64, elect bool) {
	m.ends, m.starts = m.ends[:keep+1], m.starts[:keep+1]
	var ents []Entry
	if elect {
		m.term += rapid.Uint64Range(1, 3).Draw(t, "terms")
		m.saveHardState(t)
		ents = append(ents, Entry{Kind: EntryNoop})
	}
	kinds := rapid.SliceOfN(rapid.SampledFrom([]EntryKind{
		EntryData, EntryData, EntryData, EntryData, EntryConf, EntryConfV2, EntryLogStart,
	}), 0, 12).Draw(t, "kinds")
	for _, k := range kinds {
		ents = append(ents, Entry{Kind: k})
	}
	var same []pb.Entry
	for i := range ents {
		same = append(same, m.fill(t, &ents[i]))
	}
	if len(ents) == 0 {
		return
	}
	if _, err := m.l.AppendEntries(ents); err != nil {
		t.Fatalf("append: %v", err)
	}
	if err := m.want.Append(same); err != nil {
		t.Fatalf("append to memory: %v", err)
	}
}

// fill makes up an entry, and gives raft's form of it.
func (m *storageModel) fill(t *rapid.T, e *Entry) pb.Entry {
	end, start := m.ends[m.last()], m.starts[m.last()]
	e.Index, e.Term = m.last()+1, m.term
	same := pb.Entry{Index: e.Index, Term: e.Term}
	switch e.Kind {
	case EntryData:
		var vals []string
		for range rapid.IntRange(1, 3).Draw(t, "records") {
			vals = append(vals, string(bytes.Repeat([]byte("x"), rapid.IntRange(0, 300).Draw(t, "bytes"))))
		}
		e.Batch = keyed(clock.Millis(m.clk.Now()), fmt.Sprint("key", rapid.IntRange(0, 3).Draw(t, "key")), vals)
		e.Batch.SetBaseOffset(end)
		e.Batch.SetLeaderEpoch(kafkaproto.LeaderEpoch(m.term))
		end = e.Batch.NextOffset()
		same.Data = DescribeBatch(e.Batch).Append(nil)
	case EntryConf, EntryConfV2:
		same.Type = pb.EntryConfChange
		if e.Kind == EntryConfV2 {
			same.Type = pb.EntryConfChangeV2
		}
		e.Data = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "change")
		if len(e.Data) == 0 {
			e.Data = nil
		}
		same.Data = e.Data
	case EntryLogStart:
		hw := m.ends[m.commit]
		start = max(start, hw-kafkaproto.Offset(rapid.Int64Range(0, int64(hw)).Draw(t, "behind")))
		e.Data = journal.LogStartData(start)
		same.Data = LogStartProposal(start)
	}
	m.ends, m.starts = append(m.ends, end), append(m.starts, start)
	return same
}

func (m *storageModel) saveHardState(t *rapid.T) {
	hs := pb.HardState{Term: m.term, Vote: rapid.Uint64Range(0, 3).Draw(t, "vote"), Commit: m.commit}
	if _, err := m.l.SaveHardState(hs); err != nil {
		t.Fatalf("hard state: %v", err)
	}
	_ = m.want.SetHardState(hs)
}

// commitSome moves the commit index.
func (m *storageModel) commitSome(t *rapid.T) {
	if m.commit == m.last() {
		return
	}
	m.commit = rapid.Uint64Range(m.commit+1, m.last()).Draw(t, "commit")
	m.saveHardState(t)
	m.l.CommitEntries(m.commit, m.ends[m.commit])
	if start := m.starts[m.commit]; m.l.StartOffset() < start {
		t.Fatalf("log start %d after entry %d, want %d", m.l.StartOffset(), m.commit, start)
	}
}

// pendingConf is the first committed configuration change that is not applied; 0: none.
func (m *storageModel) pendingConf() uint64 {
	for i := max(m.confAt+1, m.first()); i <= m.commit; i++ {
		e, err := m.want.Entries(i, i+1, 1<<20)
		if err != nil {
			m.t.Fatalf("entry %d of memory: %v", i, err)
		}
		if e[0].Type != pb.EntryNormal {
			return i
		}
	}
	return 0
}

func (m *storageModel) first() uint64 {
	first, _ := m.want.FirstIndex()
	return first
}

// applyConf applies the committed configuration changes.
func (m *storageModel) applyConf(t *rapid.T) {
	for at := m.pendingConf(); at > 0; at = m.pendingConf() {
		m.conf = pb.ConfState{
			Voters:   rapid.SliceOfNDistinct(rapid.Uint64Range(1, 9), 1, 4, rapid.ID).Draw(t, "voters"),
			Learners: []uint64{at + 10}, AutoLeave: rapid.Bool().Draw(t, "leave"),
		}
		m.confAt = at
		if _, err := m.l.SaveConf(at, m.conf); err != nil {
			t.Fatalf("configuration: %v", err)
		}
	}
}

// compact lets retention and the cleaner run.
func (m *storageModel) compact(t *rapid.T) {
	m.flush(t)
	m.s.janitor.pass()
	if err := m.l.retain(m.l.store.nowMs()); err != nil {
		t.Fatalf("retention: %v", err)
	}
	for m.cfg.Compact && m.s.cleaner.cleanFilthiest() {
		m.seen.cleaned++
	}
	m.follow(t)
}

// follow compacts MemoryStorage to where retention and cleaning left the window, which is no further
// than what is committed and applied.
func (m *storageModel) follow(t *rapid.T) {
	first, _ := m.l.RaftStorage().FirstIndex()
	most := m.commit
	if at := m.pendingConf(); at > 0 {
		most = at - 1
	}
	if old := m.first(); first < old || first-1 > most {
		t.Fatalf("the window begins at %d after %d; %d entries are committed and applied", first, old, most)
	} else if first > old {
		m.seen.compacted++
		if err := m.want.Compact(first - 1); err != nil {
			t.Fatalf("compact memory: %v", err)
		}
	}
}

func (m *storageModel) flush(t *rapid.T) {
	if err := m.l.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

func (m *storageModel) restart(t *rapid.T) {
	if m.seen.restarts++; rapid.Bool().Draw(t, "power cut") {
		m.flush(t)
		m.fs = m.fs.Crash(vfs.PowerCrash)
		_ = m.s.Close() // it has crashed
		m.boot++
		m.seen.power++
	} else {
		closeStore(m.t, m.s)
	}
	m.open()
	m.follow(t) // what the janitor had to do, it did when it was closed
}

// keyed builds a batch whose records have one key.
func keyed(ts int64, key string, vals []string) batch.Batch {
	b := batch.NewBuilder(batch.BuilderOptions{})
	for _, v := range vals {
		b.Add(batch.Record{Timestamp: ts, Key: []byte(key), Value: []byte(v)})
	}
	return must(b.Build())
}

// check compares all answers.
func (m *storageModel) check(t *rapid.T) {
	got := m.l.RaftStorage()
	first, _ := got.FirstIndex()
	last, _ := got.LastIndex()
	wantLast, _ := m.want.LastIndex()
	if first != m.first() || last != wantLast {
		t.Fatalf("entries %d to %d, want %d to %d", first, last, m.first(), wantLast)
	}
	hs, conf, err := got.InitialState()
	wantHS, _, _ := m.want.InitialState()
	if err != nil || hs != wantHS || !reflect.DeepEqual(conf, m.conf) {
		t.Fatalf("initial state %+v %+v %v, want %+v %+v", hs, conf, err, wantHS, m.conf)
	}
	for i := uint64(0); i <= last+2; i++ {
		term, err := got.Term(i)
		wantTerm, wantErr := m.want.Term(i)
		if term != wantTerm || !errors.Is(err, wantErr) {
			t.Fatalf("term of %d in [%d, %d]: %d %v, want %d %v", i, first, last, term, err, wantTerm, wantErr)
		}
	}
	for range 8 {
		m.checkEntries(t, got, last)
	}
	m.checkSnapshot(t, got)
	for _, h := range m.handed {
		if !reflect.DeepEqual(h.got, h.copied) {
			t.Fatalf("entries that were handed out have changed: %v, were %v", h.got, h.copied)
		}
	}
}

func (m *storageModel) checkEntries(t *rapid.T, got *RaftStorage, last uint64) {
	lo := rapid.Uint64Range(0, last+1).Draw(t, "lo")
	hi := rapid.Uint64Range(lo, last+2).Draw(t, "hi")
	size := rapid.OneOf(rapid.Uint64Range(0, 400), rapid.Just(uint64(1)<<62), rapid.Just(^uint64(0))).Draw(t, "size")
	if rapid.Bool().Draw(t, "from disk") { // as after a restart, or of a group that was quiet
		ring := &m.l.raft.ring
		slots := ring.slots
		ring.clear()
		defer func() { ring.slots = slots }()
		m.seen.disk++
	}
	want, wantErr := entriesOf(m.want, lo, hi, size)
	ents, err := got.Entries(lo, hi, size)
	if !errors.Is(err, wantErr) || len(ents) != len(want) {
		t.Fatalf("entries [%d, %d) of %d bytes in [%d, %d]: %d, %v; want %d, %v", lo, hi, size, m.first(), last,
			len(ents), err, len(want), wantErr)
	}
	var copied []pb.Entry
	for i := range want {
		g, w := ents[i], want[i]
		if g.Index != w.Index || g.Term != w.Term || g.Type != w.Type || !bytes.Equal(g.Data, w.Data) {
			t.Fatalf("entry %d is %+v, want %+v", lo+uint64(i), g, w)
		}
		g.Data = bytes.Clone(g.Data)
		copied = append(copied, g)
	}
	if len(ents) > 0 && len(m.handed) < 50 {
		m.handed = append(m.handed, handedOut{ents, copied})
		// As raft may do: it must not reach anybody else's entries.
		_, _ = append(ents, pb.Entry{Index: 99}), append(ents[0].Data, 99)
	}
}

// entriesOf asks MemoryStorage, which panics where raft must never ask.
func entriesOf(s *raft.MemoryStorage, lo, hi, size uint64) (ents []pb.Entry, err error) {
	if last, _ := s.LastIndex(); hi > last+1 {
		err = raft.ErrUnavailable
		if first, _ := s.FirstIndex(); lo < first {
			err = raft.ErrCompacted
		}
		return nil, err
	}
	return s.Entries(lo, hi, size)
}

func (m *storageModel) checkSnapshot(t *rapid.T, got *RaftStorage) {
	snap, err := got.Snapshot()
	pending := m.pendingConf()
	applied := m.commit
	if pending > 0 {
		applied = pending - 1
	}
	if at := got.Applied(); at != applied {
		t.Fatalf("applied is %d, want %d", at, applied)
	}
	if pending > 0 {
		if m.seen.pending++; !errors.Is(err, raft.ErrSnapshotTemporarilyUnavailable) {
			t.Fatalf("snapshot with a configuration change at %d that is not applied: %+v %v", pending, snap, err)
		}
		return
	}
	want := pb.Snapshot{}
	if old, _ := m.want.Snapshot(); m.commit > old.Metadata.Index {
		want, err = m.want.CreateSnapshot(m.commit, &m.conf, nil)
	} else {
		want = old
		want.Metadata.ConfState = m.conf // MemoryStorage learns it with a later index only
	}
	if err != nil {
		t.Fatalf("snapshot at %d: %v", m.commit, err)
	}
	ref, refErr := ParseSnapshotRef(snap.Data)
	snap.Data = nil
	if !reflect.DeepEqual(snap, want) {
		t.Fatalf("snapshot %+v, want %+v", snap, want)
	}
	if refErr != nil || ref.Next != m.ends[m.commit] || ref.LogStart != m.l.StartOffset() {
		t.Fatalf("snapshot at %d refers to %+v (%v), want %d from %d", m.commit, ref, refErr, m.ends[m.commit],
			m.l.StartOffset())
	}
}

// TestRaftStorage: the log answers raft as raft's own MemoryStorage does, over appends, conflicts,
// retention, compaction and restarts.
func TestRaftStorage(t *testing.T) {
	var seen storageSeen
	rapid.Check(t, func(rt *rapid.T) {
		m := newStorageModel(t, Config{
			SegmentBytes:  rapid.IntRange(300, 3000).Draw(rt, "segment"),
			IndexInterval: rapid.IntRange(1, 600).Draw(rt, "interval"),
			Compact:       rapid.Bool().Draw(rt, "compact"), MinCleanableRatio: -1, Strict: true,
		}, rapid.Uint64().Draw(rt, "seed"))
		defer func() { _ = m.s.Close() }()
		m.check(rt) // nothing is there
		m.write(rt, 0, true)
		rt.Repeat(map[string]func(*rapid.T){
			"append":  func(t *rapid.T) { m.write(t, m.last(), false) },
			"append2": func(t *rapid.T) { m.write(t, m.last(), false) },
			"elect":   func(t *rapid.T) { m.write(t, m.last(), true) },
			"conflict": func(t *rapid.T) {
				m.seen.cut++
				m.write(t, rapid.Uint64Range(m.commit, m.last()).Draw(t, "keep"), true)
			},
			"commit":  m.commitSome,
			"commit2": m.commitSome,
			"apply":   m.applyConf,
			"compact": m.compact,
			"roll": func(t *rapid.T) {
				if err := m.l.Roll(); err != nil {
					t.Fatalf("roll: %v", err)
				}
			},
			"flush":   m.flush,
			"quiet":   func(*rapid.T) { m.l.raft.ring.clear() },
			"wait":    func(*rapid.T) { m.clk.Advance(time.Second) },
			"restart": m.restart,
			"":        m.check,
		})
		seen.compacted, seen.cleaned = seen.compacted+m.seen.compacted, seen.cleaned+m.seen.cleaned
		seen.cut, seen.disk, seen.pending = seen.cut+m.seen.cut, seen.disk+m.seen.disk, seen.pending+m.seen.pending
		seen.restarts, seen.power = seen.restarts+m.seen.restarts, seen.power+m.seen.power
	})
	if !testing.Short() && min(seen.compacted, seen.cleaned, seen.cut, seen.disk, seen.pending, seen.restarts, seen.power) == 0 {
		t.Fatalf("the runs did not meet everything: %+v", seen)
	}
	t.Logf("%+v", seen)
}
