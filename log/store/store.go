package store

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/journal"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// Options are a data directory's surroundings.
type Options struct {
	FS     vfs.FS      // nil: the machine's
	Dir    string      // one directory
	Clock  clock.Clock // nil: the machine's
	Logger *slog.Logger
	// BootID names this run of the machine: while it is the same, the page cache has survived.
	BootID string
	// MaxOpenFiles bounds the handles of sealed segments; 0 means 4096.
	MaxOpenFiles int
	// Reserve is the free space, in bytes, that is left to the journal and to internal logs.
	Reserve int64
	// PageCache is how many of the bytes written last stay in the memory of the operating system;
	// 0: the kernel decides.
	PageCache int64
	// RetentionInterval is log.retention.check.interval.ms; 0 means 5 minutes.
	RetentionInterval time.Duration
	Cleaner           CleanerOptions
	Scrub             ScrubOptions
	// Random is the source of directory names; nil means crypto/rand.
	Random io.Reader
	// Manual: nothing becomes durable, is sealed or removed by itself, only by Step and by calls that
	// wait for it. It is for simulations.
	Manual bool
	// Journal has the sizes of the journal's files; 0: its own. A simulation takes small ones.
	Journal journal.Options
	// OnFailed is told once that the whole directory has stopped (a sync failed, ruling 6).
	OnFailed func(error)

	knobs knobs
}

// CleanerOptions are the log.cleaner.* settings.
type CleanerOptions struct {
	Enabled bool
	// Backoff is the sleep when there is nothing to clean; 0 means 15 s.
	Backoff time.Duration
	// BytesPerSec bounds the cleaner's reads and writes together; 0 means no bound.
	BytesPerSec int64
	// DedupeBytes is the memory of the map from key to newest offset; 0 means 128 MiB.
	DedupeBytes int
}

// ScrubOptions say how sealed segments are read through for damage at rest.
type ScrubOptions struct {
	// Interval is the rest between two rounds, and before the first; 0: no scrubbing.
	Interval time.Duration
	// BytesPerSec bounds the reads; 0 means no bound.
	BytesPerSec int64
}

// ErrClosed is the answer of a store, or a log, that was closed or deleted.
var ErrClosed = errors.New("log is closed")

// Store is an open data directory.
type Store struct {
	o       Options
	fs      vfs.FS
	clock   clock.Clock
	log     *slog.Logger
	lock    io.Closer
	journal *journal.Journal
	files   *segment.FileCache

	committer *committer
	janitor   *janitor
	cleaner   *cleaner
	scrubber  *scrubber
	pages     *pages
	space     space
	failed    atomic.Pointer[error]

	mu struct {
		sync.Mutex
		closed bool
		logs   map[kafkaproto.PartitionID]*Log
		names  map[kafkaproto.TopicPartition]*Log
		// absent are the groups of the journal that have no directory: why they cannot be used, or nil
		// when nothing was in them.
		absent map[kafkaproto.PartitionID]error
	}
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Manual {
		o.knobs.manual = true
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxOpenFiles <= 0 {
		o.MaxOpenFiles = 4096
	}
	if o.RetentionInterval <= 0 {
		o.RetentionInterval = 5 * time.Minute
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Cleaner.Backoff <= 0 {
		o.Cleaner.Backoff = 15 * time.Second
	}
	if o.Cleaner.DedupeBytes <= 0 {
		o.Cleaner.DedupeBytes = 128 << 20
	}
	return o
}

// Open locks the directory, recovers every log in it and starts the committer, the janitor
// (retention, sealing, deletion) and the cleaner.
func Open(o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{o: o, fs: o.FS, clock: o.Clock, log: o.Logger,
		files: segment.NewFileCache(o.MaxOpenFiles)}
	s.mu.logs = make(map[kafkaproto.PartitionID]*Log)
	s.mu.names = make(map[kafkaproto.TopicPartition]*Log)
	s.mu.absent = make(map[kafkaproto.PartitionID]error)
	s.committer, s.janitor, s.cleaner = newCommitter(s), newJanitor(s), newCleaner(s)
	s.scrubber, s.pages = newScrubber(s), newPages(s)
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", o.Dir, errors.Join(err, s.closeFiles()))
	}
	s.committer.start()
	s.janitor.start()
	s.cleaner.start()
	s.scrubber.start()
	s.pages.start()
	return s, nil
}

func (s *Store) open() error {
	if err := checkOneDir(s.o.Dir); err != nil {
		return err
	}
	if err := s.fs.MkdirAll(s.o.Dir, 0o755); err != nil {
		return err
	}
	var err error
	if s.lock, err = s.fs.Lock(path.Join(s.o.Dir, lockFile)); err != nil {
		return err
	}
	return s.recover()
}

// Logs lists the open logs, by name.
func (s *Store) Logs() []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	logs := make([]*Log, 0, len(s.mu.logs))
	for _, l := range s.mu.logs {
		logs = append(logs, l)
	}
	slices.SortFunc(logs, func(a, b *Log) int { return compareTP(a.tp, b.tp) })
	return logs
}

func compareTP(a, b kafkaproto.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// OpenLog gives the log of a partition, recovered or made new. A log that recovery found damaged
// is given too: Offline says why it cannot be used. A new log is durable, and takes appends, after
// StartSolo.
func (s *Store) OpenLog(id kafkaproto.PartitionID, tp kafkaproto.TopicPartition, c Config) (*Log,
	error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, ErrClosed
	}
	if l := s.mu.logs[id]; l != nil {
		l.SetConfig(c)
		return l, nil
	}
	if other := s.mu.names[tp]; other != nil {
		return nil, fmt.Errorf("open log %s with topic id %s: its directory belongs to topic id %s",
			tp, id.Topic, other.id.Topic)
	}
	create := s.createLog
	if _, ok := s.mu.absent[id]; ok {
		create = s.openAbsentLocked
	}
	l, err := create(id, tp, c)
	if err != nil {
		return nil, fmt.Errorf("create log %s: %w", tp, err)
	}
	s.mu.logs[id], s.mu.names[tp] = l, l
	return l, nil
}

// createLog makes the directory of a new log. Nothing of it is synced: StartSolo does that for
// many logs at once.
func (s *Store) createLog(id kafkaproto.PartitionID, tp kafkaproto.TopicPartition, c Config) (*Log,
	error) {
	l := newLog(s, id, tp)
	l.SetConfig(c)
	if _, err := s.fs.Stat(l.dir); err == nil {
		return nil, fmt.Errorf("directory %s is there already and is not a log of ours", l.dir)
	}
	if err := s.fs.MkdirAll(l.dir, 0o755); err != nil {
		return nil, err
	}
	err := segment.WriteMetadata(unsynced{s.fs}, l.dir, id.Topic)
	if err == nil {
		err = l.createFirst(0, 1)
	}
	if err != nil {
		return nil, errors.Join(err, s.fs.RemoveAll(l.dir))
	}
	return l, nil
}

// StartSolo begins a leadership over each log with one voter: a no-op with the next term for each
// log that was written to since its last no-op, in one commit of the journal (ruling 7). A log that
// is offline is passed over.
func (s *Store) StartSolo(logs ...*Log) error {
	if err := s.Err(); err != nil {
		return err
	}
	logs = distinct(logs)
	if err := s.syncNewDirs(logs); err != nil {
		return err
	}
	var recs []journal.Record
	var begun []*Log
	for _, l := range logs {
		l.mu.Lock()
		if r := l.startSoloLocked(); r != nil {
			recs = append(recs, r...)
			begun = append(begun, l)
		}
	}
	// R1: the no-ops are durable before a batch behind them is written, so the logs stay locked.
	err := s.journalCommit(recs)
	for _, l := range begun {
		l.soloStartedLocked(err)
	}
	for _, l := range logs {
		l.mu.Unlock()
	}
	if err != nil {
		return fmt.Errorf("begin terms of %d logs: %w", len(begun), err)
	}
	return nil
}

// distinct drops repeated logs, and orders them by name: their locks are taken in that order.
func distinct(logs []*Log) []*Log {
	logs = slices.Clone(logs)
	slices.SortFunc(logs, func(a, b *Log) int { return compareTP(a.tp, b.tp) })
	return slices.Compact(logs)
}

// syncNewDirs makes the directories of new logs durable.
func (s *Store) syncNewDirs(logs []*Log) error {
	var fresh []*Log
	for _, l := range logs {
		l.mu.Lock()
		if l.mu.fresh {
			fresh = append(fresh, l)
		}
		l.mu.Unlock()
	}
	if len(fresh) == 0 {
		return nil
	}
	err := s.fs.SyncFS(s.o.Dir)
	if errors.Is(err, vfs.ErrUnsupported) {
		err = nil
		for _, l := range fresh {
			err = errors.Join(err, syncFile(s.fs, path.Join(l.dir, segment.MetadataFile)),
				s.fs.SyncDir(l.dir))
		}
		err = errors.Join(err, s.fs.SyncDir(s.o.Dir))
	}
	if err != nil {
		return s.fail(fmt.Errorf("sync new logs: %w", err))
	}
	for _, l := range fresh {
		l.mu.Lock()
		l.mu.fresh = false
		l.mu.Unlock()
	}
	return nil
}

// journalCommit appends records and makes them durable. A failed append changes nothing; a failed
// sync stops the directory.
func (s *Store) journalCommit(recs []journal.Record) error {
	if len(recs) == 0 {
		return nil
	}
	if _, err := s.journal.Append(recs...); err != nil {
		return err
	}
	if err := s.journal.Sync(); err != nil {
		return s.fail(fmt.Errorf("sync journal: %w", err))
	}
	return nil
}

// DeleteLog removes a log: its directory is renamed at once and its files go after
// file.delete.delay.ms.
func (s *Store) DeleteLog(id kafkaproto.PartitionID) error {
	s.mu.Lock()
	l := s.mu.logs[id]
	if l == nil {
		s.mu.Unlock()
		return fmt.Errorf("delete log %s: %w", id, ErrClosed)
	}
	delete(s.mu.logs, id)
	delete(s.mu.names, l.tp)
	_, absent := s.mu.absent[id]
	delete(s.mu.absent, id)
	s.mu.Unlock()

	s.cleaner.forget(l.tp)
	l.shut(kafkaproto.Faultf(kerr.UnknownTopicOrPartition, "%s was deleted", l.tp))
	gone, err := deletedDir(s.o.Random, s.o.Dir, l.tp)
	if err != nil {
		return fmt.Errorf("delete log %s: %w", l.tp, err)
	}
	l.dirMu.Lock()
	if !absent { // what may stand under its name is not known to be this log
		err = s.fs.Rename(l.dir, gone)
	}
	l.dirMu.Unlock()
	if err == nil && !absent {
		err = s.fs.SyncDir(s.o.Dir)
	}
	if err != nil {
		return fmt.Errorf("delete log %s: %w", l.tp, err)
	}
	// A crash before this leaves a group and the renamed directory; the next start drops both. It is durable
	// before that directory goes, or the id is used again: what the journal knows would be missed then.
	if err := s.journalCommit([]journal.Record{{Group: id, Body: journal.Drop{}}}); err != nil {
		return fmt.Errorf("delete log %s: %w", l.tp, err)
	}
	if !absent {
		s.janitor.removeDirLater(gone, l.Config().FileDeleteDelay)
	}
	return nil
}

// Err is why the whole directory has stopped, or nil.
func (s *Store) Err() error {
	if p := s.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail stops the whole directory (rulings 5, 6): after a failed sync nothing is known of what is on
// disk, and nobody may try again. It gives err back. The caller may hold the lock of one log, so
// observers are told by another goroutine: the janitor's.
func (s *Store) fail(err error) error {
	err = fmt.Errorf("data directory %s has stopped: %w", s.o.Dir, err)
	if !s.failed.CompareAndSwap(nil, &err) {
		return s.Err()
	}
	s.log.Error("data directory has stopped; it must be checked and the broker restarted", "error",
		err)
	s.janitor.post(func() {
		for _, l := range s.Logs() {
			l.goOffline(err)
		}
		if s.o.OnFailed != nil {
			s.o.OnFailed(err)
		}
	})
	return err
}

// Close stops the goroutines, makes everything durable and marks the shutdown as clean.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	s.mu.Unlock()
	s.cleaner.close()
	s.scrubber.close()
	s.janitor.close()
	s.committer.close()
	s.pages.close()
	err := s.Err()
	if err == nil {
		err = s.closeClean()
	}
	for _, l := range s.Logs() {
		l.shut(ErrClosed)
	}
	return errors.Join(err, s.closeFiles())
}

// closeClean writes what spares the next start its work, syncs, and says so in the journal.
func (s *Store) closeClean() error {
	logs := s.Logs()
	s.inParallel(len(logs), func(i int) { logs[i].writeSidecars() })
	if err := s.syncAll(logs); err != nil {
		return s.fail(err)
	}
	recs := make([]journal.Record, 0, len(logs)+1)
	for _, l := range logs {
		if r, ok := l.markAtEnd(); ok {
			recs = append(recs, r)
		}
	}
	recs = append(recs, journal.Record{Body: journal.Clean{BootID: s.o.BootID}})
	return s.journalCommit(recs)
}

// syncAll makes everything written to logs durable.
func (s *Store) syncAll(logs []*Log) error {
	err := s.fs.SyncFS(s.o.Dir)
	if !errors.Is(err, vfs.ErrUnsupported) {
		return err
	}
	var mu sync.Mutex
	err = nil
	s.inParallel(len(logs), func(i int) {
		e := logs[i].syncFiles()
		mu.Lock()
		err = errors.Join(err, e)
		mu.Unlock()
	})
	return errors.Join(err, s.fs.SyncDir(s.o.Dir))
}

func (s *Store) closeFiles() error {
	var errs []error
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	if s.Err() != nil { // the journal has said so already
		return nil
	}
	return errors.Join(errs...)
}
