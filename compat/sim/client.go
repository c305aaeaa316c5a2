package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/replica/engine"
)

// Client writes to one partition as an idempotent producer does: batches in sequence, at most five on
// their way, each repeated until it is acknowledged.
type Client struct {
	w     *World
	p     *Part
	pid   kafkaproto.ProducerID
	next  int32                  // sequence of the next new batch
	epoch kafkaproto.LeaderEpoch // the highest of the leaders written to: clients do not go back
	open  []*write
	acked int
	more  int // new writes to be sent although all is healed
}

// write is one batch on its way.
type write struct {
	sequence int32
	value    string
	broker   *Broker // where it was sent last; nil: to be sent
	boot     int
	since    int // steps since
	base     kafkaproto.Offset
	done     bool
}

func newClient(w *World, p *Part, pid kafkaproto.ProducerID) *Client {
	return &Client{w: w, p: p, pid: pid}
}

// leader is a broker that says it leads, in no earlier epoch than the leader before. One that was deposed may
// be among them: what it does not take from a client that has been elsewhere tells nothing.
func (c *Client) leader() *Broker {
	var found []*Broker
	for _, b := range c.w.brokers {
		if !b.up || b.crashed != nil {
			continue
		}
		if p := b.engine.Get(c.p.tp.Topic, 0); p != nil && p.LeaderEpoch() >= c.epoch {
			found = append(found, b)
		}
	}
	if len(found) == 0 {
		return nil
	}
	at := found[c.w.rng.IntN(len(found))]
	c.epoch = at.engine.ByID(c.p.id).LeaderEpoch()
	return at
}

// step sends a new batch or repeats old ones.
func (c *Client) step() {
	for len(c.open) > 0 && c.open[0].done {
		c.open = c.open[1:]
	}
	// What was sent last is sent again in order, from the first that got no answer in time.
	for i, x := range c.open {
		if x.done {
			continue
		}
		x.since++
		if gone := x.broker != nil && (!x.broker.up || x.broker.boot != x.boot); x.broker == nil || gone || x.since > 200 {
			for _, later := range c.open[i:] {
				if !later.done {
					later.broker = nil
				}
			}
			break
		}
	}
	at := c.leader()
	if at == nil {
		return
	}
	// A leader that has never heard of the producer takes any sequence as its first: what has no answer from
	// another broker goes there before what is new.
	if slices.ContainsFunc(c.open, func(x *write) bool { return !x.done && x.broker != nil && x.broker != at }) {
		for _, x := range c.open {
			x.broker = nil
		}
	}
	for _, x := range c.open {
		if x.broker == nil && !x.done && !c.send(at, x) {
			return
		}
	}
	if len(c.open) < 5 && (!c.w.healing || c.next == 0 || c.more > 0) {
		c.more = max(0, c.more-1)
		x := &write{sequence: c.next, value: fmt.Sprintf("%d:%d", c.pid, c.next)}
		c.next++
		c.open = append(c.open, x)
		c.send(at, x)
	}
}

// send hands a batch to a broker; false when it was refused.
func (c *Client) send(b *Broker, x *write) bool {
	builder := batch.NewBuilder(batch.BuilderOptions{Producer: &batch.Producer{ID: c.pid, BaseSequence: x.sequence}})
	builder.Add(batch.Record{Timestamp: 1_700_000_000_000, Value: []byte(x.value)})
	bb, err := builder.Build()
	if err != nil {
		panic(err)
	}
	p := b.engine.Get(c.p.tp.Topic, 0)
	if p == nil {
		return false
	}
	a, err := p.Append(bb, engine.AppendOptions{NowMs: 1_700_000_000_000, All: true})
	if err != nil {
		if Verbose && c.w.healing {
			c.w.note("client of %s: sequence %d to %d: %v", c.p.tp, x.sequence, b.node, err)
		}
		if errors.Is(err, kerr.OutOfOrderSequenceNumber) || errors.Is(err, kerr.UnknownServerError) || errors.Is(err, kerr.InvalidProducerEpoch) {
			if c.lower(x) {
				return false // an earlier one is not there yet: it goes first
			}
			c.w.fail("acknowledged", "%s sequence %d to %d: %v\n%s", c.p.tp, x.sequence, b.node, err, c.w.state())
		}
		return false
	}
	c.w.check.accepted(b, p, c.p)
	x.broker, x.boot, x.since, x.base = b, b.boot, 0, a.BaseOffset
	boot := b.boot
	p.WhenAppended(a, func(err error) {
		if x.done || x.broker != b || x.boot != boot {
			return // an answer that came too late
		}
		if err != nil {
			x.broker = nil
			return
		}
		x.done = true
		c.acked++
		c.w.Stats.Acked++
		fmt.Fprint(c.w.digest, x.value, a.BaseOffset)
		c.w.check.acked(c.p, a.BaseOffset, x.value)
	})
	return true
}

// lower tells whether a batch before x has no answer.
func (c *Client) lower(x *write) bool {
	for _, y := range c.open {
		if y == x {
			return false
		}
		if !y.done {
			return true
		}
	}
	return false
}
