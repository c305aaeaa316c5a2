package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/sluicelog/sluice/log/vfs"
)

// reserveName is a file of zeros that becomes the next journal file when the disk is full (ruling
// 6). Nobody else can take the space, as they could if it were only left free.
const reserveName = "reserve"

const filePerm = 0o644

// begin makes file seq with a checkpoint of the state at its start, and makes it the current one.
// Nothing is durable yet. On an error everything is as before, except that the reserve may be gone.
func (j *Journal) begin(seq uint64) error {
	name := path.Join(j.dir, walName(seq))
	w := walFile{seq: seq, start: j.mu.pos, isNew: true}
	if j.mu.reserve > 0 {
		if err := j.fs.Rename(path.Join(j.dir, reserveName), name); err == nil {
			w.size = j.mu.reserve
		}
		j.mu.reserve = 0
	}
	flag := os.O_RDWR | os.O_CREATE
	if w.size == 0 {
		flag |= os.O_TRUNC
	}
	f, err := j.fs.OpenFile(name, flag, filePerm)
	if err != nil {
		if w.size > 0 { // only zeros stand in it: where it stays, recovery takes it away
			_ = j.fs.Remove(name)
		}
		return fmt.Errorf("make %s: %w", walName(seq), err)
	}
	w.f = f
	if err := j.writeCheckpoint(&w); err != nil {
		err = fmt.Errorf("write the checkpoint of %s: %w", walName(seq), err)
		if gone := errors.Join(f.Close(), j.fs.Remove(name)); gone != nil {
			// A file with a whole checkpoint would win over the current one at the next start.
			j.fail(errors.Join(err, gone))
		}
		return err
	}
	j.mu.cur = w
	j.mu.pos = w.start + Pos(w.off)
	j.mu.rollAt = max(j.o.FileBytes, 2*w.off)
	j.mu.reserveSize = max(j.o.ExtendBytes, 2*w.off)
	return nil
}

func (j *Journal) writeCheckpoint(w *walFile) error {
	b := j.mu.state.appendCheckpoint(appendHeader(nil, w.seq))
	sealFrames(b[headerBytes:], w.seq, headerBytes)
	if _, err := w.f.WriteAt(b, 0); err != nil {
		return err
	}
	w.off = int64(len(b))
	last := j.mu.state.appendCheckpointEnd(nil)
	sealFrames(last, w.seq, w.off)
	if n, err := w.f.WriteAt(last, w.off); err != nil {
		if n == len(last) {
			j.fail(fmt.Errorf("%s may be whole or not: %w", walName(w.seq), err))
		}
		return err
	}
	w.off += int64(len(last))
	w.size = max(w.size, w.off)
	return nil
}

// roll begins the next file. When that is not possible now, the current one goes on growing; the
// error says that the journal has failed.
func (j *Journal) roll() error {
	old := j.mu.cur
	if old.isNew { // no gap in the numbers may come out of a crash: recovery takes it for a lost file
		if err := j.fs.SyncDir(j.dir); err != nil {
			j.fail(fmt.Errorf("sync directory %s: %w", j.dir, err))
			return j.mu.failed
		}
		old.isNew = false
	}
	if err := j.begin(old.seq + 1); err != nil {
		if j.mu.failed != nil {
			return j.mu.failed
		}
		j.mu.cur.isNew, j.mu.rollAt = old.isNew, old.off+j.o.ExtendBytes
		j.tellFull("the next journal file cannot be made, the current one goes on", err)
		return nil
	}
	j.mu.retired = append(j.mu.retired, old)
	j.o.Logger.Debug("journal rolled", "file", walName(j.mu.cur.seq), "groups", len(j.mu.state.Groups))
	return nil
}

// mustRoll reports whether n more bytes need another file: the current one is as large as it should
// be, or its zeros are used up, the disk is full, and the reserve file is there to go on in.
func (j *Journal) mustRoll(n int64) bool {
	cur := &j.mu.cur
	if cur.off+n > j.mu.rollAt {
		return true
	}
	if cur.off+n <= cur.size || j.mu.reserve == 0 {
		return false
	}
	j.extend()
	return cur.off+n > cur.size && j.mu.full
}

// extend keeps zeros ahead of the records. They halve the time of a sync, as it has no size to
// write, and are the space that is left when the disk is full. What of an extension fits is kept.
func (j *Journal) extend() {
	cur := &j.mu.cur
	if cur.size-cur.off >= j.o.ExtendBytes/4 {
		return
	}
	n, err := writeZeros(cur.f, cur.size, j.o.ExtendBytes)
	cur.size += n
	if err != nil {
		j.tellFull("journal file cannot be extended", err)
		return
	}
	j.mu.full = false
}

func (j *Journal) tellFull(what string, err error) {
	if !j.mu.full {
		j.o.Logger.Warn(what, "dir", j.dir, "error", err,
			"left", j.mu.cur.size-j.mu.cur.off, "reserve", j.mu.reserve)
	}
	j.mu.full = true
}

// remove takes away a file whose content a newer, durable one holds.
func (j *Journal) remove(w walFile) {
	err := errors.Join(w.f.Close(), j.fs.Remove(path.Join(j.dir, walName(w.seq))))
	if err != nil {
		j.o.Logger.Warn("old journal file not removed", "file", walName(w.seq), "error", err)
	}
}

// makeReserve makes the reserve file when there is none: as large as two checkpoints, but at least
// ExtendBytes. What fails is tried again some appends later. Called with syncMu held.
func (j *Journal) makeReserve() {
	j.mu.Lock()
	size := j.mu.reserveSize
	skip := j.mu.reserve > 0 || j.mu.pos < j.mu.reserveAt || j.mu.failed != nil
	j.mu.Unlock()
	if skip {
		return
	}
	name := path.Join(j.dir, reserveName)
	f, err := vfs.Create(j.fs, name)
	if err == nil {
		_, err = writeZeros(f, 0, size)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		if gone := j.fs.Remove(name); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		size = 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.reserve, j.mu.reserveAt = size, 0
	if err != nil {
		j.mu.reserveAt = j.mu.pos + Pos(j.o.ExtendBytes/8)
		j.tellFull("no reserve for the journal", err)
	}
}

// adoptReserve takes over the reserve file of the last run if it is nothing but zeros: anything
// else may be a journal file whose name a crash has undone.
func (j *Journal) adoptReserve() {
	name := path.Join(j.dir, reserveName)
	f, err := vfs.Open(j.fs, name)
	if err != nil {
		return
	}
	size, err := f.Size()
	zero := false
	if err == nil {
		fr := newFrameReader(f, 0, size)
		zero, err = fr.zeroFrom(0)
	}
	if err = errors.Join(err, f.Close()); err == nil && zero && size > 0 {
		j.mu.reserve = size
		return
	}
	if err := j.fs.Remove(name); err != nil {
		j.o.Logger.Warn("bad reserve file not removed", "error", err)
	}
}

func writeZeros(f vfs.File, off, n int64) (int64, error) {
	for done := int64(0); done < n; {
		wrote, err := f.WriteAt(zeros[:min(int64(len(zeros)), n-done)], off+done)
		done += int64(wrote)
		if err != nil {
			return done, err
		}
	}
	return n, nil
}
