package liveness

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"pgregory.net/rapid"
)

// topicA and topicB have bytes that can be told apart in a dump.
var topicA, topicB = kafkaproto.TopicID{0: 0xaa, 15: 1}, kafkaproto.TopicID{0: 0xbb, 15: 2}

// TestGoldenFrames pins version 1 to the byte: brokers of two releases talk to each other.
func TestGoldenFrames(t *testing.T) {
	beat := newWriter(kindBeat, 0x0102030405060708, 0)
	beat.add(item{group: kafkaproto.PartitionID{Topic: topicA, Partition: 3}, term: 300, seq: 8, inSync: []kafkaproto.NodeID{1, 2, 200}}, MaxBody)
	beat.add(item{group: kafkaproto.PartitionID{Topic: topicA, Partition: 4}, term: 1, seq: 9, resigned: true}, MaxBody)
	digest := newWriter(kindDigest, 1, 0)
	digest.add(item{group: kafkaproto.PartitionID{Topic: topicB}, term: 1, seq: 2}, MaxBody)
	cases := []struct {
		name string
		body []byte
		want string
	}{
		{"beat", beat.beat(1500, 7, 9), "01010025" + "0102030405060708" + "00000002" + "000005dc" + "00" + "0000000000000007" + "0000000000000009" +
			"00" + "aa000000000000000000000000000001" + "03" + "ac02" + "08" + "03" + "01" + "02" + "c801" + "03" + "04" + "01" + "09" + "00"},
		{"digest", digest.digest(5, 6, true, 2), "01020021" + "0000000000000001" + "00000001" + "00000005" + "00000006" + "01" + "0000000000000002" +
			"00" + "bb000000000000000000000000000002" + "00" + "01" + "02" + "00"},
	}
	for _, c := range cases {
		if got := hex.EncodeToString(c.body); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		if _, _, err := decode(c.body, nil); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestDecodeRefuses cuts, lengthens and spoils a good frame.
func TestDecodeRefuses(t *testing.T) {
	good := func() []byte {
		w := newWriter(kindBeat, 1, 0)
		w.add(item{group: groupID(1), term: 4, seq: 5, inSync: []kafkaproto.NodeID{1, 2}}, MaxBody)
		w.add(item{group: groupID(2), term: 4, seq: 6}, MaxBody)
		return w.beat(0, 4, 6)
	}
	for n := range len(good()) {
		if _, _, err := decode(good()[:n], nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	first := beatHeader // flags of the first item
	cases := map[string]func([]byte) []byte{
		"a byte more":         func(b []byte) []byte { return append(b, 0) },
		"kind":                func(b []byte) []byte { b[1] = 3; return b },
		"header too short":    func(b []byte) []byte { b[3]--; return b },
		"header too long":     func(b []byte) []byte { b[2] = 0xff; return b },
		"count":               func(b []byte) []byte { b[12] = 0xff; return b },
		"from beyond to":      func(b []byte) []byte { b[commonHeader+12] = 7; return b },
		"change beyond to":    func(b []byte) []byte { b[commonHeader+20] = 5; return b },
		"change 0":            func(b []byte) []byte { b[first+1+16+2] = 0; return b },
		"flags of an item":    func(b []byte) []byte { b[first] = 4; return b },
		"no topic before":     func(b []byte) []byte { b[first] = itemSameTopic; return b },
		"in-sync set":         func(b []byte) []byte { b[first+1+16+3] = 0x7f; return b },
		"more than a frame":   func(b []byte) []byte { return append(b, make([]byte, MaxBody)...) },
		"resigned in digests": func([]byte) []byte { return resignedDigest() },
	}
	for name, spoil := range cases {
		if _, _, err := decode(spoil(good()), nil); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	newer := good()
	newer[0] = 2
	if _, _, err := decode(newer, nil); !errors.Is(err, ErrVersion) || errors.Is(err, ErrMalformed) {
		t.Errorf("version 2: %v", err)
	}
}

func resignedDigest() []byte {
	w := newWriter(kindDigest, 1, 0)
	w.add(item{group: groupID(1), term: 4, seq: 5, resigned: true}, MaxBody)
	return w.digest(1, 0, true, 6)
}

// TestLongerHeader reads a frame of a later sender that has more to say.
func TestLongerHeader(t *testing.T) {
	w := newWriter(kindBeat, 1, 0)
	w.add(item{group: groupID(1), term: 4, seq: 5}, MaxBody)
	b := w.beat(9, 4, 5)
	b = slices.Insert(b, beatHeader, 0xde, 0xad)
	binary.BigEndian.PutUint16(b[2:], beatHeader+2)
	f, _, err := decode(b, nil)
	if err != nil || f.diskAge != 9 || f.to != 5 || f.count != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

// TestRoundTrip encodes random items and wants them back, with frames at their limit.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SliceOfN(rapid.Map(rapid.Int32Range(0, 1<<31-1), func(n int32) kafkaproto.NodeID { return kafkaproto.NodeID(n) }), 0, 20)
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
			return item{
				group: kafkaproto.PartitionID{Topic: kafkaproto.TopicID{rapid.Byte().Draw(t, "topic") % 3}, Partition: rapid.Int32Min(0).Draw(t, "partition")},
				term:  kafkaproto.LeaderEpoch(rapid.Int32Min(0).Draw(t, "term")), seq: rapid.Uint64Min(1).Draw(t, "seq"),
				resigned: rapid.Bool().Draw(t, "resigned"), inSync: nodes.Draw(t, "inSync"),
			}
		}), 0, 50).Draw(t, "items")
		most := rapid.IntRange(beatHeader, 3000).Draw(t, "most")
		w := newWriter(kindBeat, 7, 0)
		var in []item
		for _, it := range items {
			if w.add(it, most) {
				in = append(in, it)
			}
		}
		b := w.beat(1, 2, 1<<64-1)
		if len(b) > most {
			t.Fatalf("%d bytes, limit %d", len(b), most)
		}
		f, scratch, err := decode(b, nil)
		if err != nil || int(f.count) != len(in) {
			t.Fatalf("%v, %d items of %d", err, f.count, len(in))
		}
		r := f.reader(scratch)
		for i, want := range in {
			got, err := r.next()
			if err != nil || got.group != want.group || got.term != want.term || got.seq != want.seq ||
				got.resigned != want.resigned || !slices.Equal(got.inSync, want.inSync) {
				t.Fatalf("item %d: %+v, %v, want %+v", i, got, err, want)
			}
		}
	})
}

// FuzzReceive gives any bytes to a machine: no panic, nothing counts of what is refused, and what it
// costs in memory is paid for by the bytes.
func FuzzReceive(f *testing.F) {
	w := newWriter(kindBeat, 1, 0)
	w.add(item{group: groupID(1), term: 4, seq: 5, inSync: []kafkaproto.NodeID{1, 2}}, MaxBody)
	w.add(item{group: groupID(1), term: 4, seq: 6, resigned: true}, MaxBody)
	f.Add(w.beat(0, 4, 6))
	f.Add(newWriter(kindBeat, 1, 0).beat(1<<31, 0, 0))
	d := newWriter(kindDigest, 1, 0)
	d.add(item{group: groupID(3), term: 4, seq: 5, inSync: []kafkaproto.NodeID{1, 2}}, MaxBody)
	f.Add(d.digest(3, 0, true, 6))
	f.Add(resignedDigest())
	f.Fuzz(func(t *testing.T, b []byte) {
		m := New(config(1, 1), start)
		m.SetPeers(start, []kafkaproto.NodeID{1, 2})
		m.Connected(start, 2, 1)
		m.Take()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := m.Receive(start, 2, b)
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(len(b))*400+64<<10; got > most {
			t.Errorf("%d bytes allocated for %d", got, len(b))
		}
		if err != nil && (m.Groups() != 0 || m.Up(2)) {
			t.Errorf("refused (%v), and yet %d groups, up %t", err, m.Groups(), m.Up(2))
		}
		groups := m.Groups()
		if err := m.Receive(start, 2, b); err != nil != (m.Counters().Malformed > 0) || m.Groups() != groups {
			t.Errorf("a second time: %v, %d groups, before %d", err, m.Groups(), groups)
		}
		for now := start; now.Before(start.Add(1500 * ms)); now = now.Add(100 * ms) {
			m.Advance(now)
		}
		if m.Take(); m.Up(2) {
			t.Error("up without a word")
		}
	})
}
