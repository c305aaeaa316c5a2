package store

import (
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/log/segment"
)

// cleanTxns follows the transactions while the cleaner walks a log from its start: Kafka's
// CleanedTransactionMetadata. Data of aborted ones goes at once; a marker goes, after its delete
// horizon, when no data of its transaction is left.
type cleanTxns struct {
	coming    []segment.AbortedTxn // by first offset
	aborted   map[kafkaproto.ProducerID]*abortedTxn
	committed map[kafkaproto.ProducerID]bool // of which data was seen
}

type abortedTxn struct {
	segment.AbortedTxn
	seen bool // data of it is still there
}

// begin starts a walk.
func (t *cleanTxns) begin(aborted []segment.AbortedTxn) {
	t.coming = aborted
	t.aborted = make(map[kafkaproto.ProducerID]*abortedTxn)
	t.committed = make(map[kafkaproto.ProducerID]bool)
}

func (t *cleanTxns) upTo(off kafkaproto.Offset) {
	for len(t.coming) > 0 && t.coming[0].FirstOffset <= off {
		a := t.coming[0]
		t.coming = t.coming[1:]
		if a.LastOffset >= off { // else its marker lies behind us, in what the walk has skipped
			t.aborted[a.ProducerID] = &abortedTxn{AbortedTxn: a}
		}
	}
}

// data notes a batch of records; true: its transaction was aborted.
func (t *cleanTxns) data(b batch.Batch) bool {
	t.upTo(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborted[b.ProducerID()]; a != nil {
		a.seen = true
		return true
	}
	t.committed[b.ProducerID()] = true
	return false
}

// markerState is what the walk knows of a marker's transaction.
type markerState struct {
	empty   bool                // no data of it was seen
	aborted *segment.AbortedTxn // its entry, which must stay on the list with the marker
}

// marker notes the end of a transaction.
func (t *cleanTxns) marker(b batch.Batch) (markerState, error) {
	t.upTo(b.LastOffset())
	if b.Count() == 0 { // emptied by Kafka's cleaner, of an imported log
		return markerState{}, nil
	}
	m, err := b.Marker()
	if err != nil {
		return markerState{}, err
	}
	if m.Kind == batch.Commit {
		seen := t.committed[b.ProducerID()]
		delete(t.committed, b.ProducerID())
		return markerState{empty: !seen}, nil
	}
	a := t.aborted[b.ProducerID()]
	delete(t.aborted, b.ProducerID())
	if a == nil || !a.seen {
		return markerState{empty: true}, nil
	}
	return markerState{aborted: &a.AbortedTxn}, nil
}
