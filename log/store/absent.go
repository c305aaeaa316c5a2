package store

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
)

// A group of the journal may have no directory: its deletion was cut short, or the directory, or what its
// partition.metadata says, was lost. Only the first is forgotten. What the journal knows of the others is
// needed once the directory is back, and until then it proves that records are missing (G16).

// noteAbsent gives the records that end the deletions, and notes the groups that stay.
func (s *Store) noteAbsent(state *journal.State, dirs dirList) (recs []journal.Record) {
	deleted := make(map[kafkaproto.PartitionID]bool)
	for _, name := range dirs.gone {
		if id, ok := s.deletedID(name); ok {
			deleted[id] = true
		}
	}
	for id, g := range state.Groups {
		switch {
		case s.mu.logs[id] != nil:
		case deleted[id]:
			recs = append(recs, journal.Record{Group: id, Body: journal.Drop{}})
		default:
			s.mu.absent[id] = lostDirectory(g)
			s.log.Warn("the journal knows a log that has no directory", "id", id.String(), "start",
				int64(g.LogStart()), "end", int64(max(g.Synced.Offset, g.Window.FirstOffset)))
		}
	}
	return recs
}

// deletedID is the partition whose deleted directory has this name.
func (s *Store) deletedID(name string) (id kafkaproto.PartitionID, ok bool) {
	tail := name[:strings.LastIndexByte(name, '.')]
	n, err := strconv.ParseInt(tail[strings.LastIndexByte(tail, '-')+1:], 10, 32)
	if err != nil {
		return id, false
	}
	topic, err := segment.ReadMetadata(s.fs, path.Join(s.o.Dir, name))
	return kafkaproto.PartitionID{Topic: topic, Partition: int32(n)}, err == nil
}

// lostDirectory is why a log without directory cannot be used; nil when nothing was in it.
func lostDirectory(g *journal.GroupState) error {
	start, end := g.LogStart(), max(g.Synced.Offset, g.Window.FirstOffset)
	if end <= start {
		return nil
	}
	return kafkaproto.Corruptf("offsets %d to %d were synced, and its directory is missing, or its %s names "+
		"another topic", start, end-1, segment.MetadataFile)
}

// openAbsentLocked opens a log whose directory is missing: offline when records were in it, which are to be
// missed, and else made anew. The caller holds s.mu.
func (s *Store) openAbsentLocked(id kafkaproto.PartitionID, tp kafkaproto.TopicPartition, c Config) (*Log, error) {
	if why := s.mu.absent[id]; why != nil {
		l := newLog(s, id, tp)
		l.SetConfig(c)
		l.goOffline(fmt.Errorf("open %s: %w", tp, why))
		return l, nil
	}
	if err := s.journalCommit([]journal.Record{{Group: id, Body: journal.Drop{}}}); err != nil {
		return nil, err
	}
	delete(s.mu.absent, id)
	return s.createLog(id, tp, c)
}
