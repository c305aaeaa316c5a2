package store

import (
	"fmt"
	"sync"

	"github.com/sluicelog/sluice/kafkaproto"
)

// ringKept is how many entries stay in the ring after they are committed: a follower that is a
// round trip behind asks for these.
const ringKept = 256

// ring holds the newest entries in memory, so that raft, which asks for each entry once when it
// sends and once when it applies, does not read the disk for them. Its memory is taken on use.
type ring struct {
	mu    sync.Mutex
	first uint64 // index of slots[0]
	slots []slot
}

// slot is one entry; a side entry has no bytes, and stands in the journal's state.
type slot struct {
	base       kafkaproto.Offset
	span, size uint32
}

// add puts the entry at index behind those that are there, and forgets the oldest of those up to
// committed when they have become many.
func (r *ring) add(index uint64, s slot, committed uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := uint64(len(r.slots)); n > 0 && index != r.first+n {
		panic(fmt.Sprintf("store: entry %d put into a ring of %d to %d", index, r.first, r.first+n-1))
	} else if n == 0 {
		r.first = index
	}
	r.slots = append(r.slots, s)
	keep := ringKept
	if last := index; last > committed {
		keep += int(last - committed)
	}
	if drop := len(r.slots) - keep; drop >= ringKept {
		r.slots = append([]slot(nil), r.slots[drop:]...)
		r.first += uint64(drop)
	}
}

// cut forgets the entries from index on.
func (r *ring) cut(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := uint64(len(r.slots)); n > 0 && index < r.first+n {
		r.slots = r.slots[:max(index, r.first)-r.first]
	}
}

// clear forgets all, of a group that has gone quiet.
func (r *ring) clear() {
	r.mu.Lock()
	r.slots = nil
	r.mu.Unlock()
}

// get copies the slots of [lo, hi) into dst; false when the ring does not go back to lo.
func (r *ring) get(dst []slot, lo, hi uint64) ([]slot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := uint64(len(r.slots)); n == 0 || lo < r.first || hi > r.first+n {
		return dst, false
	}
	return append(dst, r.slots[lo-r.first:hi-r.first]...), true
}
