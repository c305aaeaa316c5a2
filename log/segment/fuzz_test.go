package segment

import (
	"bytes"
	"math"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// FuzzScan: any bytes as a .log are recovered to a prefix of good batches, which reads back.
func FuzzScan(f *testing.F) {
	one := makeBatch(0, 1, 2, 10, 5)
	f.Add([]byte(one), uint16(0))
	f.Add(append(append([]byte(nil), one...), makeBatch(2, 1, 1, 0, 6)...), uint16(len(one)))
	f.Fuzz(func(t *testing.T, b []byte, from uint16) {
		m := vfs.Memory()
		put(t, m, fileName(0, extLog, ""), b)
		s, err := Open(m, "/", 0, Options{IndexInterval: 1, block: 100}, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Recover(Recovery{From: int64(from), BaseIndex: 1})
		if err != nil {
			if !kafkaproto.IsCorrupt(err) || from == 0 {
				t.Fatal(err)
			}
			return
		}
		if got.End < int64(from) || got.End > got.FileSize || got.FileSize != int64(len(b)) {
			t.Fatalf("recovered %+v", got)
		}
		var all []byte
		for off := kafkaproto.Offset(0); off < s.NextOffset(); {
			r, err := s.ReadRange(off, 100, math.MaxInt64, true)
			if err != nil {
				if !kafkaproto.IsCorrupt(err) || from == 0 {
					t.Fatal(err)
				}
				return // what lies below the mark was not verified by Recover
			}
			if r.Next <= off || r.Len == 0 {
				t.Fatalf("no progress at %d: %+v", off, r)
			}
			all = append(all, b[r.Pos:][:r.Len]...)
			off = r.Next
			r.Release()
		}
		if !bytes.Equal(all, b[:got.End]) {
			t.Fatalf("%d bytes read, %d recovered", len(all), got.End)
		}
		if err := s.Truncate(got.End); err != nil {
			t.Fatal(err)
		}
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzIndexFile: any bytes in place of an index lead to no wrong answer.
func FuzzIndexFile(f *testing.F) {
	f.Add(uint8(0), []byte{})
	f.Add(uint8(9), bytes.Repeat([]byte{1}, 200))
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		sealed := which%2 == 0
		x := makeSample(t, sealed)
		ext := extensions[int(which/2)%5]
		x = x.copyWith(t, fileName(0, ext, ""), b)
		s, err := x.open(sealed)
		if err == nil {
			err = x.readAll(s)
		}
		if ext == extTxn && kafkaproto.IsCorrupt(err) {
			if err = s.SetAborted(x.txns); err == nil {
				err = x.readAll(s)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzEpochs(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n3 1200\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte("1\n0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		epochs, err := ParseEpochs(b)
		if err != nil {
			return
		}
		if got := FormatEpochs(epochs); !bytes.Equal(bytes.TrimSuffix(got, []byte("\n")), bytes.TrimSuffix(b, []byte("\n"))) {
			t.Fatalf("%q came back as %q", b, got)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte("version: 0\ntopic_id: 8OQO1sRcSXqZ1wRPjxm5Aw"))
	f.Add([]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := ParseMetadata(b)
		if err != nil {
			return
		}
		if got := FormatMetadata(id); !bytes.Equal(got, bytes.TrimSuffix(b, []byte("\n"))) {
			t.Fatalf("%q came back as %q", b, got)
		}
	})
}

func FuzzFileName(f *testing.F) {
	f.Add("00000000000000000007.log.deleted")
	f.Fuzz(func(t *testing.T, name string) {
		base, ext, suffix, ok := parseName(name)
		if ok && fileName(base, ext, suffix) != name {
			t.Fatalf("%q was read as %d %q %q", name, base, ext, suffix)
		}
	})
}
