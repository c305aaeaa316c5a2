package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// form is one of the forms in which the same operations are done to a log.
type form interface {
	append(b batch.Batch)
	roll()
	trim(to kafkaproto.Offset)
	restart()
	logs() []*Log
}

// soloForm is a log without raft.
type soloForm struct {
	t   *testing.T
	n   *rnode
	clk *clock.Manual
}

func (f *soloForm) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *soloForm) append(b batch.Batch) {
	_, err := f.n.l.Append(b, AppendOptions{})
	f.check(errors.Join(f.n.unlessRefused(err), f.n.l.Flush()))
	f.n.l.Commit(f.n.l.EndOffset())
}

func (f *soloForm) roll() { f.check(f.n.l.Roll()) }

func (f *soloForm) trim(to kafkaproto.Offset) {
	f.check(f.n.l.DeleteRecords(to))
	f.n.s.janitor.pass()
}

func (f *soloForm) restart() {
	if f.n.s != nil {
		closeStore(f.t, f.n.s)
	}
	f.check(f.n.open())
	f.check(f.n.s.StartSolo(f.n.l))
}

func (f *soloForm) logs() []*Log { return []*Log{f.n.l} }

// raftForm is a log with n voters and a network that loses nothing.
type raftForm struct{ c *rcluster }

func (f *raftForm) settle() {
	for again := true; again; {
		again = len(f.c.net) > 0
		for len(f.c.net) > 0 {
			f.c.deliver(0, false)
		}
		for _, n := range f.c.nodes {
			n.do("sync", func() error { return errors.Join(n.l.Flush(), n.flush()) })
			again = again || len(n.waiting) > 0
		}
		again = again || len(f.c.net) > 0
	}
}

func (f *raftForm) append(b batch.Batch) {
	n := f.c.leader()
	n.do("propose", func() error { return n.propose(b) })
	f.settle()
}

func (f *raftForm) roll() {
	for _, n := range f.c.nodes {
		n.do("roll", n.l.Roll)
	}
}

func (f *raftForm) trim(to kafkaproto.Offset) {
	n := f.c.leader()
	n.do("trim", func() error { return errors.Join(n.rn.Propose(LogStartProposal(to)), n.flush()) })
	f.settle()
	n.do("tick", func() error { n.rn.Tick(); return n.flush() }) // followers hear of the commit
	f.settle()
	for _, n := range f.c.nodes {
		n.s.janitor.pass()
	}
}

func (f *raftForm) restart() {
	for _, n := range f.c.nodes {
		if n.s != nil {
			closeStore(f.c.t, n.s)
			n.rn, n.s = nil, nil
		}
		var conf pb.ConfState
		for _, m := range f.c.nodes {
			conf.Voters = append(conf.Voters, m.id)
		}
		if err := n.start(conf); err != nil {
			f.c.t.Fatal(err)
		}
	}
	f.c.nodes[0].do("campaign", func() error {
		return errors.Join(f.c.nodes[0].rn.Campaign(), f.c.nodes[0].flush())
	})
	f.settle()
}

func (f *raftForm) logs() (out []*Log) {
	for _, n := range f.c.nodes {
		out = append(out, n.l)
	}
	return out
}

// segmentFiles are the names and bytes of a log's segments.
func segmentFiles(t *testing.T, l *Log) map[string]string {
	t.Helper()
	files, err := segment.List(l.store.fs, l.dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, base := range files.Segments {
		b, err := vfs.ReadFile(l.store.fs, path.Join(l.dir, segmentName(base)+".log"), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		out[segmentName(base)] = string(b)
	}
	return out
}

// TestEquivalence: the same operations give the same segment bytes, side entries and state of producers
// in the solo form, with one voter and with three.
func TestEquivalence(t *testing.T) {
	run := tier.Of(t, 20, 0)
	for seed := range run.Seeds() {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			c1, c3 := newRcluster(t, seed), newRcluster(t, seed)
			solo := &rnode{c: newRcluster(t, seed), id: 1, fs: vfs.PowerLoss(seed), trip: -1}
			c1.nodes, c3.clk, solo.c.clk = c1.nodes[:1], c1.clk, c1.clk
			for _, c := range []*rcluster{c1, c3, solo.c} {
				c.lives, c.cfg.Compact = 1<<40, false
			}
			forms := []form{&soloForm{t: t, n: solo, clk: c1.clk}, &raftForm{c1}, &raftForm{c3}}
			for _, f := range forms {
				f.restart()
			}
			rng := rand.New(rand.NewPCG(seed, 77))
			made := newRcluster(t, seed+1000) // makes the batches
			for range 60 {
				b, k := made.batch(), rng.IntN(30)
				to := kafkaproto.Offset(rng.Int64N(int64(solo.l.HighWatermark()) + 1))
				// The solo form writes no side entry for nothing: no trim to where the start is, and no no-op
				// when nothing was written since the last.
				trim, restart := to > solo.l.StartOffset(), solo.l.mu.lastIndex > solo.l.mu.lastNoop
				for _, f := range forms {
					switch {
					case k < 24:
						f.append(b.Clone())
					case k < 26:
						f.roll()
					case k < 28 && trim:
						f.trim(to)
					case k >= 28 && restart:
						f.restart()
					}
				}
				compareForms(t, forms)
			}
			closeStore(t, solo.s)
			c1.close()
			c3.close()
		})
	}
	run.Report(t, "three forms")
}

func compareForms(t *testing.T, forms []form) {
	t.Helper()
	a := forms[0].logs()[0]
	want := segmentFiles(t, a)
	wantState, _ := a.store.journal.Group(a.id)
	for i, f := range forms {
		for j, l := range f.logs() {
			got, what := segmentFiles(t, l), fmt.Sprintf("form %d, replica %d", i, j)
			if len(got) != len(want) {
				t.Fatalf("%s has %d segments, want %d", what, len(got), len(want))
			}
			for name, b := range want {
				if got[name] != b {
					t.Fatalf("%s: segment %s has %d bytes, want %d, or others", what, name, len(got[name]), len(b))
				}
			}
			g, _ := l.store.journal.Group(l.id)
			same := func(x, y journal.Side) bool {
				return x.Index == y.Index && x.Term == y.Term && x.Kind == y.Kind && x.AtOffset == y.AtOffset &&
					bytes.Equal(x.Data, y.Data)
			}
			if !slices.EqualFunc(g.Sides, wantState.Sides, same) || g.Window != wantState.Window {
				t.Fatalf("%s: side entries %+v in %+v, want %+v in %+v", what, g.Sides, g.Window, wantState.Sides,
					wantState.Window)
			}
			if diff := producer.Diff(l.prod.state, a.prod.state); diff != "" && i > 0 && j == 0 {
				t.Fatalf("%s: producers: %s", what, diff)
			}
		}
	}
}

// switcher is a partition of one replica whose form changes while clients write to it.
type switcher struct {
	t  *testing.T
	l  *Log
	mu sync.Mutex // held for the group, not for solo appends
	rn *raft.RawNode

	waiting  []rwaiting
	last     Ticket
	proposed map[kafkaproto.Offset]batch.Batch
	term     uint64
}

func (s *switcher) append(b batch.Batch) {
	for {
		_, err := s.l.Append(b, AppendOptions{})
		if err == nil {
			return
		}
		s.mu.Lock()
		if s.rn != nil {
			s.propose(b)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock() // it went back meanwhile, or not yet
	}
}

func (s *switcher) propose(b batch.Batch) {
	a, err := s.l.Reserve(s.term, b, AppendOptions{})
	if err != nil {
		s.t.Errorf("reserve: %v", err)
		return
	}
	s.proposed[a.BaseOffset] = b
	if err := s.rn.Propose(DescribeBatch(b).Append(nil)); err != nil {
		s.t.Errorf("propose: %v", err)
	}
	s.flush()
}

// flush runs raft until nothing is left to do: every write is synced at once.
func (s *switcher) flush() {
	for s.rn.HasReady() {
		for _, m := range s.rn.Ready().Messages {
			switch m.To {
			case raft.LocalAppendThread:
				s.write(m)
			case raft.LocalApplyThread:
				hw := s.l.HighWatermark()
				for _, e := range m.Entries {
					if ent, d, err := EntryOf(e); err != nil {
						s.t.Errorf("entry: %v", err)
					} else if ent.Kind == EntryData {
						hw = d.Next()
					}
					s.l.CommitEntries(e.Index, hw)
				}
			}
			for _, r := range m.Responses {
				if err := s.rn.Step(r); err != nil {
					s.t.Errorf("step: %v", err)
				}
			}
		}
	}
}

func (s *switcher) write(m pb.Message) {
	var ents []Entry
	for _, e := range m.Entries {
		ent, d, err := EntryOf(e)
		if err != nil {
			s.t.Errorf("entry: %v", err)
		}
		if ent.Kind == EntryData {
			ent.Batch = s.proposed[d.Base]
			delete(s.proposed, d.Base)
		}
		ents = append(ents, ent)
	}
	_, err := s.l.AppendEntries(ents)
	if m.Term > 0 {
		_, err2 := s.l.SaveHardState(pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit})
		err = errors.Join(err, err2)
	}
	if err = errors.Join(err, s.l.Flush()); err != nil {
		s.t.Errorf("write: %v", err)
	}
}

// replicate and solo change the form.
func (s *switcher) replicate() {
	if err := s.l.StartReplica(pb.ConfState{Voters: []uint64{1}}); err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.l.RaftStorage()
	rn, err := raft.NewRawNode(&raft.Config{ID: 1, ElectionTick: 10, HeartbeatTick: 1, Storage: st, Applied: st.Applied(),
		AsyncStorageWrites: true, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 8, DisableProposalForwarding: true,
		Logger: quietLogger{}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.rn, s.proposed = rn, map[kafkaproto.Offset]batch.Batch{}
	if err := rn.Campaign(); err != nil {
		s.t.Fatal(err)
	}
	s.flush()
	s.term = rn.BasicStatus().Term
}

func (s *switcher) solo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rn = nil
	if err := errors.Join(s.l.StopReplica(), s.l.store.StartSolo(s.l)); err != nil {
		s.t.Fatal(err)
	}
}

// TestSwitchForms: a log goes from solo to replicated and back, again and again, while clients write. No
// record is lost, doubled or out of order, and a restart finds the same.
func TestSwitchForms(t *testing.T) {
	fsys := vfs.Memory()
	o := testOptions(t, fsys, clock.NewManual(testStart))
	cfg := Config{SegmentBytes: 3000, Strict: true}
	st := openStore(t, o)
	s := &switcher{t: t, l: openLog(t, st, 1, cfg)}
	s.l.Observe(func(ev Event) {
		if ev.Kind == Synced && !s.l.raft.on.Load() {
			s.l.Commit(ev.Offset)
		}
	})
	const clients, each = 4, 300
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				s.append(values(1, fmt.Sprintf("%d %d", c, i)))
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	switches := 0
	for stop := false; !stop || switches < 10; switches++ {
		s.replicate()
		s.solo()
		select {
		case <-done:
			stop = true
		default:
		}
	}
	check := func(l *Log) {
		t.Helper()
		next := map[int]int{}
		for _, r := range readAll(t, l, 0) {
			var c, i int
			if _, err := fmt.Sscan(r.val, &c, &i); err != nil || next[c] != i {
				t.Fatalf("client %d: record %q where %d is next, %v", c, r.val, next[c], err)
			}
			next[c]++
		}
		for c := range clients {
			if next[c] != each {
				t.Fatalf("client %d: %d records of %d", c, next[c], each)
			}
		}
		checkIndexes(t, l)
	}
	check(s.l)
	closeStore(t, st)
	st = openStore(t, o)
	check(openLog(t, st, 1, cfg))
	closeStore(t, st)
	t.Logf("%d switches", switches)
}
