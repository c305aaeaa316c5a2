package coordtest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// Log is a coord.Log in memory. It may be used by many goroutines.
type Log struct {
	mu      sync.Mutex
	batches []batch.Batch
	start   kafkaproto.Offset
	end, hw kafkaproto.Offset
	waits   []wait
	auto    bool
	fail    []error // of the next appends; nil lets one through
	readErr error
}

type wait struct {
	end kafkaproto.Offset
	fn  func(error)
}

// NewLog makes an empty log. With auto every append is committed at once.
func NewLog(auto bool) *Log { return &Log{auto: auto} }

// Append implements coord.Log.
func (l *Log) Append(b batch.Batch, _ int64) (kafkaproto.Offset, error) {
	l.mu.Lock()
	if len(l.fail) > 0 {
		err := l.fail[0]
		l.fail = l.fail[1:]
		if err != nil {
			l.mu.Unlock()
			return 0, err
		}
	}
	b = slices.Clone(b)
	b.SetBaseOffset(l.end)
	l.batches = append(l.batches, b)
	l.end = b.NextOffset()
	end, auto := l.end, l.auto
	l.mu.Unlock()
	if auto {
		l.CommitTo(end)
	}
	return end, nil
}

// WhenCommitted implements coord.Log.
func (l *Log) WhenCommitted(end kafkaproto.Offset, fn func(error)) {
	l.mu.Lock()
	if l.hw < end {
		l.waits = append(l.waits, wait{end, fn})
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	fn(nil)
}

// Read implements coord.Log.
func (l *Log) Read(off kafkaproto.Offset, maxBytes int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readErr != nil {
		return nil, l.readErr
	}
	if off < l.start || off > l.end {
		return nil, fmt.Errorf("offset %d outside [%d, %d]", off, l.start, l.end)
	}
	var out []byte
	for _, b := range l.batches {
		if b.NextOffset() <= off {
			continue
		}
		if b.NextOffset() > l.hw || len(out) > 0 && len(out)+len(b) > maxBytes {
			break
		}
		out = append(out, b...)
	}
	return out, nil
}

// HighWatermark implements coord.Log.
func (l *Log) HighWatermark() kafkaproto.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hw
}

// LogStart implements coord.Log.
func (l *Log) LogStart() kafkaproto.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start
}

// LogEnd implements coord.Log.
func (l *Log) LogEnd() kafkaproto.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Commit moves the high watermark to the log end.
func (l *Log) Commit() { l.CommitTo(l.LogEnd()) }

// CommitTo moves the high watermark to end, which must be a batch's, and tells who waits.
func (l *Log) CommitTo(end kafkaproto.Offset) {
	l.mu.Lock()
	l.hw = max(l.hw, min(end, l.end))
	var due []wait
	l.waits = slices.DeleteFunc(l.waits, func(w wait) bool {
		if w.end <= l.hw {
			due = append(due, w)
		}
		return w.end <= l.hw
	})
	l.mu.Unlock()
	for _, w := range due {
		w.fn(nil)
	}
}

// Lose cuts what is not committed off, and tells who waits for it with err.
func (l *Log) Lose(err error) {
	l.mu.Lock()
	l.batches = slices.DeleteFunc(l.batches, func(b batch.Batch) bool { return b.NextOffset() > l.hw })
	l.end = l.hw
	due := l.waits
	l.waits = nil
	l.mu.Unlock()
	for _, w := range due {
		w.fn(err)
	}
}

// Fail makes the next appends fail with these errors; nil lets one through.
func (l *Log) Fail(errs ...error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = append(l.fail, errs...)
}

// FailReads makes every read fail, until it is called with nil.
func (l *Log) FailReads(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readErr = err
}

// Auto commits every append at once from now on, or no longer.
func (l *Log) Auto(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.auto = on
}

// Ends lists the ends of the batches: the places where a crash may cut.
func (l *Log) Ends() []kafkaproto.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	ends := make([]kafkaproto.Offset, len(l.batches))
	for i, b := range l.batches {
		ends[i] = b.NextOffset()
	}
	return ends
}

// Batches copies the list of batches.
func (l *Log) Batches() []batch.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.batches)
}

// Crashed is the log as a restart finds it when everything up to end, a batch's, was kept. It
// commits as the old one does.
func (l *Log) Crashed(end kafkaproto.Offset) *Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &Log{auto: l.auto, start: l.start}
	for _, b := range l.batches {
		if b.NextOffset() <= end {
			n.batches = append(n.batches, b)
			n.end = b.NextOffset()
		}
	}
	n.hw = n.end
	return n
}

// Compacted is the log without the records whose key appears again later, tombstones kept, as the
// cleaner leaves it. Batches of transactions stay whole.
func (l *Log) Compacted() (*Log, error) {
	type place struct{ batch, delta int }
	old := l.Batches()
	last := make(map[string]place)
	for i, b := range old {
		if b.IsControl() || b.IsTransactional() {
			continue
		}
		err := b.Each(1<<30, func(r *batch.Record) (bool, error) {
			last[string(r.Key)] = place{i, int(r.OffsetDelta)}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
	}
	n := &Log{auto: l.auto, start: l.start, end: l.LogEnd(), hw: l.HighWatermark()}
	for i, b := range old {
		if b.IsControl() || b.IsTransactional() {
			n.batches = append(n.batches, b)
			continue
		}
		nb := batch.NewBuilder(batch.BuilderOptions{BaseOffset: b.BaseOffset(), KeepOffsets: true})
		err := b.Each(1<<30, func(r *batch.Record) (bool, error) {
			if last[string(r.Key)] == (place{i, int(r.OffsetDelta)}) {
				nb.Add(*r)
			}
			return true, nil
		})
		if err != nil {
			return nil, err
		}
		if nb.Len() == 0 {
			continue
		}
		nb.SetLastOffsetDelta(b.LastOffsetDelta())
		kept, err := nb.Build()
		if err != nil {
			return nil, err
		}
		n.batches = append(n.batches, kept)
	}
	return n, nil
}
