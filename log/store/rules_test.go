package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/vfs"
)

// rulesRun is one seed of the proof of the recovery rules: a replica's log on a disk that loses what
// was not synced, fed by leaders that replace each other, against the tree of what they wrote. Every
// step may be the last one before a crash, within recovery too. After each start:
//
//	the log is a path of the tree: a prefix of a log that some leader had;
//	it holds every entry that was reported as durable, and after a kill every one written,
//	but for those that a conflict was about to take away.
type rulesRun struct {
	rng  *rand.Rand
	fs   *vfs.PowerFS
	clk  *clock.Manual
	o    Options
	cfg  Config
	tree *entryTree
	boot int

	s *Store
	l *Log
	// trip counts the calls that change the disk down to the one at which the process dies; below
	// zero it lives on.
	trip int
	dead bool

	log       []*entryNode // what the replica's log is
	acked     int          // how many entries of it were reported as durable
	committed int          // how many are committed
	seen      rulesSeen
	kept      int // how many of it were written before the running step: a kill leaves them
}

// rulesSeen counts what a run has met, so that a proof that met nothing is found out.
type rulesSeen struct {
	kills, cuts, starts, deaths int // power cuts, starts and deaths within a start or a step
	conflicts, windows, torn    int // truncations, starts with a window that has moved, cuts at a byte
}

func (a *rulesSeen) add(b rulesSeen) {
	a.kills, a.cuts, a.starts, a.deaths = a.kills+b.kills, a.cuts+b.cuts, a.starts+b.starts, a.deaths+b.deaths
	a.conflicts, a.windows, a.torn = a.conflicts+b.conflicts, a.windows+b.windows, a.torn+b.torn
}

// broken is what a run stops with when the log is not what it must be.
type broken struct{ what string }

func brokenf(format string, args ...any) { panic(broken{fmt.Sprintf(format, args...)}) }

var errDied = errors.New("the process has died")

func newRulesRun(seed uint64, off rules, t testing.TB) *rulesRun {
	r := &rulesRun{
		rng: rand.New(rand.NewPCG(seed, 23)), fs: vfs.PowerLoss(seed), clk: clock.NewManual(testStart),
		trip: -1,
	}
	r.tree = newEntryTree(r.rng)
	r.o = testOptions(t, nil, r.clk)
	r.o.Logger = nil // thousands of starts
	r.o.knobs = knobs{manual: true, off: off, journal: journal.Options{
		FileBytes: int64(2000 + r.rng.IntN(6000)), ExtendBytes: int64(512 << r.rng.IntN(4)),
	}}
	r.cfg = Config{
		SegmentBytes: 500 + r.rng.IntN(1500), IndexInterval: 1 + r.rng.IntN(400), Strict: true,
		Compact: r.rng.IntN(3) == 0, MinCleanableRatio: -1,
	}
	return r
}

// run makes the steps; the error says what went wrong.
func (r *rulesRun) run(steps int) error {
	return r.guard(func() {
		r.tree.elect(nil)
		r.start()
		for range steps {
			r.step()
		}
	})
}

// guard runs steps, and ends the process in the end.
func (r *rulesRun) guard(steps func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if b, ok := p.(broken); ok {
				err = errors.New(b.what)
			} else {
				err = fmt.Errorf("panic: %v", p)
			}
		}
		r.fs.Crash(vfs.KillCrash)
		if r.s != nil {
			if e := r.s.Close(); e == nil && err == nil {
				_ = e // nothing was left to write
			}
		}
	}()
	steps()
	return nil
}

// mutating are the calls at which a process may die.
const mutating = vfs.OpCreate | vfs.OpWrite | vfs.OpTruncate | vfs.OpSync | vfs.OpSyncDir | vfs.OpSyncFS |
	vfs.OpRename | vfs.OpRemove | vfs.OpMkdir

// disk is the file system as the process sees it.
func (r *rulesRun) disk() vfs.FS {
	r.dead = false
	under := r.fs
	fsys := vfs.Inject(under)
	fsys.Hook(func(op vfs.Op, _ string) error {
		if under != r.fs {
			return errDied
		}
		if op&mutating != 0 && r.trip >= 0 && !r.dead {
			r.trip--
			r.dead = r.trip < 0
		}
		if r.dead {
			return errDied
		}
		return nil
	})
	return fsys
}

// start opens the directory, after as many crashes within recovery as there are, and checks the log.
func (r *rulesRun) start() {
	for {
		if r.rng.IntN(4) == 0 {
			r.trip = r.rng.IntN(25)
		}
		err := r.open()
		r.trip = -1
		if err == nil {
			break
		}
		if !r.dead {
			brokenf("start: %v", err)
		}
		r.seen.deaths++
		r.kill()
	}
	r.seen.starts++
	r.acked = max(r.acked, r.kept)
	r.check()
}

func (r *rulesRun) open() error {
	o := r.o
	o.FS, o.BootID = r.disk(), fmt.Sprint("boot", r.boot)
	o.Random = rand.NewChaCha8([32]byte{byte(r.rng.Uint32())})
	s, err := Open(o)
	if err != nil {
		return err
	}
	r.s = s
	if r.l, err = s.OpenLog(testID(1), testTP(1), r.cfg); err == nil {
		err = r.l.Offline()
	}
	if err != nil {
		return err
	}
	return r.l.StartReplica(pb.ConfState{Voters: []uint64{1, 2, 3}})
}

// kill ends the process with a crash of either kind, and what is left of it.
func (r *rulesRun) kill() {
	kind := vfs.KillCrash
	if r.rng.IntN(3) > 0 {
		kind = vfs.PowerCrash
		r.boot++
		r.kept = 0
		r.seen.cuts++
	} else {
		r.seen.kills++
	}
	torn := r.torn(kind)
	r.fs = r.fs.Crash(kind)
	if r.s != nil {
		_ = r.s.Close() // it can do nothing any more
		r.s = nil
	}
	if torn != nil {
		r.fs = torn
	}
}

// torn is what is left by a power cut at some byte of one file, now and then.
func (r *rulesRun) torn(kind vfs.CrashKind) *vfs.PowerFS {
	tails := r.fs.Tails()
	if kind != vfs.PowerCrash || len(tails) == 0 || r.rng.IntN(3) > 0 {
		return nil
	}
	t := tails[r.rng.IntN(len(tails))]
	fs, ok := r.fs.Torn(t.Name, t.From+r.rng.Int64N(t.End-t.From+1), r.rng.IntN(2) == 0)
	if !ok {
		return nil
	}
	r.seen.torn++
	return fs
}

// crash kills the process, starts it again, and says what of the log must be there.
func (r *rulesRun) crash() {
	r.kill()
	r.start()
}

// do runs one step, which may die.
func (r *rulesRun) do(what string, step func() error) bool {
	r.kept = len(r.log)
	if r.rng.IntN(6) == 0 {
		r.trip = r.rng.IntN(8)
	}
	err := step()
	r.trip = -1
	switch {
	case r.dead:
		r.seen.deaths++
		r.crash()
		return false
	case err != nil:
		brokenf("%s: %v", what, err)
	case r.s.Err() != nil || r.l.Offline() != nil && !errors.Is(r.l.Offline(), ErrClosed):
		brokenf("%s: %v", what, errors.Join(r.s.Err(), r.l.Offline()))
	}
	return true
}

func (r *rulesRun) step() {
	switch n := r.rng.IntN(100); {
	case n < 45:
		r.receive()
	case n < 60:
		if r.do("flush", r.l.Flush) {
			r.acked = len(r.log)
		}
	case n < 68:
		r.commit()
	case n < 78:
		r.elect()
	case n < 82:
		r.do("roll", r.l.Roll)
	case n < 87:
		r.clk.Advance(time.Duration(r.rng.IntN(1500)) * time.Millisecond)
	case n < 90:
		r.do("housekeeping", func() error { r.s.janitor.pass(); return nil })
	case n < 92:
		r.do("cleaning", func() error { r.s.cleaner.cleanFilthiest(); return nil })
	case n < 94:
		if r.do("clean stop", func() error { return r.s.Close() }) {
			r.acked, r.kept, r.s = len(r.log), len(r.log), nil
			r.start()
		}
	default:
		r.kept = len(r.log)
		r.crash()
	}
}

// elect makes a leader whose log has everything committed: that of the replica, of an earlier
// leader, or a part of one.
func (r *rulesRun) elect() {
	var last *entryNode
	if r.committed > 0 {
		last = r.log[r.committed-1]
	}
	var base *entryNode
	switch r.rng.IntN(3) {
	case 0:
		if len(r.log) > 0 {
			base = r.log[len(r.log)-1]
		}
	case 1:
		base = r.tree.leaders[r.rng.IntN(len(r.tree.leaders))]
	default:
		base = r.tree.order[r.rng.IntN(len(r.tree.order))]
	}
	if !base.has(last) {
		base = last
	}
	r.tree.elect(base)
}

// leader is the newest leader's log, and how much of it the replica has.
func (r *rulesRun) leader() (log []*entryNode, same int) {
	log = r.tree.leaders[len(r.tree.leaders)-1].path()
	for same < min(len(log), len(r.log)) && log[same] == r.log[same] {
		same++
	}
	return log, same
}

// receive takes entries from the newest leader, as raft hands them on.
func (r *rulesRun) receive() {
	for range r.rng.IntN(4) {
		hw := kafkaproto.Offset(0)
		if r.committed > 0 {
			hw = r.log[r.committed-1].next
		}
		r.tree.write(hw)
	}
	leader, same := r.leader()
	from := same
	if r.rng.IntN(4) == 0 { // some that it has
		from = max(same-r.rng.IntN(3), 0)
	}
	to := min(from+1+r.rng.IntN(6), len(leader))
	if to <= same { // nothing new
		return
	}
	if same < len(r.log) {
		r.seen.conflicts++
	}
	ok := r.do("append", func() error {
		r.kept = min(r.kept, same)
		r.acked = min(r.acked, same)
		_, err := r.l.AppendEntries(entries(leader[from:to]))
		return err
	})
	if ok {
		r.log = leader[:to:to]
	}
}

// commit commits what was reported as durable, or a part of it; what the newest leader does not have,
// nobody commits any more.
func (r *rulesRun) commit() {
	_, same := r.leader()
	most := min(r.acked, same)
	if most <= r.committed {
		return
	}
	r.committed += 1 + r.rng.IntN(most-r.committed)
	last := r.log[r.committed-1]
	r.do("commit", func() error {
		r.l.CommitEntries(last.e.Index, last.next)
		for i := r.committed - 1; i >= 0; i-- {
			if k := r.log[i].e.Kind; k == EntryConf || k == EntryConfV2 {
				_, err := r.l.SaveConf(r.log[i].e.Index, pb.ConfState{Voters: []uint64{1, 2, r.log[i].e.Index}})
				return err
			}
		}
		return nil
	})
}

// check compares the log that was found with the tree.
func (r *rulesRun) check() {
	st := r.l.RaftStorage()
	first, _ := st.FirstIndex()
	last, _ := st.LastIndex()
	if int(last) < r.acked || int(first)-1 > r.committed {
		brokenf("log has entries %d to %d; %d were durable, %d committed", first, last, r.acked, r.committed)
	}
	var node *entryNode
	if first > 1 {
		r.seen.windows++
		term, err := st.Term(first - 1)
		if node = r.tree.nodes[entryID{first - 1, term}]; err != nil || node == nil {
			brokenf("entry %d before the window has term %d, which no leader wrote (%v)", first-1, term, err)
		}
	}
	if last >= first {
		ents, err := st.Entries(first, last+1, 1<<20)
		if err != nil || len(ents) != int(last-first+1) {
			brokenf("entries %d to %d: %d of them, %v", first, last, len(ents), err)
		}
		for _, e := range ents {
			node = r.same(node, e)
		}
	}
	found := node.path()
	for i := range r.acked {
		if found[i] != r.log[i] {
			brokenf("entry %d has term %d; with term %d it was durable", i+1, found[i].e.Term, r.log[i].e.Term)
		}
	}
	r.log, r.acked = found, len(found) // raft takes what was found for stable
	r.checkState(st, node)
}

// same finds the entry in the tree, behind parent, and compares all of it.
func (r *rulesRun) same(parent *entryNode, e pb.Entry) *entryNode {
	n := r.tree.nodes[entryID{e.Index, e.Term}]
	if n == nil || n.parent != parent {
		brokenf("entry %d of term %d does not follow entry %d in any leader's log", e.Index, e.Term, parent.index())
	}
	got, d, err := EntryOf(e)
	if err != nil || got.Kind != n.e.Kind || !bytes.Equal(got.Data, n.e.Data) {
		brokenf("entry %d of term %d is %+v (%v), was written as %+v", e.Index, e.Term, got, err, n.e)
	}
	if got.Kind != EntryData {
		return n
	}
	if d != DescribeBatch(n.e.Batch) {
		brokenf("entry %d of term %d is %+v, was written as %+v", e.Index, e.Term, d, DescribeBatch(n.e.Batch))
	}
	if d.Base < r.l.StartOffset() {
		return n
	}
	rg, err := r.l.Read(d.Base, int(d.Size), d.Next(), true)
	if err != nil {
		brokenf("read entry %d at %d: %v", e.Index, d.Base, err)
	}
	defer rg.Release()
	b := make([]byte, rg.Len)
	if _, err := rg.File.ReadAt(b, rg.Pos); err != nil || !bytes.Equal(b, n.e.Batch) {
		brokenf("batch of entry %d at %d is not what was written (%v)", e.Index, d.Base, err)
	}
	return n
}

// checkState checks what else must fit the log that was found.
func (r *rulesRun) checkState(st *RaftStorage, last *entryNode) {
	hs, conf, err := st.InitialState()
	if err != nil || int(hs.Commit) > r.committed || hs.Commit > last.index() || len(conf.Voters) != 3 {
		brokenf("hard state %+v, configuration %+v, %v; %d entries are committed", hs, conf, err, r.committed)
	}
	var committed, hw *entryNode
	if hs.Commit > 0 {
		hw = r.log[hs.Commit-1]
	}
	if r.committed > 0 {
		committed = r.log[r.committed-1]
	}
	start := kafkaproto.Offset(0)
	if committed != nil {
		start = committed.start
	}
	if r.l.HighWatermark() < hw.end() || r.l.HighWatermark() > committed.end() || r.l.StartOffset() > start {
		brokenf("high watermark %d, committed %d to %d; log start %d, committed %d", r.l.HighWatermark(),
			hw.end(), committed.end(), r.l.StartOffset(), start)
	}
	r.checkProducers()
	if r.l.EndOffset() != last.end() {
		brokenf("the log ends at %d, its entries at %d", r.l.EndOffset(), last.end())
	}
	if last != nil && uint64(r.l.Term()) != last.e.Term {
		brokenf("term %d, the last entry has %d", r.l.Term(), last.e.Term)
	}
	for _, seg := range *r.l.segs.Load() { // counted indexes and those of the entries agree; epochs too
		first := true
		at, err := seg.ScanHeaders(0, func(h batch.Header, _ int64) error {
			if first && seg.BaseIndex() != 0 && r.log[seg.BaseIndex()-1].at != h.BaseOffset {
				return fmt.Errorf("segment begins at index %d", seg.BaseIndex())
			}
			first = false
			if e := r.l.EpochOf(h.LastOffset()); h.LastOffset() >= r.l.StartOffset() && e != h.LeaderEpoch {
				return fmt.Errorf("offset %d has epoch %d, its batch says %d: %v", h.LastOffset(), e, h.LeaderEpoch,
					*r.l.epochs.Load())
			}
			return nil
		})
		if err != nil {
			brokenf("segment %d at %d: %v", seg.BaseOffset(), at, err)
		}
	}
}

// checkProducers compares the producer state with one that has seen every entry. Behind a log start
// that has moved there may be less: sidecars of a log that is not compacted are not durable.
func (r *rulesRun) checkProducers() {
	if r.l.StartOffset() > 0 {
		return
	}
	want := producer.New(producer.Options{})
	for _, n := range r.log {
		if n.e.Kind == EntryData {
			want.Append(must(producer.Describe(n.e.Batch)), 0)
		}
	}
	want.Commit(r.l.prod.state.Committed())
	if diff := producer.Diff(r.l.prod.state, want); diff != "" {
		brokenf("producer state is not that of the log: %s", diff)
	}
}

// TestRules proves recovery: no seed finds a log that it must not find.
func TestRules(t *testing.T) {
	run := tier.Of(t, 150, 0)
	var seen rulesSeen
	for seed := range run.Seeds() {
		r := newRulesRun(seed, rules{}, t)
		if err := r.run(80); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		seen.add(r.seen)
	}
	if seen.deaths == 0 || seen.conflicts == 0 || seen.windows == 0 || seen.cuts == 0 || seen.kills == 0 ||
		seen.torn == 0 {
		t.Fatalf("the seeds did not meet everything: %+v", seen)
	}
	run.Report(t, "recovery rules: %+v", seen)
}

// offRules are the rules switched off, each and one pair.
var offRules = []struct {
	name string
	off  rules
}{
	{"R1 side entries first", rules{sideFirst: true}},
	{"R2 contiguous prefix", rules{prefix: true}},
	{"epoch check", rules{epoch: true}},
	{"R1 and epoch check", rules{sideFirst: true, epoch: true}},
	{"R3 truncation in order", rules{truncFirst: true}},
	{"R3 check in recovery", rules{truncCheck: true}},
	{"R4 reset", rules{reset: true}},
	{"R5 sync what was found", rules{syncFound: true}},
}

// TestRulesNeeded proves the proof: with any one rule switched off a seed fails soon.
func TestRulesNeeded(t *testing.T) {
	for _, c := range offRules {
		t.Run(c.name, func(t *testing.T) {
			run := tier.Of(t, 400, 0)
			failed := 0
			var first error
			for seed := range run.Seeds() {
				err := newRulesRun(seed, c.off, t).run(80)
				if err == nil {
					continue
				}
				if failed++; first == nil {
					first = fmt.Errorf("seed %d: %w", seed, err)
				}
				if !soaking() {
					break
				}
			}
			if failed == 0 {
				t.Fatalf("%d seeds found nothing", run.Amount)
			}
			run.Report(t, "%d seeds without %s fail, the first: %v", failed, c.name, first)
		})
	}
}

// soaking: every seed counts, not only the first that fails.
func soaking() bool { return os.Getenv(tier.AmountVar) != "" }
