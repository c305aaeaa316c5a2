package producer

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// data is a batch of n records.
func data(pid kafkaproto.ProducerID, epoch kafkaproto.ProducerEpoch, seq int32,
	off kafkaproto.Offset, n int32) Batch {
	return Batch{Producer: pid, Epoch: epoch, BaseSequence: seq, BaseOffset: off,
		LastOffsetDelta: n - 1,
		MaxTimestamp:    1_000_000 + int64(off)}
}

func txn(b Batch) Batch { b.Transactional = true; return b }

func marker(kind Marker, pid kafkaproto.ProducerID, epoch kafkaproto.ProducerEpoch,
	off kafkaproto.Offset) Batch {
	return Batch{Producer: pid, Epoch: epoch, BaseSequence: -1, BaseOffset: off, Marker: kind,
		Transactional:    true,
		CoordinatorEpoch: 3, MaxTimestamp: 2_000_000 + int64(off)}
}

func appended(bs ...Batch) *State {
	s := New(Options{})
	for _, b := range bs {
		s.Append(b, 0)
	}
	return s
}

// expect checks b and wants the Kafka error, or none.
func expect(t *testing.T, s *State, b Batch, o CheckOptions, want *kerr.Error) Verdict {
	t.Helper()
	v, err := s.Check(b, o)
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Errorf("check %+v: %v, want %v", b, err, want)
	}
	return v
}

func TestRow13Duplicates(t *testing.T) {
	s := New(Options{})
	for i := range int32(6) {
		s.Append(data(1, 0, 10*i, kafkaproto.Offset(100*i), 10), 0)
	}
	s.Commit(300)
	for i := range int32(6) {
		retry := data(1, 0, 10*i, 0, 10)
		if i == 0 { // six back: no longer known
			expect(t, s, retry, CheckOptions{}, kerr.OutOfOrderSequenceNumber)
			continue
		}
		base := kafkaproto.Offset(100 * i)
		want := Verdict{Kind: Duplicate, BaseOffset: base, LastOffset: base + 9,
			Timestamp: 1_000_000 + int64(base), Pending: base >= 300}
		if v := expect(t, s, retry, CheckOptions{}, nil); v != want {
			t.Errorf("retry of batch %d: %+v, want %+v", i, v, want)
		}
	}
	for name, b := range map[string]Batch{
		"shorter":                  data(1, 0, 50, 0, 9),
		"longer":                   data(1, 0, 50, 0, 11),
		"a part of it":             data(1, 0, 51, 0, 9),
		"two in one":               data(1, 0, 40, 0, 20),
		"behind by a batch":        data(1, 0, 70, 0, 10),
		"another first, same last": data(1, 0, 45, 0, 15),
	} {
		t.Run(name, func(t *testing.T) { expect(t, s, b, CheckOptions{}, kerr.OutOfOrderSequenceNumber) })
	}
	if v := expect(t, s, data(1, 0, 60, 0, 10), CheckOptions{}, nil); v.Kind != Append {
		t.Errorf("the next batch: %+v", v)
	}
	if v := expect(t, s, data(2, 0, 50, 0, 10), CheckOptions{}, nil); v.Kind != Append {
		t.Errorf("another producer's batch: %+v", v)
	}
	s.Append(data(1, 1, 0, 600, 10), 0)
	expect(t, s, data(1, 0, 50, 0, 10), CheckOptions{},
		kerr.InvalidProducerEpoch) // another epoch is no duplicate
}

func TestRow13DuplicateAfterRestart(t *testing.T) {
	s := New(Options{})
	for i := range int32(5) {
		s.Append(data(1, 0, 10*i, kafkaproto.Offset(100*i), 10), 0)
	}
	s.Commit(200)
	again, _, err := Load(s.Snapshot(410), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(5) {
		a := expect(t, s, data(1, 0, 10*i, 0, 10), CheckOptions{}, nil)
		b := expect(t, again, data(1, 0, 10*i, 0, 10), CheckOptions{}, nil)
		if a != b || a.Kind != Duplicate || a.Pending != (i >= 2) {
			t.Errorf("batch %d: before %+v, after %+v", i, a, b)
		}
	}
}

func TestRow14Sequence(t *testing.T) {
	const top = math.MaxInt32
	seen := appended(data(1, 4, 0, 0, 5)) // sequences 0 to 4
	for name, c := range map[string]struct {
		s    *State
		b    Batch
		o    CheckOptions
		want *kerr.Error
	}{
		"next": {seen, data(1, 4, 5, 0, 1), CheckOptions{}, nil},
		"gap": {seen, data(1, 4, 6, 0, 1), CheckOptions{},
			kerr.OutOfOrderSequenceNumber},
		"again, cut differently": {seen, data(1, 4, 4, 0, 1), CheckOptions{},
			kerr.OutOfOrderSequenceNumber},
		"zero in the middle": {seen, data(1, 4, 0, 0, 1), CheckOptions{},
			kerr.OutOfOrderSequenceNumber},
		"new epoch at zero": {seen, data(1, 5, 0, 0, 1), CheckOptions{}, nil},
		"new epoch elsewhere": {seen, data(1, 5, 5, 0, 1), CheckOptions{},
			kerr.OutOfOrderSequenceNumber},
		"epoch skipped":    {seen, data(1, 9, 0, 0, 1), CheckOptions{}, nil},
		"unknown producer": {seen, data(2, 0, 77, 0, 1), CheckOptions{}, nil},
		"known without an epoch": {appended(data(1, -1, 0, 0, 1)), data(1, 0, 7, 0, 1),
			CheckOptions{}, nil},
		"no epoch, any sequence": {appended(data(1, -1, 0, 0, 1)), data(1, -1, 7, 0, 1),
			CheckOptions{}, nil},
		"top, then zero": {appended(data(1, 0, top-4, 0, 5)), data(1, 0, 0, 0, 1),
			CheckOptions{}, nil},
		"top, then one": {appended(data(1, 0, top-4, 0, 5)), data(1, 0, 1, 0, 1),
			CheckOptions{}, kerr.OutOfOrderSequenceNumber},
		"across the top": {appended(data(1, 0, top-4, 0, 10)), data(1, 0, 5, 0, 1),
			CheckOptions{}, nil},
		"across the top, a gap": {appended(data(1, 0, top-4, 0, 10)), data(1, 0, 6, 0, 1),
			CheckOptions{}, kerr.OutOfOrderSequenceNumber},
		"coordinator writes none": {seen, data(1, 4, -1, 0, 1), CheckOptions{Origin: Coordinator},
			nil},
		"client writes none": {appended(data(1, 4, -1, 0, 5)), data(1, 4, -1, 0, 5),
			CheckOptions{}, kerr.OutOfOrderSequenceNumber},
		"after a write without": {appended(data(1, 4, -1, 0, 5)), data(1, 4, 0, 0, 5),
			CheckOptions{}, nil},
		"marker bumped the epoch, 0": {appended(marker(Commit, 1, 5, 0)), data(1, 5, 0, 0, 1),
			CheckOptions{}, nil},
		"marker bumped the epoch, 1": {appended(marker(Commit, 1, 5, 0)), data(1, 5, 1, 0, 1),
			CheckOptions{}, kerr.OutOfOrderSequenceNumber},
		"marker of the same epoch": {appended(data(1, 4, 0, 0, 5), marker(Commit, 1, 4, 5)), data(1,
			4, 5, 0, 1), CheckOptions{}, nil},
		"without a producer": {seen, data(-1, -1, -1, 0, 1), CheckOptions{}, nil},
	} {
		t.Run(name, func(t *testing.T) { expect(t, c.s, c.b, c.o, c.want) })
	}
	wrapped := appended(data(1, 0, top-4, 0, 10))
	if v := expect(t, wrapped, data(1, 0, top-4, 0, 10), CheckOptions{},
		nil); v.Kind != Duplicate || v.BaseOffset != 0 || v.LastOffset != 9 {
		t.Errorf("retry across the top: %+v", v)
	}
}

// TestRow14TransactionVersion2: only transactional batches must begin at 0 (§3b).
func TestRow14TransactionVersion2(t *testing.T) {
	s := New(Options{})
	b := txn(data(1, 0, 7, 0, 1))
	o := CheckOptions{Verify: true, Guard: s.BeginVerification(b, true, 0)}
	expect(t, s, b, o, kerr.OutOfOrderSequenceNumber)
	expect(t, s, data(2, 0, 7, 0, 1), CheckOptions{Verify: true}, nil)

	s = New(Options{})
	o.Guard = s.BeginVerification(b, false, 0)
	expect(t, s, b, o, nil)
}

func TestRow15Fencing(t *testing.T) {
	s := appended(txn(data(1, 4, 0, 0, 5)))
	expect(t, s, txn(data(1, 3, 5, 0, 1)), CheckOptions{}, kerr.InvalidProducerEpoch)
	expect(t, s, txn(data(1, 3, 5, 0, 1)), CheckOptions{Origin: Coordinator},
		kerr.InvalidProducerEpoch)
	expect(t, s, txn(data(1, 5, 0, 0, 1)), CheckOptions{}, nil) // KIP-360
	expect(t, s, txn(data(1, 4, 5, 0, 1)), CheckOptions{}, nil)

	m := marker(Commit, 1, 3, 0)
	expect(t, s, m, CheckOptions{Origin: Coordinator}, kerr.InvalidProducerEpoch)
	m.Epoch = 4
	expect(t, s, m, CheckOptions{Origin: Coordinator, MarkerVersion: 1}, nil)
	expect(t, s, m, CheckOptions{Origin: Coordinator, MarkerVersion: 2},
		kerr.InvalidProducerEpoch) // KIP-1228
	m.Epoch = 5
	expect(t, s, m, CheckOptions{Origin: Coordinator, MarkerVersion: 2}, nil)
	m.BaseOffset = 5
	s.Append(m, 0)
	expect(t, s, m, CheckOptions{Origin: Coordinator, MarkerVersion: 2},
		nil) // a retry, nothing is open
	m.CoordinatorEpoch = 2
	expect(t, s, m, CheckOptions{Origin: Coordinator}, kerr.TransactionCoordinatorFenced)
	expect(t, s, txn(data(1, 4, 5, 0, 1)), CheckOptions{},
		kerr.InvalidProducerEpoch) // the marker fences as well
}

func TestRow16Expiry(t *testing.T) {
	s := New(Options{ExpirationMs: 100})
	s.Append(data(1, 0, 0, 0, 1), 1000)
	s.Append(txn(data(2, 0, 0, 1, 1)), 1000)
	s.Append(data(3, 0, 0, 2, 1), 1000)
	if n := s.Expire(1_000_000); n != 0 {
		t.Fatalf("%d pending producers expired", n)
	}
	s.Commit(3)
	s.Append(data(3, 0, 1, 3, 1), 1050)
	s.Commit(4)
	if n := s.Expire(1099); n != 0 {
		t.Fatalf("%d producers expired too early", n)
	}
	if n := s.Expire(1100); n != 1 || s.Len() != 2 {
		t.Fatalf("%d expired, %d left", n, s.Len())
	}
	expect(t, s, data(1, 0, 55, 0, 1), CheckOptions{}, nil) // unknown again
	s.Expire(1_000_000)
	if !s.HasOpenTxn(2, 0) || s.Len() != 1 {
		t.Fatal("a producer with an open transaction expired")
	}
	s.Append(marker(Abort, 2, 0, 4), 1_000_000)
	s.Commit(5)
	if s.Expire(1_000_100); s.Len() != 0 {
		t.Fatal("a producer outlived its transaction by more than the expiration")
	}
	// The batches' timestamps, a million and above, had no say.
	s.SetExpiration(50)
	s.Append(data(4, 0, 0, 5, 1), 0)
	s.Commit(6)
	if n := s.Expire(50); n != 1 {
		t.Fatalf("%d expired by the changed setting", n)
	}
}

func TestRow19Verification(t *testing.T) {
	s := New(Options{})
	first := txn(data(1, 0, 0, 0, 1))
	need := CheckOptions{Verify: true}
	expect(t, s, first, CheckOptions{}, nil) // verification is off
	expect(t, s, first, need, kerr.InvalidTxnState)
	guard := s.BeginVerification(first, false, 0)
	if guard == 0 || s.BeginVerification(first, false, 0) != guard {
		t.Fatal("a second question about the same transaction has another guard")
	}
	expect(t, s, first, CheckOptions{Verify: true, Guard: guard + 1}, kerr.InvalidTxnState)
	with := CheckOptions{Verify: true, Guard: guard}
	expect(t, s, first, with, nil)
	expect(t, s, txn(data(1, 0, 1, 0, 1)), with,
		kerr.OutOfOrderSequenceNumber) // may not overtake the first
	expect(t, s, data(2, 0, 0, 0, 1), need, nil) // not transactional
	expect(t, s, first, CheckOptions{Verify: true, Origin: Coordinator}, nil)

	s.Append(first, 0)
	second := txn(data(1, 0, 1, 1, 1))
	expect(t, s, second, need, nil) // the transaction is open
	if s.BeginVerification(second, false, 0) != 0 {
		t.Error("an open transaction was to be verified")
	}
	s.Append(marker(Commit, 1, 0, 1), 0)
	expect(t, s, second, need, kerr.InvalidTxnState)
	expect(t, s, second, with, kerr.InvalidTxnState) // the old answer is worth nothing now

	// An answer that arrives after the marker.
	late := s.BeginVerification(second, false, 0)
	s.Append(marker(Abort, 1, 0, 2), 0)
	expect(t, s, second, CheckOptions{Verify: true, Guard: late}, kerr.InvalidTxnState)

	// A lower sequence blocks the higher; a new epoch forgets it.
	g := s.BeginVerification(txn(data(5, 0, 8, 0, 1)), false, 0)
	s.BeginVerification(txn(data(5, 0, 3, 0, 1)), false, 0)
	expect(t, s, txn(data(5, 0, 8, 0, 1)), CheckOptions{Verify: true, Guard: g},
		kerr.OutOfOrderSequenceNumber)
	expect(t, s, txn(data(5, 0, 3, 0, 1)), CheckOptions{Verify: true, Guard: g}, nil)
	s.BeginVerification(txn(data(5, 1, 8, 0, 1)), false, 0)
	expect(t, s, txn(data(5, 1, 8, 0, 1)), CheckOptions{Verify: true, Guard: g}, nil)
	s.Expire(DefaultExpirationMs)
	expect(t, s, txn(data(5, 1, 8, 0, 1)), CheckOptions{Verify: true, Guard: g}, kerr.InvalidTxnState)
}

func TestRow22ControlBatch(t *testing.T) {
	for kind, want := range map[batch.ControlKind]Marker{batch.Abort: Abort, batch.Commit: Commit} {
		b := batch.Control(kind, 9, 77, 3, 1234)
		b.SetBaseOffset(50)
		got, err := Describe(b)
		expected := Batch{Producer: 77, Epoch: 3, BaseSequence: -1, BaseOffset: 50, MaxTimestamp: 1234,
			Transactional: true, Marker: want, CoordinatorEpoch: 9}
		if err != nil || got != expected {
			t.Errorf("%+v, %v, want %+v", got, err, expected)
		}
		if got, err = Describe(b.Emptied()); err != nil || got.Producer != kafkaproto.NoProducerID {
			t.Errorf("emptied: %+v, %v", got, err)
		}
		b[len(b)-1] ^= 1
		if _, err := Describe(b[:len(b)-2]); err == nil {
			t.Error("a cut control batch was read")
		}
	}
	bld := batch.NewBuilder(batch.BuilderOptions{Producer: &batch.Producer{ID: 5, Epoch: 2,
		BaseSequence: math.MaxInt32}, BaseOffset: 10, Transactional: true})
	for range 3 {
		bld.Add(batch.Record{Timestamp: 99, Value: []byte("v")})
	}
	b, err := bld.Build()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Describe(b)
	if want := (Batch{Producer: 5, Epoch: 2, BaseSequence: math.MaxInt32, BaseOffset: 10,
		LastOffsetDelta: 2, MaxTimestamp: 99, Transactional: true}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if got.LastSequence() != b.LastSequence() || got.LastSequence() != 1 ||
		got.LastOffset() != b.LastOffset() {
		t.Errorf("last sequence %d and %d, offset %d and %d", got.LastSequence(), b.LastSequence(),
			got.LastOffset(), b.LastOffset())
	}
}

func TestRow23MixedWrites(t *testing.T) {
	s := appended(txn(data(1, 0, 0, 0, 1)))
	expect(t, s, data(1, 0, 1, 0, 1), CheckOptions{}, kerr.InvalidTxnState)
	expect(t, s, data(1, 1, 0, 0, 1), CheckOptions{}, kerr.InvalidTxnState)
	expect(t, s, data(2, 0, 0, 0, 1), CheckOptions{}, nil)
	s.Append(marker(Commit, 1, 0, 1), 0)
	expect(t, s, data(1, 0, 1, 0, 1), CheckOptions{}, nil)
}

func TestRow24LastStableOffset(t *testing.T) {
	s := New(Options{})
	want := func(hw, lso kafkaproto.Offset) {
		t.Helper()
		s.Commit(hw)
		if got := s.LastStable(hw); got != lso {
			t.Errorf("high watermark %d: last stable offset %d, want %d", hw, got, lso)
		}
	}
	want(0, 0)
	s.Append(data(9, 0, 0, 0, 10), 0)
	s.Append(txn(data(1, 0, 0, 10, 10)), 0)
	want(10, 10)
	want(20, 10)
	s.Append(txn(data(2, 0, 0, 20, 10)), 0)
	s.Append(marker(Commit, 1, 0, 30), 0)
	want(30, 10) // the marker is written, not committed
	if first, ok := s.FirstOpenTxn(); !ok || first != (OpenTxn{1, 10, 30}) {
		t.Errorf("first open transaction %+v, %v", first, ok)
	}
	s.Append(txn(data(1, 0, 10, 31, 1)), 0) // the next one of the same producer, before that
	if got := s.OpenTxns(); !slices.Equal(got, []OpenTxn{{1, 10, 30}, {2, 20, -1}, {1, 31, -1}}) {
		t.Errorf("open transactions %+v", got)
	}
	want(31, 20)
	s.Append(marker(Abort, 2, 0, 32), 0)
	want(33, 31)
	s.Append(marker(Commit, 1, 0, 33), 0)
	want(34, 34)
	s.Append(marker(Commit, 8, 0, 34), 0) // ends nothing
	want(35, 35)
}

func TestRow25AbortedTransactions(t *testing.T) {
	s := appended(
		txn(data(1, 0, 0, 0, 5)), txn(data(2, 0, 0, 5, 5)), // both open
		marker(Abort, 2, 0, 10),   // 1 is still open
		marker(Abort, 1, 0, 11),   // nothing is
		txn(data(3, 0, 0, 12, 1)), //
		marker(Commit, 3, 0, 13),  //
		marker(Abort, 3, 0, 14),   // a marker without a transaction
		txn(data(1, 0, 5, 15, 1)), //
		txn(data(2, 0, 5, 16, 1)), //
		marker(Abort, 1, 0, 17),   // while 2 is open, ended by a later marker
		marker(Commit, 2, 0, 18),  //
		txn(data(2, 0, 6, 19, 1)))
	want := []Completed{
		{2, 5, 10, true, 0},
		{1, 0, 11, true, 12},
		{3, 12, 13, false, 14},
		{1, 15, 17, true, 16},
		{2, 16, 18, false, 19},
	}
	var got []Completed
	for hw := kafkaproto.Offset(0); hw <= 20; hw++ {
		got = append(got, s.Commit(hw)...)
		if n := len(got); n > 0 && got[n-1].LastOffset >= hw {
			t.Errorf("the transaction %+v closed at high watermark %d", got[n-1], hw)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("completed\n got %+v\nwant %+v", got, want)
	}
	// All at once gives the same.
	all := New(Options{})
	for _, b := range []Batch{txn(data(1, 0, 0, 0, 5)), txn(data(2, 0, 0, 5, 5)), marker(Abort, 2,
		0, 10), marker(Abort, 1, 0, 11)} {
		all.Append(b, 0)
	}
	if got := all.Commit(12); !slices.Equal(got, want[:2]) {
		t.Errorf("completed at once %+v", got)
	}
	if got := all.Commit(12); got != nil {
		t.Errorf("completed twice: %+v", got)
	}
}
