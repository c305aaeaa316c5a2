package api

import (
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
	op := &fetchOp{b: b, r: r, fc: fc, iso: engine.Isolation(req.IsolationLevel)}
	op.maxBytes = min(int(req.MaxBytes), cfg.FetchMaxBytes, maxFetchBytes)
	op.minBytes = min(int(req.MinBytes), op.maxBytes) // more can never come
	if req.MaxWaitMillis <= 0 || len(fc.parts) == 0 {
		op.evaluate(true)
		return
	}
	if op.evaluate(false) {
		return
	}
	op.park(req.MaxWaitMillis)
}

// maxFetchBytes bounds fetch.max.bytes, so that an answer stays below what a frame can hold.
const maxFetchBytes = 1 << 30

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
	leader    *leaderHint // set where the answer tells the leader (KIP-951)
	records   store.Range
	committed bool // read_committed: the aborted list is sent
	more      bool // readable records follow in the next segment
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
	results []fetchResult // of the evaluation that runs; its memory serves the next one
	watch   *engine.Watcher
	watched []*engine.Partition
	timer   clock.Timer
}

// park registers with every partition, then looks once more so that no move is missed (E4). The
// wait ends when there is enough, at its deadline, or with the connection.
func (op *fetchOp) park(maxWaitMs int32) {
	op.watch = engine.NewWatcher(func() {
		op.b.spawn(func() {
			op.watch.Arm()
			op.evaluate(false)
		})
	})
	op.r.Info().park(op)
	if op.b.draining.Load() { // Drain says so first, and then looks for who waits
		op.evaluate(true)
		return
	}
	op.mu.Lock()
	if op.done { // by Drain
		op.mu.Unlock()
		return
	}
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
	if !op.readAll() && !final {
		for i := range op.results {
			op.results[i].records.Release()
		}
		return false
	}
	op.endLocked()
	op.respond(op.fc.filter(op.results))
	return true
}

// abandon ends a wait whose connection is gone: nobody reads the answer.
func (op *fetchOp) abandon() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if !op.done {
		op.endLocked()
		op.r.Nothing()
	}
}

// endLocked takes the wait apart; the caller answers.
func (op *fetchOp) endLocked() {
	op.done = true
	if op.watch == nil {
		return
	}
	op.r.Info().unpark(op)
	if op.timer != nil {
		op.timer.Stop()
	}
	for _, p := range op.watched {
		p.Unwatch(op.watch)
	}
	op.watched = nil
}

// readAll reads each partition in the session's order within the byte limits, and says whether
// that is an answer: at once when there are min_bytes, when a partition is in error, has diverged,
// or goes on in another segment, where waiting would bring nothing. A partition that is not known
// does not end the wait beside one that is (§3b, row 28).
func (op *fetchOp) readAll() (enough bool) {
	if op.results == nil {
		op.results = make([]fetchResult, 0, len(op.fc.parts))
	}
	op.results = op.results[:0]
	left, total, unknown := op.maxBytes, 0, 0
	for _, part := range op.fc.parts {
		op.results = append(op.results, fetchResult{
			part: part, hw: -1, lso: -1, logStart: -1, committed: op.iso == engine.ReadCommitted,
		})
		res := &op.results[len(op.results)-1]
		op.readOne(res, left, total == 0)
		n := res.size()
		left -= n
		total += n
		switch {
		case res.unknown():
			unknown++
		case res.code != 0 || res.diverging != nil || res.more:
			enough = true
		}
	}
	return enough || total >= op.minBytes || unknown == len(op.results)
}

// unknown reports whether the partition is not known here.
func (r *fetchResult) unknown() bool {
	return r.code == kerr.UnknownTopicOrPartition.Code || r.code == kerr.UnknownTopicID.Code
}

// readOne reads one partition. The first that has records gives one whole batch even above all
// limits (KIP-74); a later one that cannot fit a batch gives none.
func (op *fetchOp) readOne(res *fetchResult, left int, first bool) {
	t, err := op.b.topic(res.part.topic, res.part.id, op.r.Version >= 13)
	if err == nil {
		res.topic = t
		err = op.readPartition(res, t, left, first)
	}
	if op.r.Version >= 16 && err != nil {
		res.leader = op.b.currentLeader(t, res.part.partition, err)
	}
	res.code = kafkaproto.Code(err)
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
		return err
	}
	if part.lastEpoch >= 0 {
		if err := diverged(p, part, res); err != nil || res.diverging != nil {
			return err
		}
	}
	rd, err := p.Read(part.offset, max(min(left, int(part.maxBytes)), 0), op.iso, first)
	if err != nil {
		return err
	}
	res.records, res.hw, res.lso, res.logStart = rd.Range, rd.HighWatermark, rd.LastStable, rd.LogStart
	res.aborted, res.more = rd.Aborted, rd.More
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
