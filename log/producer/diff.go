package producer

import (
	"fmt"
	"maps"
	"slices"
)

// Diff says in one line how two states differ, or nothing: producers and their batches, pending
// batches, open transactions, high watermark. When a producer was last active is left out, as it
// goes by the broker's clock, and verifications, which end with the process. For tests of replay
// against live state.
func Diff(a, b *State) string {
	if a.committed != b.committed {
		return fmt.Sprintf("committed up to %d and %d", a.committed, b.committed)
	}
	ids := maps.Clone(a.producers)
	maps.Copy(ids, b.producers)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		x, y := a.producers[id], b.producers[id]
		switch {
		case x == nil || y == nil:
			return fmt.Sprintf("producer %d known: %v and %v", id, x != nil, y != nil)
		case x.view != y.view:
			return fmt.Sprintf("producer %d: %+v and %+v", id, x.view, y.view)
		case x.pending != y.pending:
			return fmt.Sprintf("producer %d: %d and %d pending", id, x.pending, y.pending)
		}
	}
	if !slices.Equal(a.pending[a.head:], b.pending[b.head:]) {
		return fmt.Sprintf("pending %+v and %+v", a.pending[a.head:], b.pending[b.head:])
	}
	if !slices.Equal(a.open, b.open) {
		return fmt.Sprintf("open transactions %+v and %+v", a.open, b.open)
	}
	return ""
}
