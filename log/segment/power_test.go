package segment

import (
	"bytes"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
	"pgregory.net/rapid"
)

// TestPowerLoss: whatever a crash leaves of log and indexes, what was synced is there, what is there
// is a prefix of what was written, and every answer fits it.
func TestPowerLoss(t *testing.T) {
	check(t, func(t *rapid.T) {
		m := newMachine(t)
		power := vfs.PowerLoss(rapid.Uint64().Draw(t, "seed"))
		m.fs = power
		if err := m.fs.MkdirAll("p", 0o755); err != nil {
			t.Fatal(err)
		}
		s, err := Create(m.fs, "p", m.m.base, testBaseIndex, m.o)
		if err != nil {
			t.Fatal(err)
		}
		m.s = s
		if err := m.fs.SyncFS("p"); err != nil {
			t.Fatal(err)
		}
		synced := 0 // batches
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 12).Draw(t, "op") {
			case 0: // R3: a truncation is synced before anything is written behind it
				m.truncate(t)
				if err := m.s.Sync(); err != nil {
					t.Fatal(err)
				}
				synced = len(m.m.batches)
			case 1:
				m.flush(t)
			case 2:
				m.flush(t)
				if err := m.fs.SyncFS("p"); err != nil {
					t.Fatal(err)
				}
				synced = len(m.m.batches)
			case 3:
				if err := m.s.Sync(); err != nil {
					t.Fatal(err)
				}
				synced = len(m.m.batches)
			case 4:
				if rapid.IntRange(0, 3).Draw(t, "really") == 0 {
					m.seal(t)
				}
			case 5, 6:
				kind := rapid.SampledFrom([]vfs.CrashKind{vfs.KillCrash, vfs.PowerCrash, vfs.PowerCrash}).Draw(t, "crash")
				power = power.Crash(kind)
				m.fs = power
				m.afterCrash(t, synced, kind)
				synced = len(m.m.batches)
				m.check(t)
			default:
				m.append(t)
			}
		}
		m.check(t)
	})
}

// afterCrash does what the store does: recover from the synced mark, cut the torn tail, sync.
func (m *machine) afterCrash(t *rapid.T, synced int, kind vfs.CrashKind) {
	s, err := Open(m.fs, "p", m.m.base, m.o, false)
	if err != nil {
		t.Fatal(err)
	}
	m.s = s
	from := int64(0)
	for _, b := range m.m.batches[:synced] {
		from += int64(len(b.bytes))
	}
	all := m.m.all()
	got, err := s.Recover(Recovery{From: from, BaseIndex: testBaseIndex, Index: m.indexOf, Check: func(b batch.Batch, pos int64) error {
		if pos+int64(len(b)) > int64(len(all)) || !bytes.Equal(b, all[pos:][:len(b)]) {
			t.Fatalf("a batch at %d that was never written there", pos)
		}
		return nil
	}})
	if err != nil || got.End < from || got.End > int64(len(all)) || kind == vfs.KillCrash && got.End != int64(len(all)) {
		t.Fatalf("recovered %+v, %v; synced %d of %d", got, err, from, len(all))
	}
	if (got.Cause != nil) != (got.End < got.FileSize) {
		t.Fatalf("recovered %+v", got)
	}
	txns := m.m.txns
	if got.End < got.FileSize {
		if err := s.Truncate(got.End); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for pos := int64(0); pos < got.End; n++ {
		pos += int64(len(m.m.batches[n].bytes))
	}
	m.m.cut(n)
	if n > 0 && s.LastIndex() != m.m.batches[n-1].index {
		t.Fatalf("last index %d, want %d", s.LastIndex(), m.m.batches[n-1].index)
	}
	if n > 0 {
		m.index = m.m.batches[n-1].index + 1
	} else {
		m.index = testBaseIndex
	}
	m.epoch++
	for _, a := range txns {
		if a.LastOffset >= got.TxnsTo && a.LastOffset < m.m.next() {
			if err := s.AppendAborted(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	m.edited = true
}
