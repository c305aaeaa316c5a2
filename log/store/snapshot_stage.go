package store

import (
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// Staging collects the files of a snapshot beside the log, which goes on meanwhile. Its files have the
// suffix .swap; a start removes those that no install made use of. Not for concurrent use.
type Staging struct {
	l     *Log
	m     *Manifest
	at    int      // the segment that is being written
	file  vfs.File // of it
	sizes []int64
	// What Finish has made: the segments, the last one empty, and the producer state.
	segs  []*segment.Segment
	state *producer.State
	used  bool // InstallSnapshot has taken it over
}

// Stage begins to collect the files of a snapshot. A log has one staging at a time, which ends with
// InstallSnapshot or Discard.
func (l *Log) Stage(m *Manifest) (*Staging, error) {
	if err := l.Offline(); err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	total := int64(len(m.Producers))
	for _, s := range m.Segments {
		total += s.Size
	}
	if err := l.store.space.check(l.config.Load().Internal, int(total)); err != nil {
		return nil, err
	}
	if !l.staging.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("stage snapshot of %s: another one is being staged", l.tp)
	}
	s := &Staging{l: l, m: m, sizes: make([]int64, len(m.Segments)), at: -1}
	if err := s.clear(); err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// name is the path of a file of the log while it is staged.
func (s *Staging) name(of string) string { return path.Join(s.l.dir, of+segment.Swap) }

// clear removes what an earlier staging has left.
func (s *Staging) clear() error {
	s.l.dirMu.Lock() // the directory may be on its way out
	defer s.l.dirMu.Unlock()
	if s.l.mu.shut != nil {
		return s.l.mu.shut
	}
	return removeStaged(s.l.store.fs, s.l.dir)
}

// removeStaged removes every file with the suffix .swap.
func removeStaged(fsys vfs.FS, dir string) error {
	files, err := segment.List(fsys, dir)
	if err != nil {
		return err
	}
	for _, base := range files.Suffixed[segment.Swap] {
		if err := segment.RemoveFiles(fsys, dir, base, segment.Swap); err != nil {
			return err
		}
	}
	return removeStagedOthers(fsys, dir, files.Other)
}

// removeStagedOthers removes those of the names that were staged.
func removeStagedOthers(fsys vfs.FS, dir string, names []string) error {
	for _, name := range names {
		if path.Ext(name) == segment.Swap {
			if err := removeIfThere(fsys, path.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write adds bytes to Manifest.Segments[i]. Segments come one after the other; a piece may end anywhere.
func (s *Staging) Write(i int, p []byte) error {
	if i < max(s.at, 0) || i >= len(s.sizes) || s.sizes[i]+int64(len(p)) > s.m.Segments[i].Size {
		return fmt.Errorf("stage snapshot of %s: %d bytes more of segment %d", s.l.tp, len(p), i)
	}
	if i != s.at {
		if err := s.closeFile(); err != nil {
			return err
		}
		f, err := s.l.store.fs.OpenFile(s.name(segmentName(s.m.Segments[i].Base)+".log"),
			os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		s.file, s.at = f, i
	}
	n, err := s.file.WriteAt(p, s.sizes[i])
	s.sizes[i] += int64(n)
	if err != nil {
		return fmt.Errorf("stage snapshot of %s: %w", s.l.tp, err)
	}
	return nil
}

func (s *Staging) closeFile() error {
	f := s.file
	if s.file = nil; f == nil {
		return nil
	}
	return f.Close()
}

// Finish checks every batch, makes the indexes, and syncs all. A corrupt error: the peer sent damage.
// After any error the staging must be discarded.
func (s *Staging) Finish() error {
	if err := s.closeFile(); err != nil {
		return err
	}
	err := s.open()
	if err == nil {
		err = s.addLists()
	}
	if err == nil {
		err = s.addActive()
	}
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return fmt.Errorf("snapshot for %s: %w", s.l.tp, err)
	}
	return nil
}

// open reads the segments whole.
func (s *Staging) open() error {
	epoch := kafkaproto.LeaderEpoch(-1)
	for i, want := range s.m.Segments {
		if s.sizes[i] != want.Size {
			return fmt.Errorf("segment %d has %d bytes of %d", want.Base, s.sizes[i], want.Size)
		}
		how := s.l.segmentOptions(segment.Swap)
		if want.Size == 0 {
			seg, err := segment.Create(s.l.store.fs, s.l.dir, want.Base, 0, how)
			if err != nil {
				return err
			}
			s.segs = append(s.segs, seg)
			continue
		}
		seg, err := segment.Open(s.l.store.fs, s.l.dir, want.Base, how, false)
		if err != nil {
			return err
		}
		s.segs = append(s.segs, seg)
		rec, err := seg.Recover(segment.Recovery{Rebuild: true, Check: func(b batch.Batch, _ int64) error {
			if e := b.LeaderEpoch(); e < epoch || uint64(max(e, 0)) > s.m.Term {
				return kafkaproto.Corruptf("batch at %d has leader epoch %d after %d", b.BaseOffset(), e, epoch)
			}
			epoch = b.LeaderEpoch()
			return nil
		}})
		if err == nil && rec.End != rec.FileSize {
			err = kafkaproto.Corruptf("segment %d is damaged at %d: %w", want.Base, rec.End, rec.Cause)
		}
		if err == nil && seg.NextOffset() != want.Next {
			err = kafkaproto.Corruptf("segment %d ends at %d, not at %d", want.Base, seg.NextOffset(), want.Next)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addLists makes the lists of aborted transactions, seals the segments, and loads the producer state.
func (s *Staging) addLists() error {
	l := s.l
	state, at, err := producer.Load(s.m.Producers, producer.Options{
		ExpirationMs: l.config.Load().ProducerExpiry.Milliseconds()})
	if err != nil {
		return err
	}
	if at != s.m.Next || state.Committed() != s.m.Next {
		return kafkaproto.Corruptf("producer state of offset %d, committed %d, not of %d", at,
			state.Committed(), s.m.Next)
	}
	s.state = state
	done, err := completedTxns(s.segs, s.m.LogStart, s.m.Next, l.store.nowMs())
	if err != nil {
		return err
	}
	for _, seg := range s.segs {
		if err := seg.SetAborted(abortedOf(seg, done)); err != nil {
			return err
		}
		if err := seg.Seal(); err != nil {
			return err
		}
	}
	return nil
}

// addActive makes the segment that entries behind the snapshot go to, and the files beside the segments.
func (s *Staging) addActive() error {
	fsys := vfs.FS(unsynced{s.l.store.fs})
	seg, err := segment.Create(fsys, s.l.dir, s.m.Next, s.m.Index+1, s.l.segmentOptions(segment.Swap))
	if err != nil {
		return err
	}
	if err := seg.Close(); err != nil { // it must not keep a file system that does not sync
		return err
	}
	if seg, err = segment.Open(s.l.store.fs, s.l.dir, s.m.Next, s.l.segmentOptions(segment.Swap),
		false); err != nil {
		return err
	}
	s.segs = append(s.segs, seg)
	if _, err := seg.Recover(segment.Recovery{BaseIndex: s.m.Index + 1, Rebuild: true}); err != nil {
		return err
	}
	return errors.Join(
		vfs.WriteFileAtomic(fsys, s.name(sidecarName(s.m.Next, sidecarExt)), s.m.Producers),
		vfs.WriteFileAtomic(fsys, s.name(windowEpochs), segment.FormatEpochs(s.m.Epochs)))
}

// sync makes all files durable.
func (s *Staging) sync() error {
	fsys := s.l.store.fs
	errs := []error{syncFile(fsys, s.name(sidecarName(s.m.Next, sidecarExt))),
		syncFile(fsys, s.name(windowEpochs))}
	for _, seg := range s.segs {
		errs = append(errs, seg.SyncAll())
	}
	if err := errors.Join(append(errs, fsys.SyncDir(s.l.dir))...); err != nil {
		return s.l.store.fail(fmt.Errorf("sync staged snapshot: %w", err))
	}
	return nil
}

// Discard gives a staging up and removes its files. Behind InstallSnapshot it does nothing.
func (s *Staging) Discard() error {
	if s.used {
		return nil
	}
	s.used = true
	defer s.l.staging.Store(false)
	err := s.closeFile()
	for _, seg := range s.segs {
		seg.Release()
	}
	return errors.Join(err, s.clear())
}
