package quorum

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
)

// A broker whose image is below the log start asks another for its image:
//
//	request  u8 version = 1 | i64 the least version of use
//	stream   u8 version = 1 | i64 offset | i32 epoch | i64 size | u32 crc32c of the file | u32 crc32c of this head
//	         the checkpoint file, of size bytes
const (
	imageVersion = 1
	askSize      = 1 + 8
	imageHead    = 1 + 8 + 4 + 8 + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeAsk(least int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{imageVersion}, uint64(least))
}

func decodeAsk(b []byte) (least int64, err error) {
	if len(b) > 0 && b[0] != imageVersion {
		return 0, kafkaproto.Faultf(kerr.UnsupportedVersion, "request of version %d for the metadata image", b[0])
	}
	if len(b) != askSize {
		return 0, kafkaproto.Corruptf("%d bytes are no request for the metadata image", len(b))
	}
	return int64(binary.BigEndian.Uint64(b[1:])), nil
}

// encodeImage gives the stream of an image.
func encodeImage(img *meta.Image, epoch kafkaproto.LeaderEpoch, nowMs int64) ([]byte, error) {
	file, err := encodeSnapshot(img, epoch, nowMs)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, imageHead+len(file))
	out = append(out, imageVersion)
	out = binary.BigEndian.AppendUint64(out, uint64(img.Version()))
	out = binary.BigEndian.AppendUint32(out, uint32(epoch))
	out = binary.BigEndian.AppendUint64(out, uint64(len(file)))
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(file, castagnoli))
	out = binary.BigEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
	return append(out, file...), nil
}

// readImage reads what encodeImage gave.
func readImage(r io.Reader) (*meta.Image, snapshotID, error) {
	var head [imageHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, snapshotID{}, err
	}
	if head[0] != imageVersion {
		return nil, snapshotID{}, kafkaproto.Faultf(kerr.UnsupportedVersion, "metadata image of version %d", head[0])
	}
	if crc32.Checksum(head[:imageHead-4], castagnoli) != binary.BigEndian.Uint32(head[imageHead-4:]) {
		return nil, snapshotID{}, kafkaproto.Corruptf("the head of a metadata image is damaged")
	}
	id := snapshotID{
		kafkaproto.Offset(binary.BigEndian.Uint64(head[1:])), kafkaproto.LeaderEpoch(binary.BigEndian.Uint32(head[9:])),
	}
	size := binary.BigEndian.Uint64(head[13:])
	if id.offset < 0 || id.epoch < 0 || size > maxSnapshot {
		return nil, id, kafkaproto.Corruptf("a metadata image of offset %d, epoch %d and %d bytes", id.offset, id.epoch, size)
	}
	// What is allocated grows with what has come, not with what was announced.
	file, err := io.ReadAll(io.LimitReader(r, int64(size)+1))
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, id, err
	case uint64(len(file)) != size:
		return nil, id, kafkaproto.Corruptf("a metadata image of %d bytes has %d", size, len(file))
	case crc32.Checksum(file, castagnoli) != binary.BigEndian.Uint32(head[21:]):
		return nil, id, kafkaproto.Corruptf("a metadata image is damaged")
	}
	img, err := decodeSnapshot(file, id)
	return img, id, err
}
