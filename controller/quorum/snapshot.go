package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/vfs"
)

// A snapshot file holds batches of records as the log does, with base offsets from 0 on; the last
// record is an IMAGE_RECORD with the version that the file's name gives. It is written under
// another name, synced and renamed, so a file of this name is whole unless the disk damaged it.
const (
	snapshotSuffix = ".checkpoint"
	snapshotBatch  = 256 << 10 // bytes, about
	maxSnapshot    = 1 << 30   // bytes that are read of one
)

var snapshotForm = regexp.MustCompile(`^([0-9]{20})-([0-9]{10})\.checkpoint$`)

// snapshotID names a snapshot as Kafka does: the end of the log that it covers, and the term of
// the last record below.
type snapshotID struct {
	offset kafkaproto.Offset
	epoch  kafkaproto.LeaderEpoch
}

func (s snapshotID) file() string {
	return fmt.Sprintf("%020d-%010d%s", s.offset, s.epoch, snapshotSuffix)
}

func parseSnapshotName(name string) (snapshotID, bool) {
	m := snapshotForm.FindStringSubmatch(name)
	if m == nil {
		return snapshotID{}, false
	}
	offset, err1 := strconv.ParseInt(m[1], 10, 64)
	epoch, err2 := strconv.ParseInt(m[2], 10, 32)
	return snapshotID{kafkaproto.Offset(offset), kafkaproto.LeaderEpoch(epoch)},
		err1 == nil && err2 == nil
}

// encodeSnapshot gives a snapshot file's bytes.
func encodeSnapshot(img *meta.Image, epoch kafkaproto.LeaderEpoch, nowMs int64) ([]byte, error) {
	var file []byte
	base := kafkaproto.Offset(0)
	builder := batch.NewBuilder(batch.BuilderOptions{LeaderEpoch: epoch})
	flush := func() (err error) {
		count := builder.Len()
		if file, err = builder.AppendTo(file); err == nil {
			base += kafkaproto.Offset(count)
			builder.Reset(batch.BuilderOptions{BaseOffset: base, LeaderEpoch: epoch})
		}
		return err
	}
	for _, r := range img.Snapshot() {
		if builder.Len() > 0 && builder.Size() >= snapshotBatch {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		if err := addRecord(builder, r, nowMs); err != nil {
			return nil, err
		}
	}
	return file, flush()
}

// decodeSnapshot reads a snapshot file's bytes; id is what its name says.
func decodeSnapshot(data []byte, id snapshotID) (*meta.Image, error) {
	var records []meta.Record
	n, err := batch.Scan(data, func(_ int, b batch.Batch) (bool, error) {
		if b.BaseOffset() != kafkaproto.Offset(len(records)) || b.LeaderEpoch() != id.epoch {
			return false, kafkaproto.Corruptf("batch of offset %d and epoch %d, want %d and %d",
				b.BaseOffset(), b.LeaderEpoch(), len(records), id.epoch)
		}
		more, err := decodeBatch(b)
		records = append(records, more...)
		return true, err
	})
	if err != nil {
		return nil, kafkaproto.MarkCorrupt(fmt.Errorf("byte %d: %w", n, err))
	}
	img, err := meta.Load(records)
	if err == nil && img.Version() != int64(id.offset) {
		err = kafkaproto.Corruptf("it holds version %d", img.Version())
	}
	return img, err
}

func writeSnapshot(
	fsys vfs.FS, dir string, img *meta.Image, epoch kafkaproto.LeaderEpoch, nowMs int64,
) (snapshotID, error) {
	id := snapshotID{kafkaproto.Offset(img.Version()), epoch}
	data, err := encodeSnapshot(img, epoch, nowMs)
	if err == nil {
		err = vfs.WriteFileAtomic(fsys, path.Join(dir, id.file()), data)
	}
	if err != nil {
		return id, fmt.Errorf("write metadata snapshot %s: %w", id.file(), err)
	}
	return id, nil
}

// listSnapshots gives the snapshots of a directory, newest first.
func listSnapshots(fsys vfs.FS, dir string) ([]snapshotID, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []snapshotID
	for _, e := range entries {
		if id, ok := parseSnapshotName(e.Name()); ok {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b snapshotID) int { return strings.Compare(b.file(), a.file()) })
	return ids, err
}

// loadSnapshot gives the image of the newest snapshot that can be read, and which that is; the
// empty image when there is none. Damage is told to warn, and an older one is taken. A snapshot of
// a newer release is an error: an older one would be read only to fail at the log.
func loadSnapshot(
	fsys vfs.FS, dir string, warn func(file string, err error),
) (*meta.Image, *snapshotID, error) {
	ids, err := listSnapshots(fsys, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("list metadata snapshots: %w", err)
	}
	for _, id := range ids {
		name := path.Join(dir, id.file())
		data, err := vfs.ReadFile(fsys, name, maxSnapshot)
		if err != nil {
			warn(name, err)
			continue
		}
		img, err := decodeSnapshot(data, id)
		switch {
		case errors.Is(err, meta.ErrNewerRelease):
			return nil, nil, fmt.Errorf("metadata snapshot %s: %w", name, err)
		case err != nil:
			warn(name, err)
		default:
			return img, &id, nil
		}
	}
	return meta.Empty(), nil, nil
}

// trimSnapshots removes all snapshots but the kept ones, the newest of them first, and newer ones; and what an interrupted write left.
func trimSnapshots(fsys vfs.FS, dir string, keep ...snapshotID) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := parseSnapshotName(e.Name())
		old := ok && !slices.Contains(keep, id) && id.offset <= keep[0].offset
		if old || strings.HasSuffix(e.Name(), snapshotSuffix+".tmp") {
			err = errors.Join(err, fsys.Remove(path.Join(dir, e.Name())))
		}
	}
	return err
}
