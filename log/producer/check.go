package producer

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
)

// Origin tells how strictly Check looks.
type Origin int8

// Where a batch comes from.
const (
	Client      Origin = iota // sequence, epoch, duplicates, verification
	Coordinator               // a coordinator's own transactional write or marker: no sequence check
)

// CheckOptions are the facts of a request beside the batch.
type CheckOptions struct {
	Origin Origin
	// Verify demands that a transactional batch outside an open transaction comes with the Guard
	// of a verification that succeeded (row 19; transaction.partition.verification.enable).
	Verify bool
	Guard  Guard
	// MarkerVersion is the transaction version of a marker; from 2 on its epoch must be above the
	// stored one (KIP-1228).
	MarkerVersion int16
}

// Kind of a verdict.
type Kind int8

// What to do with a checked batch.
const (
	Append    Kind = iota // write it, then call State.Append
	Duplicate             // write nothing, answer with the verdict's numbers
)

// Verdict is Check's answer.
type Verdict struct {
	Kind       Kind
	BaseOffset kafkaproto.Offset // of the original of a duplicate
	LastOffset kafkaproto.Offset
	Timestamp  int64 // the original's max timestamp, Kafka's log_append_time of a duplicate
	// Pending says that the original is not committed: the answer waits until the high watermark
	// reaches LastOffset+1, or fails with the original.
	Pending bool
}

// Check judges a batch before it gets its offset and changes nothing. The errors are Kafka's:
// INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE, for markers
// TRANSACTION_COORDINATOR_FENCED. Where a version of Produce knows another code for the same (row
// 19), the API's handler maps it.
func (s *State) Check(b Batch, o CheckOptions) (Verdict, error) {
	if b.Producer < 0 {
		return Verdict{}, nil
	}
	v := emptyView()
	if e, ok := s.producers[b.Producer]; ok {
		v = e.view
	}
	if b.Marker != Data {
		return Verdict{}, checkMarker(&v, b, o)
	}
	if o.Origin == Client {
		if d, ok := s.duplicate(&v, b); ok {
			return d, nil
		}
		if err := s.checkVerified(&v, b, o); err != nil {
			return Verdict{}, err
		}
	}
	if b.Epoch < v.epoch {
		return Verdict{}, kafkaproto.Faultf(kerr.InvalidProducerEpoch,
			"epoch %d of producer %d is older than %d, the last one seen here", b.Epoch, b.Producer, v.epoch)
	}
	if o.Origin == Client {
		if err := s.checkSequence(&v, b); err != nil {
			return Verdict{}, err
		}
	}
	if v.txnFirst >= 0 && !b.Transactional {
		return Verdict{}, kafkaproto.Faultf(kerr.InvalidTxnState,
			"producer %d has a transaction open since offset %d: a batch outside of it is refused",
			b.Producer, v.txnFirst)
	}
	return Verdict{}, nil
}

// duplicate looks for a batch of the same epoch with the same first and last sequence (row 13).
func (s *State) duplicate(v *view, b Batch) (Verdict, bool) {
	if b.Epoch != v.epoch || b.BaseSequence < 0 {
		return Verdict{}, false
	}
	last := b.LastSequence()
	for _, r := range v.batches[:v.n] {
		if r.lastSeq == last && r.firstSeq() == b.BaseSequence {
			return Verdict{
				Kind:       Duplicate,
				BaseOffset: r.lastOffset - kafkaproto.Offset(r.delta),
				LastOffset: r.lastOffset,
				Timestamp:  r.timestamp,
				Pending:    r.lastOffset >= s.committed,
			}, true
		}
	}
	return Verdict{}, false
}

// checkSequence is row 14. Unknown state, the one of a producer that expired too, accepts any first
// sequence; a new epoch begins at 0; otherwise the batches follow one another.
func (s *State) checkSequence(v *view, b Batch) error {
	if w, ok := s.verifications[b.Producer]; ok && b.Transactional {
		if w.bumps && b.BaseSequence != 0 && v.n == 0 {
			return outOfOrder(b,
				"producers of transaction version 2 begin at 0 where nothing of them is known")
		}
		if b.BaseSequence > w.lowest {
			return kafkaproto.Faultf(kerr.OutOfOrderSequenceNumber,
				"sequence %d of producer %d, epoch %d: %d was to come first and is still to be written",
				b.BaseSequence, b.Producer, b.Epoch, w.lowest)
		}
	}
	switch {
	case v.epoch == noEpoch:
		return nil
	case b.Epoch != v.epoch:
		if b.BaseSequence != 0 {
			return outOfOrder(b, "a new epoch begins at 0")
		}
		return nil
	}
	last := int32(-1)
	if r, ok := v.last(); ok {
		last = r.lastSeq
	}
	if next := addSequence(last, 1); b.BaseSequence == next {
		return nil
	}
	return kafkaproto.Faultf(kerr.OutOfOrderSequenceNumber,
		"sequence %d of producer %d, epoch %d, does not follow %d", b.BaseSequence, b.Producer,
		b.Epoch, last)
}

func outOfOrder(b Batch, why string) error {
	return kafkaproto.Faultf(kerr.OutOfOrderSequenceNumber,
		"sequence %d of producer %d, epoch %d: %s", b.BaseSequence, b.Producer, b.Epoch, why)
}

// checkMarker lets a marker of a stale coordinator or epoch through to nobody's transaction. From
// transaction version 2 on the coordinator has bumped the epoch before it writes the marker, so an
// equal one is late, unless nothing is open: then it is a retry, which does no harm (KAFKA-19999).
func checkMarker(v *view, b Batch, o CheckOptions) error {
	late := b.Epoch < v.epoch
	if o.MarkerVersion >= 2 && b.Epoch == v.epoch && v.txnFirst >= 0 {
		late = true
	}
	if late {
		return kafkaproto.Faultf(kerr.InvalidProducerEpoch,
			"marker with epoch %d of producer %d (transaction version %d), the last epoch seen here is %d",
			b.Epoch, b.Producer, o.MarkerVersion, v.epoch)
	}
	if b.CoordinatorEpoch < v.coordEp {
		return kafkaproto.Faultf(kerr.TransactionCoordinatorFenced,
			"marker of producer %d from coordinator epoch %d, the last one seen here is %d",
			b.Producer, b.CoordinatorEpoch, v.coordEp)
	}
	return nil
}

// Guard names one verification of a transaction with its coordinator; 0 is none.
type Guard uint64

// verification is a question to the coordinator: is this partition part of the producer's
// transaction? It lasts until the transaction begins or ends here, so that an answer which arrives
// after the transaction's end cannot begin another (KIP-890).
type verification struct {
	guard  Guard
	epoch  kafkaproto.ProducerEpoch
	lowest int32 // sequence: a later one may not overtake it while both are being verified
	bumps  bool  // transaction version 2
	at     int64 // ms
}

// BeginVerification notes that the coordinator is being asked about the batch, and gives the guard
// to show to Check with it; 0 when no question is needed. epochBumps is true for transaction
// version 2 (row 20).
func (s *State) BeginVerification(b Batch, epochBumps bool, nowMs int64) Guard {
	if s.HasOpenTxn(b.Producer, b.Epoch) {
		return 0
	}
	v, ok := s.verifications[b.Producer]
	switch {
	case !ok:
		if len(s.verifications) >= s.o.MaxProducers {
			clear(s.verifications) // who is still being verified is told to try again
		}
		s.guards++
		v = verification{guard: s.guards, epoch: b.Epoch, lowest: b.BaseSequence, bumps: epochBumps,
			at: nowMs}
	case b.Epoch == v.epoch:
		v.lowest = min(v.lowest, b.BaseSequence)
	case b.Epoch > v.epoch:
		v.epoch, v.lowest = b.Epoch, b.BaseSequence
	}
	s.verifications[b.Producer] = v
	return v.guard
}

// checkVerified is row 19: a transactional batch begins a transaction here only with an answer of
// the coordinator that is still valid.
func (s *State) checkVerified(v *view, b Batch, o CheckOptions) error {
	if !o.Verify || !b.Transactional || v.txnFirst >= 0 && v.epoch == b.Epoch {
		return nil
	}
	if w, ok := s.verifications[b.Producer]; ok && o.Guard != 0 && w.guard == o.Guard {
		return nil
	}
	return kafkaproto.Faultf(kerr.InvalidTxnState,
		"batch of producer %d, epoch %d, is not part of an ongoing transaction", b.Producer, b.Epoch)
}
