package coord

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
)

// maxExpanded bounds a decompressed batch of a coordinator's log. Ours are written uncompressed;
// a directory copied from Kafka may hold others (offsets.topic.compression.codec).
const maxExpanded = 64 << 20

// load is a replay in progress.
type load struct {
	ready   bool              // everything below target is committed
	pos     kafkaproto.Offset // next to replay
	target  kafkaproto.Offset // log end when the load began
	began   int64             // steady milliseconds
	skipped int               // records stepped over
	records int
	err     error // why the log could not be opened; told to who asks
}

// want begins to load unless the shard is loaded, being loaded, or has just failed.
func (s *shard[In, Out]) want() {
	s.wanted = true
	now := s.r.now()
	if s.state != unloaded || now.Steady < s.retryAt {
		return
	}
	log, err := s.r.o.Open(s.n)
	if err != nil {
		// Another broker's, or not there: asking again is up to the client.
		s.wanted, s.load.err = false, err
		return
	}
	s.log, s.state, s.machine = log, loading, s.r.o.NewMachine(s.n)
	s.load = load{pos: log.LogStart(), target: log.LogEnd(), began: now.Steady}
	if log.HighWatermark() >= s.load.target {
		s.load.ready = true
		return
	}
	s.watch(s.load.target)
}

// refusal is what an input gets while the shard is not active.
func (s *shard[In, Out]) refusal() error {
	if err := s.load.err; err != nil && s.state == unloaded {
		return err
	}
	return kafkaproto.Faultf(kerr.CoordinatorLoadInProgress, "%s is being loaded", s)
}

// loadSlice replays some of the log; when it reaches the target the shard is active.
func (s *shard[In, Out]) loadSlice() {
	if !s.load.ready {
		return
	}
	for budget := s.r.o.LoadBytes; budget > 0 && s.load.pos < s.load.target; {
		n, err := s.replay(budget)
		if err != nil {
			s.loadFailed(err)
			return
		}
		budget -= n
	}
	if s.load.pos < s.load.target {
		return
	}
	now := s.r.now()
	took := now.Steady - s.load.began
	if s.load.records > 0 || s.load.skipped > 0 {
		s.r.log.Info("shard loaded", "partition", s.n, "end", int64(s.load.target),
			"records", s.load.records, "skipped", s.load.skipped, "took_ms", took)
	}
	s.end, s.state = max(s.load.pos, s.load.target), active
	s.load = load{}
	s.r.Counters.Loads.Add(1)
	s.r.Counters.Loaded.Add(1)
	s.r.Counters.LoadMs.Store(max(took, s.r.Counters.LoadMs.Load()))
	s.machine.Loaded(now)
}

func (s *shard[In, Out]) loadFailed(err error) {
	if s.loud() {
		s.r.log.Error("shard cannot be loaded", "partition", s.n, "offset", int64(s.load.pos),
			"in_a_row", s.failures+1, "err", err)
	}
	s.drop(err)
	s.backOff()
	s.load.err = kafkaproto.Faultf(kerr.CoordinatorNotAvailable, "%s cannot be loaded: %v", s, err)
}

// replay reads and applies about maxBytes, and gives how many were read.
func (s *shard[In, Out]) replay(maxBytes int) (int, error) {
	s.load.pos = max(s.load.pos, s.log.LogStart()) // retention moved it meanwhile
	buf, err := s.log.Read(s.load.pos, maxBytes)
	if err != nil {
		return 0, fmt.Errorf("replay %s: %w", s, err)
	}
	if len(buf) == 0 {
		// Nothing is left below the target: compaction took the last batches.
		s.load.pos = s.load.target
		return 0, nil
	}
	for rest := buf; len(rest) > 0; {
		b, err := batch.First(rest)
		if err != nil {
			return 0, fmt.Errorf("replay %s at offset %d: %w", s, s.load.pos, err)
		}
		rest = rest[len(b):]
		if b.NextOffset() <= s.load.pos {
			continue // the batch that holds pos may begin before it, not end
		}
		if err := s.replayBatch(b); err != nil {
			return 0, fmt.Errorf("replay %s at offset %d: %w", s, b.BaseOffset(), err)
		}
		s.load.pos = b.NextOffset()
	}
	return len(buf), nil
}

func (s *shard[In, Out]) replayBatch(b batch.Batch) error {
	if err := b.VerifyCRC(); err != nil {
		return err
	}
	var producer *Producer
	if b.IsTransactional() {
		producer = &Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch()}
	}
	if b.IsControl() {
		if b.Count() == 0 || producer == nil {
			return nil // emptied by compaction, or a control batch that is none of ours
		}
		m, err := b.Marker()
		if err != nil {
			return err
		}
		s.machine.ApplyMarker(Marker{
			Producer: *producer, Commit: m.Kind == batch.Commit,
			CoordinatorEpoch: m.CoordinatorEpoch,
		})
		return nil
	}
	return b.Each(maxExpanded, func(rec *batch.Record) (bool, error) {
		if rec.Offset < s.load.pos {
			return true, nil
		}
		s.load.records++
		err := s.machine.Apply(&Record{
			Key: rec.Key, Value: rec.Value, Headers: rec.Headers, Producer: producer,
		})
		if err != nil {
			s.skip(rec.Offset, err)
		}
		return true, nil
	})
}

// skip counts a record that the machine does not take, and says so once per load: a log written by
// a newer broker may hold very many.
func (s *shard[In, Out]) skip(off kafkaproto.Offset, err error) {
	s.load.skipped++
	s.r.Counters.Skipped.Add(1)
	if s.load.skipped == 1 {
		s.r.log.Warn("record stepped over", "partition", s.n, "offset", int64(off), "err", err)
	}
}
