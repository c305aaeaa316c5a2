package segment

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/vfs"
)

const goldenDir = "testdata/kafka-4.4.0/gold-0"

func golden(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKafkaIndexes: from Kafka's own .log files our indexes come out as Kafka's, byte by byte, by
// appending as well as by rebuilding.
func TestKafkaIndexes(t *testing.T) {
	for _, base := range []kafkaproto.Offset{0, 21} {
		log := golden(t, fileName(base, extLog, ""))
		o := Options{IndexInterval: 300}

		appended := vfs.Memory()
		s, err := Create(appended, "/", base, 1, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := batch.Scan(log, func(_ int, b batch.Batch) (bool, error) { return true, s.Append(b, 0) }); err != nil {
			t.Fatal(err)
		}
		rebuilt := vfs.Memory()
		put(t, rebuilt, fileName(base, extLog, ""), log)
		r, err := Open(rebuilt, "/", base, o, true)
		if err != nil || r.Ready() {
			t.Fatalf("ready %v, %v", r.Ready(), err)
		}
		got, err := r.Recover(Recovery{})
		if err != nil || got.End != int64(len(log)) {
			t.Fatalf("recovered %+v, %v", got, err)
		}
		if base == 21 {
			txns := goldenTxns(t, base)
			if got.TxnsTo != base {
				t.Fatalf("recovery says that .txnindex goes to %d", got.TxnsTo)
			}
			for _, a := range txns {
				if err := s.AppendAborted(a); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.SetAborted(txns); err != nil {
				t.Fatal(err)
			}
		} else if got.TxnsTo != r.NextOffset() {
			t.Fatalf("no marker is there, and .txnindex goes to %d", got.TxnsTo)
		}
		if err := s.Seal(); err != nil {
			t.Fatal(err)
		}
		for _, m := range []*vfs.MemFS{appended, rebuilt} {
			for _, ext := range []string{extLog, extOffset, extTime, extTxn} {
				name := fileName(base, ext, "")
				if base == 0 && ext == extTxn {
					continue
				}
				ours, err := vfs.ReadFile(m, name, 1<<20)
				if err != nil || !bytes.Equal(ours, golden(t, name)) {
					t.Errorf("%s: % x, %v\nwant % x", name, ours, err, golden(t, name))
				}
			}
		}
	}
}

func goldenTxns(t *testing.T, base kafkaproto.Offset) []AbortedTxn {
	t.Helper()
	m := vfs.Memory()
	b := golden(t, fileName(base, extTxn, ""))
	put(t, m, fileName(base, extTxn, ""), b)
	s := newSegment(m, "/", base, Options{})
	sum := s.w.summary()
	sum.Txns.N = uint32(len(b) / index.TxnSize)
	sum.Txns.CRC = index.CRC(0, b)
	txns, err := s.loadTxns(&sum)
	if err != nil || len(txns) != 3 {
		t.Fatalf("%d aborted transactions, %v", len(txns), err)
	}
	return txns
}

// TestKafkaTextFiles: the two text files come back as Kafka wrote them.
func TestKafkaTextFiles(t *testing.T) {
	epochs, err := ParseEpochs(golden(t, EpochFile))
	if err != nil || !bytes.Equal(FormatEpochs(epochs), golden(t, EpochFile)) {
		t.Errorf("epochs %v, %v", epochs, err)
	}
	id, err := ParseMetadata(golden(t, MetadataFile))
	if err != nil || !bytes.Equal(FormatMetadata(id), golden(t, MetadataFile)) {
		t.Errorf("topic id %v, %v", id, err)
	}
}
