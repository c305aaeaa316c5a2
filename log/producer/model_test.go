package producer

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"pgregory.net/rapid"

	"github.com/sluicelog/sluice/kafkaproto"
)

// naive is the partition as the plain list of its batches: every question is answered by reading
// it from the start.
type naive struct {
	log []Batch
	hw  kafkaproto.Offset
}

func (n *naive) end() kafkaproto.Offset {
	if len(n.log) == 0 {
		return 0
	}
	return n.log[len(n.log)-1].LastOffset() + 1
}

func (n *naive) of(pid kafkaproto.ProducerID) []Batch {
	var out []Batch
	for _, b := range n.log {
		if b.Producer == pid {
			out = append(out, b)
		}
	}
	return out
}

// sequences lists every sequence number that a batch holds.
func sequences(b Batch) []int32 {
	var out []int32
	seq := b.BaseSequence
	for range b.LastOffsetDelta + 1 {
		out = append(out, seq)
		if seq == math.MaxInt32 {
			seq = -1
		}
		seq++
	}
	return out
}

// lastFive gives the newest data batches of the producer's current epoch.
func (n *naive) lastFive(pid kafkaproto.ProducerID) (epoch kafkaproto.ProducerEpoch, five []Batch) {
	all := n.of(pid)
	if len(all) == 0 {
		return -1, nil
	}
	epoch = all[len(all)-1].Epoch
	for i := len(all) - 1; i >= 0 && all[i].Epoch == epoch && len(five) < 5; i-- {
		if all[i].Marker == Data {
			five = append(five, all[i])
		}
	}
	return epoch, five
}

type naiveTxn struct {
	pid           kafkaproto.ProducerID
	first, marker kafkaproto.Offset
	aborted       bool
}

// txns lists all transactions; the marker of an open one is at MaxInt64.
func (n *naive) txns() []naiveTxn {
	var out []naiveTxn
	for i, b := range n.log {
		if b.Marker != Data || !b.Transactional {
			continue
		}
		inside := slices.ContainsFunc(out, func(x naiveTxn) bool {
			return x.pid == b.Producer && x.first < b.BaseOffset && b.BaseOffset < x.marker
		})
		if inside {
			continue
		}
		x := naiveTxn{b.Producer, b.BaseOffset, math.MaxInt64, false}
		for _, m := range n.log[i:] {
			if m.Producer == b.Producer && m.Marker != Data {
				x.marker, x.aborted = m.BaseOffset, m.Marker == Abort
				break
			}
		}
		out = append(out, x)
	}
	return out
}

func (n *naive) lso() kafkaproto.Offset {
	lso := n.hw
	for _, x := range n.txns() {
		if x.marker >= n.hw {
			lso = min(lso, x.first)
		}
	}
	return lso
}

func (n *naive) openTip(pid kafkaproto.ProducerID) bool {
	return slices.ContainsFunc(n.txns(), func(x naiveTxn) bool {
		return x.pid == pid &&
			x.marker == math.MaxInt64
	})
}

// completed gives what closes between two high watermarks.
func (n *naive) completed(from, to kafkaproto.Offset) []Completed {
	var out []Completed
	for _, x := range n.txns() {
		if x.marker < from || x.marker >= to {
			continue
		}
		c := Completed{x.pid, x.first, x.marker, x.aborted, x.marker + 1}
		for _, y := range n.txns() {
			if y.first < x.marker && y.marker > x.marker {
				c.LastStable = min(c.LastStable, y.first)
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Completed) int { return int(a.LastOffset - b.LastOffset) })
	return out
}

func (n *naive) check(b Batch) (Verdict, *kerr.Error) {
	epoch, five := n.lastFive(b.Producer)
	if b.Marker != Data {
		coordinator := int32(-1)
		for _, m := range n.of(b.Producer) {
			if m.Marker != Data {
				coordinator = m.CoordinatorEpoch
			}
		}
		switch {
		case b.Epoch < epoch:
			return Verdict{}, kerr.InvalidProducerEpoch
		case b.CoordinatorEpoch < coordinator:
			return Verdict{}, kerr.TransactionCoordinatorFenced
		}
		return Verdict{}, nil
	}
	if b.Epoch < epoch {
		return Verdict{}, kerr.InvalidProducerEpoch
	}
	if b.Epoch > epoch {
		if b.BaseSequence != 0 && epoch != -1 {
			return Verdict{}, kerr.OutOfOrderSequenceNumber
		}
	} else {
		for _, o := range five {
			if slices.Equal(sequences(o), sequences(b)) {
				return Verdict{Duplicate, o.BaseOffset, o.LastOffset(), o.MaxTimestamp,
					o.LastOffset() >= n.hw}, nil
			}
		}
		next := int32(0)
		if len(five) > 0 {
			all := sequences(Batch{BaseSequence: five[0].BaseSequence,
				LastOffsetDelta: five[0].LastOffsetDelta + 1})
			next = all[len(all)-1]
		}
		if b.BaseSequence != next {
			return Verdict{}, kerr.OutOfOrderSequenceNumber
		}
	}
	if n.openTip(b.Producer) && !b.Transactional {
		return Verdict{}, kerr.InvalidTxnState
	}
	return Verdict{}, nil
}

// draw gives a batch that is often right and often nearly so.
func (n *naive) draw(t *rapid.T) Batch {
	pid := kafkaproto.ProducerID(rapid.IntRange(1, 3).Draw(t, "producer"))
	epoch, five := n.lastFive(pid)
	b := Batch{
		Producer: pid,
		Epoch: max(0, epoch+kafkaproto.ProducerEpoch(rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1,
			-1}).Draw(t, "epoch"))),
		BaseOffset:   n.end() + kafkaproto.Offset(rapid.IntRange(0, 3).Draw(t, "others")),
		MaxTimestamp: int64(rapid.IntRange(0, 99).Draw(t, "time")),
		Transactional: n.openTip(pid) != rapid.SampledFrom([]bool{false, false, false, true}).Draw(t,
			"turn transactional"),
	}
	if rapid.IntRange(0, 4).Draw(t, "marker") == 0 {
		b.BaseSequence, b.Transactional = -1, true
		b.Marker = rapid.SampledFrom([]Marker{Abort, Commit}).Draw(t, "kind")
		b.CoordinatorEpoch = int32(rapid.IntRange(0, 2).Draw(t, "coordinator"))
		return b
	}
	b.LastOffsetDelta = int32(rapid.IntRange(0, 4).Draw(t, "delta"))
	switch rapid.IntRange(0, 5).Draw(t, "sequence") {
	case 0:
		b.BaseSequence = int32(rapid.SampledFrom([]int{0, 1, 5, math.MaxInt32,
			math.MaxInt32 - 2}).Draw(t, "odd"))
	case 1:
		if len(five) > 0 {
			o := five[rapid.IntRange(0, len(five)-1).Draw(t, "retry of")]
			b.BaseSequence, b.LastOffsetDelta, b.Epoch = o.BaseSequence, o.LastOffsetDelta, o.Epoch
		}
	default:
		if len(five) > 0 && b.Epoch == epoch {
			s := sequences(Batch{BaseSequence: five[0].BaseSequence,
				LastOffsetDelta: five[0].LastOffsetDelta + 1})
			b.BaseSequence = s[len(s)-1]
		}
	}
	return b
}

type machine struct {
	n    naive
	s    *State
	snap []byte // taken when the log was as long as kept says
	kept []Batch
}

func (m *machine) append(t *rapid.T) {
	b := m.n.draw(t)
	got, err := m.s.Check(b, CheckOptions{})
	want, wantErr := m.n.check(b)
	if got != want || wantErr == nil && err != nil || wantErr != nil && !errors.Is(err, wantErr) {
		t.Fatalf("check %+v\n got %+v, %v\nwant %+v, %v", b, got, err, want, wantErr)
	}
	// The log may hold what Check refuses, as on a follower of another release: now and then it does.
	if err == nil && got.Kind == Append || err != nil && rapid.IntRange(0, 9).Draw(t,
		"all the same") == 0 {
		m.n.log = append(slices.Clip(m.n.log), b)
		m.s.Append(b, int64(len(m.n.log)))
	}
}

// boundary draws a batch boundary at or above low.
func (m *machine) boundary(t *rapid.T, low kafkaproto.Offset) kafkaproto.Offset {
	at := []kafkaproto.Offset{low, m.n.end()}
	for _, b := range m.n.log {
		if b.LastOffset()+1 >= low {
			at = append(at, b.LastOffset()+1)
		}
	}
	return max(low, rapid.SampledFrom(at).Draw(t, "offset"))
}

func (m *machine) commit(t *rapid.T) {
	hw := m.boundary(t, m.n.hw)
	got, want := m.s.Commit(hw), m.n.completed(m.n.hw, hw)
	if !slices.Equal(got, want) {
		t.Fatalf("committed up to %d\n got %+v\nwant %+v", hw, got, want)
	}
	m.n.hw = hw
}

func (m *machine) truncate(t *rapid.T) {
	off := m.boundary(t, m.n.hw)
	m.s.Truncate(off)
	m.n.log = slices.DeleteFunc(slices.Clone(m.n.log),
		func(b Batch) bool { return b.LastOffset() >= off })
	if len(m.kept) > len(m.n.log) {
		m.snap, m.kept = nil, nil // a sidecar ahead of the log is of no use
	}
}

func (m *machine) snapshot(t *rapid.T) {
	m.snap, m.kept = m.s.Snapshot(m.n.end()), m.n.log
	again, end, err := Load(m.snap, Options{})
	if err != nil || end != m.n.end() {
		t.Fatalf("load: %v, at %d of %d", err, end, m.n.end())
	}
	if d := Diff(m.s, again); d != "" {
		t.Fatalf("the snapshot changed the state: %s", d)
	}
	m.s = again
}

// restart goes on from the last snapshot, or from nothing, by replay.
func (m *machine) restart(t *rapid.T) {
	s, kept := New(Options{}), 0
	if m.snap != nil {
		var err error
		if s, _, err = Load(m.snap, Options{}); err != nil {
			t.Fatal(err)
		}
		kept = len(m.kept)
	}
	for _, b := range m.n.log[kept:] {
		s.Append(b, 0)
	}
	s.Commit(m.n.hw)
	if d := Diff(m.s, s); d != "" {
		t.Fatalf("replay differs from live: %s", d)
	}
	m.s = s
}

func (m *machine) compare(t *rapid.T) {
	fresh := New(Options{})
	for _, b := range m.n.log {
		fresh.Append(b, 0)
	}
	fresh.Commit(m.n.hw)
	if d := Diff(m.s, fresh); d != "" {
		t.Fatalf("live differs from a replay of the whole log: %s", d)
	}
	if got, want := m.s.LastStable(m.n.hw), m.n.lso(); got != want {
		t.Fatalf("last stable offset %d, want %d at high watermark %d", got, want, m.n.hw)
	}
	var open []OpenTxn
	for _, x := range m.n.txns() {
		if x.marker < m.n.hw {
			continue
		}
		if x.marker == math.MaxInt64 {
			x.marker = -1
		}
		open = append(open, OpenTxn{x.pid, x.first, x.marker})
	}
	if got := m.s.OpenTxns(); !slices.Equal(got, open) {
		t.Fatalf("open transactions\n got %+v\nwant %+v", got, open)
	}
	for pid := range kafkaproto.ProducerID(4) {
		epoch, five := m.n.lastFive(pid)
		i := slices.IndexFunc(m.s.Producers(), func(i Info) bool { return i.Producer == pid })
		if known := len(m.n.of(pid)) > 0; known != (i >= 0) {
			t.Fatalf("producer %d listed: %v, want %v", pid, i >= 0, known)
		} else if !known {
			continue
		}
		info, last := m.s.Producers()[i], int32(-1)
		if len(five) > 0 {
			s := sequences(five[0])
			last = s[len(s)-1]
		}
		if info.Epoch != epoch || info.LastSequence != last ||
			(info.TxnFirstOffset >= 0) != m.n.openTip(pid) ||
			m.s.HasOpenTxn(pid, epoch) != m.n.openTip(pid) {
			t.Fatalf("producer %+v, want epoch %d, last sequence %d, open %v", info, epoch, last,
				m.n.openTip(pid))
		}
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{s: New(Options{})}
		t.Repeat(map[string]func(*rapid.T){
			"append": m.append, "append2": m.append, "append3": m.append, "append4": m.append,
			"commit": m.commit, "truncate": m.truncate,
			"snapshot": m.snapshot, "restart": m.restart,
			"": m.compare,
		})
	})
}
