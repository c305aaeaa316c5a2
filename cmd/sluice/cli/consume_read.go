package cli

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// idleEnd is how long a bounded read waits at an end that no record marks: compaction may have taken
// the last records of the range away.
const idleEnd = time.Second

// reader reads the ranges of partitions that are still open, or those that a group gives it.
type reader struct {
	o       *consumeFlags
	opts    []kgo.Opt
	open    map[tp]int64 // where each partition's range ends
	bounded bool
	left    int64 // records of -n that are still to come; MaxInt64 without a bound
	group   bool
	fetches *fetchCounter
}

func (o *consumeFlags) newReader() reader {
	r := reader{
		o: o, open: make(map[tp]int64), bounded: o.offsets.bounded, left: math.MaxInt64,
		fetches: &fetchCounter{},
	}
	if o.count > 0 {
		r.left = o.count
	}
	r.opts = []kgo.Opt{
		kgo.FetchMaxWait(500 * time.Millisecond), kgo.WithHooks(r.fetches), kgo.KeepControlRecords(),
	}
	if o.committed {
		r.opts = append(r.opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return r
}

// directReader reads given ranges.
func directReader(o *consumeFlags, spans map[tp]span) reader {
	r := o.newReader()
	from := make(map[string]map[int32]kgo.Offset)
	for k, s := range spans {
		if s.from >= s.to {
			continue
		}
		r.open[k] = s.to
		if from[k.topic] == nil {
			from[k.topic] = make(map[int32]kgo.Offset)
		}
		from[k.topic][k.partition] = kgo.NewOffset().At(s.from)
	}
	r.opts = append(r.opts, kgo.ConsumePartitions(from))
	return r
}

// groupReader reads as a member of a group. With -e it stops where the logs end now, so it first
// learns where the group stands.
func groupReader(ctx context.Context, c *client, o *consumeFlags, topics []string) (reader, error) {
	r := o.newReader()
	r.group = true
	reset := kgo.NewOffset().AtStart()
	if o.offsets.from.whence == fromEnd {
		reset = kgo.NewOffset().AtEnd()
	}
	r.opts = append(r.opts, kgo.ConsumerGroup(o.group), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(reset), kgo.AutoCommitMarks())
	spans, err := resolve(ctx, c, topics, nil, o.offsets, o.committed)
	if err != nil || !r.bounded {
		return r, err
	}
	committed, err := c.adm.FetchOffsets(ctx, o.group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return r, kafkaf("offsets of group "+o.group, err, "")
	}
	for k, s := range spans {
		if at, ok := committed.Lookup(k.topic, k.partition); ok && at.At >= 0 {
			s.from = at.At
		}
		if s.from < s.to {
			r.open[k] = s.to
		}
	}
	return r, nil
}

// run reads and prints until nothing is left to come.
func (r *reader) run(e *env, p *printer) error {
	if r.finished() {
		return nil
	}
	c, err := e.connect(e.ctx, r.opts...)
	if err != nil {
		return err
	}
	defer c.CloseAllowingRebalance()
	c.dialer.lost = func(addr string, err error) {
		e.say("%s does not answer (%s); trying again", addr, why(err))
	}
	err = r.poll(e, c, p)
	if r.group {
		err = errors.Join(err, r.commit(e, c))
	}
	return err
}

func (r *reader) poll(e *env, c *client, p *printer) error {
	last, seen := time.Now(), r.fetches.n.Load()
	for !r.finished() {
		ctx, cancel := context.WithTimeout(e.ctx, 250*time.Millisecond)
		got := c.PollRecords(ctx, int(min(r.left, 10_000)))
		cancel()
		if e.ctx.Err() != nil {
			return e.ctx.Err()
		}
		n, err := r.take(c, p, got)
		if err := errors.Join(err, p.flush()); err != nil {
			return err
		}
		if n > 0 {
			last, seen = time.Now(), r.fetches.n.Load()
			continue
		}
		// Two answers without a record since the last one: there is none.
		if r.bounded && time.Since(last) > idleEnd && r.fetches.n.Load() >= seen+2 {
			return r.ended(e, c)
		}
	}
	return nil
}

// ended looks whether the partitions that are silent are there: without a leader they would be as
// silent as at their end.
func (r *reader) ended(e *env, c *client) error {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	var topics []string
	var partitions []int32
	for k := range r.open {
		topics = append(topics, k.topic)
		partitions = append(partitions, k.partition)
	}
	err := listed(ctx, c.adm.ListEndOffsets, topics, partitions, make(map[tp]span), func(*span, int64) {})
	return c.explain(err)
}

// finished tells that all is printed that was asked for.
func (r *reader) finished() bool {
	return r.left == 0 || len(r.open) == 0 && (r.bounded || !r.group)
}

// take prints the records of one poll and gives their number, those that are not printed included.
func (r *reader) take(c *client, p *printer, got kgo.Fetches) (n int, err error) {
	got.EachError(func(topic string, partition int32, e error) {
		if err == nil && !errors.Is(e, context.DeadlineExceeded) && !errors.Is(e, context.Canceled) {
			err = c.explain(kafkaf("read "+topic, e, ""))
		}
	})
	got.EachPartition(func(t kgo.FetchTopicPartition) {
		for _, rec := range t.Records {
			n++
			if err == nil {
				err = r.one(c, p, &t.FetchPartition, rec)
			}
		}
	})
	return n, err
}

// one prints a record if it is in the range, and closes the partition at the range's end.
func (r *reader) one(c *client, p *printer, fp *kgo.FetchPartition, rec *kgo.Record) error {
	k := tp{rec.Topic, rec.Partition}
	to, open := r.open[k]
	if r.bounded && (!open || rec.Offset >= to) {
		r.close(c, k)
		return nil
	}
	if !rec.Attrs.IsControl() && r.left > 0 {
		if err := p.add(fp, rec); err != nil {
			return err
		}
		r.left--
	}
	if r.group {
		c.MarkCommitRecords(rec)
	}
	if r.bounded && rec.Offset >= to-1 {
		r.close(c, k)
	}
	return nil
}

func (r *reader) close(c *client, k tp) {
	delete(r.open, k)
	c.PauseFetchPartitions(map[string][]int32{k.topic: {k.partition}})
}

// commit saves what was printed, also after an interrupt.
func (r *reader) commit(e *env, c *client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), e.timeout)
	defer cancel()
	if err := c.CommitMarkedOffsets(ctx); err != nil {
		return kafkaf("commit the offsets of group "+r.o.group, err, "")
	}
	return nil
}

// fetchCounter counts the broker's answers to fetches.
type fetchCounter struct{ n atomic.Int64 }

// OnBrokerRead implements kgo.HookBrokerRead.
func (f *fetchCounter) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration,
	err error) {
	if key == 1 && err == nil {
		f.n.Add(1)
	}
}
