package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/segment"
)

// kafkaMetadata is Kafka's own metadata log, which we cannot read; ours has the same name.
const kafkaMetadata = "__cluster_metadata-0"

// Imported is one log of an imported directory.
type Imported struct {
	ID         kafkaproto.PartitionID
	TP         kafkaproto.TopicPartition
	Start, End kafkaproto.Offset
	Bytes      int64
}

// Import makes a directory ours that Kafka wrote: it reads and verifies every log, and begins a
// journal that goes on above their leader epochs (ruling 7). Segments stay as they are; Kafka's
// metadata log is set aside under another name. When a log is damaged nothing is imported, and the
// error lists all of them. Work on a copy: Kafka does not expect to get the directory back.
func Import(o Options) ([]Imported, error) {
	o = o.withDefaults()
	if err := checkOneDir(o.Dir); err != nil {
		return nil, err
	}
	if err := checkForeign(o); err != nil {
		return nil, fmt.Errorf("import %s: %w", o.Dir, err)
	}
	if err := writeFormat(o.FS, o.Dir); err != nil {
		return nil, fmt.Errorf("import %s: %w", o.Dir, err)
	}
	out, err := importLogs(o)
	if err != nil {
		undo := errors.Join(removeIfThere(o.FS, path.Join(o.Dir, formatFile)),
			o.FS.RemoveAll(path.Join(o.Dir, journalDir)), o.FS.SyncDir(o.Dir))
		return nil, errors.Join(fmt.Errorf("import %s: %w", o.Dir, err), undo)
	}
	return out, nil
}

// checkForeign refuses what is ours already, or has a log without a topic id, and sets Kafka's
// metadata log aside.
func checkForeign(o Options) error {
	for _, name := range []string{formatFile, journalDir} {
		if _, err := o.FS.Stat(path.Join(o.Dir, name)); err == nil {
			return fmt.Errorf("%s is there: the directory is ours already", name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	entries, err := o.FS.ReadDir(o.Dir)
	if err != nil {
		return err
	}
	var errs []error
	logs := 0
	for _, e := range entries {
		tp, gone, ok := partitionDir(e.Name())
		if !ok || gone || !e.IsDir() || e.Name() == kafkaMetadata {
			continue
		}
		logs++
		if _, err := segment.ReadMetadata(o.FS, path.Join(o.Dir, e.Name())); err != nil {
			errs = append(errs, fmt.Errorf("%s has no topic id (Kafka 2.8 and later write it): %w",
				tp, err))
		}
	}
	if logs == 0 {
		return errors.New("it holds no partitions")
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == kafkaMetadata }) {
		from := path.Join(o.Dir, kafkaMetadata)
		if err := o.FS.Rename(from, from+".kafka"); err != nil {
			return err
		}
	}
	return o.FS.SyncDir(o.Dir)
}

func importLogs(o Options) ([]Imported, error) {
	o.Cleaner.Enabled = false
	s, err := Open(o)
	if err != nil {
		return nil, err
	}
	var out []Imported
	var errs []error
	for _, l := range s.Logs() {
		err := l.Offline()
		for _, seg := range *l.segs.Load() {
			if err == nil {
				err = seg.Verify(func(int) error { return nil })
			}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, Imported{ID: l.id, TP: l.tp, Start: l.StartOffset(), End: l.EndOffset(),
			Bytes: l.Size()})
	}
	errs = append(errs, s.Close())
	return out, errors.Join(errs...)
}
