package store

import (
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// spaceCheckBytes is after how many written bytes the free space is asked for again.
const spaceCheckBytes = 16 << 20

// space keeps a reserve of free space for the journal and internal logs (ruling 6): producers meet
// the end of the disk a little earlier than the broker's own records do.
type space struct {
	low     atomic.Bool
	written atomic.Int64 // since free space was last asked for
	asked   atomic.Int64 // when that was, in Unix nanoseconds
}

// LowOnSpace reports whether appends are refused because only the reserve is left on the disk.
func (s *Store) LowOnSpace() bool { return s.space.low.Load() }

// check refuses an append while space is short.
func (s *space) check(internal bool, n int) error {
	s.written.Add(int64(n))
	if !internal && s.low.Load() {
		return kafkaproto.Faultf(kerr.KafkaStorageError,
			"the disk is nearly full: only the reserve is left")
	}
	return nil
}

// exhausted notes that a write found no space: the janitor looks at once whether that has passed.
func (s *space) exhausted() { s.written.Add(spaceCheckBytes) }

// refresh asks for the free space when enough was written, or when it was short before.
func (s *space) refresh(st *Store, now time.Time) {
	if st.o.Reserve <= 0 || !s.low.Load() && s.written.Load() < spaceCheckBytes &&
		now.UnixNano()-s.asked.Load() < int64(10*time.Second) {
		return
	}
	free, err := st.fs.Free(st.o.Dir)
	if err != nil {
		st.log.Warn("ask for free space", "error", err)
		return
	}
	s.written.Store(0)
	s.asked.Store(now.UnixNano())
	low := free < st.o.Reserve
	if s.low.Swap(low) == low {
		return
	}
	if low {
		st.log.Error("disk is nearly full: appends are refused, internal ones excepted",
			"free", free, "reserve", st.o.Reserve)
	} else {
		st.log.Info("disk has space again: appends are taken", "free", free)
	}
}
