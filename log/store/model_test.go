package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

// model is a log and what it must hold: batches in order, and the log start.
type model struct {
	t    *testing.T
	fs   *vfs.PowerFS
	clk  *clock.Manual
	cfg  Config
	s    *Store
	l    *Log
	vals []string // by offset
	ends []int    // end offset of each batch
	from int      // log start
	term kafkaproto.LeaderEpoch
	// terms is where each term begins.
	terms map[kafkaproto.LeaderEpoch]int
}

func (m *model) open() {
	m.s = openStore(m.t, testOptions(m.t, m.fs, m.clk))
	m.l = openLog(m.t, m.s, 1, m.cfg)
	if m.l.Term() < m.term {
		m.t.Fatalf("term %d after %d", m.l.Term(), m.term)
	}
	if m.term = m.l.Term(); m.terms[m.term] == 0 {
		m.terms[m.term] = len(m.vals)
	}
}

// batchAt is the number of the batch that holds off.
func (m *model) batchAt(off int) int {
	i := 0
	for m.ends[i] <= off {
		i++
	}
	return i
}

func (m *model) append(t *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(t, "records")
	var vals []string
	for range n {
		vals = append(vals, fmt.Sprint("value ", len(m.vals)+len(vals)))
	}
	a, err := m.l.Append(values(int64(len(m.vals)), vals...), AppendOptions{})
	if err != nil || int(a.BaseOffset) != len(m.vals) || int(a.End) != len(m.vals)+n {
		t.Fatalf("append: %+v %v, want base %d", a, err, len(m.vals))
	}
	m.vals = append(m.vals, vals...)
	m.ends = append(m.ends, len(m.vals))
}

func (m *model) read(t *rapid.T) {
	end := len(m.vals)
	off := rapid.IntRange(-1, end+1).Draw(t, "offset")
	limit := rapid.IntRange(0, end+1).Draw(t, "limit")
	maxBytes := rapid.IntRange(0, 600).Draw(t, "max")
	one := rapid.Bool().Draw(t, "one")
	r, err := m.l.Read(kafkaproto.Offset(off), maxBytes, kafkaproto.Offset(limit), one)
	if off < m.from || off > end {
		if !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Fatalf("read at %d of [%d, %d]: %v", off, m.from, end, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	buf := make([]byte, r.Len)
	if r.Len > 0 {
		if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
			t.Fatal(err)
		}
	}
	next, batches := -1, 0
	_, err = batch.Scan(buf, func(_ int, b batch.Batch) (bool, error) {
		i := m.batchAt(int(b.BaseOffset()))
		if next < 0 && (i != m.batchAt(off)) || next >= 0 && int(b.BaseOffset()) != next {
			t.Fatalf("read at %d gives batch %d at %d", off, i, b.BaseOffset())
		}
		next = int(b.NextOffset())
		batches++
		if next != m.ends[i] || next > limit {
			t.Fatalf("batch ends at %d, want %d, limit %d", next, m.ends[i], limit)
		}
		return true, b.Each(1<<20, func(r *batch.Record) (bool, error) {
			if string(r.Value) != m.vals[r.Offset] {
				t.Fatalf("offset %d is %q", r.Offset, r.Value)
			}
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	fits := off < end && m.ends[m.batchAt(off)] <= limit
	if one && fits && batches == 0 {
		t.Fatalf("read at %d below %d gives nothing", off, limit)
	}
	if r.Len > maxBytes && !(one && batches == 1) {
		t.Fatalf("%d bytes, at most %d", r.Len, maxBytes)
	}
	if batches > 0 && int(r.Next) != next {
		t.Fatalf("next %d, want %d", r.Next, next)
	}
}

func (m *model) reopen(t *rapid.T) {
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		closeStore(m.t, m.s)
	case 1:
		m.fs = m.fs.Crash(vfs.KillCrash)
		_ = m.s.Close()
	case 2:
		if err := m.l.Flush(); err != nil {
			t.Fatal(err)
		}
		m.fs = m.fs.Crash(vfs.PowerCrash)
		_ = m.s.Close()
	}
	m.open()
}

func (m *model) deleteRecords(t *rapid.T) {
	to := rapid.IntRange(0, len(m.vals)).Draw(t, "to")
	if err := m.l.DeleteRecords(kafkaproto.Offset(to)); err != nil {
		t.Fatal(err)
	}
	m.from = max(m.from, to)
	settle(m.s)
}

func (m *model) check(t *rapid.T) {
	if int(m.l.StartOffset()) != m.from || int(m.l.EndOffset()) != len(m.vals) {
		t.Fatalf("[%d, %d), want [%d, %d)", m.l.StartOffset(), m.l.EndOffset(), m.from, len(m.vals))
	}
	checkIndexes(m.t, m.l)
	for term := range m.terms {
		end := len(m.vals)
		for other, at := range m.terms {
			if other > term {
				end = min(end, at)
			}
		}
		if _, at := m.l.EpochEnd(term); int(at) != max(end, m.from) {
			t.Fatalf("epoch %d ends at %d, want %d or the start %d", term, at, end, m.from)
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{
			t: t, fs: vfs.PowerLoss(rapid.Uint64().Draw(rt,
				"seed")), clk: clock.NewManual(testStart),
			terms: make(map[kafkaproto.LeaderEpoch]int),
			cfg: Config{
				SegmentBytes:  rapid.IntRange(100, 1500).Draw(rt, "segment bytes"),
				IndexInterval: rapid.IntRange(1, 500).Draw(rt, "index interval"),
				Strict:        rapid.Bool().Draw(rt, "strict"),
			},
		}
		m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"":        m.check,
			"append":  m.append,
			"append2": m.append,
			"append3": m.append,
			"read":    m.read,
			"read2":   m.read,
			"reopen":  m.reopen,
			"delete":  m.deleteRecords,
			"roll": func(t *rapid.T) {
				if err := m.l.Roll(); err != nil {
					t.Fatal(err)
				}
			},
			"commit": func(t *rapid.T) {
				if err := m.l.Flush(); err != nil {
					t.Fatal(err)
				}
				m.l.Commit(m.l.EndOffset())
				settle(m.s)
			},
		})
		closeStore(t, m.s)
	})
}
