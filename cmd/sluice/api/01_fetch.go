package api

import (
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/engine"
)

// fetch answers key 1, versions 4 to 18: byte ranges of batches below the high watermark, or
// below the last stable offset for read_committed.
//
// v5 brings the log start, v7 sessions, v9 leader epochs, v11 the rack, v12 diverging epochs,
// v13 topic ids; 15, 17 and 18 change replica fields only. A fetch that finds too little waits
// until enough came, an error shows, or its time is over (row 28). ACL: Read Topic.
func (b *Broker) fetch(r *Request) {
	req := r.Body.(*kmsg.FetchRequest)
	b.Stats.All.FetchRequests.Add(1)
	cfg := b.Config.Broker()
	fc, err := b.sessions.begin(req, b.Clock.Now(), cfg.FetchSessionSlots)
	if err != nil {
		resp := kmsg.NewPtrFetchResponse()
		resp.ErrorCode = kafkaproto.Code(err)
		r.Respond(resp)
		return
	}
	op := &fetchOp{b: b, r: r, fc: fc, minBytes: int(req.MinBytes), maxBytes: cfg.FetchMaxBytes}
	if r.Version >= 3 && int(req.MaxBytes) < op.maxBytes {
		op.maxBytes = int(req.MaxBytes)
	}
	op.iso = engine.Isolation(req.IsolationLevel)
	if req.MaxWaitMillis <= 0 || len(fc.parts) == 0 {
		op.evaluate(true)
		return
	}
	if op.evaluate(false) {
		return
	}
	op.park(req.MaxWaitMillis)
}

// fetchResult is one partition's part of an answer.
type fetchResult struct {
	part      *fetchPart
	topic     *Topic
	code      int16
	hw        kafkaproto.Offset
	lso       kafkaproto.Offset
	logStart  kafkaproto.Offset
	aborted   []store.AbortedTxn
	diverging *epochEnd
	leader    *engine.Partition // set where the answer tells the leader (KIP-951)
	records   store.Range
	committed bool // read_committed: the aborted list is sent
}

type epochEnd struct {
	epoch kafkaproto.LeaderEpoch
	end   kafkaproto.Offset
}

func (r *fetchResult) size() int { return r.records.Len }

// fetchOp is one fetch on its way; when it is parked it watches its partitions.
type fetchOp struct {
	b                  *Broker
	r                  *Request
	fc                 *fetchContext
	minBytes, maxBytes int
	iso                engine.Isolation

	mu      sync.Mutex // one evaluation at a time
	done    bool
	watch   *engine.Watcher
	watched []*engine.Partition
	timer   clock.Timer
}

// park registers with every partition, then looks once more so that no move is missed (E4).
func (op *fetchOp) park(maxWaitMs int32) {
	op.watch = engine.NewWatcher(func() {
		op.b.spawn(func() {
			op.watch.Arm()
			op.evaluate(false)
		})
	})
	op.mu.Lock()
	for _, part := range op.fc.parts {
		if t, err := op.b.topic(part.topic, part.id, op.r.Version >= 13); err == nil {
			if p, err := t.partition(part.partition); err == nil {
				p.Watch(op.watch)
				op.watched = append(op.watched, p)
			}
		}
	}
	op.timer = op.b.Clock.AfterFunc(millis(maxWaitMs), func() { op.evaluate(true) })
	op.mu.Unlock()
	op.evaluate(false)
}

// evaluate reads all partitions and answers if that is enough or final; it reports whether the
// request is answered.
func (op *fetchOp) evaluate(final bool) bool {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done {
		return true
	}
	results, enough := op.readAll()
	if !enough && !final {
		for i := range results {
			results[i].records.Release()
		}
		return false
	}
	op.done = true
	if op.timer != nil {
		op.timer.Stop()
	}
	for _, p := range op.watched {
		p.Unwatch(op.watch)
	}
	op.watched = nil
	op.b.Stats.fetchAnswered(results)
	op.respond(op.fc.filter(results))
	return true
}

// readAll reads each partition in the session's order within the byte limits. The answer goes out
// at once when there are min_bytes, a partition is in error or has diverged; a partition that is
// not known does not end the wait beside one that is (§3b, row 28).
func (op *fetchOp) readAll() (results []fetchResult, enough bool) {
	results = make([]fetchResult, 0, len(op.fc.parts))
	left, total, unknown := op.maxBytes, 0, 0
	for _, part := range op.fc.parts {
		res := op.readOne(part, left, total == 0)
		n := res.size()
		left -= n
		total += n
		switch {
		case res.code == kerr.UnknownTopicOrPartition.Code || res.code == kerr.UnknownTopicID.Code:
			unknown++
		case res.code != 0 || res.diverging != nil:
			enough = true
		}
		results = append(results, res)
	}
	return results, enough || total >= op.minBytes || unknown == len(results)
}

// readOne reads one partition. The first that has records gives one whole batch even above all
// limits (KIP-74); a later one that cannot fit a batch gives none.
func (op *fetchOp) readOne(part *fetchPart, left int, first bool) fetchResult {
	res := fetchResult{part: part, hw: -1, lso: -1, logStart: -1, committed: op.iso == engine.ReadCommitted}
	t, err := op.b.topic(part.topic, part.id, op.r.Version >= 13)
	if err == nil {
		res.topic = t
		err = op.readPartition(&res, t, left, first)
	}
	if err != nil {
		res.code = kafkaproto.Code(err)
		op.b.Stats.All.FailedFetches.Add(1)
		if t != nil {
			t.Stats.FailedFetches.Add(1)
		}
	}
	return res
}

func (op *fetchOp) readPartition(res *fetchResult, t *Topic, left int, first bool) error {
	part := res.part
	p, err := t.partition(part.partition)
	if err != nil {
		return err
	}
	if op.iso != engine.ReadUncommitted && op.iso != engine.ReadCommitted {
		return kafkaproto.Faultf(kerr.InvalidRequest, "isolation level %d", op.iso)
	}
	if part.maxBytes < 0 || op.maxBytes < 0 {
		return kafkaproto.Faultf(kerr.InvalidRequest, "negative byte limit")
	}
	if err := p.CheckEpoch(part.currentEpoch); err != nil {
		if op.r.Version >= 16 && errors.Is(err, kerr.FencedLeaderEpoch) {
			res.leader = p // the client's idea of the leader is old (KIP-951)
		}
		return err
	}
	if part.lastEpoch >= 0 {
		if err := diverged(p, part, res); err != nil || res.diverging != nil {
			return err
		}
	}
	limit := min(left, int(part.maxBytes))
	if limit <= 0 && !first {
		limit = 0
	}
	rd, err := p.Read(part.offset, limit, op.iso, first)
	if err != nil {
		return err
	}
	res.records, res.hw, res.lso, res.logStart = rd.Range, rd.HighWatermark, rd.LastStable, rd.LogStart
	res.aborted = rd.Aborted
	return nil
}

// diverged compares the epoch of the last record the client has with our log: where that epoch
// ended here before the fetch offset, the client's tail is not ours (row 35).
func diverged(p *engine.Partition, part *fetchPart, res *fetchResult) error {
	epoch, end := p.EpochEnd(part.lastEpoch)
	if epoch == kafkaproto.NoEpoch || end < 0 {
		return kafkaproto.Faultf(kerr.OffsetOutOfRange,
			"last fetched epoch %d of %s is above the current one", part.lastEpoch, p.TP())
	}
	if epoch < part.lastEpoch || end < part.offset {
		res.diverging = &epochEnd{epoch, end}
		hw := p.HighWatermark()
		res.hw, res.lso, res.logStart = hw, p.LastStable(), p.LogStart()
	}
	return nil
}
