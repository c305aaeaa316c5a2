package store

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

const kafkaData = "../segment/testdata/kafka-4.4.0/gold-0"

// kafkaDir copies the files that a real broker wrote.
func kafkaDir(t *testing.T) *vfs.MemFS {
	t.Helper()
	fsys := vfs.Memory()
	files, err := filepath.Glob(kafkaData + "/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no files of Kafka's", err)
	}
	if err := fsys.MkdirAll("/data/gold-0", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil {
			err = vfs.WriteFileAtomic(fsys, path.Join("/data/gold-0", filepath.Base(f)), b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return fsys
}

func TestImport(t *testing.T) {
	fsys := kafkaDir(t)
	if err := fsys.MkdirAll("/data/"+kafkaMetadata, 0o755); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t, fsys, clock.NewManual(testStart))
	if s, err := Open(o); err == nil || !strings.Contains(err.Error(), "sluice log import") {
		t.Fatal("Kafka's directory was opened without an import", s, err)
	}
	before, err := Verify(fsys, "/data")
	if err != nil || len(before) != 1 && len(before) != 2 {
		t.Fatal(before, err)
	}
	got, err := Import(o)
	if err != nil || len(got) != 1 {
		t.Fatalf("import: %+v %v", got, err)
	}
	if got[0].TP.Topic != "gold" || got[0].End <= 21 || got[0].Bytes == 0 {
		t.Fatalf("imported %+v", got[0])
	}
	if _, err := Import(o); err == nil {
		t.Fatal("imported twice")
	}
	if _, err := fsys.Stat("/data/" + kafkaMetadata + ".kafka"); err != nil {
		t.Fatalf("Kafka's metadata log is not set aside: %v", err)
	}
	for range 2 {
		s := openStore(t, o)
		l, err := s.OpenLog(got[0].ID, got[0].TP, Config{Strict: true})
		if err != nil || l.Offline() != nil {
			t.Fatal(err, l.Offline())
		}
		if err := s.StartSolo(l); err != nil {
			t.Fatal(err)
		}
		if l.StartOffset() != got[0].Start || l.EndOffset() < got[0].End {
			t.Fatalf("[%d, %d), imported %+v", l.StartOffset(), l.EndOffset(), got[0])
		}
		aborted, err := l.Aborted(0, l.EndOffset())
		if err != nil || len(aborted) == 0 {
			t.Fatalf("aborted transactions: %v %v", aborted, err)
		}
		if last := l.EpochOf(got[0].End - 1); l.Term() <= last {
			t.Fatalf("term %d over epoch %d", l.Term(), last)
		}
		a := appendTo(t, l, values(1, "ours"))
		commitAll(t, l)
		if n := len(readAll(t, l, a.BaseOffset)); n != 1 {
			t.Fatalf("%d records", n)
		}
		checkIndexes(t, l)
		closeStore(t, s)
	}
	after, err := Verify(fsys, "/data/gold-0")
	if err != nil || len(after) != 1 || len(after[0].Problems) > 0 || after[0].End != got[0].End+2 {
		t.Fatalf("%+v %v", after, err)
	}
}

// TestImportRefuses a directory with a damaged log, and leaves no trace.
func TestImportRefuses(t *testing.T) {
	fsys := kafkaDir(t)
	name := "/data/gold-0/00000000000000000000.log"
	b, err := vfs.ReadFile(fsys, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	b[80] ^= 1
	if err := vfs.WriteFileAtomic(fsys, name, b); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t, fsys, clock.NewManual(testStart))
	if got, err := Import(o); !kafkaproto.IsCorrupt(err) {
		t.Fatalf("imported %+v %v", got, err)
	}
	entries, err := fsys.ReadDir("/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "gold-0" && e.Name() != lockFile {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	found, err := Verify(fsys, "/data/gold-0")
	if err != nil || len(found) != 1 || len(found[0].Problems) == 0 {
		t.Fatalf("verify: %+v %v", found, err)
	}
}

func TestDump(t *testing.T) {
	clk := clock.NewManual(testStart)
	fsys := vfs.Memory()
	s := openStore(t, testOptions(t, fsys, clk))
	l := openLog(t, s, 1, Config{})
	appendTo(t, l, produced(4, 0, true, "some value"))
	mark(t, l, 0, 4)
	appendTo(t, l, values(77, "plain", "twice"))
	commitAll(t, l)
	closeStore(t, s)
	var out bytes.Buffer
	if err := Dump(fsys, l.Dir(), &out, DumpOptions{Records: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Dumping /data/topic1-0/00000000000000000000.log\nLog starting offset: 0\n",
		"baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 lastSequence: 0 producerId: 4 " +
			"producerEpoch: 0 partitionLeaderEpoch: 1 isTransactional: true isControl: false " +
			"deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1 size: ",
		" magic: 2 compresscodec: none crc: ", " isvalid: true\n",
		"| offset: 0 CreateTime: 1 keySize: 13 valueSize: 10 sequence: 0 headerKeys: [] " +
			`key: "keysome value" payload: "some value"`,
		"endTxnMarker: ABORT coordinatorEpoch: 0",
		"version: 0 producerId: 4 firstOffset: 0 lastOffset: 1 lastStableOffset: ",
		"epoch: 1 startOffset: 0", "end: 4 producers: 1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not there: %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	if err := Dump(fsys, path.Join(l.Dir(), "partition.metadata"), &out,
		DumpOptions{}); err == nil {
		t.Error("dumped a file that is none of a log")
	}
	for _, f := range []string{"00000000000000000000.log", "00000000000000000021.log",
		"00000000000000000021.txnindex", "leader-epoch-checkpoint"} {
		if err := Dump(vfs.OS(), path.Join(kafkaData, f), &out,
			DumpOptions{Records: true}); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// TestScrub takes a log offline whose sealed segment rots.
func TestScrub(t *testing.T) {
	fsys, clk := vfs.Memory(), clock.NewManual(testStart)
	o := testOptions(t, fsys, clk)
	o.Scrub.Interval = time.Minute
	s := openStore(t, o)
	defer closeStore(t, s)
	l := openLog(t, s, 1, Config{})
	failed := make(chan error, 1)
	l.Observe(func(ev Event) {
		if ev.Kind == Failed {
			failed <- ev.Err
		}
	})
	appendTo(t, l, values(1, "a"))
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	commitAll(t, l)
	settle(s)
	if err := s.scrubber.scrub(); err != nil || l.Offline() != nil {
		t.Fatal(err, l.Offline())
	}
	f, err := fsys.OpenFile((*l.segs.Load())[0].Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{0xff}, 65); err != nil {
		t.Fatal(err)
	}
	f.Close()
	clk.Advance(2 * time.Minute)
	if err := <-failed; !kafkaproto.IsCorrupt(err) {
		t.Fatal(err)
	}
}
