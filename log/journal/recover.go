package journal

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"github.com/sluicelog/sluice/log/vfs"
)

// Open recovers the journal in dir (made when missing) and begins a new file with a checkpoint,
// durable on return; so nothing is ever appended behind a tail that a crash has left. The State is
// the caller's own copy. A damaged journal gives an error for which kafkaproto.IsCorrupt holds,
// together with the state before the damage (ruling 7); nothing was changed on disk then.
func Open(fsys vfs.FS, dir string, o Options) (*Journal, *State, error) {
	j := &Journal{fs: fsys, dir: dir, o: o.withDefaults()}
	if err := j.makeDir(); err != nil {
		return nil, nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	rec, err := recoverDir(fsys, dir)
	if err != nil {
		var st *State
		if rec != nil {
			st = rec.state
		}
		return nil, st, fmt.Errorf("open journal %s: %w", dir, err)
	}
	if err := j.start(rec); err != nil {
		return nil, nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, j.mu.state.Clone(), nil
}

// makeDir makes the directory's own entry durable, each time, as the process that made it may have
// been killed before it did so: files in it are worth as much as it is. That the data directory
// above it is durable is the caller's business.
func (j *Journal) makeDir() error {
	if err := j.fs.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	return j.fs.SyncDir(path.Dir(j.dir))
}

// Read gives the state of a journal that nobody writes to, and changes nothing. A damaged one gives an
// error for which kafkaproto.IsCorrupt holds, with the state before the damage; one that is missing
// fs.ErrNotExist.
func Read(fsys vfs.FS, dir string) (*State, error) {
	rec, err := recoverWith(fsys, dir, func(seq uint64) (r *replayed, err error) {
		f, err := vfs.Open(fsys, path.Join(dir, walName(seq)))
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		return replayFile(f, seq)
	})
	if rec == nil {
		return nil, fmt.Errorf("read journal %s: %w", dir, err)
	}
	if err != nil {
		err = fmt.Errorf("read journal %s: %w", dir, err)
	}
	return rec.state, err
}

// recovery is what a directory holds.
type recovery struct {
	state      *State
	last       uint64   // sequence of the file that state comes from, 0 for a fresh journal
	stale      []uint64 // files up to last, to be removed once the next one is durable
	unfinished []uint64 // files above last, whose checkpoint never became whole
	cut        *replayed
}

// recoverDir finds the newest file with a whole checkpoint and replays it. A newer file without one
// was begun and not made durable: nothing that was promised stands in it.
func recoverDir(fsys vfs.FS, dir string) (*recovery, error) {
	return recoverWith(fsys, dir, func(seq uint64) (*replayed, error) { return replayPath(fsys, dir, seq) })
}

// recoverWith is recoverDir with another way to replay a file.
func recoverWith(fsys vfs.FS, dir string, replay func(seq uint64) (*replayed, error)) (*recovery, error) {
	seqs, err := listFiles(fsys, dir)
	if err != nil {
		return nil, err
	}
	rec := &recovery{state: newState()}
	for i, seq := range slices.Backward(seqs) {
		r, err := replay(seq)
		if err != nil {
			return nil, err
		}
		if r.damaged != nil {
			return &recovery{state: r.state}, r.damaged
		}
		if r.whole {
			rec.state, rec.last, rec.stale = r.state, seq, seqs[:i+1]
			if r.torn > 0 {
				rec.cut = r
			}
			return rec, nil
		}
		if seq != 1 && (i == 0 || seqs[i-1] != seq-1) {
			return &recovery{state: r.state},
				damagef(seq, r.end, "the checkpoint is not whole and the file before it is missing")
		}
		rec.unfinished = append(rec.unfinished, seq)
	}
	rec.state.Fresh = true
	return rec, nil
}

func listFiles(fsys vfs.FS, dir string) ([]uint64, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var seqs []uint64
	for _, e := range entries {
		if seq, ok := parseWalName(e.Name()); ok && seq > 0 {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

// replayPath replays one file as it is on the disk: what is only in the page cache is written out
// first, and read back (ruling 5).
func replayPath(fsys vfs.FS, dir string, seq uint64) (r *replayed, err error) {
	f, err := fsys.OpenFile(path.Join(dir, walName(seq)), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("sync %s: %w", walName(seq), err)
	}
	if err := f.DropCache(0, 0); err != nil && !errors.Is(err, vfs.ErrUnsupported) {
		return nil, fmt.Errorf("drop %s from the page cache: %w", walName(seq), err)
	}
	return replayFile(f, seq)
}

// start begins the file behind the recovered one, makes it durable and removes the others.
func (j *Journal) start(rec *recovery) error {
	if r := rec.cut; r != nil {
		j.o.Logger.Warn("journal cut at its torn end: what follows was never synced",
			"file", walName(r.seq), "at", r.end, "bytes", r.torn)
	}
	for _, seq := range rec.unfinished {
		j.o.Logger.Info("journal file begun and not finished is removed", "file", walName(seq))
		if err := j.fs.Remove(path.Join(j.dir, walName(seq))); err != nil {
			return err
		}
	}
	// The entry of the file that was recovered may still be only in memory, after a kill.
	if err := j.fs.SyncDir(j.dir); err != nil {
		return err
	}
	j.mu.state = rec.state
	j.adoptReserve()
	if err := j.begin(rec.last + 1); err != nil {
		return err
	}
	if err := j.syncFile(j.mu.cur); err != nil {
		return errors.Join(err, j.mu.cur.f.Close())
	}
	for _, seq := range rec.stale {
		if err := j.fs.Remove(path.Join(j.dir, walName(seq))); err != nil {
			j.o.Logger.Warn("old journal file not removed", "file", walName(seq), "error", err)
		}
	}
	j.extend()
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.noteSynced(j.mu.pos)
	return nil
}

// SetAside renames a damaged journal's files, durably, so that the next Open begins a new journal,
// and gives their new names. They stay for a human to look at.
func SetAside(fsys vfs.FS, dir string) ([]string, error) {
	seqs, err := listFiles(fsys, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, seq := range seqs {
		name := path.Join(dir, walName(seq))
		for n := 1; ; n++ {
			to := fmt.Sprintf("%s.damaged-%d", name, n)
			if _, err := fsys.Stat(to); err == nil {
				continue
			}
			if err := fsys.Rename(name, to); err != nil {
				return names, fmt.Errorf("set %s aside: %w", name, err)
			}
			names = append(names, to)
			break
		}
	}
	return names, fsys.SyncDir(dir)
}
