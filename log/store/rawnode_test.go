package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/tier"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/vfs"
)

// rcluster is one seed: a log is written in its solo form, with everything that may happen to one; then
// it is one voter's, then it gets a second and a third replica, by entries or by files as it comes, while
// messages get lost and machines lose power. In the end all replicas must have the same.
type rcluster struct {
	t       *testing.T
	rng     *rand.Rand
	clk     *clock.Manual
	cfg     Config
	journal journal.Options
	quiet   raft.Logger
	trims   bool
	lives   int // one in so many steps is the last one before a crash, at some call of it

	nodes     []*rnode
	net       []rmessage
	transfers []*transfer
	committed map[uint64]committedEntry
	top       uint64
	seq       map[int]int32
	seen      rclusterSeen
}

// committedEntry is what some node has applied; all must agree.
type committedEntry struct {
	kind EntryKind
	term uint64
	d    Descriptor
	b    []byte
}

type rclusterSeen struct {
	solo, crashes, deaths, installs, restarts, elections, cleaned, trimmed, committed, byFiles int
}

func (a *rclusterSeen) add(b rclusterSeen) {
	a.solo, a.crashes, a.deaths, a.installs = a.solo+b.solo, a.crashes+b.crashes, a.deaths+b.deaths, a.installs+b.installs
	a.restarts, a.elections, a.cleaned = a.restarts+b.restarts, a.elections+b.elections, a.cleaned+b.cleaned
	a.trimmed, a.committed, a.byFiles = a.trimmed+b.trimmed, a.committed+b.committed, a.byFiles+b.byFiles
}

func newRcluster(t *testing.T, seed uint64) *rcluster {
	c := &rcluster{
		t: t, rng: rand.New(rand.NewPCG(seed, 41)), clk: clock.NewManual(testStart),
		quiet: &raft.DefaultLogger{Logger: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}, lives: 40, committed: map[uint64]committedEntry{}, seq: map[int]int32{},
	}
	c.cfg = Config{
		SegmentBytes: 500 + c.rng.IntN(1500), IndexInterval: 1 + c.rng.IntN(400), Strict: true,
		Compact: c.rng.IntN(3) == 0, MinCleanableRatio: -1,
	}
	c.trims = c.rng.IntN(2) == 0
	c.journal = journal.Options{FileBytes: int64(3000 + c.rng.IntN(6000)), ExtendBytes: int64(512 << c.rng.IntN(4))}
	for id := range uint64(3) {
		c.nodes = append(c.nodes, &rnode{c: c, id: id + 1, fs: vfs.PowerLoss(seed*3 + id), trip: -1})
	}
	return c
}

func (c *rcluster) kind() vfs.CrashKind {
	if c.rng.IntN(3) == 0 {
		return vfs.KillCrash
	}
	return vfs.PowerCrash
}

// batch makes one up: plain, idempotent, or of a transaction, or a marker that ends one.
func (c *rcluster) batch() batch.Batch {
	id, ts := c.rng.IntN(4), clock.Millis(c.clk.Now())
	o := batch.BuilderOptions{Codec: batch.Codec(c.rng.IntN(5))}
	switch {
	case id == 3 && c.rng.IntN(4) == 0:
		kind := batch.Commit
		if c.rng.IntN(2) == 0 {
			kind = batch.Abort
		}
		return batch.Control(kind, 1, 3, 0, ts)
	case id > 0:
		// Without a sequence: what a crash takes away must not stop the producer.
		o.Producer = &batch.Producer{ID: kafkaproto.ProducerID(id), BaseSequence: -1}
		o.Transactional = id == 3
	}
	b := batch.NewBuilder(o)
	for range 1 + c.rng.IntN(4) {
		c.seq[id]++
		b.Add(batch.Record{Timestamp: ts, Key: fmt.Append(nil, "k", c.rng.IntN(9)),
			Value: fmt.Append(nil, id, " ", c.seq[id], string(bytes.Repeat([]byte("x"), c.rng.IntN(120))))})
	}
	return must(b.Build())
}

// unlessRefused drops what a client would be told.
func (n *rnode) unlessRefused(err error) error {
	if k := (*kerr.Error)(nil); errors.As(err, &k) {
		return nil
	}
	return err
}

// soloLife is the time before raft.
func (c *rcluster) soloLife(steps int) {
	n := c.nodes[0]
	open := func() {
		for {
			if c.rng.IntN(4) == 0 {
				n.trip = c.rng.IntN(30)
			}
			err := n.open()
			if err == nil {
				err = n.s.StartSolo(n.l)
			}
			n.trip = -1
			if err == nil {
				return
			}
			if !n.dead {
				c.t.Fatalf("solo: %v", err)
			}
			n.crash(c.kind())
		}
	}
	open()
	for range steps {
		c.seen.solo++
		var err error
		switch k := c.rng.IntN(40); {
		case k < 26:
			_, err = n.l.Append(c.batch(), AppendOptions{})
			err = n.unlessRefused(err)
		case k < 29:
			if err = n.l.Flush(); err == nil {
				n.l.Commit(n.l.EndOffset())
			}
		case k < 31:
			err = n.l.Roll()
		case k < 33:
			err = c.soloTrim(n)
		case k < 36:
			n.s.janitor.pass()
			for c.cfg.Compact && n.s.cleaner.cleanFilthiest() {
				c.seen.cleaned++
			}
		case k < 38:
			c.clk.Advance(time.Second)
		default:
			if c.rng.IntN(2) == 0 {
				if err = n.s.Close(); err == nil {
					n.s = nil
				}
			}
			if err == nil {
				n.crash(c.kind())
				open()
			}
		}
		if err != nil {
			c.t.Fatalf("solo: %v", err)
		}
	}
	closeStore(c.t, n.s)
	n.s = nil
	if c.rng.IntN(2) == 0 {
		n.crash(c.kind())
	}
}

func (c *rcluster) soloTrim(n *rnode) error {
	hw := n.l.HighWatermark()
	if !c.trims || hw == 0 {
		return nil
	}
	c.seen.trimmed++
	if err := n.l.DeleteRecords(kafkaproto.Offset(c.rng.Int64N(int64(hw) + 1))); err != nil {
		return err
	}
	n.s.janitor.pass()
	return nil
}

// up starts a node, after as many crashes within its start as there are.
func (c *rcluster) up(n *rnode) {
	conf := pb.ConfState{Voters: []uint64{1}}
	if n.id != 1 {
		conf.Learners = []uint64{n.id}
	}
	for {
		if c.rng.IntN(4) == 0 {
			n.trip = c.rng.IntN(30)
		}
		err := n.start(conf)
		n.trip = -1
		if err == nil {
			break
		}
		if !n.dead {
			c.t.Fatalf("start of node %d: %v", n.id, err)
		}
		c.seen.deaths++
		n.crash(c.kind())
	}
	c.seen.restarts++
	n.do("first flush", n.flush)
}

// commit notes that a node has applied an entry; everybody must have the same at its index.
func (c *rcluster) commit(n *rnode, e Entry, d Descriptor, b batch.Batch) {
	now := committedEntry{e.Kind, e.Term, d, bytes.Clone(b)}
	old, ok := c.committed[e.Index]
	if ok && (old.kind != now.kind || old.term != now.term || old.d != now.d ||
		old.b != nil && now.b != nil && !bytes.Equal(old.b, now.b)) {
		c.t.Fatalf("entry %d is %+v on node %d, was %+v", e.Index, now, n.id, old)
	}
	if !ok || old.b == nil {
		c.committed[e.Index] = now
	}
	c.top = max(c.top, e.Index)
}

func (c *rcluster) leader() *rnode {
	var best *rnode
	for _, n := range c.nodes {
		if n.rn == nil || n.rn.BasicStatus().RaftState != raft.StateLeader {
			continue
		}
		if best == nil || n.rn.BasicStatus().Term > best.rn.BasicStatus().Term {
			best = n
		}
	}
	return best
}

// changeConf takes the next step to three voters.
func (c *rcluster) changeConf(n *rnode, v2 bool) error {
	conf := n.rn.Status().Config
	change := pb.ConfChange{Type: pb.ConfChangeAddLearnerNode}
	for _, id := range []uint64{2, 3} {
		_, voter := conf.Voters.IDs()[id]
		_, learner := conf.Learners[id]
		if voter {
			continue
		}
		if change.NodeID = id; learner {
			change.Type = pb.ConfChangeAddNode
		}
		break
	}
	if change.NodeID == 0 {
		return nil
	}
	var err error
	if v2 {
		err = n.rn.ProposeConfChange(change.AsV2())
	} else {
		err = n.rn.ProposeConfChange(change)
	}
	if err != nil && !errors.Is(err, raft.ErrProposalDropped) {
		return err
	}
	return n.flush()
}

// trim proposes a new log start.
func (c *rcluster) trim(n *rnode) error {
	start, hw := n.l.StartOffset(), n.l.HighWatermark()
	if !c.trims || hw <= start {
		return nil
	}
	c.seen.trimmed++
	err := n.rn.Propose(LogStartProposal(start + kafkaproto.Offset(c.rng.Int64N(int64(hw-start)+1))))
	if err != nil && !errors.Is(err, raft.ErrProposalDropped) {
		return err
	}
	return n.flush()
}

// deliver takes a message from the network.
func (c *rcluster) deliver(i int, keep bool) {
	w := c.net[i]
	if !keep {
		c.net = slices.Delete(c.net, i, i+1)
	}
	n := c.nodes[w.To-1]
	switch {
	case w.Type == pb.MsgSnap && keep:
	case w.Type == pb.MsgSnap:
		c.transfers = append(c.transfers, &transfer{rmessage: w})
	case n.rn != nil:
		n.do("receive "+w.Type.String(), func() error { return n.receive(w) })
	}
}

// ship goes on with one of the snapshots that are on their way.
func (c *rcluster) ship() {
	i := c.rng.IntN(len(c.transfers))
	x := c.transfers[i]
	n, from := c.nodes[x.To-1], c.nodes[x.From-1]
	done, ok := false, n.rn != nil && (x.stage == nil || x.stage.l == n.l) && (x.stage != nil || !n.l.staging.Load())
	if ok {
		alive := n.do("ship", func() (err error) {
			done, err = n.more(x)
			if errors.Is(err, errDropped) {
				ok = false
				return x.stage.Discard()
			}
			return err
		})
		ok = ok && alive
	}
	if ok && !done {
		return
	}
	c.transfers = slices.Delete(c.transfers, i, i+1)
	x.files.Close()
	if done {
		c.seen.byFiles++
	}
	if from.rn != nil && from.rn.BasicStatus().RaftState == raft.StateLeader {
		status := raft.SnapshotFinish
		if !done {
			status = raft.SnapshotFailure
		}
		from.do("report", func() error {
			from.rn.ReportSnapshot(x.To, status)
			return from.flush()
		})
	}
}

func (c *rcluster) step() {
	n := c.nodes[c.rng.IntN(len(c.nodes))]
	lead := c.leader()
	switch k := c.rng.IntN(100); {
	case n.rn == nil:
		if c.rng.IntN(3) == 0 {
			c.up(n)
		}
	case k < 20 && lead != nil:
		lead.do("propose", func() error { return lead.propose(c.batch()) })
	case k < 45 && len(c.net) > 0:
		c.deliver(c.rng.IntN(min(len(c.net), 4)), c.rng.IntN(20) == 0)
	case k < 47 && len(c.net) > 0:
		i := c.rng.IntN(len(c.net))
		c.lose(c.net[i])
		c.net = slices.Delete(c.net, i, i+1)
	case k < 52 && len(c.transfers) > 0:
		c.ship()
	case k < 72:
		n.do("sync", func() error { return errors.Join(n.l.Flush(), n.flush()) })
	case k < 76 && lead != nil:
		lead.do("tick", func() error { lead.rn.Tick(); return lead.flush() })
	case k < 79 && (lead == nil || c.rng.IntN(4) == 0):
		n.do("campaign", func() error {
			c.seen.elections++
			return errors.Join(n.rn.Campaign(), n.flush())
		})
	case k < 83 && lead != nil:
		lead.do("change of configuration", func() error { return c.changeConf(lead, c.rng.IntN(2) == 0) })
	case k < 86 && lead != nil:
		lead.do("trim", func() error { return c.trim(lead) })
	case k < 89:
		n.do("roll", n.l.Roll)
	case k < 95:
		n.do("housekeeping", func() error {
			n.s.janitor.pass()
			for c.cfg.Compact && n.s.cleaner.cleanFilthiest() {
				c.seen.cleaned++
			}
			return errors.Join(n.s.Err(), n.l.Offline())
		})
	case k < 96:
		n.l.raft.ring.clear()
	case k < 98:
		c.clk.Advance(time.Second)
	default:
		n.crash(c.kind())
	}
}

// lose is for a message that does not arrive.
func (c *rcluster) lose(w rmessage) {
	if w.files == nil {
		return
	}
	w.files.Close()
	if n := c.nodes[w.From-1]; n.rn != nil && n.rn.BasicStatus().RaftState == raft.StateLeader {
		n.rn.ReportSnapshot(w.To, raft.SnapshotFailure)
	}
}

// heal brings all nodes up and lets them catch up.
func (c *rcluster) heal() {
	c.lives = 1 << 40
	for round := 0; ; round++ {
		for _, n := range c.nodes {
			if n.rn == nil {
				c.up(n)
			}
		}
		lead := c.leader()
		switch {
		case lead == nil && round%4 == 0, round%50 == 49: // the leader may be one of an old term
			n := c.nodes[c.rng.IntN(len(c.nodes))]
			n.do("campaign", func() error { return errors.Join(n.rn.Campaign(), n.flush()) })
		case lead != nil:
			lead.do("tick", func() error {
				lead.rn.Tick()
				return errors.Join(c.changeConf(lead, false), lead.flush())
			})
		}
		for range 400 {
			if len(c.net) > 0 {
				c.deliver(0, false)
			} else if len(c.transfers) > 0 {
				c.ship()
			}
		}
		for _, n := range c.nodes {
			n.do("sync", func() error { return errors.Join(n.l.Flush(), n.flush()) })
		}
		if lead != nil && len(c.net) == 0 && len(c.transfers) == 0 && c.equalIndexes(lead) {
			return
		}
		if round == 300 {
			for _, n := range c.nodes {
				c.t.Logf("node %d: last %d commit %d of %+v", n.id, n.l.raft.last.Load(), n.l.raft.commit.Load(),
					n.rn.Status())
			}
			c.t.Fatal("the nodes do not catch up")
		}
	}
}

func (c *rcluster) equalIndexes(lead *rnode) bool {
	if len(lead.rn.Status().Config.Voters.IDs()) != 3 {
		return false
	}
	last := lead.l.raft.last.Load()
	for _, n := range c.nodes {
		if n.l.raft.last.Load() != last || n.l.raft.commit.Load() != last {
			return false
		}
	}
	return true
}

// compare holds the replicas against each other and against what was committed.
func (c *rcluster) compare() {
	var first []batch.Batch
	for i, n := range c.nodes {
		checkIndexes(c.t, n.l)
		if !c.cfg.Compact {
			c.checkCommitted(n)
		}
		got := c.batches(n)
		if i == 0 {
			first = got
			continue
		}
		a, b := c.nodes[0], n
		if a.l.StartOffset() != b.l.StartOffset() || a.l.EndOffset() != b.l.EndOffset() ||
			a.l.HighWatermark() != b.l.HighWatermark() {
			c.t.Fatalf("nodes 1 and %d: log [%d, %d), committed %d; and [%d, %d), committed %d", b.id, a.l.StartOffset(),
				a.l.EndOffset(), a.l.HighWatermark(), b.l.StartOffset(), b.l.EndOffset(), b.l.HighWatermark())
		}
		if !slices.Equal(a.l.keptEpochs(), b.l.keptEpochs()) {
			c.t.Fatalf("leader epochs of nodes 1 and %d: %v and %v", b.id, a.l.keptEpochs(), b.l.keptEpochs())
		}
		// What was trimmed a start after a power cut may not know any more: one replica does, another not.
		if diff := producer.Diff(a.l.prod.state, b.l.prod.state); diff != "" && !c.trims {
			c.t.Fatalf("producers of nodes 1 and %d: %s", b.id, diff)
		}
		if c.cfg.Compact || c.trims {
			continue
		}
		if !slices.EqualFunc(first, got, func(x, y batch.Batch) bool { return bytes.Equal(x, y) }) {
			c.t.Fatalf("nodes 1 and %d have other bytes: %d and %d batches", b.id, len(first), len(got))
		}
		x, err := a.l.Aborted(a.l.StartOffset(), a.l.EndOffset())
		y, err2 := b.l.Aborted(a.l.StartOffset(), a.l.EndOffset())
		if err := errors.Join(err, err2); err != nil || !slices.Equal(x, y) {
			c.t.Fatalf("aborted transactions of nodes 1 and %d: %v and %v, %v", b.id, x, y, err)
		}
	}
	if c.cfg.Compact {
		c.compareNewest()
	}
}

// batches reads all batches that a reader can reach.
func (c *rcluster) batches(n *rnode) (out []batch.Batch) {
	for off := n.l.StartOffset(); off < n.l.EndOffset(); {
		r, err := n.l.Read(off, 1, n.l.EndOffset(), true)
		if err != nil || r.Len == 0 {
			c.t.Fatalf("node %d: read at %d: %d bytes, %v", n.id, off, r.Len, err)
		}
		b := make([]byte, r.Len)
		if _, err := r.File.ReadAt(b, r.Pos); err != nil {
			c.t.Fatal(err)
		}
		off = r.Next
		r.Release()
		if err := batch.Batch(b).VerifyCRC(); err != nil {
			c.t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

// checkCommitted: everything that any node has applied is there.
func (c *rcluster) checkCommitted(n *rnode) {
	for index := uint64(1); index <= c.top; index++ {
		e, ok := c.committed[index]
		if !ok || e.kind != EntryData || e.d.Base < n.l.StartOffset() {
			continue
		}
		b, err := n.batchAt(e.d, e.term)
		if err != nil || !bytes.Equal(b, e.b) {
			c.t.Fatalf("node %d: committed entry %d at offset %d is lost: %v", n.id, index, e.d.Base, err)
		}
	}
}

// compareNewest holds compacted logs against each other: cleaned at different times, they have the same
// newest record of each key.
func (c *rcluster) compareNewest() {
	var first map[string]rec
	for _, n := range c.nodes {
		newest := map[string]rec{}
		for _, r := range readAll(c.t, n.l, n.l.StartOffset()) {
			newest[r.key] = r
		}
		if first == nil {
			first = newest
		}
		for k, r := range newest {
			if first[k] != r {
				c.t.Fatalf("newest of key %s on node %d: %+v, on node 1 %+v", k, n.id, r, first[k])
			}
		}
		if len(newest) != len(first) {
			c.t.Fatalf("%d keys on node %d, %d on node 1", len(newest), n.id, len(first))
		}
	}
}

func (c *rcluster) close() {
	for _, w := range c.net {
		c.lose(w)
	}
	for _, n := range c.nodes {
		n.crash(vfs.KillCrash)
	}
}

func (c *rcluster) run() {
	defer c.close()
	c.soloLife(40 + c.rng.IntN(120))
	n := c.nodes[0]
	c.up(n)
	end := n.l.EndOffset()
	if st := n.rn.BasicStatus(); st.Commit != n.l.raft.last.Load() || n.l.HighWatermark() != end {
		c.t.Fatalf("a solo log is not all committed: %+v, last %d, high watermark %d of %d", st, n.l.raft.last.Load(),
			n.l.HighWatermark(), end)
	}
	lives := c.lives
	c.lives = 1 << 40
	for i := 0; c.leader() == nil || n.l.raft.commit.Load() != n.l.raft.last.Load(); i++ {
		n.do("campaign", func() error {
			if c.leader() == nil {
				return errors.Join(n.rn.Campaign(), n.flush(), n.l.Flush(), n.flush())
			}
			return errors.Join(n.l.Flush(), n.flush())
		})
		if i > 10 {
			c.t.Fatalf("one voter does not win: %+v", n.rn.BasicStatus())
		}
	}
	c.lives = lives
	for range 600 {
		c.step()
	}
	c.heal()
	for range 5 {
		lead := c.leader()
		lead.do("propose", func() error { return lead.propose(c.batch()) })
	}
	c.heal()
	c.compare()
	for _, n := range c.nodes { // and again as a start finds them
		n.crash(c.kind())
	}
	c.heal()
	c.compare()
	c.seen.committed += int(c.top)
}

// TestRawNode boots raft over directories that were written solo, and grows them to three replicas.
func TestRawNode(t *testing.T) {
	run := tier.Of(t, 40, 0)
	var all rclusterSeen
	for seed := range run.Seeds() {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			c := newRcluster(t, seed)
			c.run()
			all.add(c.seen)
		})
	}
	if !t.Failed() && run.Amount >= 20 && min(all.installs, all.deaths, all.cleaned, all.trimmed, all.elections) == 0 {
		t.Errorf("the runs did not meet everything: %+v", all)
	}
	run.Report(t, "%+v", all)
}
