package segment

import (
	"os"
	"slices"
	"sort"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/index"
)

// AbortedTxn is one entry of .txnindex.
type AbortedTxn = index.Txn

// AppendAborted adds an aborted transaction whose marker is in this segment. One that is there
// already (a marker not behind the last one's) is ignored, so replay may repeat them.
func (s *Segment) AppendAborted(a AbortedTxn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed.Load() || s.sealing {
		return s.errorf("aborted transaction: %w", ErrSealed)
	}
	if n := len(s.txns); n == 0 || a.LastOffset > s.txns[n-1].LastOffset {
		s.txns = append(s.txns, a)
	}
	return nil
}

// Aborted lists the aborted transactions whose markers are in this segment, in marker order. A
// corruption error means that the file must be made again from the batches: SetAborted.
func (s *Segment) Aborted() ([]AbortedTxn, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	defer s.Release()
	s.mu.Lock()
	txns, lost := slices.Clone(s.txns), s.txnsLost
	s.mu.Unlock()
	if lost {
		return nil, s.corruptf(".txnindex was damaged")
	}
	sum := s.summary.Load()
	if sum == nil {
		return txns, nil
	}
	return s.loadTxns(sum)
}

// SetAborted replaces the list.
func (s *Segment) SetAborted(txns []AbortedTxn) error {
	s.flush.Lock()
	defer s.flush.Unlock()
	s.mu.Lock()
	s.txnsLost = false
	if sum := s.summary.Load(); sum == nil {
		s.txns = slices.Clone(txns)
		s.flushed = flushed{} // the next flush writes all
		if !s.sealed.Load() || !s.ready.Load() {
			s.mu.Unlock()
			return nil
		}
		snap := s.snapshotLocked()
		s.mu.Unlock()
		if err := s.sealWith(&snap); err != nil {
			return s.errorf("write indexes: %w", err)
		}
		s.mu.Lock()
		s.letGoLocked()
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if err := s.rewriteTxns(txns); err != nil {
		return s.errorf("rewrite .txnindex: %w", err)
	}
	return nil
}

// rewriteTxns writes a sealed segment's .txnindex and the summary that vouches for it.
func (s *Segment) rewriteTxns(txns []AbortedTxn) error {
	sum := *s.summary.Load()
	var err error
	if sum.Txns, err = writeEntries(s, extTxn, nil, txns, index.Count{}, index.Txn.Encode); err != nil {
		return err
	}
	f, err := s.fs.OpenFile(s.path(extRaft), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(sum.Encode(), 0); err != nil {
		return err
	}
	s.summary.Store(&sum)
	return nil
}

// dropTxns drops those whose markers were cut off; the caller holds mu.
func (s *Segment) dropTxns(next kafkaproto.Offset) {
	i := sort.Search(len(s.txns), func(i int) bool { return s.txns[i].LastOffset >= next })
	s.txns = s.txns[:i:i]
}
