package store

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testStart = time.UnixMilli(1_700_000_000_000)

func testID(n byte) kafkaproto.PartitionID {
	return kafkaproto.PartitionID{Topic: kafkaproto.TopicID{1, 2, 3, n}}
}

func testTP(n byte) kafkaproto.TopicPartition {
	return kafkaproto.TopicPartition{Topic: fmt.Sprintf("topic%d", n)}
}

// testLog writes what the store logs to the test's output.
func testLogger(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

func testOptions(t testing.TB, fsys vfs.FS, c clock.Clock) Options {
	return Options{
		FS: fsys, Dir: "/data", Clock: c, Logger: testLogger(t), BootID: "boot1",
		Random: rand.NewChaCha8([32]byte{1}),
	}
}

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func openLog(t testing.TB, s *Store, n byte, c Config) *Log {
	t.Helper()
	l, err := s.OpenLog(testID(n), testTP(n), c)
	if err == nil {
		err = l.Offline()
	}
	if err == nil {
		err = s.StartSolo(l)
	}
	if err != nil {
		t.Fatalf("open log: %v", err)
	}
	return l
}

// values builds a batch with the given values.
func values(ts int64, vals ...string) batch.Batch {
	b := batch.NewBuilder(batch.BuilderOptions{})
	for _, v := range vals {
		b.Add(batch.Record{Timestamp: ts, Value: []byte(v)})
	}
	return must(b.Build())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func appendTo(t testing.TB, l *Log, b batch.Batch) Appended {
	t.Helper()
	a, err := l.Append(b, AppendOptions{})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return a
}

// commitAll flushes and tells the log that all of it is committed.
func commitAll(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Flush(); err != nil {
		t.Fatalf("flush: %v", err)
	}
	l.Commit(l.EndOffset())
}

type rec struct {
	off      kafkaproto.Offset
	ts       int64
	key, val string
	null     bool
}

// readAll reads every record from off to the end of the log, as a consumer does.
func readAll(t testing.TB, l *Log, off kafkaproto.Offset) []rec {
	t.Helper()
	var out []rec
	for end := l.EndOffset(); off < end; {
		r, err := l.Read(off, 1000, end, true)
		if err != nil {
			t.Fatalf("read %d: %v", off, err)
		}
		if r.Len == 0 {
			break
		}
		buf := make([]byte, r.Len)
		if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
			t.Fatalf("read %d: %v", off, err)
		}
		next := r.Next
		r.Release()
		_, err = batch.Scan(buf, func(_ int, b batch.Batch) (bool, error) {
			if err := b.VerifyCRC(); err != nil {
				return false, err
			}
			return true, b.Each(1<<20, func(r *batch.Record) (bool, error) {
				if r.Offset >= off && !b.IsControl() {
					out = append(out, rec{r.Offset, r.Timestamp, string(r.Key), string(r.Value),
						r.Value == nil})
				}
				return true, nil
			})
		})
		if err != nil {
			t.Fatalf("scan at %d: %v", off, err)
		}
		off = next
	}
	return out
}

func wantValues(t testing.TB, got []rec, from int, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d records, want %d", len(got), len(want))
	}
	for i, r := range got {
		if r.off != kafkaproto.Offset(from+i) || r.val != want[i] {
			t.Fatalf("record %d is %d %q, want %d %q", i, r.off, r.val, from+i, want[i])
		}
	}
}

// checkIndexes counts raft indexes from the window on, over side entries and batches, and compares
// them with what the segments and the writer believe, and each batch's epoch with the term in
// force.
func checkIndexes(t testing.TB, l *Log) {
	t.Helper()
	g, ok := l.store.journal.Group(l.id)
	if !ok {
		t.Fatalf("%s is not in the journal", l.tp)
	}
	next, term := g.FirstIndex(), g.Window.Term
	sides := g.Sides
	for len(sides) > 0 && sides[0].Index < next {
		sides = sides[1:]
	}
	take := func(off kafkaproto.Offset) {
		for len(sides) > 0 && sides[0].Index == next && sides[0].AtOffset <= off {
			term, next, sides = sides[0].Term, next+1, sides[1:]
		}
	}
	for _, seg := range *l.segs.Load() {
		if seg.BaseOffset() < g.Window.FirstOffset {
			continue
		}
		first := true
		_, err := seg.ScanHeaders(0, func(h batch.Header, pos int64) error {
			take(h.BaseOffset)
			if uint64(h.LeaderEpoch) != term {
				t.Fatalf("%s: batch at %d has epoch %d, term is %d", l.tp, h.BaseOffset,
					h.LeaderEpoch, term)
			}
			if first && seg.BaseIndex() != next {
				t.Fatalf("%s: segment %d begins at index %d, counted %d", l.tp, seg.BaseOffset(),
					seg.BaseIndex(), next)
			}
			if p, ok, err := seg.LookupIndex(next); err != nil || !ok || p.Index > next ||
				p.Index == next && p.Offset != h.BaseOffset {
				t.Fatalf("%s: index %d (offset %d) is looked up at %+v %v %v", l.tp, next,
					h.BaseOffset, p, ok, err)
			}
			first = false
			next++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	take(l.EndOffset())
	if len(sides) > 0 || l.mu.lastIndex != next-1 {
		t.Fatalf("%s: last index %d, counted %d; %d side entries left", l.tp, l.mu.lastIndex,
			next-1, len(sides))
	}
}
