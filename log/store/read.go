package store

import (
	"errors"
	"fmt"
	"sort"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/producer"
	"github.com/sluicelog/sluice/log/segment"
)

// Range is whole batches in one segment file. Release must be called once; of an empty range it
// need not be.
type Range = segment.Range

// AbortedTxn is an aborted transaction that a read_committed reader must skip.
type AbortedTxn struct {
	ProducerID  kafkaproto.ProducerID
	FirstOffset kafkaproto.Offset
}

// TimedOffset is the answer to a lookup by time.
type TimedOffset struct {
	Offset    kafkaproto.Offset
	Timestamp int64
	Epoch     kafkaproto.LeaderEpoch
	Found     bool
}

// findSegment is the segment that holds off, or would: the last one that begins at or before it.
func findSegment(segs []*segment.Segment, off kafkaproto.Offset) *segment.Segment {
	if i := segmentAt(segs, off); i >= 0 {
		return segs[i]
	}
	return nil
}

func segmentAt(segs []*segment.Segment, off kafkaproto.Offset) int {
	n := len(segs)
	if n > 0 && segs[n-1].BaseOffset() <= off { // most readers are at the tail
		return n - 1
	}
	return sort.Search(n, func(i int) bool { return segs[i].BaseOffset() > off }) - 1
}

// Read finds the bytes of whole batches from off on, at most maxBytes and never at or above limit,
// all in one segment. With minOne the first batch is given whole even when it is larger. The range
// may be empty. Range.Next is where to read on: it may lie behind a hole that compaction left.
func (l *Log) Read(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset,
	minOne bool) (Range, error) {
	if err := l.unreadable(); err != nil {
		return Range{}, err
	}
	start, end := l.StartOffset(), l.EndOffset()
	if off < start || off > end {
		return Range{}, kafkaproto.Faultf(kerr.OffsetOutOfRange,
			"offset %d of %s is outside of [%d, %d]", off, l.tp, start, end)
	}
	l.noteRead(off)
	return l.readFrom(off, maxBytes, min(limit, end), minOne)
}

// ReadEntries is Read for peers: it finds the bytes of raft's entries from the batch at off on, which may
// lie below the log start while they are in raft's window. The caller holds what it reads against the
// entries' descriptors: a truncation, or the cleaner, may have been there.
func (l *Log) ReadEntries(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset) (Range, error) {
	if err := l.unreadable(); err != nil {
		return Range{}, err
	}
	return l.readFrom(off, maxBytes, min(limit, l.EndOffset()), true)
}

// readFrom is Read without a look at the log start; limit is not above the log's end.
func (l *Log) readFrom(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset, minOne bool) (Range, error) {
	for off < limit {
		segs := *l.segs.Load()
		i := segmentAt(segs, off)
		if i < 0 { // deleted meanwhile
			return Range{}, kafkaproto.Faultf(kerr.OffsetOutOfRange,
				"offset %d of %s is below the log start %d", off, l.tp, l.StartOffset())
		}
		r, err := segs[i].ReadRange(off, maxBytes, limit, minOne)
		switch {
		case errors.Is(err, segment.ErrGone):
			if err := l.Offline(); err != nil { // of a broken log that was closed the list stays as it is
				return Range{}, err
			}
			continue // replaced or deleted: the list has changed, or soon will have
		case err != nil:
			return Range{}, l.readFailed(err)
		case r.Len > 0 || i == len(segs)-1 || segs[i].NextOffset() > off:
			return r, nil
		}
		off = segs[i+1].BaseOffset() // the rest of this segment was compacted away
	}
	return Range{}, nil
}

// unreadable is why nothing can be read. A log that failed to write still gives what it has.
func (l *Log) unreadable() error {
	err := l.Offline()
	if err == nil || errors.Is(err, segment.ErrBroken) {
		return nil
	}
	return err
}

// readFailed takes the log offline when what was read is damaged (G18).
func (l *Log) readFailed(err error) error {
	err = fmt.Errorf("read %s: %w", l.tp, err)
	if kafkaproto.IsCorrupt(err) {
		l.goOffline(err)
	}
	return err
}

// LastStable is the last stable offset below the high watermark hw (row 24).
func (l *Log) LastStable(hw kafkaproto.Offset) kafkaproto.Offset {
	return min(hw, kafkaproto.Offset(l.openTxn.Load()))
}

// Aborted lists the aborted transactions that a reader of [from, to) must know (row 25): every one
// that ends at or behind from and begins before to.
func (l *Log) Aborted(from, to kafkaproto.Offset) ([]AbortedTxn, error) {
	if kafkaproto.Offset(l.lastAborted.Load()) < from {
		return nil, nil
	}
	segs := *l.segs.Load()
	var out []AbortedTxn
	for i := max(segmentAt(segs, from), 0); i < len(segs); i++ {
		list, err := l.abortedIn(segs[i])
		if errors.Is(err, segment.ErrGone) {
			if err := l.Offline(); err != nil {
				return nil, err
			}
			return l.Aborted(max(from, l.StartOffset()), to)
		}
		if err != nil {
			return nil, l.readFailed(err)
		}
		for _, a := range list {
			if a.LastOffset >= from && a.FirstOffset < to {
				out = append(out, AbortedTxn{ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
			}
			if a.LastStable >= to { // every later one begins behind it
				return out, nil
			}
		}
	}
	return out, nil
}

// maxExpanded bounds what a lookup inside a compressed batch may expand to.
func (l *Log) maxExpanded() int { return max(64<<20, 16*l.config.Load().MaxMessageBytes) }

// OffsetForTime finds the first record below limit with a timestamp of at least ts, exact to the
// record (row 37).
func (l *Log) OffsetForTime(ts int64, limit kafkaproto.Offset) (TimedOffset, error) {
	for _, seg := range *l.segs.Load() {
		if seg.BaseOffset() >= limit {
			break
		}
		if largest, _ := seg.LargestTimestamp(); largest < ts {
			continue
		}
		t, err := l.timeInSegment(seg, ts, limit)
		if errors.Is(err, segment.ErrGone) {
			if err := l.Offline(); err != nil {
				return TimedOffset{}, err
			}
			return l.OffsetForTime(ts, limit)
		}
		if err != nil {
			return TimedOffset{}, l.readFailed(err)
		}
		if t.Found {
			return t, nil
		}
	}
	return TimedOffset{}, nil
}

func (l *Log) timeInSegment(seg *segment.Segment, ts int64, limit kafkaproto.Offset) (TimedOffset,
	error) {
	start := l.StartOffset()
	for from := start; ; {
		h, pos, found, err := seg.FindTime(ts, from)
		if err != nil || !found || h.BaseOffset >= limit {
			return TimedOffset{}, err
		}
		t, err := l.timeInBatch(seg, h, pos, func(r *batch.Record) bool {
			return r.Timestamp >= ts && r.Offset >= start && r.Offset < limit
		})
		if err != nil || t.Found {
			return t, err
		}
		from = h.NextOffset()
	}
}

// timeInBatch gives the first record of the batch at pos that fits. A batch whose records cannot be
// read although its bytes are what a client sent counts as one record.
func (l *Log) timeInBatch(seg *segment.Segment, h batch.Header, pos int64,
	fits func(*batch.Record) bool) (TimedOffset, error) {
	b, err := seg.ReadBatch(pos, nil)
	if err != nil {
		return TimedOffset{}, err
	}
	var t TimedOffset
	err = b.Each(l.maxExpanded(), func(r *batch.Record) (bool, error) {
		if !fits(r) {
			return true, nil
		}
		t = TimedOffset{Offset: r.Offset, Timestamp: r.Timestamp, Epoch: h.LeaderEpoch, Found: true}
		return false, nil
	})
	if err != nil && !kafkaproto.IsCorrupt(err) {
		whole := batch.Record{Offset: h.BaseOffset, Timestamp: h.MaxTimestamp}
		return TimedOffset{Offset: whole.Offset, Timestamp: whole.Timestamp, Epoch: h.LeaderEpoch,
			Found: fits(&whole)}, nil
	}
	return t, err
}

// errStop ends a scan early.
var errStop = errors.New("stop")

// MaxTimestamp finds the first record below limit with the largest timestamp (row 36, -3).
func (l *Log) MaxTimestamp(limit kafkaproto.Offset) (TimedOffset, error) {
	start := l.StartOffset()
	var best struct {
		seg *segment.Segment
		off kafkaproto.Offset
		ts  int64
	}
	best.ts = -1
	for _, seg := range *l.segs.Load() {
		if seg.BaseOffset() >= limit {
			break
		}
		ts, off := seg.LargestTimestamp()
		if ts <= best.ts {
			continue
		}
		if off >= limit || off < start { // the largest may be hidden: look at what is not
			var err error
			if ts, off, err = l.largestBetween(seg, start, limit); err != nil {
				return TimedOffset{}, l.readFailed(err)
			}
		}
		if ts > best.ts {
			best.seg, best.ts, best.off = seg, ts, off
		}
	}
	if best.seg == nil {
		return TimedOffset{}, nil
	}
	pos, err := best.seg.Lookup(best.off)
	if err != nil {
		return TimedOffset{}, l.readFailed(err)
	}
	b, err := best.seg.ReadBatch(pos, nil)
	if err != nil {
		return TimedOffset{}, l.readFailed(err)
	}
	t, err := l.timeInBatch(best.seg, b.Header(), pos, func(r *batch.Record) bool {
		return r.Timestamp == best.ts && r.Offset >= start && r.Offset < limit
	})
	if err != nil {
		return TimedOffset{}, l.readFailed(err)
	}
	return t, nil
}

// largestBetween finds the largest timestamp in [start, limit) of a segment of which a part is
// hidden. It walks headers, and looks into the batches that the bounds cut.
func (l *Log) largestBetween(seg *segment.Segment, start, limit kafkaproto.Offset) (ts int64,
	off kafkaproto.Offset, err error) {
	ts = -1
	_, err = seg.ScanHeaders(0, func(h batch.Header, pos int64) error {
		if h.BaseOffset >= limit {
			return errStop
		}
		if h.LastOffset() < start || h.MaxTimestamp <= ts {
			return nil
		}
		if h.BaseOffset >= start && h.LastOffset() < limit {
			ts, off = h.MaxTimestamp, h.LastOffset()
			return nil
		}
		_, err := l.timeInBatch(seg, h, pos, func(r *batch.Record) bool {
			if r.Offset >= start && r.Offset < limit && r.Timestamp > ts {
				ts, off = r.Timestamp, r.Offset
			}
			return false
		})
		return err
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return ts, off, err
}

// Producers lists the producers known, as DescribeProducers shows them.
func (l *Log) Producers() []producer.Info {
	l.prod.Lock()
	defer l.prod.Unlock()
	return l.prod.state.Producers()
}

// HasOpenTxn reports whether the producer has a transaction open in this epoch.
func (l *Log) HasOpenTxn(p kafkaproto.ProducerID, e kafkaproto.ProducerEpoch) bool {
	l.prod.Lock()
	defer l.prod.Unlock()
	return l.prod.state.HasOpenTxn(p, e)
}

// BeginVerification notes that the coordinator is asked about a transactional batch (row 19).
func (l *Log) BeginVerification(p producer.Batch, epochBumps bool, nowMs int64) producer.Guard {
	l.prod.Lock()
	defer l.prod.Unlock()
	return l.prod.state.BeginVerification(p, epochBumps, nowMs)
}
