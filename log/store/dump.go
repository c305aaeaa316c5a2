package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/index"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// maxDumpFile bounds the index and sidecar files that are read whole.
const maxDumpFile = 1 << 30

// DumpOptions say how deep to look.
type DumpOptions struct {
	// Records prints the records of each batch (kafka-dump-log.sh --print-data-log).
	Records bool
	// MaxExpanded bounds what a batch may decompress to; 0 means 64 MiB.
	MaxExpanded int
}

// Dump prints a file of a partition's directory, told apart by its name as Kafka's
// kafka-dump-log.sh does, and in its words; of a directory, all such files. It opens nothing for
// writing, so the broker may run. It goes on behind a batch whose content is damaged, and ends
// where batches cannot be told apart any more, with an error.
func Dump(fsys vfs.FS, name string, w io.Writer, o DumpOptions) error {
	if o.MaxExpanded == 0 {
		o.MaxExpanded = 64 << 20
	}
	out := bufio.NewWriter(w)
	err := dump(fsys, name, out, o)
	return errors.Join(err, out.Flush())
}

func dump(fsys vfs.FS, name string, w io.Writer, o DumpOptions) error {
	st, err := fsys.Stat(name)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return dumpDir(fsys, name, w, o)
	}
	fmt.Fprintf(w, "Dumping %s\n", name)
	ext := path.Ext(strings.TrimSuffix(strings.TrimSuffix(name, segment.Deleted), segment.Cleaned))
	if ext == ".log" {
		return dumpLog(fsys, name, w, o)
	}
	show, ok := dumpers[ext]
	if path.Base(name) == segment.EpochFile {
		show, ok = dumpEpochs, true
	}
	if !ok {
		return fmt.Errorf("%s is no file of a log", name)
	}
	b, err := vfs.ReadFile(fsys, name, maxDumpFile)
	if err == nil {
		err = show(name, b, w)
	}
	if err != nil {
		return fmt.Errorf("dump %s: %w", name, err)
	}
	return nil
}

func dumpDir(fsys vfs.FS, dir string, w io.Writer, o DumpOptions) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		_, known := dumpers[path.Ext(e.Name())]
		if known || path.Ext(e.Name()) == ".log" || e.Name() == segment.EpochFile {
			errs = append(errs, dump(fsys, path.Join(dir, e.Name()), w, o))
		}
	}
	return errors.Join(errs...)
}

// dumpLog prints the batches of a segment.
func dumpLog(fsys vfs.FS, name string, w io.Writer, o DumpOptions) error {
	if base, err := segmentBase(name); err == nil {
		fmt.Fprintf(w, "Log starting offset: %d\n", base)
	}
	return scanFile(fsys, name, func(b batch.Batch, pos int64) error {
		valid := b.VerifyCRC() == nil
		horizon := "OptionalLong.empty"
		if h, ok := b.DeleteHorizon(); ok {
			horizon = fmt.Sprintf("OptionalLong[%d]", h)
		}
		fmt.Fprintf(w,
			"baseOffset: %d lastOffset: %d count: %d baseSequence: %d lastSequence: %d "+
				"producerId: %d producerEpoch: %d partitionLeaderEpoch: %d isTransactional: %t "+
				"isControl: %t deleteHorizonMs: %s "+
				"position: %d %s: %d size: %d magic: %d compresscodec: %s crc: %d isvalid: %t\n",
			b.BaseOffset(), b.LastOffset(), b.Count(), b.BaseSequence(), b.LastSequence(),
			b.ProducerID(),
			b.ProducerEpoch(), b.LeaderEpoch(), b.IsTransactional(), b.IsControl(), horizon,
			pos, timestampName(b.TimestampType()), b.MaxTimestamp(), len(b), b.Magic(),
			codecName(b.Codec()), b.CRC(), valid)
		if o.Records && valid {
			dumpRecords(b, w, o)
		}
		return nil
	})
}

func timestampName(t batch.TimestampType) string {
	if t == batch.LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// codecName is Kafka's name of a codec.
func codecName(c batch.Codec) string {
	if c == batch.None {
		return "none"
	}
	return c.String()
}

func dumpRecords(b batch.Batch, w io.Writer, o DumpOptions) {
	err := b.Each(o.MaxExpanded, func(r *batch.Record) (bool, error) {
		fmt.Fprintf(w, "| offset: %d %s: %d keySize: %d valueSize: %d", r.Offset,
			timestampName(b.TimestampType()),
			r.Timestamp, fieldSize(r.Key), fieldSize(r.Value))
		if b.HasProducer() {
			seq := b.BaseSequence()
			if seq >= 0 {
				seq = batch.AddSequence(seq, r.OffsetDelta)
			}
			fmt.Fprintf(w, " sequence: %d", seq)
		}
		keys := make([]string, 0, len(r.Headers))
		for _, h := range r.Headers {
			keys = append(keys, h.Key)
		}
		fmt.Fprintf(w, " headerKeys: [%s]", strings.Join(keys, ","))
		if m, err := b.Marker(); b.IsControl() && err == nil {
			kind := "COMMIT"
			if m.Kind == batch.Abort {
				kind = "ABORT"
			}
			fmt.Fprintf(w, " endTxnMarker: %s coordinatorEpoch: %d", kind, m.CoordinatorEpoch)
		} else {
			if r.Key != nil {
				fmt.Fprintf(w, " key: %q", r.Key)
			}
			if r.Value != nil {
				fmt.Fprintf(w, " payload: %q", r.Value)
			}
		}
		fmt.Fprintln(w)
		return true, nil
	})
	if err != nil {
		fmt.Fprintf(w, "| records cannot be read: %v\n", err)
	}
}

func fieldSize(f []byte) int {
	if f == nil {
		return -1
	}
	return len(f)
}

// dumpers print the files beside a segment.
var dumpers = map[string]func(name string, b []byte, w io.Writer) error{
	".index": func(name string, b []byte, w io.Writer) error {
		base, list, err := parseIndex(name, b, index.ParseOffsets)
		for _, e := range list {
			fmt.Fprintf(w, "offset: %d position: %d\n", base+kafkaproto.Offset(e.Rel), e.Pos)
		}
		return err
	},
	".timeindex": func(name string, b []byte, w io.Writer) error {
		base, list, err := parseIndex(name, b, index.ParseTimes)
		for _, e := range list {
			fmt.Fprintf(w, "timestamp: %d offset: %d\n", e.Timestamp, base+kafkaproto.Offset(e.Rel))
		}
		return err
	},
	".txnindex": func(name string, b []byte, w io.Writer) error {
		list, err := index.ParseTxns(b)
		for _, e := range list {
			fmt.Fprintf(w,
				"version: 0 producerId: %d firstOffset: %d lastOffset: %d lastStableOffset: %d\n",
				e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStable)
		}
		return err
	},
	".raftindex": func(name string, b []byte, w io.Writer) error {
		sum, err := index.ParseSummary(b)
		if err == nil {
			fmt.Fprintf(w, "%+v\n", sum)
		}
		return err
	},
	".sum": func(name string, b []byte, w io.Writer) error {
		h, sums, err := index.ParseSumFile(b)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "baseOffset: %d logSize: %d\n", h.BaseOffset, h.LogSize)
		for _, e := range sums {
			fmt.Fprintf(w, "end: %d crc: %08x\n", e.End, e.CRC)
		}
		return nil
	},
	sidecarExt: func(name string, b []byte, w io.Writer) error {
		s, end, err := producer.Load(b, producer.Options{})
		if err != nil {
			return err
		}
		return dumpProducers(s, end, w)
	},
	snapshotExt: func(name string, b []byte, w io.Writer) error {
		end, ok := sidecarEnd(path.Base(name), snapshotExt)
		if !ok {
			return fmt.Errorf("its name does not say where in the log it was taken")
		}
		s, err := producer.ReadKafkaSnapshot(b, end, producer.Options{})
		if err != nil {
			return err
		}
		return dumpProducers(s, end, w)
	},
}

func dumpProducers(s *producer.State, end kafkaproto.Offset, w io.Writer) error {
	fmt.Fprintf(w, "end: %d producers: %d\n", end, s.Len())
	for _, p := range s.Producers() {
		fmt.Fprintf(w,
			"producerId: %d producerEpoch: %d lastSequence: %d lastTimestamp: %d "+
				"coordinatorEpoch: %d "+
				"currentTxnFirstOffset: %d\n", p.Producer, p.Epoch, p.LastSequence,
			p.LastTimestamp, p.CoordinatorEpoch, p.TxnFirstOffset)
	}
	return nil
}

func dumpEpochs(_ string, b []byte, w io.Writer) error {
	epochs, err := segment.ParseEpochs(b)
	for _, e := range epochs {
		fmt.Fprintf(w, "epoch: %d startOffset: %d\n", e.Epoch, e.Start)
	}
	return err
}

func parseIndex[T any](name string, b []byte, parse func([]byte) ([]T, error)) (kafkaproto.Offset,
	[]T, error) {
	base, err := segmentBase(name)
	if err != nil {
		return 0, nil, err
	}
	list, err := parse(b)
	return base, list, err
}

// segmentBase reads the base offset in a segment file's name.
func segmentBase(name string) (kafkaproto.Offset, error) {
	digits, _, _ := strings.Cut(path.Base(name), ".")
	base, ok := sidecarEnd(digits, "")
	if !ok {
		return 0, fmt.Errorf("%s is no name of a segment file", path.Base(name))
	}
	return base, nil
}

// scanFile reads the batches of a .log file from its start, without indexes and without writing.
// A batch is given whole, not verified, and is valid during the call.
func scanFile(fsys vfs.FS, name string, fn func(b batch.Batch, pos int64) error) error {
	f, err := vfs.Open(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, size), 1<<20)
	var buf []byte
	for pos := int64(0); pos < size; {
		head, err := r.Peek(batch.HeaderSize)
		if err != nil {
			return kafkaproto.Corruptf("%s: %d bytes at %d are too few for a batch", name,
				size-pos, pos)
		}
		h, err := batch.PeekHeader(head)
		if err != nil {
			return kafkaproto.MarkCorrupt(fmt.Errorf("%s: at %d: %w", name, pos, err))
		}
		if int64(h.Size()) > size-pos {
			return kafkaproto.Corruptf("%s: batch at %d of %d bytes ends behind the file's %d",
				name, pos, h.Size(), size)
		}
		if cap(buf) < h.Size() {
			buf = make([]byte, h.Size())
		}
		if _, err := io.ReadFull(r, buf[:h.Size()]); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if err := fn(batch.Batch(buf[:h.Size()]), pos); err != nil {
			return err
		}
		pos += int64(h.Size())
	}
	return nil
}
