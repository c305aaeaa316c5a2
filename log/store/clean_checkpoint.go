package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/vfs"
)

// cleanerCheckpoint is Kafka's file of first dirty offsets, in the data directory: version 0, the
// number of lines, and a line "topic partition offset" for each.
const cleanerCheckpoint = "cleaner-offset-checkpoint"

// readCleanerCheckpoint reads the file. What is missing or damaged costs one longer pass.
func readCleanerCheckpoint(s *Store) map[kafkaproto.TopicPartition]kafkaproto.Offset {
	out := make(map[kafkaproto.TopicPartition]kafkaproto.Offset)
	b, err := vfs.ReadFile(s.fs, path.Join(s.o.Dir, cleanerCheckpoint), 64<<20)
	if err == nil {
		err = parseOffsets(string(b), out)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("read "+cleanerCheckpoint+"; logs are cleaned from their start", "error", err)
		clear(out)
	}
	return out
}

func parseOffsets(text string, out map[kafkaproto.TopicPartition]kafkaproto.Offset) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 || strings.TrimSpace(lines[0]) != "0" ||
		strings.TrimSpace(lines[1]) != strconv.Itoa(len(lines)-2) {
		return kafkaproto.Corruptf("not a version 0 checkpoint of %d lines", len(lines))
	}
	for _, line := range lines[2:] {
		f := strings.Fields(line)
		if len(f) != 3 {
			return kafkaproto.Corruptf("line %q", line)
		}
		p, err := strconv.ParseInt(f[1], 10, 32)
		off, err2 := strconv.ParseInt(f[2], 10, 64)
		if err != nil || err2 != nil || p < 0 || off < 0 {
			return kafkaproto.Corruptf("line %q", line)
		}
		out[kafkaproto.TopicPartition{Topic: f[0], Partition: int32(p)}] = kafkaproto.Offset(off)
	}
	return nil
}

// writeCheckpoint replaces the file. Logs that are gone, or compacted no more, drop out.
func (c *cleaner) writeCheckpoint() {
	var lines []string
	for _, l := range c.s.Logs() {
		if off, ok := c.from[l.tp]; ok && l.config.Load().Compact {
			lines = append(lines, fmt.Sprintf("%s %d %d", l.tp.Topic, l.tp.Partition, off))
		}
	}
	sort.Strings(lines)
	text := fmt.Sprintf("0\n%d\n%s\n", len(lines), strings.Join(lines, "\n"))
	if err := vfs.WriteFileAtomic(c.s.fs, path.Join(c.s.o.Dir, cleanerCheckpoint),
		[]byte(text)); err != nil {
		c.s.log.Warn("write "+cleanerCheckpoint, "error", err)
	}
}
