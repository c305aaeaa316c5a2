package coord

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// recordOverhead is about what a record costs in a batch beside its key and value, in bytes.
const recordOverhead = 24

// noSequence marks the batches of a transaction written by a coordinator: they are not checked for
// duplicates.
const noSequence = -1

func weight(r *Record) int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

// weigh gives the size of the entries not yet appended, of which it has weighed some before.
func (s *shard[In, Out]) weigh() int {
	for ; s.weighed < len(s.effects.Entries); s.weighed++ {
		s.size += weight(&s.effects.Entries[s.weighed].Record)
	}
	return s.size
}

// flush appends what the steps since the last flush wrote, in as few batches as it goes, and holds
// their replies until that is committed.
func (s *shard[In, Out]) flush() {
	if s.state != active {
		return
	}
	entries := s.effects.Entries
	for len(entries) > 0 {
		n, err := s.appendSome(entries)
		if err != nil {
			s.dropped(err)
			return
		}
		entries = entries[n:]
	}
	clear(s.effects.Entries)
	s.effects.Entries, s.weighed, s.size = s.effects.Entries[:0], 0, 0
	s.hold()
}

// appendSome appends one batch from the front of entries and gives how many it holds: those of one
// transaction, or of none, up to the batch size.
func (s *shard[In, Out]) appendSome(entries []Entry) (int, error) {
	now := s.r.now().Wall
	n := 1
	var b batch.Batch
	if m := entries[0].Marker; m != nil {
		kind := batch.Abort
		if m.Commit {
			kind = batch.Commit
		}
		b = batch.Control(kind, m.CoordinatorEpoch, m.Producer.ID, m.Producer.Epoch, now)
	} else {
		var err error
		if n, b, err = s.build(entries, now); err != nil {
			return 0, err
		}
	}
	end, err := s.log.Append(b, now)
	if err != nil {
		return 0, err
	}
	s.end, s.failures = end, 0
	s.r.Counters.Batches.Add(1)
	s.r.Counters.Records.Add(int64(n))
	return n, nil
}

// build makes a data batch of the first entries.
func (s *shard[In, Out]) build(entries []Entry, now int64) (int, batch.Batch, error) {
	o := batch.BuilderOptions{}
	first := entries[0].Record.Producer
	if first != nil {
		o.Transactional = true
		o.Producer = &batch.Producer{ID: first.ID, Epoch: first.Epoch, BaseSequence: noSequence}
	}
	builder := batch.NewBuilder(o)
	size, n := 0, 0
	for i := range entries {
		rec := &entries[i].Record
		size += weight(rec)
		if n > 0 && (entries[i].Marker != nil || size > s.r.o.BatchBytes ||
			!sameProducer(first, rec.Producer)) {
			break
		}
		builder.Add(batch.Record{
			Timestamp: now, Key: rec.Key, Value: rec.Value, Headers: rec.Headers,
		})
		n++
	}
	b, err := builder.Build()
	if err != nil {
		return 0, nil, fmt.Errorf("build a batch of %d records: %w", n, err)
	}
	return n, b, nil
}

func sameProducer(a, b *Producer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// hold queues the replies of the last steps at the position they saw, and lets go those that are
// committed already (O2, O6).
func (s *shard[In, Out]) hold() {
	until := s.r.now().Steady + s.r.o.CommitTimeout.Milliseconds()
	for _, rep := range s.effects.Replies {
		done := s.tickets[rep.To]
		if done == nil {
			panic(fmt.Sprintf("%s: answer to ticket %d, which is not owed (%d are, the last is %d)",
				s, rep.To, len(s.tickets), s.nextTicket))
		}
		delete(s.tickets, rep.To)
		s.held = append(s.held, held[Out]{s.end, until, rep.Out, done})
	}
	clear(s.effects.Replies)
	s.effects.Replies = s.effects.Replies[:0]
	s.release()
}

// release lets go the replies whose position is committed, and watches for the commit of the rest.
func (s *shard[In, Out]) release() {
	hw := s.log.HighWatermark()
	n := 0
	for n < len(s.held) && s.held[n].end <= hw {
		n++
	}
	due := s.held[:n:n]
	s.held = s.held[n:]
	if len(s.held) == 0 {
		s.held = nil
	}
	s.r.Counters.Waiting.Add(-int64(n))
	for i := range due {
		due[i].done(due[i].out, nil)
	}
	// Also without replies: a lost append must be noticed (a session that ran out wrote it).
	if hw < s.end {
		s.watch(s.end)
	}
}

// watch asks to be woken when end is committed. One watch is pending at a time: when it fires the
// high watermark says how far things are, so that batches written meanwhile need none of their own.
func (s *shard[In, Out]) watch(end kafkaproto.Offset) {
	if s.watching {
		return
	}
	s.watching = true
	s.mu.Lock()
	epoch := s.mu.epoch
	s.mu.Unlock()
	s.log.WhenCommitted(end, func(err error) {
		s.mu.Lock()
		if s.mu.epoch != epoch {
			s.mu.Unlock()
			return
		}
		s.mu.moved, s.mu.lost = true, err
		s.wakeLocked()
	})
}

// commitMoved is run after a watch has fired.
func (s *shard[In, Out]) commitMoved(lost error) {
	s.watching = false
	switch {
	case lost != nil && s.state == loading:
		s.loadFailed(lost)
	case lost != nil:
		s.dropped(lost)
	case s.state == loading:
		s.load.ready = true
	default:
		s.release()
	}
}

// dropped unloads the shard: its machine is ahead of the log. It is loaded again after a while.
func (s *shard[In, Out]) dropped(cause error) {
	s.r.Counters.Drops.Add(1)
	if s.loud() {
		s.r.log.Warn("append dropped, shard unloaded", "partition", s.n, "end", int64(s.end),
			"in_a_row", s.failures+1, "err", cause)
	}
	s.drop(kafkaproto.Faultf(kerr.NotCoordinator, "%s was unloaded: %v", s, cause))
	s.backOff()
}
