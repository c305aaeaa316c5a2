package store

import (
	"errors"
	"fmt"
	"path"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// opening is what one Open of a data directory goes by.
type opening struct {
	state *journal.State
	// clean: everything was synced and closed by the process before this one.
	clean bool
	// lost: there is no journal, or not a whole one. The marks in state still hold, as they only
	// move up; terms and raft indexes do not (ruling 7).
	lost bool
	// sameBoot: the page cache has survived, so what is read may not be on disk yet.
	sameBoot bool
}

// recover opens the journal and every log. Steps, with the rules of replication.md §1.5:
//
//  1. The journal: no-ops, marks, windows, swaps. A damaged one is set aside.
//  2. After an unclean stop everything is synced (R5) before it is read from the disk.
//  3. Each log, in parallel: swaps finished or undone, tails cut, side entries beyond the prefix
//     dropped (R2).
//  4. Another sync when something was cut, then one commit of the journal: RESET and the new mark
//     of each log (R4), DROP of groups whose deletion had begun, and that the directory is open.
//  5. The directories of deleted logs go.
func (s *Store) recover() error {
	dirs, err := s.listDirs()
	if err != nil {
		return err
	}
	if err := checkFormat(s.fs, s.o.Dir, len(dirs.logs)+len(dirs.half) > 0 ||
		dirs.unreadable); err != nil {
		return err
	}
	for _, dir := range dirs.half {
		if err := s.fs.RemoveAll(dir); err != nil {
			return err
		}
	}
	o, err := s.openJournal(len(dirs.logs) > 0)
	if err != nil {
		return err
	}
	if !o.clean && !s.o.knobs.off.syncFound {
		if err := s.syncFound(); err != nil {
			return fmt.Errorf("sync what was found: %w", err)
		}
	}
	recs, changed, err := s.recoverLogs(dirs.logs, o)
	if err != nil {
		return err
	}
	if changed {
		if err := s.syncFound(); err != nil {
			return fmt.Errorf("sync what was recovered: %w", err)
		}
	}
	recs = append(recs, s.noteAbsent(o.state, dirs)...)
	recs = append(recs, journal.Record{Body: journal.Opened{BootID: s.o.BootID}})
	if err := s.journalCommit(recs); err != nil {
		return err
	}
	for _, name := range dirs.gone {
		s.janitor.removeDirLater(path.Join(s.o.Dir, name), 0)
	}
	return nil
}

// dirList is what a data directory holds.
type dirList struct {
	logs []logDir
	gone []string // of deleted logs
	half []string // paths of directories whose making was interrupted
	// unreadable: a partition's directory does not say whose it is.
	unreadable bool
}

type logDir struct {
	id kafkaproto.PartitionID
	tp kafkaproto.TopicPartition
}

// listDirs reads whose logs are here.
func (s *Store) listDirs() (dirList, error) {
	var d dirList
	entries, err := s.fs.ReadDir(s.o.Dir)
	if err != nil {
		return d, err
	}
	for _, e := range entries {
		tp, gone, ok := partitionDir(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		if gone {
			d.gone = append(d.gone, e.Name())
			continue
		}
		dir := path.Join(s.o.Dir, e.Name())
		id, err := segment.ReadMetadata(s.fs, dir)
		if err == nil {
			d.logs = append(d.logs, logDir{kafkaproto.PartitionID{Topic: id,
				Partition: tp.Partition}, tp})
			continue
		}
		empty, listErr := s.holdsNothing(dir)
		if listErr != nil {
			return d, listErr
		}
		if empty { // a crash while it was made
			d.half = append(d.half, dir)
			continue
		}
		d.unreadable = true
		s.log.Error("directory holds records but does not say of which topic; it is left alone",
			"dir", dir, "error", err)
	}
	return d, nil
}

// holdsNothing reports whether a partition's directory has no record in it.
func (s *Store) holdsNothing(dir string) (bool, error) {
	files, err := segment.List(s.fs, dir)
	if err != nil || len(files.Segments) > 1 || len(files.Suffixed) > 0 {
		return false, err
	}
	for _, base := range files.Segments {
		st, err := s.fs.Stat(path.Join(dir, fmt.Sprintf("%020d.log", base)))
		if err != nil || st.Size() > 0 {
			return false, err
		}
	}
	return true, nil
}

// openJournal opens the journal. One that is damaged is set aside, and the logs go on above the
// highest term in them (ruling 7).
func (s *Store) openJournal(hasLogs bool) (*opening, error) {
	dir := path.Join(s.o.Dir, journalDir)
	j, state, err := journal.Open(s.fs, dir, s.journalOptions())
	o := &opening{state: state}
	if err != nil {
		if !kafkaproto.IsCorrupt(err) || errors.Is(err, journal.ErrNewerFormat) {
			return nil, fmt.Errorf("open journal: %w", err)
		}
		names, aside := journal.SetAside(s.fs, dir)
		if aside != nil {
			return nil, fmt.Errorf("set damaged journal aside: %w", aside)
		}
		s.log.Error("the journal is damaged; leader epochs are rebuilt from the logs", "error",
			err, "kept", names)
		if j, _, err = journal.Open(s.fs, dir, s.journalOptions()); err != nil {
			return nil, fmt.Errorf("begin new journal: %w", err)
		}
		if o.state == nil {
			o.state = &journal.State{}
		}
		o.lost = true
	} else if state.Fresh && hasLogs {
		s.log.Error("the journal is missing; leader epochs are rebuilt from the logs")
		o.lost = true
	}
	s.journal = j
	o.clean = o.state.Clean && !o.lost
	o.sameBoot = o.state.BootID != "" && o.state.BootID == s.o.BootID
	return o, nil
}

func (s *Store) journalOptions() journal.Options {
	o := s.o.Journal
	if s.o.knobs.journal != (journal.Options{}) {
		o = s.o.knobs.journal
	}
	o.Logger = s.log
	return o
}

// syncFound makes everything in the data directory durable.
func (s *Store) syncFound() error {
	err := s.fs.SyncFS(s.o.Dir)
	if !errors.Is(err, vfs.ErrUnsupported) {
		return err
	}
	entries, err := s.fs.ReadDir(s.o.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		dir := path.Join(s.o.Dir, e.Name())
		files, err := s.fs.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			if path.Ext(f.Name()) == ".log" {
				if err := syncFile(s.fs, path.Join(dir, f.Name())); err != nil {
					return err
				}
			}
		}
		if err := s.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(s.o.Dir)
}

// recoverLogs recovers the logs, a few at a time. One that is damaged is offline afterwards, and
// the others are served.
func (s *Store) recoverLogs(dirs []logDir, o *opening) (recs []journal.Record, changed bool,
	err error) {
	var mu sync.Mutex
	begun := s.clock.Now()
	s.inParallel(len(dirs), func(i int) {
		d := dirs[i]
		l := newLog(s, d.id, d.tp)
		r := &logRecovery{l: l, o: o, g: o.state.Groups[d.id]}
		failed := r.run()
		mu.Lock()
		defer mu.Unlock()
		changed = changed || r.changed
		if s.mu.logs[d.id] != nil {
			err = errors.Join(err, fmt.Errorf("directories %s and %s have the same topic id",
				l.dir, s.mu.logs[d.id].dir))
			return
		}
		s.mu.logs[d.id], s.mu.names[d.tp] = l, l
		switch {
		case failed == nil:
			recs = append(recs, r.recs...)
		case kafkaproto.IsCorrupt(failed):
			l.goOffline(fmt.Errorf("recover %s: %w", d.tp, failed))
		default:
			err = errors.Join(err, fmt.Errorf("recover %s: %w", d.tp, failed))
		}
	})
	if len(dirs) > 0 && !o.clean {
		s.log.Info("recovered logs after an unclean stop", "logs", len(dirs), "took",
			s.clock.Now().Sub(begun).String())
	}
	return recs, changed, err
}
