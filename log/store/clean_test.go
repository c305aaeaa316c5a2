package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/vfs"
)

// settle waits until the janitor has done what is due.
func settle(s *Store) {
	for range 2 { // the first may run in the middle of a pass
		done := make(chan struct{})
		s.janitor.post(func() { close(done) })
		<-done
	}
}

// compacted is a log that is written to at random, and the records that it got.
type compacted struct {
	t    testing.TB
	rng  *rand.Rand
	clk  *clock.Manual
	s    *Store
	l    *Log
	all  []rec
	keys int
	key  string        // what keys begin with; "k" when empty
	sent []batch.Batch // the idempotent producer's batches, as they were appended
	seq  int32
}

var compactConfig = Config{
	SegmentBytes: 600, Compact: true, Strict: true, MinCleanableRatio: -1,
	DeleteRetention: time.Hour,
}

func (c *compacted) open(fsys vfs.FS) {
	c.t.Helper()
	c.s = openStore(c.t, testOptions(c.t, fsys, c.clk))
	c.l = openLog(c.t, c.s, 1, compactConfig)
}

// write appends n batches of random keys and values, a few of them tombstones.
func (c *compacted) write(n int) {
	for range n {
		codec := batch.Codec(c.rng.IntN(5))
		if c.rng.IntN(2) == 0 {
			codec = batch.None
		}
		b := batch.NewBuilder(batch.BuilderOptions{Codec: codec, Producer: &batch.Producer{ID: 3,
			BaseSequence: c.seq}})
		ts := clock.Millis(c.clk.Now())
		for range 1 + c.rng.IntN(5) {
			r := rec{
				off: kafkaproto.Offset(len(c.all)), ts: ts, key: fmt.Sprint("k", c.key,
					c.rng.IntN(c.keys)),
				val: fmt.Sprint("v", len(c.all)), null: c.rng.IntN(6) == 0,
			}
			if r.null {
				r.val = ""
			}
			val := []byte(r.val)
			if r.null {
				val = nil
			}
			b.Add(batch.Record{Timestamp: ts, Key: []byte(r.key), Value: val})
			c.all = append(c.all, r)
		}
		sent := must(b.Build())
		appendTo(c.t, c.l, sent)
		c.sent, c.seq = append(c.sent, sent), c.seq+sent.Count()
		c.clk.Advance(time.Millisecond)
	}
	commitAll(c.t, c.l)
	settle(c.s)
}

// check compares what a reader sees with what was written. cleaned is the end of what a pass has
// gone over; gone says whether tombstones in there may be missing.
func (c *compacted) check(cleaned kafkaproto.Offset, gone bool) {
	c.t.Helper()
	got := readAll(c.t, c.l, c.l.StartOffset())
	newest := map[string]kafkaproto.Offset{}
	for _, r := range c.all {
		newest[r.key] = r.off
	}
	seen := map[kafkaproto.Offset]bool{}
	for _, r := range got {
		if want := c.all[r.off]; r != want {
			c.t.Fatalf("offset %d is %+v, was written as %+v", r.off, r, want)
		}
		seen[r.off] = true
	}
	inMap := map[string]kafkaproto.Offset{}
	for _, r := range c.all {
		if r.off < cleaned {
			inMap[r.key] = r.off
		}
	}
	for _, r := range c.all {
		keep := inMap[r.key] == r.off
		switch {
		case r.off >= cleaned && !seen[r.off]:
			c.t.Fatalf("offset %d is missing, cleaned up to %d", r.off, cleaned)
		case r.off < cleaned && keep && !seen[r.off] && !(r.null && gone):
			c.t.Fatalf("offset %d %+v is the newest of its key and missing", r.off, r)
		case r.off < cleaned-1 && !keep && seen[r.off]:
			c.t.Fatalf("offset %d %+v is superseded by %d and still there", r.off, r, inMap[r.key])
		case r.off < cleaned-1 && r.null && gone && seen[r.off]:
			c.t.Fatalf("tombstone %d is still there", r.off)
		}
	}
	if cleaned > 0 && !seen[cleaned-1] {
		c.t.Fatalf("the last record of the pass, %d, is missing", cleaned-1)
	}
	end := c.l.EndOffset()
	for off := c.l.StartOffset(); off < end; off++ { // every offset leads on
		r, err := c.l.Read(off, 1, end, true)
		if err != nil || r.Len == 0 || r.Next <= off {
			c.t.Fatalf("read at %d: %d bytes, next %d, %v", off, r.Len, r.Next, err)
		}
		r.Release()
	}
}

func TestCompaction(t *testing.T) {
	total := 0
	defer func() {
		if total == 0 {
			t.Error("no run had a tombstone to lose")
		}
	}()
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			fsys := vfs.Memory()
			c := &compacted{t: t, rng: rand.New(rand.NewPCG(seed, 3)),
				clk: clock.NewManual(testStart), keys: 8}
			c.open(fsys)
			for range 4 {
				c.write(20)
				if !c.s.cleaner.cleanFilthiest() {
					t.Fatal("nothing was cleaned")
				}
				cleaned := c.s.cleaner.from[c.l.tp]
				c.check(cleaned, false)
				checkIndexes(t, c.l)
				closeStore(t, c.s)
				c.open(fsys)
				c.check(cleaned, false)
				c.retries()
				checkIndexes(t, c.l)
			}
			// Tombstones go once they have been seen for delete.retention.ms.
			clean := func() {
				t.Helper()
				if !c.s.cleaner.cleanFilthiest() {
					t.Fatal("nothing was cleaned")
				}
			}
			c.key = "other"
			c.write(20)
			clean()
			tombstones := func() (n int) {
				for _, r := range readAll(t, c.l, 0) {
					if r.null && !strings.HasPrefix(r.key, "kother") {
						n++
					}
				}
				return n
			}
			before := tombstones()
			c.clk.Advance(59 * time.Minute)
			c.write(20)
			clean()
			if n := tombstones(); n != before {
				t.Fatalf("%d tombstones of %d are left before their horizon", n, before)
			}
			c.clk.Advance(2 * time.Minute)
			c.write(20)
			clean()
			if n := tombstones(); n != 0 {
				t.Fatalf("%d tombstones of %d are left", n, before)
			}
			total += before
			closeStore(t, c.s)
		})
	}
}

func TestCompactionIsDue(t *testing.T) {
	c := &compacted{t: t, rng: rand.New(rand.NewPCG(1, 3)), clk: clock.NewManual(testStart),
		keys: 8}
	c.open(vfs.Memory())
	defer func() { closeStore(t, c.s) }()
	c.write(30)
	with := func(change func(*Config)) {
		cfg := compactConfig
		change(&cfg)
		c.l.SetConfig(cfg)
	}
	with(func(cfg *Config) { cfg.Compact = false })
	if _, due := c.s.cleaner.look(c.l); due {
		t.Error("a log that is not compacted is due")
	}
	with(func(cfg *Config) { cfg.MinCompactionLag = time.Hour })
	if j, due := c.s.cleaner.look(c.l); due {
		t.Errorf("due within min.compaction.lag.ms: %+v", j)
	}
	with(func(cfg *Config) {})
	if j, due := c.s.cleaner.look(c.l); !due || j.ratio != 1 {
		t.Errorf("not due: %+v", j)
	}
	c.s.cleaner.cleanFilthiest()
	if _, due := c.s.cleaner.look(c.l); due {
		t.Error("due again without a write")
	}
	c.write(5)
	with(func(cfg *Config) { cfg.MinCleanableRatio = 0.9 })
	if j, due := c.s.cleaner.look(c.l); due || j.ratio == 0 {
		t.Errorf("due below min.cleanable.dirty.ratio: %+v", j)
	}
	with(func(cfg *Config) { cfg.MinCleanableRatio, cfg.MaxCompactionLag = 0.9, time.Minute })
	c.clk.Advance(2 * time.Minute)
	if j, due := c.s.cleaner.look(c.l); !due || !j.must {
		t.Errorf("not due after max.compaction.lag.ms: %+v", j)
	}
}

// TestCompactionSmallMap cleans with a map that holds only a few keys at a time.
func TestCompactionSmallMap(t *testing.T) {
	c := &compacted{t: t, rng: rand.New(rand.NewPCG(5, 3)), clk: clock.NewManual(testStart),
		keys: 40}
	c.open(vfs.Memory())
	defer func() { closeStore(t, c.s) }()
	c.s.o.Cleaner.DedupeBytes = 20 * slotBytes
	c.write(60)
	passes := 0
	for c.s.cleaner.cleanFilthiest() {
		passes++
		got := readAll(t, c.l, 0)
		newest, want := map[string]rec{}, map[string]rec{}
		for _, r := range got {
			newest[r.key] = r
		}
		for _, r := range c.all {
			want[r.key] = r
		}
		if len(newest) != len(want) {
			t.Fatalf("%d keys, want %d", len(newest), len(want))
		}
		for k := range want {
			if newest[k] != want[k] {
				t.Fatalf("key %s is %+v, want %+v", k, newest[k], want[k])
			}
		}
	}
	if passes < 3 {
		t.Fatalf("%d passes", passes)
	}
}

// TestCompactionCrash stops the machine at every single file operation of a pass.
func TestCompactionCrash(t *testing.T) {
	for _, kind := range []vfs.CrashKind{vfs.KillCrash, vfs.PowerCrash} {
		step := 1
		if testing.Short() {
			step = 9
		}
		ops := 0
		for hit := true; hit; ops += step {
			hit = compactionCrash(t, kind, ops)
		}
		if ops < 50 {
			t.Fatalf("a pass has only %d operations", ops)
		}
	}
}

func compactionCrash(t *testing.T, kind vfs.CrashKind, op int) (hit bool) {
	power := vfs.PowerLoss(uint64(op) + 1)
	fsys := vfs.Inject(power)
	c := &compacted{t: t, rng: rand.New(rand.NewPCG(11, 3)), clk: clock.NewManual(testStart),
		keys: 6}
	c.open(fsys)
	c.write(12)
	if op%2 == 0 { // from the second pass on, cleaned segments are cleaned again
		c.s.cleaner.cleanFilthiest()
		c.write(8)
	}
	var left atomic.Int64
	left.Store(int64(op))
	fsys.Hook(func(vfs.Op, string) error {
		if left.Add(-1) < 0 {
			return vfs.ErrCrashed
		}
		return nil
	})
	c.s.cleaner.cleanFilthiest()
	hit = left.Load() < 0
	if hit {
		power = power.Crash(kind)
		_ = c.s.Close()
	} else {
		left.Store(1 << 40)
		closeStore(t, c.s)
	}
	defer func() {
		if t.Failed() {
			t.Logf("crash kind %d at operation %d", kind, op)
		}
	}()
	c.open(power)
	end := c.l.EndOffset()
	if int(end) != len(c.all) {
		t.Fatalf("kind %d op %d: log ends at %d, want %d", kind, op, end, len(c.all))
	}
	c.newestThere()
	c.retries()
	checkIndexes(t, c.l)
	c.write(4)
	for c.s.cleaner.cleanFilthiest() {
	}
	c.check(c.s.cleaner.from[c.l.tp], false)
	closeStore(t, c.s)
	return hit
}

// retries checks that the producer's last batches are known, whatever has become of them.
func (c *compacted) retries() {
	c.t.Helper()
	for _, b := range c.sent[len(c.sent)-producer.Retained:] {
		want := b.BaseOffset()
		a, err := c.l.Append(append(batch.Batch(nil), b...), AppendOptions{})
		if err != nil || !a.Duplicate || a.BaseOffset != want {
			c.t.Fatalf("retry of the batch at %d: %+v %v", want, a, err)
		}
	}
}

// newestThere checks that the newest record of each key is there, and nothing that was not written.
func (c *compacted) newestThere() {
	newest := map[string]rec{}
	for _, r := range readAll(c.t, c.l, 0) {
		if r != c.all[r.off] {
			c.t.Fatalf("offset %d is %+v, was written as %+v", r.off, r, c.all[r.off])
		}
		newest[r.key] = r
	}
	for _, r := range c.all {
		if newest[r.key].off < r.off {
			c.t.Fatalf("record %+v is lost", r)
		}
	}
}

// TestSwapRenamesOutOfOrder: a power cut keeps the new .log under its name and takes the renaming of its
// indexes back. The new segment must not be taken for the old one that it replaced.
func TestSwapRenamesOutOfOrder(t *testing.T) {
	power := vfs.PowerLoss(1)
	fsys := vfs.Inject(power)
	c := &compacted{t: t, rng: rand.New(rand.NewPCG(11, 3)), clk: clock.NewManual(testStart), keys: 6}
	c.open(fsys)
	c.write(12)
	var renamed string
	dead := false
	fsys.Hook(func(op vfs.Op, name string) error {
		if dead = dead || renamed != "" && op&mutating != 0; dead {
			return vfs.ErrCrashed
		}
		if op == vfs.OpRename && strings.HasSuffix(name, ".log.cleaned") {
			renamed = strings.TrimSuffix(name, ".log.cleaned")
		}
		return nil
	})
	c.s.cleaner.cleanFilthiest()
	if !dead {
		t.Fatal("no segment was swapped")
	}
	power = power.Crash(vfs.KillCrash)
	_ = c.s.Close()
	for _, ext := range []string{".index", ".timeindex", ".raftindex", ".sum"} {
		if err := power.Rename(renamed+ext, renamed+ext+".cleaned"); err != nil {
			t.Fatal(err)
		}
	}
	c.open(power)
	c.newestThere()
	c.retries()
	checkIndexes(t, c.l)
	closeStore(t, c.s)
}
