package store

import (
	"io"
	"log/slog"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/vfs"
)

// Options are a data directory's surroundings.
type Options struct {
	FS     vfs.FS
	Dir    string
	Clock  clock.Clock
	Logger *slog.Logger
	// BootID names this run of the machine: while it is the same, the page cache has survived.
	BootID string
	// MaxOpenFiles bounds the segment files held open, beside one per active segment.
	MaxOpenFiles int
	// Reserve is the free space, in bytes, that is left to the journal and to internal logs.
	Reserve int64
	// RetentionInterval is log.retention.check.interval.ms.
	RetentionInterval time.Duration
	Cleaner           CleanerOptions
	// Random is the source of directory names and jitter; nil means crypto/rand.
	Random io.Reader
	// OnFailed is told once that the whole directory has stopped (a sync failed, ruling 6).
	OnFailed func(error)
}

// CleanerOptions are the log.cleaner.* settings.
type CleanerOptions struct {
	Enabled bool
	// Backoff is the sleep when there is nothing to clean.
	Backoff time.Duration
	// BytesPerSec bounds the cleaner's reads and writes together; 0 means no bound.
	BytesPerSec int64
	// DedupeBytes is the memory of the map from key to newest offset.
	DedupeBytes int
}

// Store is an open data directory.
type Store struct{}

// Open locks the directory, recovers every log in it and starts the committer, retention and the
// cleaner.
func Open(o Options) (*Store, error) { panic("todo") }

// Logs lists the open logs.
func (s *Store) Logs() []*Log { panic("todo") }

// OpenLog gives the log of a partition, recovered or made new.
func (s *Store) OpenLog(id kafkaproto.PartitionID, tp kafkaproto.TopicPartition, c Config) (*Log, error) {
	panic("todo")
}

// StartSolo begins a leadership over each log with one voter: a no-op with the next term for each
// log that was written to since its last no-op, in one commit of the journal (ruling 7).
func (s *Store) StartSolo(logs ...*Log) error { panic("todo") }

// DeleteLog removes a log: its directory is renamed at once and its files go after
// file.delete.delay.ms.
func (s *Store) DeleteLog(id kafkaproto.PartitionID) error { panic("todo") }

// Close stops the goroutines, makes everything durable and marks the shutdown as clean.
func (s *Store) Close() error { panic("todo") }
