package admin

import (
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/engine"
)

const (
	// maxLooks and maxLookBytes bound what one scrape reads of logs.
	maxLooks     = 1000
	maxLookBytes = 32 << 20
	// maxSteps bounds the batches without a record to be read that are stepped over for one answer.
	maxSteps = 16
	// maxExpanded bounds a decompressed batch.
	maxExpanded = 64 << 20
)

// unread remembers the timestamps of first unread records from scrape to scrape: a group that does
// not move costs one look, and what a scrape had no room for comes with the next.
type unread struct {
	mu    sync.Mutex
	known map[position]int64
}

type position struct {
	id  kafkaproto.PartitionID
	off kafkaproto.Offset
}

// scan is one scrape's use of it.
type scan struct {
	known, used  map[position]int64
	looks, bytes int // left
}

func (u *unread) begin() *scan {
	u.mu.Lock()
	defer u.mu.Unlock()
	return &scan{
		known: u.known, used: make(map[position]int64), looks: maxLooks, bytes: maxLookBytes,
	}
}

// end keeps what the scrape has used and forgets the rest. known is never written to, as another
// scrape may be reading it.
func (u *unread) end(s *scan) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known = s.used
}

// firstUnread is the timestamp, in milliseconds since 1970, of the first visible record at or
// behind off; found is false when there is none. ok is false when it could not be looked up.
func (s *scan) firstUnread(p *engine.Partition, off kafkaproto.Offset) (ts int64, found, ok bool) {
	at := position{p.ID(), max(off, p.LogStart())}
	if ts, ok := s.known[at]; ok {
		s.used[at] = ts
		return ts, true, true
	}
	limit := p.HighWatermark()
	for next, step := at.off, 0; step < maxSteps; step++ {
		if next >= limit {
			return 0, false, true
		}
		if s.looks <= 0 || s.bytes <= 0 {
			return 0, false, false
		}
		s.looks--
		var err error
		if ts, found, next, err = s.look(p, next); err != nil {
			return 0, false, false
		}
		if found {
			// Compaction may take the record away, and then another is the first.
			if !p.Log().Config().Compact {
				s.used[at] = ts
			}
			return ts, true, true
		}
	}
	return 0, false, false
}

// look reads the batch that holds off, or the one behind it. Without a record at or behind off in
// it, next is where to look on.
func (s *scan) look(
	p *engine.Partition, off kafkaproto.Offset,
) (ts int64, found bool, next kafkaproto.Offset, err error) {
	r, err := p.Read(off, 1, engine.ReadUncommitted, true)
	if err != nil {
		return 0, false, 0, err
	}
	if r.Range.Len == 0 {
		return 0, false, r.HighWatermark, nil
	}
	defer r.Range.Release()
	var header [batch.HeaderSize]byte
	if _, err := r.Range.File.ReadAt(header[:], r.Range.Pos); err != nil {
		return 0, false, 0, err
	}
	s.bytes -= len(header)
	h := batch.Batch(header[:])
	whole := int64(h.Count()) == int64(h.LastOffsetDelta())+1
	_, horizon := h.DeleteHorizon() // it lies where the base timestamp was
	switch {
	case h.IsControl() || h.Count() == 0:
		return 0, false, r.Range.Next, nil
	case h.TimestampType() == batch.LogAppendTime:
		// All records have it. A batch that compaction has thinned may end before off.
		if whole {
			return h.MaxTimestamp(), true, 0, nil
		}
	case whole && !horizon && off <= h.BaseOffset():
		return h.BaseTimestamp(), true, 0, nil // that of its first record
	}
	return s.search(r.Range, off)
}

// search finds the record in the batch that the range begins with.
func (s *scan) search(
	r store.Range, off kafkaproto.Offset,
) (ts int64, found bool, next kafkaproto.Offset, err error) {
	buf := make([]byte, r.Len)
	s.bytes -= len(buf)
	if _, err := r.File.ReadAt(buf, r.Pos); err != nil {
		return 0, false, 0, err
	}
	b, err := batch.First(buf)
	if err != nil {
		return 0, false, 0, err
	}
	err = b.Each(maxExpanded, func(rec *batch.Record) (bool, error) {
		if rec.Offset >= off {
			ts, found = rec.Timestamp, true
		}
		return !found, nil
	})
	if found && b.TimestampType() == batch.LogAppendTime {
		ts = b.MaxTimestamp()
	}
	return ts, found, b.NextOffset(), err
}
