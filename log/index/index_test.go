package index

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"pgregory.net/rapid"
)

func TestListIsAListAndViewsStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l List[uint64]
		var model []uint64
		type view struct{ got, want []uint64 }
		var views []view
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "op") {
			case 0:
				n := rapid.IntRange(0, len(model)).Draw(t, "n")
				l.Cut(n)
				model = model[:n]
			case 1:
				model = rapid.SliceOfN(rapid.Uint64(), 0, 20).Draw(t, "set")
				l.Set(model)
				model = slices.Clone(model)
			default:
				v := rapid.Uint64().Draw(t, "v")
				l.Append(v)
				model = append(slices.Clip(model), v)
			}
			if !slices.Equal(l.View(), model) || l.Len() != len(model) {
				t.Fatalf("list is %v, want %v", l.View(), model)
			}
			if last, ok := l.Last(); ok != (len(model) > 0) || ok && last != model[len(model)-1] {
				t.Fatalf("last is %d, %v of %v", last, ok, model)
			}
			views = append(views, view{l.View(), slices.Clone(model)})
		}
		for _, v := range views {
			if !slices.Equal(v.got, v.want) {
				t.Fatalf("a view changed from %v to %v", v.want, v.got)
			}
		}
	})
}

// TestListBesideReaders: for the race detector, and readers see a prefix of what was appended.
func TestListBesideReaders(t *testing.T) {
	var l List[int]
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				for i, v := range l.View() {
					if v != i {
						t.Errorf("entry %d is %d", i, v)
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for round := range 30 {
		for l.Len() < 50*(round+1) {
			l.Append(l.Len())
		}
		l.Cut(25 * round)
	}
	close(stop)
	wg.Wait()
}

func ascending(t *rapid.T, name string) []uint32 {
	v := rapid.SliceOfNDistinct(rapid.Uint32Range(1, 1<<31-1), 0, 20, rapid.ID[uint32]).Draw(t, name)
	slices.Sort(v)
	return v
}

func TestEntriesComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := ascending(t, "a"), ascending(t, "b"), ascending(t, "c")
		n := min(len(a), len(b), len(c))
		var offsets []Offset
		var times []Time
		var rafts []Raft
		var sums []Sum
		var txns []Txn
		var ob, tb, rb, sb, xb []byte
		for i := range n {
			offsets = append(offsets, Offset{a[i], b[i]})
			times = append(times, Time{int64(a[i]) - 5000, b[i]})
			rafts = append(rafts, Raft{a[i], b[i], c[i]})
			sums = append(sums, Sum{a[i], b[n-1-i]})
			txns = append(txns, Txn{
				kafkaproto.ProducerID(b[n-1-i]), kafkaproto.Offset(a[i]) / 2, kafkaproto.Offset(a[i]), kafkaproto.Offset(c[i]),
			})
			ob, tb, rb = offsets[i].Encode(ob), times[i].Encode(tb), rafts[i].Encode(rb)
			sb, xb = sums[i].Encode(sb), txns[i].Encode(xb)
		}
		same(t, offsets, ob, OffsetSize, ParseOffsets)
		same(t, times, tb, TimeSize, ParseTimes)
		same(t, rafts, rb, RaftSize, ParseRafts)
		same(t, sums, sb, SumSize, ParseSums)
		same(t, txns, xb, TxnSize, ParseTxns)
	})
}

// same checks that b holds the entries, that a cut entry is refused, and entries out of order too.
func same[T comparable](t *rapid.T, want []T, b []byte, size int, parse func([]byte) ([]T, error)) {
	got, err := parse(b)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("parsed %v, %v; want %v", got, err, want)
	}
	if len(want) == 0 {
		return
	}
	if _, err := parse(b[:len(b)-1]); !kafkaproto.IsCorrupt(err) {
		t.Fatalf("a torn entry gives %v", err)
	}
	if _, err := parse(append(slices.Clone(b), b[:size]...)); !kafkaproto.IsCorrupt(err) {
		t.Fatalf("entries out of order give %v", err)
	}
}

// TestKafkaBytes pins Kafka's three formats.
func TestKafkaBytes(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want []byte
	}{
		{".index", Offset{0x01020304, 0x0a0b0c0d}.Encode(nil), []byte{1, 2, 3, 4, 10, 11, 12, 13}},
		{".timeindex", Time{0x0102030405060708, 9}.Encode(nil), []byte{1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9}},
		{".txnindex", Txn{1, 2, 3, 4}.Encode(nil), append([]byte{0, 0}, []byte{
			0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4,
		}...)},
	} {
		if !bytes.Equal(c.got, c.want) {
			t.Errorf("%s: % x, want % x", c.name, c.got, c.want)
		}
	}
}

func sampleSummary() Summary {
	return Summary{
		BaseOffset: 100, BaseIndex: 7, LastIndex: 9, NextOffset: 130, LogSize: 5000, LargestTimestamp: -1,
		LargestOffset: 100, FirstTimestamp: 55, Sealed: true, Gaps: true, LastPos: 4000, LastHeader: 1, BlockCRC: 2,
		Offsets: Count{1, 3}, Times: Count{2, 4}, Rafts: Count{3, 5}, Txns: Count{4, 6}, Sums: Count{5, 7},
	}
}

func TestSummaryComesBackAndEveryFlipIsSeen(t *testing.T) {
	s := sampleSummary()
	b := s.Encode()
	if len(b) != SummarySize {
		t.Fatalf("%d bytes", len(b))
	}
	if got, err := ParseSummary(append(slices.Clone(b), 1, 2, 3)); err != nil || got != s {
		t.Fatalf("parsed %+v, %v", got, err)
	}
	everyDamage(t, b, func(b []byte) error { _, err := ParseSummary(b); return err })
}

func TestSumFileComesBackAndEveryFlipIsSeen(t *testing.T) {
	sums := []Sum{{70000, 1}, {140000, 2}}
	var body []byte
	for _, s := range sums {
		body = s.Encode(body)
	}
	h := SumHeader{BaseOffset: 3, LogSize: 150000, Entries: Count{2, CRC(0, body)}}
	b := append(h.Encode(), body...)
	got, list, err := ParseSumFile(append(slices.Clone(b), 9))
	if err != nil || got != h || !slices.Equal(list, sums) {
		t.Fatalf("parsed %+v %v, %v", got, list, err)
	}
	everyDamage(t, b, func(b []byte) error { _, _, err := ParseSumFile(b); return err })
}

// everyDamage flips each bit and cuts at each length: always corrupt, never a newer version.
func everyDamage(t *testing.T, b []byte, parse func([]byte) error) {
	t.Helper()
	for bit := range len(b) * 8 {
		c := slices.Clone(b)
		c[bit/8] ^= 1 << (bit % 8)
		if err := parse(c); !kafkaproto.IsCorrupt(err) {
			t.Fatalf("bit %d flipped: %v", bit, err)
		}
	}
	for n := range b {
		if err := parse(b[:n]); !kafkaproto.IsCorrupt(err) {
			t.Fatalf("cut to %d bytes: %v", n, err)
		}
	}
}

func TestNewerVersionIsNamed(t *testing.T) {
	b := frame(append(make([]byte, 8), "something else"...), 2)
	_, err := ParseSummary(b)
	var newer *NewerError
	if !errors.As(err, &newer) || newer.Version != 2 || kafkaproto.IsCorrupt(err) {
		t.Fatalf("a newer version gives %v", err)
	}
}

func fuzzParse[T any](f *testing.F, seed []byte, size int, parse func([]byte) ([]T, error), encode func(T, []byte) []byte) {
	f.Add(seed)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parse(b)
		if err != nil {
			if !kafkaproto.IsCorrupt(err) {
				t.Fatalf("not marked corrupt: %v", err)
			}
			return
		}
		if len(got)*size != len(b) {
			t.Fatalf("%d entries of %d bytes", len(got), len(b))
		}
		var again []byte
		for _, e := range got {
			again = encode(e, again)
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("% x came back as % x", b, again)
		}
	})
}

func FuzzOffsets(f *testing.F) {
	fuzzParse(f, Offset{2, 3}.Encode(Offset{1, 2}.Encode(nil)), OffsetSize, ParseOffsets, Offset.Encode)
}

func FuzzTimes(f *testing.F) {
	fuzzParse(f, Time{2, 3}.Encode(Time{-1, 2}.Encode(nil)), TimeSize, ParseTimes, Time.Encode)
}

func FuzzRafts(f *testing.F) {
	fuzzParse(f, Raft{2, 3, 4}.Encode(Raft{1, 2, 3}.Encode(nil)), RaftSize, ParseRafts, Raft.Encode)
}

func FuzzTxns(f *testing.F) {
	fuzzParse(f, Txn{1, 2, 3, 3}.Encode(nil), TxnSize, ParseTxns, Txn.Encode)
}

func FuzzSummary(f *testing.F) {
	s := sampleSummary()
	f.Add(s.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = slices.Clone(b)
		if len(b) > SummarySize { // with the right CRC, or the fuzzer would never get past it
			frame(b[:SummarySize], SummaryVersion)
		}
		s, err := ParseSummary(b)
		var newer *NewerError
		if err != nil {
			if !kafkaproto.IsCorrupt(err) && !errors.As(err, &newer) {
				t.Fatalf("not marked corrupt: %v", err)
			}
			return
		}
		if !bytes.Equal(s.Encode(), b[:SummarySize]) {
			t.Fatalf("% x came back as % x", b, s.Encode())
		}
	})
}

func FuzzSumFile(f *testing.F) {
	h := SumHeader{BaseOffset: 3, LogSize: 10, Entries: Count{1, CRC(0, Sum{4, 5}.Encode(nil))}}
	f.Add(Sum{4, 5}.Encode(h.Encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		b = slices.Clone(b)
		if len(b)%2 == 1 && len(b) > SumHeaderSize { // with right CRCs, as above
			n := (len(b) - SumHeaderSize) / SumSize
			h := SumHeader{BaseOffset: 3, LogSize: 10, Entries: Count{uint32(n), CRC(0, b[SumHeaderSize:][:n*SumSize])}}
			copy(b, h.Encode())
		}
		h, sums, err := ParseSumFile(b)
		var newer *NewerError
		if err != nil {
			if !kafkaproto.IsCorrupt(err) && !errors.As(err, &newer) {
				t.Fatalf("not marked corrupt: %v", err)
			}
			return
		}
		again := h.Encode()
		for _, s := range sums {
			again = s.Encode(again)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("% x came back as % x", b, again)
		}
	})
}

func BenchmarkListAppend(b *testing.B) {
	b.ReportAllocs()
	var l List[Offset]
	for i := range b.N {
		l.Append(Offset{uint32(i), uint32(i)})
	}
}
