package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

// sealed gives b the payload p and a CRC that is right: what a producer may send.
func sealed(b batch.Batch, codec batch.Codec, p []byte) batch.Batch {
	out := append(bytes.Clone(b[:batch.HeaderSize]), p...)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-12))
	binary.BigEndian.PutUint16(out[21:], binary.BigEndian.Uint16(out[21:])&^7|uint16(codec))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// zstdBomb is a frame of zeros that are n blocks of 128 KiB, four bytes each.
func zstdBomb(n int) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x38} // magic, no content size, window of 128 KiB
	for i := range n {
		h := uint32(128<<10)<<3 | 1<<1
		if i == n-1 {
			h |= 1
		}
		out = append(out, byte(h), byte(h>>8), byte(h>>16), 0)
	}
	return out
}

// unreadable are batches with three keys each, "a", "b" and "c", that nobody can read.
func unreadable(ts int64) map[string]batch.Batch {
	b := batch.NewBuilder(batch.BuilderOptions{})
	for _, k := range []string{"a", "b", "c"} {
		b.Add(batch.Record{Timestamp: ts, Key: []byte(k), Value: []byte("unreadable")})
	}
	good := must(b.Build())
	one := func(codec batch.Codec) batch.Batch {
		b.Reset(batch.BuilderOptions{Codec: codec})
		for _, k := range []string{"a", "b", "c"} {
			b.Add(batch.Record{Timestamp: ts, Key: []byte(k), Value: []byte(strings.Repeat("long ", 50))})
		}
		return must(b.Build())
	}
	swapped := bytes.Clone(good.Payload())
	size := int(swapped[0]/2) + 1 // of the first record; all are as long
	swapped[3], swapped[size+3] = swapped[size+3], swapped[3]
	gzip, zstd := one(batch.Gzip), one(batch.Zstd)
	return map[string]batch.Batch{
		"garbage":          sealed(good, batch.Zstd, bytes.Repeat([]byte("garbage "), 9)),
		"garbage as lz4":   sealed(good, batch.LZ4, bytes.Repeat([]byte{0xff}, 70)),
		"empty snappy":     sealed(good, batch.Snappy, nil),
		"torn gzip":        sealed(gzip, batch.Gzip, gzip.Payload()[:len(gzip.Payload())-9]),
		"torn zstd":        sealed(zstd, batch.Zstd, zstd.Payload()[:len(zstd.Payload())-3]),
		"torn last record": sealed(good, batch.None, good.Payload()[:len(good.Payload())-2]),
		"bytes behind":     sealed(good, batch.None, append(bytes.Clone(good.Payload()), 1, 2, 3)),
		"offsets swapped":  sealed(good, batch.None, swapped),
		"gigabytes":        sealed(good, batch.Zstd, zstdBomb(1<<15)),
	}
}

// warnings counts the lines of a log.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (w *warnings) WithAttrs([]slog.Attr) slog.Handler           { return w }
func (w *warnings) WithGroup(string) slog.Handler                { return w }

func (w *warnings) Handle(_ context.Context, r slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Attrs(func(a slog.Attr) bool {
		r.Message += " " + a.String()
		return true
	})
	w.lines = append(w.lines, r.Message)
	return nil
}

func (w *warnings) count(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lines {
		if strings.Contains(l, text) {
			n++
		}
	}
	return n
}

// rawBatch reads the bytes of the batch that holds off.
func rawBatch(t *testing.T, l *Log, off kafkaproto.Offset) batch.Batch {
	t.Helper()
	r, err := l.Read(off, 1, l.EndOffset(), true)
	if err != nil || r.Len == 0 {
		t.Fatalf("read at %d: %d bytes, %v", off, r.Len, err)
	}
	defer r.Release()
	buf := make([]byte, r.Len)
	if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
		t.Fatal(err)
	}
	return must(batch.First(buf))
}

// TestUnreadableBatches: a batch that nobody can read, as a client sent it, stays as it is over
// compaction, lookups by time and restarts. It supersedes nothing, the log around it is cleaned, and
// one line in the broker's log tells of it.
func TestUnreadableBatches(t *testing.T) {
	for name, bad := range unreadable(testStart.UnixMilli() + 500) {
		t.Run(name, func(t *testing.T) {
			fsys, clk, warned := vfs.Memory(), clock.NewManual(testStart), &warnings{}
			o := testOptions(t, fsys, clk)
			o.Logger = slog.New(warned)
			s := openStore(t, o)
			cfg := compactConfig
			cfg.SegmentBytes = max(600, 2*len(bad))
			l := openLog(t, s, 1, cfg)
			ts := clock.Millis(clk.Now())
			for i := range 3 { // what is superseded, and behind it what the bad batch would supersede
				appendTo(t, l, keyed(ts, "x", []string{fmt.Sprint("x", i)}))
			}
			for _, k := range []string{"a", "b", "c"} {
				appendTo(t, l, keyed(ts+int64(len(k)), k, []string{"kept " + k}))
			}
			at := appendTo(t, l, bad).BaseOffset
			sent := bytes.Clone(bad)
			appendTo(t, l, keyed(ts+1000, "x", []string{"last"}))
			check := func() {
				t.Helper()
				if got := rawBatch(t, l, at+1); !bytes.Equal(got, sent) {
					t.Fatalf("the batch has changed: %d bytes, were %d", len(got), len(sent))
				}
				for i, k := range []string{"a", "b", "c"} {
					b := rawBatch(t, l, kafkaproto.Offset(3+i))
					if b.BaseOffset() != kafkaproto.Offset(3+i) {
						t.Fatalf("the record of key %s at %d is gone: %d is next", k, 3+i, b.BaseOffset())
					}
				}
				if err := l.Offline(); err != nil {
					t.Fatal(err)
				}
				lookTimes(t, l, at, ts)
			}
			for range 3 {
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
				commitAll(t, l)
				settle(s)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if !s.cleaner.cleanFilthiest() || l.clean.failed {
					t.Fatal("the log was not cleaned", warned.lines)
				}
				if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 1<<30 {
					t.Errorf("a pass took %d MiB", (after.TotalAlloc-before.TotalAlloc)>>20)
				}
				if got := rawBatch(t, l, 0); got.BaseOffset() != 3 {
					t.Fatalf("the log begins with %d: it was not cleaned around the batch", got.BaseOffset())
				}
				check()
				appendTo(t, l, keyed(ts+2000, "x", []string{"again"}))
			}
			if n := warned.count("cannot be read"); n != 1 {
				t.Fatalf("%d warnings: %q", n, warned.lines)
			}
			fsys = dropIndexes(t, s, fsys)
			s = openStore(t, testOptions(t, fsys, clk))
			l = openLog(t, s, 1, cfg)
			check()
			closeStore(t, s)
		})
	}
}

// lookTimes looks timestamps up that lead into the batch at off, whose largest is ts+500.
func lookTimes(t *testing.T, l *Log, off kafkaproto.Offset, ts int64) {
	t.Helper()
	got, err := l.OffsetForTime(ts+500, l.EndOffset())
	if err != nil || !got.Found || got.Offset < off || got.Offset > off+2 {
		t.Fatalf("lookup of its time: %+v %v, want %d", got, err, off)
	}
	if got, err = l.OffsetForTime(ts+501, l.EndOffset()); err != nil || !got.Found || got.Offset < off+3 {
		t.Fatalf("lookup of a time behind it: %+v %v", got, err)
	}
	if got, err = l.MaxTimestamp(off + 2); err != nil || !got.Found {
		t.Fatalf("largest timestamp with a limit inside it: %+v %v", got, err)
	}
	if got, err = l.MaxTimestamp(off + 3); err != nil || !got.Found || got.Timestamp != ts+500 {
		t.Fatalf("largest timestamp: %+v %v, want its own", got, err)
	}
}

// dropIndexes closes the store and removes every index, so that the next start makes them again.
func dropIndexes(t *testing.T, s *Store, fsys *vfs.MemFS) *vfs.MemFS {
	t.Helper()
	dir := s.Logs()[0].Dir()
	closeStore(t, s)
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), "index") || strings.HasSuffix(e.Name(), ".sum") {
			if err := fsys.Remove(dir + "/" + e.Name()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return fsys
}

// TestUnreadableMarker: a control batch that says nothing is kept and ends no transaction; with it a
// log can be cleaned and opened.
func TestUnreadableMarker(t *testing.T) {
	marker := batch.Control(batch.Commit, 1, 7, 0, testStart.UnixMilli())
	p := &pass{c: &cleaner{}, log: &Log{}, keys: newOffsetMap(1000, 10), last: -1, end: 10}
	p.c.pace.stop = make(chan struct{})
	p.log.config.Store(&Config{})
	p.txns.begin(nil)
	bad := sealed(marker, batch.None, []byte{12, 0, 0, 0, 2, 9, 1, 0})
	if full, err := p.mapBatch(bad); full || err != nil {
		t.Fatal(full, err)
	}
	if err := p.filter(bad); err != nil || !bytes.Equal(p.buf, bad) || p.unread != 1 {
		t.Fatalf("kept %d bytes of %d, %d unread: %v", len(p.buf), len(bad), p.unread, err)
	}
	bad[len(bad)-1]++ // damage: not a client's doing
	if err := p.filter(bad); !kafkaproto.IsCorrupt(err) {
		t.Fatal(err)
	}
}
