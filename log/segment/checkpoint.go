package segment

import (
	"bytes"
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// The names of the two text files in a partition directory.
const (
	EpochFile    = "leader-epoch-checkpoint"
	MetadataFile = "partition.metadata"
)

// maxText bounds what is read of the two text files: an epoch takes a line of at most 31 bytes.
const maxText = 64 << 20

// EpochStart says where a leader epoch begins.
type EpochStart struct {
	Epoch kafkaproto.LeaderEpoch
	Start kafkaproto.Offset
}

// ReadEpochs reads leader-epoch-checkpoint in dir. fs.ErrNotExist when it is missing, a corruption
// error when it is not what Kafka or we write.
func ReadEpochs(fsys vfs.FS, dir string) ([]EpochStart, error) {
	name := path.Join(dir, EpochFile)
	b, err := vfs.ReadFile(fsys, name, maxText)
	if err != nil {
		return nil, err
	}
	epochs, err := ParseEpochs(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return epochs, nil
}

// ParseEpochs reads the text of a leader-epoch-checkpoint: version 0, the number of lines, and a
// line "epoch start" for each, both ascending.
//
//	0
//	2
//	0 0
//	3 1200
func ParseEpochs(b []byte) ([]EpochStart, error) {
	lines := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	if len(lines) < 2 {
		return nil, kafkaproto.Corruptf("%d lines", len(lines))
	}
	version, err := parseNumber(lines[0], math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if version != 0 {
		return nil, newer(version)
	}
	count, err := parseNumber(lines[1], math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if lines = lines[2:]; int64(len(lines)) != count {
		return nil, kafkaproto.Corruptf("%d lines follow, %d expected", len(lines), count)
	}
	out := make([]EpochStart, 0, len(lines))
	for i, line := range lines {
		e, err := parseEpoch(line)
		if err != nil {
			return nil, err
		}
		if i > 0 && (e.Epoch <= out[i-1].Epoch || e.Start < out[i-1].Start) {
			return nil, kafkaproto.Corruptf("epoch %d at %d follows epoch %d at %d",
				e.Epoch, e.Start, out[i-1].Epoch, out[i-1].Start)
		}
		out = append(out, e)
	}
	return out, nil
}

func parseEpoch(line []byte) (EpochStart, error) {
	a, b, _ := bytes.Cut(line, []byte(" "))
	epoch, err := parseNumber(a, math.MaxInt32)
	if err != nil {
		return EpochStart{}, err
	}
	start, err := parseNumber(b, math.MaxInt64)
	return EpochStart{kafkaproto.LeaderEpoch(epoch), kafkaproto.Offset(start)}, err
}

// parseNumber reads a decimal number without sign or leading zeros.
func parseNumber(b []byte, limit int64) (int64, error) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil || n < 0 || n > limit || strconv.FormatInt(n, 10) != string(b) {
		return 0, kafkaproto.Corruptf("%q is not a number up to %d", b[:min(len(b), 40)], limit)
	}
	return n, nil
}

// WriteEpochs replaces leader-epoch-checkpoint in dir, durably.
func WriteEpochs(fsys vfs.FS, dir string, epochs []EpochStart) error {
	return vfs.WriteFileAtomic(fsys, path.Join(dir, EpochFile), FormatEpochs(epochs))
}

// FormatEpochs is the text that ParseEpochs reads.
func FormatEpochs(epochs []EpochStart) []byte {
	b := fmt.Appendf(nil, "0\n%d\n", len(epochs))
	for _, e := range epochs {
		b = fmt.Appendf(b, "%d %d\n", e.Epoch, e.Start)
	}
	return b
}

// ReadMetadata reads the topic id in dir's partition.metadata.
func ReadMetadata(fsys vfs.FS, dir string) (kafkaproto.TopicID, error) {
	name := path.Join(dir, MetadataFile)
	b, err := vfs.ReadFile(fsys, name, 1<<10)
	if err != nil {
		return kafkaproto.TopicID{}, err
	}
	id, err := ParseMetadata(b)
	if err != nil {
		return kafkaproto.TopicID{}, fmt.Errorf("%s: %w", name, err)
	}
	return id, nil
}

// ParseMetadata reads the text of a partition.metadata.
//
//	version: 0
//	topic_id: 8OQO1sRcSXqZ1wRPjxm5Aw
func ParseMetadata(b []byte) (kafkaproto.TopicID, error) {
	version, rest, _ := strings.Cut(string(bytes.TrimSuffix(b, []byte("\n"))), "\n")
	number, ok := strings.CutPrefix(version, "version: ")
	n, err := parseNumber([]byte(number), math.MaxInt32)
	if !ok || err != nil {
		return kafkaproto.TopicID{}, kafkaproto.Corruptf("%q is not a version", version[:min(len(version), 40)])
	}
	if n != 0 {
		return kafkaproto.TopicID{}, newer(n)
	}
	text, ok := strings.CutPrefix(rest, "topic_id: ")
	id, err := kafkaproto.ParseTopicID(text)
	if !ok || err != nil || id.IsZero() || id.String() != text {
		return kafkaproto.TopicID{}, kafkaproto.Corruptf("%q is not a topic id", rest[:min(len(rest), 60)])
	}
	return id, nil
}

// newer refuses a version that is not known. It is not corruption.
func newer(version int64) error {
	return fmt.Errorf("format version %d: this sluice reads version 0", version)
}

// WriteMetadata replaces partition.metadata in dir, durably.
func WriteMetadata(fsys vfs.FS, dir string, id kafkaproto.TopicID) error {
	return vfs.WriteFileAtomic(fsys, path.Join(dir, MetadataFile), FormatMetadata(id))
}

// FormatMetadata is the text that ParseMetadata reads.
func FormatMetadata(id kafkaproto.TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", id)
}
