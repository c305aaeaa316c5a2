package engine

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/store"
)

// Isolation is what a reader may see.
type Isolation int8

// The isolation levels of Fetch and ListOffsets.
const (
	ReadUncommitted Isolation = 0
	ReadCommitted   Isolation = 1
)

// Read is one partition's part of a fetch.
type Read struct {
	Range         store.Range // Len 0 when there is nothing to read yet; release it after use
	HighWatermark kafkaproto.Offset
	LastStable    kafkaproto.Offset
	LogStart      kafkaproto.Offset
	Aborted       []store.AbortedTxn // read_committed only: those that touch Range
	// More tells that readable records follow which no byte limit kept back: they are in the next
	// segment, so waiting for a larger range is of no use (row 28).
	More bool
}

// Limit is the first offset that iso may not see.
func (p *Partition) Limit(iso Isolation) kafkaproto.Offset {
	if iso == ReadCommitted {
		return p.LastStable()
	}
	return p.HighWatermark()
}

// Read finds the batches from the one that holds off up to maxBytes, below what iso may see (E2).
// With minOne the first batch comes whole even above maxBytes (KIP-74). An offset below the log
// start or above the log end is OFFSET_OUT_OF_RANGE; one between the high watermark and the log
// end reads nothing (row 26).
func (p *Partition) Read(
	off kafkaproto.Offset, maxBytes int, iso Isolation, minOne bool,
) (Read, error) {
	if err := p.Offline(); err != nil {
		return Read{}, err
	}
	hw := p.HighWatermark()
	r := Read{HighWatermark: hw, LastStable: p.log.LastStable(hw), LogStart: p.log.StartOffset()}
	if off < r.LogStart || off > p.log.EndOffset() {
		return r, kafkaproto.Faultf(kerr.OffsetOutOfRange,
			"offset %d of %s is outside [%d, %d]", off, p.tp, r.LogStart, p.log.EndOffset())
	}
	limit := hw
	if iso == ReadCommitted {
		limit = r.LastStable
	}
	if off >= limit || maxBytes <= 0 && !minOne {
		return r, nil
	}
	rg, err := p.log.Read(off, maxBytes, limit, minOne)
	if err != nil {
		return r, errOffline(p.tp, err)
	}
	r.Range = rg
	r.More = rg.AtEnd() && rg.Next < limit
	if iso == ReadCommitted && rg.Len > 0 {
		if r.Aborted, err = p.log.Aborted(off, rg.Next); err != nil {
			r.Range.Release()
			r.Range = store.Range{}
			return r, errOffline(p.tp, err)
		}
	}
	return r, nil
}

// CheckEpoch compares the leader epoch a client believes in with ours (KIP-320, row 33).
func (p *Partition) CheckEpoch(asked kafkaproto.LeaderEpoch) error {
	switch cur := p.LeaderEpoch(); {
	case asked == kafkaproto.NoEpoch || asked == cur:
		return nil
	case asked < cur:
		return kafkaproto.Faultf(kerr.FencedLeaderEpoch,
			"leader epoch %d of %s is over: it is %d", asked, p.tp, cur)
	default:
		return kafkaproto.Faultf(kerr.UnknownLeaderEpoch,
			"leader epoch %d of %s is not known here: it is %d", asked, p.tp, cur)
	}
}

// EpochEnd answers OffsetForLeaderEpoch: the largest epoch at or below asked and its end offset
// (exclusive), or (-1, -1) when asked is above the current one (row 34).
func (p *Partition) EpochEnd(
	asked kafkaproto.LeaderEpoch,
) (kafkaproto.LeaderEpoch, kafkaproto.Offset) {
	return p.log.EpochEnd(asked)
}

// OffsetForTime finds the first visible record with a timestamp of at least ts (row 37).
func (p *Partition) OffsetForTime(ts int64, iso Isolation) (store.TimedOffset, error) {
	if err := p.Offline(); err != nil {
		return store.TimedOffset{}, err
	}
	return p.log.OffsetForTime(ts, p.Limit(iso))
}

// MaxTimestamp finds the visible record with the largest timestamp (row 36, -3).
func (p *Partition) MaxTimestamp(iso Isolation) (store.TimedOffset, error) {
	if err := p.Offline(); err != nil {
		return store.TimedOffset{}, err
	}
	return p.log.MaxTimestamp(p.Limit(iso))
}
