package segment

import (
	"errors"
	"io/fs"
	"os"

	"github.com/sluicelog/sluice/log/index"
)

// flushed is what the index files of an active segment hold.
type flushed struct {
	valid, sealed                     bool
	size                              int64 // bytes of .log that they cover
	offsets, times, rafts, sums, txns index.Count
}

// snapshot is what one flush writes.
type snapshot struct {
	sum     index.Summary
	offsets []index.Offset
	times   []index.Time
	rafts   []index.Raft
	sums    []index.Sum
	txns    []index.Txn
	// keepTxns leaves .txnindex as it is; the summary has its count already.
	keepTxns bool
}

// snapshotLocked takes the state under mu; the lists do not change any more.
func (s *Segment) snapshotLocked() snapshot {
	m := s.w.mem
	return snapshot{
		sum: s.w.summary(), offsets: m.offsets.View(), times: m.times.View(), rafts: m.rafts.View(),
		sums: m.sums.View(), txns: s.txns[:len(s.txns):len(s.txns)],
	}
}

// FlushIndexes writes the active segment's indexes as far as they go, so that a recovery walks
// only what comes after. It may run beside Append. Not synced, and need not be: what does not prove
// itself is rebuilt.
func (s *Segment) FlushIndexes() error {
	if s.closed.Load() {
		return s.errorf("flush indexes: %w", ErrGone)
	}
	return s.flushIndexes()
}

func (s *Segment) flushIndexes() error {
	s.flush.Lock()
	defer s.flush.Unlock()
	s.mu.Lock()
	if s.sealed.Load() || !s.ready.Load() || s.txnsLost { // a list that is lost must not be vouched for
		s.mu.Unlock()
		return nil
	}
	snap := s.snapshotLocked()
	s.mu.Unlock()
	done := &s.flushed
	if done.valid && !done.sealed && done.size == snap.sum.LogSize && int(done.txns.N) == len(snap.txns) {
		return nil
	}
	if err := s.write(&snap); err != nil {
		return s.errorf("flush indexes: %w", err)
	}
	return nil
}

// Seal writes the indexes and makes the segment immutable. It may run beside readers. Appends are
// refused from its call on, also when it fails; then it may be called again, and until it succeeds
// reads go on from memory.
func (s *Segment) Seal() error {
	s.flush.Lock()
	defer s.flush.Unlock()
	s.mu.Lock()
	err := s.writable()
	if s.sealed.Load() {
		s.mu.Unlock()
		return nil
	}
	if err != nil && !s.sealing {
		s.mu.Unlock()
		return s.errorf("seal: %w", err)
	}
	if s.txnsLost {
		s.mu.Unlock()
		return s.corruptf("seal: .txnindex was damaged, and SetAborted was not called")
	}
	s.sealing = true
	s.w.addTime()
	s.w.endBlock()
	snap := s.snapshotLocked()
	s.mu.Unlock()
	if err := s.sealWith(&snap); err != nil {
		return s.errorf("seal: %w", err)
	}
	s.mu.Lock()
	s.letGoLocked()
	s.mu.Unlock()
	s.sealed.Store(true)
	s.files.unpin(&s.log)
	return nil
}

// sealWith writes the indexes as those of a sealed segment, and lets readers take them from disk.
func (s *Segment) sealWith(snap *snapshot) error {
	snap.sum.Sealed = true
	if err := s.write(snap); err != nil {
		return err
	}
	s.proved.Store(provedOffsets | provedTimes)
	s.summary.Store(&snap.sum)
	s.mem.Store(nil)
	return nil
}

// letGoLocked frees what a sealed segment has on disk.
func (s *Segment) letGoLocked() { s.w.mem, s.txns = nil, nil }

// write brings the index files up to the snapshot and fills in its counts. .raftindex goes last: its
// summary is what vouches for the others. The caller holds flush.
func (s *Segment) write(snap *snapshot) error {
	var err error
	sum, done := &snap.sum, s.flushed
	if sum.Offsets, err = writeEntries(s, extOffset, nil, snap.offsets, done.offsets, index.Offset.Encode); err != nil {
		return err
	}
	if sum.Times, err = writeEntries(s, extTime, nil, snap.times, done.times, index.Time.Encode); err != nil {
		return err
	}
	if !snap.keepTxns && (len(snap.txns) > 0 || done.txns.N > 0 || *s.suffix.Load() == Cleaned) {
		// The cleaner's file is written even when empty, so that it replaces the old one at the swap.
		if sum.Txns, err = writeEntries(s, extTxn, nil, snap.txns, done.txns, index.Txn.Encode); err != nil {
			return err
		}
	}
	if sum.Sums, err = writeEntries(s, extSum, func(c index.Count) []byte {
		h := index.SumHeader{BaseOffset: s.base, LogSize: sum.LogSize, Entries: c}
		return h.Encode()
	}, snap.sums, done.sums, index.Sum.Encode); err != nil {
		return err
	}
	if _, err = writeEntries(s, extRaft, func(c index.Count) []byte {
		sum.Rafts = c
		return sum.Encode()
	}, snap.rafts, done.rafts, index.Raft.Encode); err != nil {
		return err
	}
	s.flushed = flushed{
		valid: true, sealed: sum.Sealed, size: sum.LogSize,
		offsets: sum.Offsets, times: sum.Times, rafts: sum.Rafts, sums: sum.Sums, txns: sum.Txns,
	}
	return nil
}

// writeEntries writes those entries that the file does not hold yet, then the header, and cuts off
// whatever lies behind. Without a header the entries begin at 0.
func writeEntries[T any](s *Segment, ext string, header func(index.Count) []byte, entries []T,
	have index.Count, encode func(T, []byte) []byte,
) (index.Count, error) {
	var zero T
	size := int64(len(encode(zero, nil)))
	b := make([]byte, 0, int64(len(entries)-int(have.N))*size)
	for _, e := range entries[have.N:] {
		b = encode(e, b)
	}
	count := index.Count{N: uint32(len(entries)), CRC: index.CRC(have.CRC, b)}
	f, err := s.fs.OpenFile(s.path(ext), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return count, err
	}
	defer f.Close()
	start, head := int64(0), []byte(nil)
	if header != nil {
		head = header(count)
		start = int64(len(head))
	}
	if _, err := f.WriteAt(b, start+int64(have.N)*size); err != nil {
		return count, err
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return count, err
	}
	end := start + int64(count.N)*size
	if now, err := f.Size(); err != nil || now == end {
		return count, err
	}
	return count, f.Truncate(end)
}

// forgetIndexes takes the summary away before bytes that it covers change. The others then vouch
// for nothing, and the next flush writes them anew.
func (s *Segment) forgetIndexes() error {
	if err := s.fs.Remove(s.path(extRaft)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.flushed = flushed{}
	return nil
}
