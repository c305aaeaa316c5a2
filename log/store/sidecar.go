package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
	"github.com/sluicelog/sluice/log/vfs"
)

// Sidecars hold the producer state as it was at the log end that is in their name.
const (
	sidecarExt  = ".producers" // ours: five batches per producer, the authority (ruling 16)
	snapshotExt = ".snapshot"  // Kafka's, for its tools
	// keptSidecars is how many of each are kept: when the newest is damaged, the one before serves.
	keptSidecars = 2
	maxSidecar   = 1 << 30
)

// sidecar is the producer state at a log end, encoded.
type sidecar struct {
	end   kafkaproto.Offset
	ours  []byte
	kafka []byte // nil when there is no producer
	cuts  uint64 // truncations before it was taken
}

func sidecarName(end kafkaproto.Offset, ext string) string {
	return fmt.Sprintf("%020d%s", end,
		ext)
}

// sidecarEnd reads the log end in a sidecar's name.
func sidecarEnd(name, ext string) (kafkaproto.Offset, bool) {
	digits, ok := strings.CutSuffix(name, ext)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return kafkaproto.Offset(n), err == nil && n >= 0
}

// takeSnapshotLocked encodes the producer state at the log's end; what it gives is empty while that
// cannot be done. The caller holds mu and prod.
func (l *Log) takeSnapshotLocked(end kafkaproto.Offset) sidecar {
	if l.raft.reserved > end {
		return sidecar{} // batches are known that are not written
	}
	sc := sidecar{end: end, ours: l.prod.state.Snapshot(end), cuts: l.raft.cuts}
	if l.prod.state.Len() > 0 {
		sc.kafka = l.prod.state.WriteKafkaSnapshot()
	}
	return sc
}

// writeSidecar writes both files, unsynced: one that is damaged is found out and the one before it,
// and the log behind that, give the same state. Of a compacted log they are synced, as compaction
// may have taken away what stands behind the older one. The caller holds dirMu.
func (l *Log) writeSidecar(sc sidecar) {
	if sc.ours == nil || sc.cuts != l.raft.cuts { // cuts change under dirMu
		return
	}
	fsys := vfs.FS(unsynced{l.store.fs})
	if l.config.Load().Compact {
		fsys = l.store.fs
	}
	if err := l.putSidecar(fsys, sc); err != nil {
		l.store.log.Warn("write producer state", "partition", l.tp.String(), "error", err)
	}
}

// syncSidecar writes both files durably. errStop: the state is not to be had now.
func (l *Log) syncSidecar(sc sidecar) error {
	if sc.ours == nil || sc.cuts != l.raft.cuts {
		return errStop
	}
	return l.putSidecar(l.store.fs, sc)
}

// snapshotNow takes the snapshot at the log's end. The caller holds dirMu.
func (l *Log) snapshotNow() sidecar {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prod.Lock()
	defer l.prod.Unlock()
	return l.takeSnapshotLocked(l.EndOffset())
}

func (l *Log) putSidecar(fsys vfs.FS, sc sidecar) error {
	if err := l.flushLists(); err != nil {
		return err
	}
	if sc.kafka != nil {
		err := vfs.WriteFileAtomic(fsys, path.Join(l.dir, sidecarName(sc.end, snapshotExt)),
			sc.kafka)
		if err != nil {
			return err
		}
	}
	if err := vfs.WriteFileAtomic(fsys, path.Join(l.dir, sidecarName(sc.end, sidecarExt)),
		sc.ours); err != nil {
		return err
	}
	l.sidecarAt.Store(int64(sc.end))
	l.trimSidecars(sidecarExt)
	l.trimSidecars(snapshotExt)
	return nil
}

// flushLists writes the lists of aborted transactions that may still grow, those of all segments that
// are not sealed. Replay from a sidecar does not find again what was committed before it was taken.
func (l *Log) flushLists() error {
	for _, seg := range *l.segs.Load() {
		if seg.Sealed() {
			continue
		}
		if err := unlessGone(l.flushIndexes(seg)); err != nil {
			return err
		}
	}
	return nil
}

// listSidecars gives the log ends of the sidecars in the directory, ascending.
func (l *Log) listSidecars(ext string) ([]kafkaproto.Offset, error) {
	entries, err := l.store.fs.ReadDir(l.dir)
	if err != nil {
		return nil, err
	}
	var ends []kafkaproto.Offset
	for _, e := range entries {
		if end, ok := sidecarEnd(e.Name(), ext); ok {
			ends = append(ends, end)
		}
	}
	return ends, nil
}

// trimSidecars removes all but the newest. One behind the synced offset may lose its log to a power
// cut, and does not count.
func (l *Log) trimSidecars(ext string) {
	ends, err := l.listSidecars(ext)
	if err != nil {
		return
	}
	for n := len(ends); n > 0 && ends[n-1] > l.SyncedOffset(); n-- {
		ends = ends[:n-1]
	}
	for _, end := range ends[:max(len(ends)-keptSidecars, 0)] {
		l.removeSidecar(end, ext)
	}
}

func (l *Log) removeSidecar(end kafkaproto.Offset, ext string) {
	err := l.store.fs.Remove(path.Join(l.dir, sidecarName(end, ext)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.store.log.Warn("remove old producer state", "partition", l.tp.String(), "error", err)
	}
}

// loadProducers finds the newest producer state that is whole and not ahead of the log. It gives
// the offset at which replay goes on. A sidecar ahead of the log knows a tail that is gone: it serves
// when that was not committed, without it, and must be replaced.
func (l *Log) loadProducers(start, end kafkaproto.Offset) (state *producer.State,
	from kafkaproto.Offset, ahead bool, err error) {
	o := producer.Options{ExpirationMs: l.config.Load().ProducerExpiry.Milliseconds()}
	ends, err := l.listSidecars(sidecarExt)
	if err != nil {
		return nil, 0, false, err
	}
	for i := len(ends) - 1; i >= 0; i-- {
		name := sidecarName(ends[i], sidecarExt)
		ahead = ahead || ends[i] > end
		b, err := vfs.ReadFile(l.store.fs, path.Join(l.dir, name), maxSidecar)
		if err != nil {
			return nil, 0, false, err
		}
		state, at, err := producer.Load(b, o)
		if err != nil && !kafkaproto.IsCorrupt(err) { // a newer format: not ours to replace
			return nil, 0, false, fmt.Errorf("%s: %w", name, err)
		}
		switch {
		case err == nil && at == ends[i] && at <= end:
			return state, max(at, start), ahead, nil
		case err == nil && at == ends[i] && state.Committed() <= end:
			state.Truncate(end)
			return state, end, ahead, nil
		case err == nil && at == ends[i]:
			continue
		}
		l.store.log.Warn("producer state is damaged; an older one and the log replace it",
			"partition", l.tp.String(), "file", name, "error", err)
	}
	return producer.New(o), start, ahead, nil
}

// replaceSidecars puts sc, the state at the log's end, in the place of sidecars from behind it,
// durably: the log may grow back to there with other batches. The caller syncs the directory.
func (l *Log) replaceSidecars(end kafkaproto.Offset, sc sidecar) error {
	written := false
	for _, ext := range []string{sidecarExt, snapshotExt} {
		ends, err := l.listSidecars(ext)
		if err != nil {
			return err
		}
		for _, at := range ends {
			if at <= end {
				continue
			}
			if !written && sc.ours != nil {
				if err := l.putSidecar(l.store.fs, sc); err != nil {
					return err
				}
				written = true
			}
			name := path.Join(l.dir, sidecarName(at, ext))
			if err := l.store.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	l.sidecarAt.Store(min(l.sidecarAt.Load(), int64(end)))
	return nil
}

// importProducers takes Kafka's newest snapshot where we have no sidecar of our own: a compacted
// log
// does not give its sequences again.
func (l *Log) importProducers(state *producer.State, start,
	end kafkaproto.Offset) (*producer.State, kafkaproto.Offset, error) {
	ends, err := l.listSidecars(snapshotExt)
	if err != nil {
		return nil, 0, err
	}
	for i := len(ends) - 1; i >= 0; i-- {
		if ends[i] > end || ends[i] < start {
			continue
		}
		name := path.Join(l.dir, sidecarName(ends[i], snapshotExt))
		b, err := vfs.ReadFile(l.store.fs, name, maxSidecar)
		if err != nil {
			return nil, 0, err
		}
		o := producer.Options{ExpirationMs: l.config.Load().ProducerExpiry.Milliseconds()}
		if imported, err := producer.ReadKafkaSnapshot(b, ends[i], o); err == nil {
			return imported, ends[i], nil
		}
	}
	return state, start, nil
}

// writeEpochs writes leader-epoch-checkpoint, for Kafka's tools. The caller holds dirMu.
func (l *Log) writeEpochs() {
	l.epochsQueued.Store(false) // a change from here on is written again
	if err := segment.WriteEpochs(unsynced{l.store.fs}, l.dir, l.keptEpochs()); err != nil {
		l.store.log.Warn("write leader epochs", "partition", l.tp.String(), "error", err)
	}
}

// windowEpochs is a leader-epoch-checkpoint that is only ever replaced durably, before raft's window moves
// up: below the window the journal does not know the epochs any more. The one with Kafka's name follows
// every change without a sync, and a power cut may leave anything of it.
const windowEpochs = segment.EpochFile + ".window"

// syncEpochs writes it. On a full disk it is better gone, as what it says can be read from the batches, and
// an older one may tell of epochs that were cut off. The caller holds dirMu.
func (l *Log) syncEpochs() error {
	epochs := l.epochs.Load()
	if l.epochsSynced == epochs {
		return nil
	}
	name := path.Join(l.dir, windowEpochs)
	err := vfs.WriteFileAtomic(l.store.fs, name, segment.FormatEpochs(l.keptEpochs()))
	if vfs.IsNoSpace(err) {
		err = errors.Join(removeIfThere(l.store.fs, name), l.store.fs.SyncDir(l.dir))
	}
	if err != nil {
		return fmt.Errorf("leader epochs of %s: %w", l.tp, err)
	}
	l.epochsSynced = epochs
	return nil
}

// writeSidecars is for a clean stop: indexes of the active segment, producer state, epochs. What is
// there already is not written again.
func (l *Log) writeSidecars() {
	l.dirMu.Lock()
	defer l.dirMu.Unlock()
	l.mu.Lock()
	active, end := l.mu.active, l.EndOffset()
	if l.mu.shut != nil || active == nil || l.Offline() != nil {
		l.mu.Unlock()
		return
	}
	l.prod.Lock()
	sc := l.takeSnapshotLocked(end)
	l.prod.Unlock()
	l.mu.Unlock()
	if err := l.flushIndexes(active); err != nil {
		l.store.log.Warn("write indexes", "partition", l.tp.String(), "error", err)
		return
	}
	if l.sidecarAt.Load() != int64(end) {
		l.writeSidecar(sc)
		l.writeEpochs()
	} else if l.epochsQueued.Load() {
		l.writeEpochs()
	}
}

// flushIndexes writes a segment's indexes. The list of aborted transactions cannot be made again
// from what lies behind a sidecar, so it is durable before the sidecar is written.
func (l *Log) flushIndexes(seg *segment.Segment) error {
	if err := seg.FlushIndexes(); err != nil {
		return err
	}
	list, err := seg.Aborted()
	if err != nil || len(list) == 0 {
		return err
	}
	return errors.Join(seg.SyncAll(), l.store.fs.SyncDir(l.dir))
}
