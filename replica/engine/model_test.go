package engine

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/store"
)

// wait is one call of WhenCommitted and what became of it.
type wait struct {
	end   kafkaproto.Offset
	calls int
	err   error
	seen  kafkaproto.Offset // high watermark at the call
}

// model drives a partition and says what its high watermark must be. Between its steps everything
// has come to rest, so the partition's state is known exactly.
type model struct {
	t *rapid.T
	r *rig
	p *Partition

	strict           bool
	end, synced, hw  kafkaproto.Offset
	syncing          kafkaproto.Offset // end of what the sync that waits covers, -1: none waits
	shut             error
	mu               sync.Mutex
	waits            []*wait
	watcher          *Watcher
	wakes, wakesSeen int
	movedSince       bool
}

func (m *model) check() {
	m.t.Helper()
	synctest.Wait()
	bound := m.synced
	if !m.strict {
		bound = m.end
	}
	if !m.deleted() { // the log of a closed engine lives on
		m.hw = max(m.hw, bound)
	}
	if got := m.p.HighWatermark(); got != m.hw {
		m.t.Fatalf("high watermark %d, want %d (strict %v, synced %d, end %d)",
			got, m.hw, m.strict, m.synced, m.end)
	}
	if got := m.p.LogEnd(); got != m.end {
		m.t.Fatalf("log end %d, want %d", got, m.end)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.strict && m.end > m.synced && m.syncing < 0 && !m.deleted() {
		m.t.Fatalf("no sync is under way: synced %d, end %d", m.synced, m.end)
	}
	for i, w := range m.waits {
		switch {
		case w.calls > 1:
			m.t.Fatalf("wait %d for %d was called %d times (E3)", i, w.end, w.calls)
		case w.calls == 1 && w.err == nil && w.seen < w.end:
			m.t.Fatalf("wait %d for %d was told at high watermark %d", i, w.end, w.seen)
		case w.calls == 1 && w.err != nil && !errors.Is(w.err, m.shut):
			m.t.Fatalf("wait %d for %d failed: %v", i, w.end, w.err)
		case w.calls == 0 && (w.end <= m.hw || m.shut != nil):
			m.t.Fatalf("wait %d for %d was not told (high watermark %d, shut %v)", i, w.end, m.hw, m.shut)
		}
	}
	if m.movedSince && m.wakes == m.wakesSeen {
		m.t.Fatalf("a move was not told to the watcher (E4)")
	}
	if m.wakes > m.wakesSeen+1 {
		m.t.Fatalf("the watcher was called %d times without Arm", m.wakes-m.wakesSeen)
	}
	m.wakesSeen, m.movedSince = m.wakes, false
	m.watcher.Arm()
}

func (m *model) deleted() bool { return errors.Is(m.shut, kerr.UnknownTopicOrPartition) }

func (m *model) append(t *rapid.T) {
	n := rapid.IntRange(1, 5).Draw(t, "records")
	res, err := m.p.Append(records(n, 10), AppendOptions{NowMs: testNow})
	if m.shut != nil {
		if !errors.Is(err, m.shut) {
			t.Fatalf("append after the end: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if res.BaseOffset != m.end || res.End != m.end+kafkaproto.Offset(n) || res.Duplicate {
		t.Fatalf("append of %d at %d: %+v", n, m.end, res)
	}
	m.end = res.End
	m.movedSince = !m.strict
}

func (m *model) wait(t *rapid.T) {
	w := &wait{end: kafkaproto.Offset(rapid.IntRange(0, int(m.end)).Draw(t, "end"))}
	m.mu.Lock()
	m.waits = append(m.waits, w)
	m.mu.Unlock()
	m.p.WhenCommitted(w.end, func(err error) {
		seen := m.p.HighWatermark()
		m.mu.Lock()
		defer m.mu.Unlock()
		w.calls++
		w.err, w.seen = err, seen
	})
}

func (m *model) sync(t *rapid.T) {
	m.mu.Lock()
	end := m.syncing
	m.syncing = -1
	m.mu.Unlock()
	if end < 0 {
		t.Skip("no sync waits")
	}
	m.r.gate <- struct{}{}
	if m.deleted() {
		return
	}
	m.movedSince = m.shut == nil && m.strict && end > m.hw
	m.synced = max(m.synced, end)
}

func (m *model) setStrict(t *rapid.T) {
	if m.shut != nil {
		t.Skip("gone")
	}
	m.strict = !m.strict
	m.movedSince = !m.strict && m.end > m.hw
	m.p.SetConfig(store.Config{Strict: m.strict})
}

func (m *model) read(t *rapid.T) {
	off := kafkaproto.Offset(rapid.IntRange(-1, int(m.end)+1).Draw(t, "offset"))
	r, err := m.p.Read(off, 1<<20, ReadUncommitted, true)
	defer r.Range.Release()
	switch {
	case m.shut != nil:
		if !errors.Is(err, m.shut) {
			t.Fatalf("read after the end: %v", err)
		}
	case off < 0 || off > m.end:
		if kafkaproto.Code(err) != kerr.OffsetOutOfRange.Code {
			t.Fatalf("read at %d of [0, %d]: %v", off, m.end, err)
		}
	case err != nil:
		t.Fatal(err)
	case off >= m.hw && r.Range.Len != 0:
		t.Fatalf("read at %d gave records at or above the high watermark %d (E2)", off, m.hw)
	case off < m.hw && (r.Range.Len == 0 || r.Range.First > off || r.Range.Next > m.hw):
		t.Fatalf("read at %d gave [%d, %d) of %d bytes, high watermark %d (E2)",
			off, r.Range.First, r.Range.Next, r.Range.Len, m.hw)
	}
}

func (m *model) finish(t *rapid.T) {
	if m.shut != nil {
		t.Skip("gone")
	}
	m.movedSince = true
	if rapid.Bool().Draw(t, "delete") {
		m.shut = kerr.UnknownTopicOrPartition
		if err := m.r.engine.Delete(m.p.ID()); err != nil {
			t.Fatal(err)
		}
		if m.r.engine.Get(m.p.TP().Topic, 0) != nil || m.r.engine.ByID(m.p.ID()) != nil {
			t.Fatal("a deleted partition is found")
		}
		return
	}
	m.shut = kerr.NotLeaderForPartition
	m.r.engine.Close()
}

// TestHighWatermarkModel holds the partition against the rules of ruling 2 over random sequences of
// appends, syncs, waits, changes of the durability mode, and the partition's end (E1 to E4).
func TestHighWatermarkModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// rapid asks a *testing.T for its deadline, which a bubble does not allow.
		rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) {
			r := newRig(t)
			defer r.close()
			m := &model{t: rt, r: r, strict: rapid.Bool().Draw(rt, "strict"), syncing: -1}
			m.p = r.partition(1, store.Config{Strict: m.strict})
			m.watcher = NewWatcher(func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.wakes++
			})
			m.p.Watch(m.watcher)
			synctest.Wait()
			r.onSync = func() {
				end := m.p.LogEnd() // nothing is appended before the sync waits
				m.mu.Lock()
				defer m.mu.Unlock()
				m.syncing = end
			}
			r.hold()
			defer r.letGo()
			rt.Repeat(map[string]func(*rapid.T){
				"": func(*rapid.T) { m.check() }, "append": m.append, "wait": m.wait, "sync": m.sync,
				"strict": m.setStrict, "read": m.read, "end": m.finish,
			})
		})
	})
}
