package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicelog/sluice/log/vfs"
)

// ErrNewerFormat is in the chain of Open's error when a file was written by a newer release. The
// files are fine: nothing may be moved or rebuilt.
var ErrNewerFormat = errors.New("journal written by a newer release")

// ErrClosed is in the chain of the errors of a closed journal.
var ErrClosed = errors.New("journal closed")

// Options of a journal. The zero value gives the defaults.
type Options struct {
	// FileBytes is the size a file does not outgrow: the next one begins instead. 64 MiB.
	FileBytes int64
	// ExtendBytes is how many zeros are written ahead of the records at a time, and the least size
	// of the reserve file. 1 MiB.
	ExtendBytes int64
	// Logger is told of cut tails, files removed and a full disk; nil tells nobody.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.FileBytes <= 0 {
		o.FileBytes = 64 << 20
	}
	if o.ExtendBytes <= 0 {
		o.ExtendBytes = 1 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Pos is a position in the stream of bytes appended since Open; it only grows.
type Pos uint64

// Journal is the open journal of one data directory. Its methods may be called from any goroutine;
// appends stand in the file in the order in which they were applied.
type Journal struct {
	fs  vfs.FS
	dir string
	o   Options

	// syncMu holds back a second Sync, and what only a Sync does: removing files that a newer one
	// replaced and making the reserve file. Taken before mu.
	syncMu sync.Mutex

	synced atomic.Uint64 // a Pos

	mu struct {
		sync.Mutex
		state   *State
		cur     walFile
		pos     Pos // after the last append
		marked  Pos // what the last mark in a file says
		rollAt  int64
		retired []walFile // replaced by cur, which is not durable yet
		full    bool      // the last extension or roll failed; said once
		failed  error     // final
		// reserve is the size of the reserve file, 0 when there is none: then it is made once pos
		// has reached reserveAt, of size reserveSize.
		reserve     int64
		reserveSize int64
		reserveAt   Pos
		buf         []byte
		undo        []undo
	}
}

// walFile is one file of the journal.
type walFile struct {
	f     vfs.File
	seq   uint64
	off   int64 // where the next frame goes
	size  int64 // of the file: zeros from off on
	start Pos   // the Pos of the file's first byte
	isNew bool  // its directory entry is not durable
}

// undo is what a group was before a record that could not be written.
type undo struct {
	id   Group
	was  *GroupState
	prev GroupState // what *was held
}

// Append writes the records with one write call, without a sync, and applies them: all of them or,
// with an error, none. It panics on a record that breaks a rule of Apply. The position is durable
// once SyncedPos has reached it.
func (j *Journal) Append(recs ...Record) (Pos, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.failed != nil {
		return 0, j.mu.failed
	}
	buf, err := j.frames(recs)
	if err != nil || len(buf) == 0 {
		return j.mu.pos, err
	}
	if j.mustRoll(int64(len(buf))) {
		if err := j.roll(); err != nil {
			return 0, err
		}
		buf, _ = j.frames(recs)
	}
	before := struct {
		boot  string
		clean bool
	}{j.mu.state.BootID, j.mu.state.Clean}
	j.applyAll(recs)
	if err := j.write(buf); err != nil {
		j.rollback()
		j.mu.state.BootID, j.mu.state.Clean = before.boot, before.clean
		return 0, fmt.Errorf("append to journal: %w", err)
	}
	j.mu.marked = max(j.mu.marked, Pos(j.synced.Load()))
	j.extend()
	return j.mu.pos, nil
}

// frames encodes the records into the append buffer, behind a mark when a sync has come since the
// last one. It is called again after a roll, which leaves no mark to write.
func (j *Journal) frames(recs []Record) ([]byte, error) {
	b := j.mu.buf[:0]
	cur := &j.mu.cur
	if s := Pos(j.synced.Load()); s > j.mu.marked && s > cur.start {
		b = appendFrame(b, kindMark, Group{}, func(b []byte) []byte {
			return appendU64s(b, uint64(s-cur.start))
		})
	}
	for _, r := range recs {
		at := len(b)
		b = appendFrame(b, r.Body.kind(), r.Group, r.Body.appendTo)
		if err := checkBody(r.Body); err != nil {
			return nil, fmt.Errorf("append to journal: %w", err)
		}
		if n := len(b) - at - frameHead; n > maxFrame {
			return nil, fmt.Errorf("append to journal: %v record of %d bytes, above %d", r.Body.kind(),
				n, maxFrame)
		}
	}
	j.mu.buf = b
	return b, nil
}

// applyAll applies the records and keeps what is needed to take them back.
func (j *Journal) applyAll(recs []Record) {
	st := j.mu.state
	j.mu.undo = j.mu.undo[:0]
	for _, r := range recs {
		u := undo{id: r.Group, was: st.Groups[r.Group]}
		if u.was != nil {
			u.prev = *u.was
		}
		j.mu.undo = append(j.mu.undo, u)
		if err := st.Apply(r); err != nil {
			j.rollback()
			panic(fmt.Sprintf("journal: record of group %v breaks a rule: %v", r.Group, err))
		}
	}
}

// rollback takes the records of the last applyAll back, the last one first.
func (j *Journal) rollback() {
	for _, u := range slices.Backward(j.mu.undo) {
		if u.was == nil {
			delete(j.mu.state.Groups, u.id)
			continue
		}
		*u.was = u.prev
		j.mu.state.Groups[u.id] = u.was
	}
	clear(j.mu.undo)
	j.mu.undo = j.mu.undo[:0]
}

// write puts the frames at the end of the current file. A failed write is cut back, durably, so
// that nothing of it can come back after a crash; if that fails, the journal has failed.
func (j *Journal) write(buf []byte) error {
	cur := &j.mu.cur
	sealFrames(buf, cur.seq, cur.off)
	if _, err := cur.f.WriteAt(buf, cur.off); err != nil {
		cut := cur.f.Truncate(cur.off)
		if cut == nil {
			cut = cur.f.Sync()
		}
		if cut != nil {
			j.fail(fmt.Errorf("cut %s back to %d after a failed write: %w", walName(cur.seq), cur.off, cut))
		}
		cur.size = cur.off
		return err
	}
	cur.off += int64(len(buf))
	cur.size = max(cur.size, cur.off)
	j.mu.pos = cur.start + Pos(cur.off)
	return nil
}

// fail stops the journal for good.
func (j *Journal) fail(err error) {
	if j.mu.failed == nil {
		j.mu.failed = fmt.Errorf("journal stopped: %w", err)
		j.o.Logger.Error("journal stopped", "dir", j.dir, "error", err)
	}
}

// Sync makes everything appended before the call durable. Its error is final: every later call
// fails with it (ruling 5). Appends go on while it runs.
func (j *Journal) Sync() error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	cur, target, err := j.mu.cur, j.mu.pos, j.mu.failed
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if target > Pos(j.synced.Load()) {
		if err := j.syncFile(cur); err != nil {
			j.mu.Lock()
			defer j.mu.Unlock()
			j.fail(err)
			return j.mu.failed
		}
		j.noteSynced(target)
	}
	return nil
}

func (j *Journal) syncFile(w walFile) error {
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", walName(w.seq), err)
	}
	if w.isNew {
		if err := j.fs.SyncDir(j.dir); err != nil {
			return fmt.Errorf("sync directory %s: %w", j.dir, err)
		}
	}
	return nil
}

// NoteSynced says that a syncfs of the file system, begun after Pos gave p, has succeeded.
func (j *Journal) NoteSynced(p Pos) error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	err, pos := j.mu.failed, j.mu.pos
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if p > pos {
		panic(fmt.Sprintf("journal: position %d noted as synced, appended up to %d", p, pos))
	}
	j.noteSynced(p)
	return nil
}

// noteSynced moves the synced position to p. When that lies in the current file, its checkpoint is
// durable and the files before it can go. Called with syncMu held.
func (j *Journal) noteSynced(p Pos) {
	j.mu.Lock()
	j.synced.Store(max(j.synced.Load(), uint64(p)))
	var old []walFile
	if p > j.mu.cur.start {
		j.mu.cur.isNew = false
		if old, j.mu.retired = j.mu.retired, nil; len(old) > 0 {
			j.mu.reserveAt = 0 // their space is free again
		}
	}
	j.mu.Unlock()
	for _, w := range old {
		j.remove(w)
	}
	j.makeReserve()
}

// SyncedPos is the position up to which everything is durable.
func (j *Journal) SyncedPos() Pos { return Pos(j.synced.Load()) }

// Pos is the position after the last append. Read it before a sync from outside (syncfs) and hand
// it to NoteSynced afterwards.
func (j *Journal) Pos() Pos {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.pos
}

// Dirty reports whether a Sync has something to do.
func (j *Journal) Dirty() bool { return j.Pos() > j.SyncedPos() }

// Group gives a copy of the group's live state.
func (j *Journal) Group(g Group) (*GroupState, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	st, ok := j.mu.state.Groups[g]
	if !ok {
		return nil, false
	}
	return st.Clone(), true
}

// Close syncs, leaves a mark behind so that damage to the last records is told from a torn tail,
// and closes. It writes no Clean record: that is the caller's word. A second call does nothing.
func (j *Journal) Close() error {
	if errors.Is(j.failure(), ErrClosed) {
		return nil
	}
	err := j.Sync()
	if err == nil {
		if _, err = j.Append(); err == nil {
			err = j.Sync()
		}
	}
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, w := range append(j.mu.retired, j.mu.cur) {
		err = errors.Join(err, w.f.Close())
	}
	j.mu.retired = nil
	j.mu.failed = ErrClosed
	return err
}

func (j *Journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.failed
}
