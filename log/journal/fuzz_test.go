package journal

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sluicelog/sluice/log/vfs"
)

// FuzzRecord: a body that decodes encodes to the same bytes, so nothing in it is lost or guessed,
// and applying it never panics.
func FuzzRecord(f *testing.F) {
	for _, r := range samples(groupN(1)) {
		f.Add(uint8(r.Body.kind()), r.Body.appendTo(nil))
	}
	f.Add(uint8(KindConf), []byte("\x00\x00\x00\x00\x00\x00\x00\x01\x00\xff\xff\xff\xff"))
	f.Add(uint8(KindSwapIntent), append(make([]byte, 13), 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, kind uint8, raw []byte) {
		body, err := decodeBody(Kind(kind), raw)
		if err != nil {
			if !isCorrupt(err) {
				t.Fatalf("not marked corrupt: %v", err)
			}
			return
		}
		if again := body.appendTo(nil); !bytes.Equal(again, raw) {
			t.Fatalf("%v %x came back as %x", body.kind(), raw, again)
		}
		st := newState()
		if st.Apply(Record{groupN(1), body}) == nil {
			_ = show(st)
		}
	})
}

// FuzzOpen opens a file of any bytes. With sealed set the bytes are cut into frames whose
// checksums are made good, so that the fuzzer reaches Apply: what opens must then come back the
// same from the checkpoint that opening wrote.
func FuzzOpen(f *testing.F) {
	for _, seq := range []uint64{1, 2} {
		good, _ := written(f, seq)
		f.Add(good, seq == 1, false)
		f.Add(good[:len(good)/2], seq == 1, false)
	}
	f.Add([]byte("short"), true, false)
	var frames []byte
	for _, r := range samples(groupN(1)) {
		frames = appendFrame(frames, r.Body.kind(), r.Group, r.Body.appendTo)
	}
	f.Add(frames, true, true)
	f.Add((&GroupState{Sides: []Side{{Index: 3, Term: 1, Kind: SideNoop}}}).appendFrames(nil,
		groupN(1)), true, true)
	f.Fuzz(func(t *testing.T, raw []byte, first, sealed bool) {
		seq := uint64(2)
		if first {
			seq = 1
		}
		if sealed {
			raw = sealAny(raw, seq)
		}
		fs := vfs.Memory()
		name := testDir + "/" + walName(seq)
		writeAll(t, fs, name, raw)
		if err := Dump(fs, testDir, &bytes.Buffer{}); err != nil {
			t.Fatalf("dump: %v", err)
		}
		j, st, err := Open(fs, testDir, small)
		if err != nil {
			if !isCorrupt(err) && !errors.Is(err, ErrNewerFormat) {
				t.Fatalf("open: %v", err)
			}
			if !bytes.Equal(readAll(t, fs, name), raw) {
				t.Fatal("open failed and changed the file")
			}
			return
		}
		text := show(st)
		mustDo(t, j.Close())
		j, st, err = Open(fs, testDir, small)
		if err != nil {
			t.Fatalf("open of what open wrote: %v", err)
		}
		if got := show(st); got != text {
			t.Fatalf("the checkpoint changed the state:\n got %s\nwant %s", got, text)
		}
		for id, g := range st.Groups {
			_, _ = g.TermAt(g.FirstIndex())
			_, _ = g.LogStart(), g.SidesBefore(7)
			if _, ok := j.Group(id); !ok {
				t.Fatal("group missing")
			}
		}
		mustDo(t, j.Close())
	})
}

// sealAny makes a journal file of whatever frames the bytes can be cut into.
func sealAny(raw []byte, seq uint64) []byte {
	b := newState().appendCheckpoint(appendHeader(nil, seq))
	b = newState().appendCheckpointEnd(b)
	for len(raw) >= minFrame {
		n := min(max(int(be.Uint32(raw)), frameFixed)+frameHead, len(raw))
		at := len(b)
		b = append(b, raw[:n]...)
		be.PutUint32(b[at:], uint32(n-frameHead))
		raw = raw[n:]
	}
	sealFrames(b[headerBytes:], seq, headerBytes)
	return b
}
