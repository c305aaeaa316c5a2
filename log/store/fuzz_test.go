package store

import (
	"encoding/binary"
	"fmt"
	"path"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

// fuzzImage is a data directory that a broker left when it was killed: by name, the bytes.
func fuzzImage(t testing.TB) (names []string, files map[string][]byte) {
	power := vfs.PowerLoss(1)
	s := openStore(t, testOptions(t, power, clock.NewManual(testStart)))
	l := openLog(t, s, 1, Config{SegmentBytes: 400, Strict: true})
	for i := range 12 {
		appendTo(t, l, produced(2, int32(i), true, fmt.Sprint("value", i)))
		if i%6 == 5 {
			mark(t, l, batch.Abort, 2)
			commitAll(t, l)
			settle(s)
		}
	}
	power = power.Crash(vfs.KillCrash)
	_ = s.Close()
	files = make(map[string][]byte)
	for _, dir := range []string{"/data", "/data/journal", "/data/topic1-0"} {
		entries, err := power.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.IsDir() || e.Name() == lockFile {
				continue
			}
			name := path.Join(dir, e.Name())
			b, err := vfs.ReadFile(power, name, 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			if path.Base(dir) == journalDir { // without the zeros that it writes ahead
				for len(b) > 0 && b[len(b)-1] == 0 {
					b = b[:len(b)-1]
				}
				b = b[:len(b):len(b)]
			}
			names = append(names, name)
			files[name] = b
		}
	}
	return names, files
}

// FuzzOpen damages files of a killed broker's directory: flips bytes, cuts and grows files. Whatever
// happens, Open does not panic, and what is read is what was written.
func FuzzOpen(f *testing.F) {
	names, files := fuzzImage(f)
	for i := range names {
		f.Add([]byte{byte(i), 0, 0, 20, 1})
		f.Add([]byte{byte(i), 1, 0, 70, 0})
		f.Add([]byte{byte(i), 2, 0, 10, 9})
		f.Add([]byte{byte(i), 0, 0, 70, 0x80, byte(i), 0, 1, 5, 3})
	}
	f.Fuzz(func(t *testing.T, ops []byte) {
		image := make(map[string][]byte, len(files))
		for name, b := range files {
			image[name] = append([]byte(nil), b...)
		}
		for ; len(ops) >= 5; ops = ops[5:] {
			name := names[int(ops[0])%len(names)]
			b, at := image[name], int(binary.BigEndian.Uint16(ops[2:]))
			switch {
			case ops[1]%3 == 0 && len(b) > 0:
				b[at%len(b)] ^= ops[4]
			case ops[1]%3 == 1:
				b = b[:min(at, len(b))]
			default:
				b = append(b, make([]byte, at%200)...)
			}
			image[name] = b
		}
		fsys := vfs.Memory()
		for _, dir := range []string{"/data/journal", "/data/topic1-0"} {
			if err := fsys.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, b := range image {
			if err := vfs.WriteFileAtomic(fsys, name, b); err != nil {
				t.Fatal(err)
			}
		}
		fuzzOpened(t, fsys)
	})
}

func fuzzOpened(t *testing.T, fsys vfs.FS) {
	s, err := Open(testOptions(t, fsys, clock.NewManual(testStart)))
	if err != nil {
		return
	}
	defer closeStore(t, s)
	for _, l := range s.Logs() {
		if l.Offline() != nil || s.StartSolo(l) != nil {
			continue
		}
		end := l.EndOffset()
		for off := l.StartOffset(); off < end; {
			r, err := l.Read(off, 1000, end, true)
			if err != nil {
				if !kafkaproto.IsCorrupt(err) {
					t.Fatalf("read %d: %v", off, err)
				}
				return
			}
			buf := make([]byte, r.Len)
			_, err = r.File.ReadAt(buf, r.Pos)
			off = r.Next
			r.Release()
			if err != nil || r.Len == 0 {
				t.Fatalf("%d bytes, %v", r.Len, err)
			}
			if _, err := batch.Scan(buf, func(_ int, b batch.Batch) (bool, error) {
				return true, b.VerifyCRC()
			}); err != nil {
				t.Fatalf("a damaged batch was served: %v", err)
			}
		}
		_, _ = l.Aborted(0, end)
		_, _ = l.OffsetForTime(1, end)
		_, _ = l.Append(values(1, "more"), AppendOptions{})
	}
}

func FuzzCleanerCheckpoint(f *testing.F) {
	f.Add("0\n1\norders 3 17\n")
	f.Add("0\n2\na 0 1\nb 1 2")
	f.Add("1\n0\n")
	f.Fuzz(func(t *testing.T, text string) {
		out := make(map[kafkaproto.TopicPartition]kafkaproto.Offset)
		if err := parseOffsets(text, out); err != nil && !kafkaproto.IsCorrupt(err) {
			t.Fatal(err)
		}
		for tp, off := range out {
			if tp.Partition < 0 || off < 0 {
				t.Fatal(tp, off)
			}
		}
	})
}
