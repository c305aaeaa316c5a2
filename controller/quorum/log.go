package quorum

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
)

// metadataLog is what is needed of a *store.Log; the controller is its only user.
type metadataLog interface {
	snapshotLog
	rangeReader
	Offline() error
	Observe(fn func(store.Event))
	EndOffset() kafkaproto.Offset
	SyncedOffset() kafkaproto.Offset
	Append(b batch.Batch, o store.AppendOptions) (store.Appended, error)
	Commit(hw kafkaproto.Offset)
}

// rangeReader is how the log is read.
type rangeReader interface {
	Read(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset, minOne bool) (
		store.Range, error)
}

// snapshotLog is what snapshots need of the log.
type snapshotLog interface {
	Dir() string
	Term() kafkaproto.LeaderEpoch // of the last record
	StartOffset() kafkaproto.Offset
	Roll() error
	DeleteRecords(to kafkaproto.Offset) error
}

// MetadataPartition is the metadata log's identity, with Kafka's fixed topic id
// AAAAAAAAAAAAAAAAAAAAAQ.
func MetadataPartition() (kafkaproto.PartitionID, kafkaproto.TopicPartition) {
	id := kafkaproto.PartitionID{Topic: kafkaproto.TopicID{15: 1}}
	return id, kafkaproto.TopicPartition{Topic: meta.ClusterMetadata}
}

// logConfig is the metadata log's: strict whatever the settings say, and cut by snapshots alone.
func logConfig(m config.Metadata) store.Config {
	return store.Config{
		SegmentBytes: m.SegmentBytes, SegmentAge: m.SegmentAge, RetentionBytes: -1, RetentionAge: -1,
		Delete: true, Strict: true, Internal: true, MaxMessageBytes: maxBatch,
	}
}

const (
	// readChunk is how much of the log is read at once while loading, in bytes.
	readChunk = 1 << 20
	// maxBatch bounds what a compressed batch may hold; ours are not compressed.
	maxBatch = 64 << 20
)

// replay applies the log from the image's version on up to its end; size is how many bytes it read.
func replay(l metadataLog, img *meta.Image) (last *meta.Image, size int64, err error) {
	if err := l.Offline(); err != nil {
		return nil, 0, fmt.Errorf("metadata log %s cannot be used: %w", l.Dir(), err)
	}
	from, end := kafkaproto.Offset(img.Version()), l.EndOffset()
	if start := l.StartOffset(); from < start {
		return nil, 0, kafkaproto.Corruptf("metadata log %s begins at offset %d, and no "+
			"snapshot that can be read reaches it: restore the .checkpoint files of this directory",
			l.Dir(), start)
	}
	if from > end {
		return nil, 0, kafkaproto.Corruptf("metadata log %s ends at offset %d, but there is "+
			"a snapshot of offset %d: the log has lost records", l.Dir(), end, from)
	}
	for at := from; at < end; {
		buf, err := readRange(l, at, end)
		if err == nil {
			img, err = applyBatches(img, buf)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("metadata log %s from offset %d on: %w", l.Dir(), at, err)
		}
		if next := kafkaproto.Offset(img.Version()); next > at {
			at, size = next, size+int64(len(buf))
			continue
		}
		return nil, 0, kafkaproto.Corruptf("metadata log %s does not go on at offset %d", l.Dir(), at)
	}
	return img, size, nil
}

// readRange reads some batches, at least one.
func readRange(l rangeReader, at, end kafkaproto.Offset) ([]byte, error) {
	r, err := l.Read(at, readChunk, end, true)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, r.Len)
	n, err := r.File.ReadAt(buf, r.Pos)
	r.Release()
	if n < len(buf) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return buf, nil
}

// applyBatches applies back-to-back batches, each of which must go on where the image is. A batch
// that the image has already (a snapshot was taken inside a read) is passed over.
func applyBatches(img *meta.Image, buf []byte) (*meta.Image, error) {
	_, err := batch.Scan(buf, func(_ int, b batch.Batch) (bool, error) {
		if b.NextOffset() <= kafkaproto.Offset(img.Version()) {
			return true, nil
		}
		records, err := decodeBatch(b)
		if err != nil {
			return false, err
		}
		if b.BaseOffset() != kafkaproto.Offset(img.Version()) {
			return false, kafkaproto.Corruptf("a batch of offset %d where %d is next", b.BaseOffset(),
				img.Version())
		}
		img, err = img.Apply(records...)
		return true, err
	})
	return img, err
}

// decodeBatch reads the metadata records of a batch.
func decodeBatch(b batch.Batch) ([]meta.Record, error) {
	if err := b.VerifyCRC(); err != nil {
		return nil, err
	}
	if b.IsControl() || b.Count() < 1 {
		return nil, kafkaproto.Corruptf("batch %d is not one of metadata records", b.BaseOffset())
	}
	var records []meta.Record
	err := b.Each(maxBatch, func(r *batch.Record) (bool, error) {
		decoded, err := meta.DecodeRecord(r.Value)
		if err != nil {
			return false, fmt.Errorf("offset %d: %w", r.Offset, err)
		}
		records = append(records, decoded)
		return true, nil
	})
	return records, err
}

// addRecord encodes a record into a batch.
func addRecord(b *batch.Builder, r meta.Record, nowMs int64) error {
	value, err := meta.EncodeRecord(r)
	if err != nil {
		return err
	}
	if len(value) > math.MaxInt32/2-b.Size() {
		return fmt.Errorf("a metadata record of %d bytes", len(value))
	}
	b.Add(batch.Record{Timestamp: nowMs, Value: value})
	return nil
}
