package journal

import (
	"errors"
	"io"
	"log/slog"

	"github.com/sluicelog/sluice/log/vfs"
)

// ErrNewerFormat is in the chain of Open's error when a file was written by a newer release. The
// files are fine: nothing may be moved or rebuilt.
var ErrNewerFormat = errors.New("journal written by a newer release")

// ErrClosed is in the chain of the errors of a closed journal.
var ErrClosed = errors.New("journal closed")

// Options of a journal. The zero value gives the defaults.
type Options struct {
	FileBytes   int64 // a file rolls when it would grow past it; 64 MiB
	ExtendBytes int64 // zeros written ahead of the records, and the least size of the reserve file; 1 MiB
	Logger      *slog.Logger
}

// Pos is a position in the stream of records since Open; it only grows.
type Pos uint64

// Journal is the open journal of one data directory. Its methods may be called from any goroutine.
type Journal struct{}

// Open recovers the journal in dir (made when missing) and begins a new file with a checkpoint,
// durable on return. The State is the caller's own copy. A damaged journal gives an error for which
// kafkaproto.IsCorrupt holds, together with the state before the damage (ruling 7); nothing was
// changed on disk then.
func Open(fs vfs.FS, dir string, o Options) (*Journal, *State, error) { panic("todo") }

// SetAside renames a damaged journal's files so that the next Open begins a new journal, and gives
// their new names.
func SetAside(fs vfs.FS, dir string) ([]string, error) { panic("todo") }

// Append writes the records with one write call, without a sync, and applies them: all of them or,
// with an error, none. It panics on a record that breaks a rule of Apply. The position is durable
// once SyncedPos has reached it.
func (j *Journal) Append(recs ...Record) (Pos, error) { panic("todo") }

// Sync makes everything appended before the call durable. Its error is final: every later call
// fails with it (ruling 5).
func (j *Journal) Sync() error { panic("todo") }

// Pos is the position after the last append. Read it before a sync from outside (syncfs) and hand
// it to NoteSynced afterwards.
func (j *Journal) Pos() Pos { panic("todo") }

// NoteSynced says that a syncfs begun after Pos gave p has succeeded.
func (j *Journal) NoteSynced(p Pos) error { panic("todo") }

// SyncedPos is the position up to which everything is durable.
func (j *Journal) SyncedPos() Pos { panic("todo") }

// Dirty reports whether a Sync has something to do.
func (j *Journal) Dirty() bool { panic("todo") }

// Group gives a copy of the group's live state.
func (j *Journal) Group(g Group) (*GroupState, bool) { panic("todo") }

// Close syncs and closes. It writes no Clean record: that is the caller's word.
func (j *Journal) Close() error { panic("todo") }

// Dump prints every record of every file in dir, in order, with its position, and goes on behind
// damage where it can. It changes nothing.
func Dump(fs vfs.FS, dir string, w io.Writer) error { panic("todo") }
