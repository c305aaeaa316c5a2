package producer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
)

// rich has everything a snapshot can hold: producers with several batches, with none, a fenced
// epoch, open transactions on both sides of the high watermark, a marker that waits.
func rich() (s *State, end kafkaproto.Offset) {
	s = New(Options{})
	off := kafkaproto.Offset(0)
	add := func(b Batch) { b.BaseOffset = off; s.Append(b, 5000+int64(off)); off = b.LastOffset() + 1 }
	for i := range int32(7) {
		add(data(1, 2, 10*i, 0, 10))
	}
	add(txn(data(2, 0, math.MaxInt32-1, 0, 4)))
	add(marker(Commit, 3, 9, 0))
	add(txn(data(4, 0, 0, 0, 1)))
	s.Commit(off)
	add(marker(Abort, 2, 1, 0))
	add(txn(data(2, 1, 0, 0, 2)))
	add(data(1, 3, 0, 0, 1))
	add(data(5, 0, 44, 0, 3))
	add(txn(data(6, 0, -1, 0, 1)))
	return s, off
}

func TestSidecarHoldsEverything(t *testing.T) {
	s, end := rich()
	b := s.Snapshot(end + 6)
	again, at, err := Load(b, Options{})
	if err != nil || at != end+6 {
		t.Fatalf("at %d, %v", at, err)
	}
	if d := Diff(s, again); d != "" {
		t.Fatal(d)
	}
	for id, e := range s.producers {
		if again.producers[id].active != e.active {
			t.Errorf("producer %d active at %d, was %d", id, again.producers[id].active, e.active)
		}
	}
	if !bytes.Equal(again.Snapshot(end+6), b) {
		t.Error("a second snapshot differs from the first")
	}
	again.Truncate(again.Committed())
	s.Truncate(s.Committed())
	if d := Diff(s, again); d != "" {
		t.Fatalf("after truncation: %s", d)
	}
}

func TestSidecarDamage(t *testing.T) {
	s, end := rich()
	good := s.Snapshot(end)
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		if _, _, err := Load(b, Options{}); !kafkaproto.IsCorrupt(err) && !errors.Is(err,
			ErrNewerFormat) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
		if _, _, err := Load(good[:i], Options{}); !kafkaproto.IsCorrupt(err) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	newer := bytes.Clone(good)
	newer[9]++
	if _, _, err := Load(newer, Options{}); !errors.Is(err, ErrNewerFormat) ||
		kafkaproto.IsCorrupt(err) {
		t.Fatalf("newer format: %v", err)
	}
}

// TestSidecarOverlap: a pending batch that begins below what is committed of its producer.
func TestSidecarOverlap(t *testing.T) {
	s := appended(data(1, 0, 0, 0, 10), data(1, 0, 10, 10, 10))
	s.Commit(10)
	s.pending[s.head].b.BaseOffset = 5
	if _, _, err := Load(s.Snapshot(20), Options{}); !kafkaproto.IsCorrupt(err) {
		t.Fatalf("got %v", err)
	}
}

func TestSidecarFrozen(t *testing.T) {
	s := New(Options{})
	s.Append(txn(data(7, 2, 5, 10, 3)), 0x99)
	s.Commit(13)
	s.Append(marker(Abort, 7, 2, 13), 0xaa)
	const want = "534c554943455053" + "0001" + "0000" + "CRC" + "000000000000000e" +
		"000000000000000d" + "00000001" + "00000001" +
		"0000000000000007" + "0002" + "ffffffff" + "00000000000f424a" + "00000000000000aa" +
		"000000000000000a" + "01" +
		"00000007" + "00000002" + "000000000000000c" + "00000000000f424a" +
		"0000000000000007" + "0002" + "ffffffff" + "000000000000000d" + "00000000" +
		"00000000001e848d" + "00000003" + "00000003" + "00000000000000aa"
	got := hex.EncodeToString(s.Snapshot(14))
	if want := strings.Replace(want, "CRC", got[24:32], 1); got != want {
		t.Fatalf("format 1 changed:\n got %s\nwant %s", got, want)
	}
}

func TestSnapshotBelowTheEndPanics(t *testing.T) {
	s, end := rich()
	defer func() {
		if recover() == nil {
			t.Fatal("no panic")
		}
	}()
	s.Snapshot(end - 1)
}

func TestKafkaSnapshot(t *testing.T) {
	s := New(Options{})
	s.Append(data(1, 0, 0, 0, 10), 0)
	s.Append(data(1, 0, 10, 10, 5), 0)
	s.Append(txn(data(2, 3, 0, 15, 1)), 0)
	s.Append(marker(Commit, 3, 4, 16), 0)
	got := hex.EncodeToString(s.WriteKafkaSnapshot())
	const want = "0001" + "CRC" + "00000003" +
		"0000000000000001" + "0000" + "0000000e" + "000000000000000e" + "00000004" +
		"00000000000f424a" + "ffffffff" + "ffffffffffffffff" +
		"0000000000000002" + "0003" + "00000000" + "000000000000000f" + "00000000" +
		"00000000000f424f" + "ffffffff" + "000000000000000f" +
		"0000000000000003" + "0004" + "ffffffff" + "ffffffffffffffff" + "00000000" +
		"00000000001e8490" + "00000003" + "ffffffffffffffff"
	if want := strings.Replace(want, "CRC", got[4:12], 1); got != want {
		t.Fatalf("\n got %s\nwant %s", got, want)
	}
	b, _ := hex.DecodeString(got)
	again, err := ReadKafkaSnapshot(b, 17, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.WriteKafkaSnapshot(), b) || again.Committed() != 17 {
		t.Errorf("came back as %x", again.WriteKafkaSnapshot())
	}
	if again.LastStable(17) != 15 || !again.HasOpenTxn(2, 3) {
		t.Errorf("last stable offset %d", again.LastStable(17))
	}
	expect(t, again, data(1, 0, 15, 0, 1), CheckOptions{}, nil)
	if v := expect(t, again, data(1, 0, 10, 0, 5), CheckOptions{}, nil); v.Kind != Duplicate ||
		v.BaseOffset != 10 {
		t.Errorf("retry of the newest batch: %+v", v)
	}
	again.Append(marker(Commit, 2, 3, 17), 0)
	if c := again.Commit(18); len(c) != 1 || c[0].FirstOffset != 15 {
		t.Errorf("completed %+v", c)
	}
	for i := range b {
		x := bytes.Clone(b)
		x[i] ^= 0x10
		if _, err := ReadKafkaSnapshot(x, 17, Options{}); !kafkaproto.IsCorrupt(err) &&
			!errors.Is(err, ErrNewerFormat) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
		if _, err := ReadKafkaSnapshot(b[:i], 17, Options{}); !kafkaproto.IsCorrupt(err) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	if _, err := ReadKafkaSnapshot(b, 12, Options{}); !kafkaproto.IsCorrupt(err) {
		t.Fatalf("a snapshot from behind the log's end: %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := New(Options{MaxProducers: 80})
	s.Append(txn(data(1_000_000, 0, 0, 0, 1)), 0) // the oldest, but with an open transaction
	for i := range kafkaproto.ProducerID(1000) {
		off := kafkaproto.Offset(i) + 1
		s.Append(data(i, 0, 0, off, 1), int64(i)+1)
		s.Commit(off + 1)
		if s.Len() > 80 {
			t.Fatalf("%d producers", s.Len())
		}
		if i >= 40 { // the newest half is never touched
			if v := expect(t, s, data(i-35, 0, 0, 0, 1), CheckOptions{}, nil); v.Kind != Duplicate {
				t.Fatalf("producer %d forgotten at %d", i-35, i)
			}
		}
	}
	if !s.HasOpenTxn(1_000_000, 0) {
		t.Error("a producer with an open transaction was forgotten")
	}
	if len(s.pending) > 128 {
		t.Errorf("the pending list holds %d committed batches", len(s.pending))
	}
	for i := range kafkaproto.ProducerID(200) {
		s.BeginVerification(txn(data(i, 0, 0, 0, 1)), false, 0)
	}
	if len(s.verifications) > 80 {
		t.Errorf("%d verifications", len(s.verifications))
	}
}

func TestBrokenInvariantsPanic(t *testing.T) {
	for name, fn := range map[string]func(s *State){
		"appended twice":            func(s *State) { s.Append(data(1, 0, 0, 0, 1), 0) },
		"truncated below committed": func(s *State) { s.Commit(5); s.Truncate(4) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("no panic")
				}
			}()
			fn(appended(data(1, 0, 0, 0, 5)))
		})
	}
}

func FuzzLoad(f *testing.F) {
	s, end := rich()
	f.Add(s.Snapshot(end)[sidecarHead:], int64(end), int64(s.committed), 4, 5)
	s.Commit(end)
	f.Add(s.Snapshot(end)[sidecarHead:], int64(end), int64(end), 6, 0)
	f.Add([]byte{}, int64(0), int64(0), 1<<31, 1<<31)
	f.Fuzz(func(t *testing.T, body []byte, end, committed int64, entries, pending int) {
		b := append([]byte(sidecarMagic), 0, sidecarVersion, 0, 0, 0, 0, 0, 0)
		b = be.AppendUint64(be.AppendUint64(b, uint64(end)), uint64(committed))
		b = be.AppendUint32(be.AppendUint32(b, uint32(entries)), uint32(pending))
		b = seal(append(b, body...), sidecarCRCFrom, 12)
		s, at, err := Load(b, Options{})
		if err != nil {
			if !kafkaproto.IsCorrupt(err) {
				t.Fatalf("not marked: %v", err)
			}
			return
		}
		again, _, err := Load(s.Snapshot(at), Options{})
		if err != nil {
			t.Fatalf("what loaded cannot be loaded again: %v", err)
		}
		if d := Diff(s, again); d != "" {
			t.Fatal(d)
		}
		exercise(s)
		again.Truncate(max(again.Committed(), 0))
		exercise(again)
	})
}

func FuzzReadKafkaSnapshot(f *testing.F) {
	s, end := rich()
	f.Add(s.WriteKafkaSnapshot(), int64(end))
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}, int64(0))
	f.Fuzz(func(t *testing.T, b []byte, end int64) {
		if len(b) >= kafkaHead {
			b = seal(bytes.Clone(b), kafkaCRCFrom, 2)
		}
		s, err := ReadKafkaSnapshot(b, kafkaproto.Offset(end), Options{})
		if err != nil {
			if !kafkaproto.IsCorrupt(err) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("not marked: %v", err)
			}
			return
		}
		again, _, err := Load(s.Snapshot(kafkaproto.Offset(end)), Options{})
		if err != nil {
			t.Fatalf("our sidecar of it: %v", err)
		}
		if d := Diff(s, again); d != "" {
			t.Fatal(d)
		}
		exercise(s)
	})
}

func seal(b []byte, from, at int) []byte {
	be.PutUint32(b[at:], checksum(b[from:]))
	return b
}

// exercise uses a state that came from anywhere.
func exercise(s *State) {
	for _, i := range s.Producers() {
		_, _ = s.Check(data(i.Producer, i.Epoch, i.LastSequence, 0, 3), CheckOptions{})
	}
	s.LastStable(math.MaxInt64)
	s.Commit(math.MaxInt64)
	s.Expire(math.MaxInt64)
	s.WriteKafkaSnapshot()
}

func BenchmarkCheckAppendCommit(b *testing.B) {
	s := New(Options{})
	b.ReportAllocs()
	seq, off := int32(0), kafkaproto.Offset(0)
	for b.Loop() {
		d := data(1, 0, seq, off, 10)
		if _, err := s.Check(d, CheckOptions{}); err != nil {
			b.Fatal(err)
		}
		s.Append(d, 0)
		seq, off = addSequence(seq, 10), off+10
		if off%640 == 0 {
			s.Commit(off)
		}
	}
}

func BenchmarkSnapshot10k(b *testing.B) {
	s := New(Options{})
	for i := range 50_000 {
		s.Append(data(kafkaproto.ProducerID(i%10_000), 0, int32(i/10_000), kafkaproto.Offset(i), 1), 0)
	}
	s.Commit(50_000)
	b.ReportAllocs()
	for b.Loop() {
		s.Snapshot(50_000)
	}
}
