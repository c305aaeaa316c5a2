package crash

import (
	"fmt"
	"sync"
)

// Record names one record by who sent it where, counted from 0 per producer and partition.
type Record struct {
	Producer, Partition, Seq int
}

// History is what clients saw. It may be used by many goroutines.
type History struct {
	mu    sync.Mutex
	acked map[Record]int64 // offset
	sent  map[Record]bool
}

// NewHistory starts an empty history.
func NewHistory() *History {
	return &History{acked: make(map[Record]int64), sent: make(map[Record]bool)}
}

// Sent notes that a record was given to the client library.
func (h *History) Sent(r Record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent[r] = true
}

// Acked notes that a record was acknowledged at an offset.
func (h *History) Acked(r Record, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acked[r] = offset
}

// Acks counts the acknowledged records.
func (h *History) Acks() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acked)
}

// Read is one record as the log holds it.
type Read struct {
	Offset int64
	Record Record
}

// maxFaults bounds what Check reports: the first ones tell.
const maxFaults = 20

// Check compares the history with the log, given per partition in the order it was read (H1 to H4).
func (h *History) Check(log map[int][]Read) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var faults []string
	fault := func(format string, args ...any) {
		if len(faults) < maxFaults {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	at := make(map[Record]int64)
	for partition, reads := range log {
		next := make(map[int]int) // producer to the least sequence that may follow
		for i, r := range reads {
			if r.Offset != int64(i) {
				fault("partition %d: offset %d where %d belongs", partition, r.Offset, i)
			}
			if !h.sent[r.Record] || r.Record.Partition != partition {
				fault("partition %d offset %d: %+v was never sent there", partition, r.Offset, r.Record)
			}
			if before, twice := at[r.Record]; twice {
				fault("%+v is at offset %d and again at %d", r.Record, before, r.Offset)
			} else if r.Record.Seq < next[r.Record.Producer] {
				fault("partition %d: %+v stands behind a later one", partition, r.Record)
			}
			at[r.Record] = r.Offset
			next[r.Record.Producer] = max(next[r.Record.Producer], r.Record.Seq+1)
		}
	}
	for r, offset := range h.acked {
		found, ok := at[r]
		switch {
		case !ok:
			fault("%+v, acknowledged at offset %d, is lost", r, offset)
		case found != offset:
			fault("%+v, acknowledged at offset %d, is at %d", r, offset, found)
		}
	}
	return faults
}
