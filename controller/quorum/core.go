package quorum

import (
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/replica/engine"
)

const (
	// commandTimeout bounds how long a command waits for an active controller, and for its effect.
	commandTimeout = 20 * time.Second
	// retryFirst and retryMost lie between two tries to forward a command.
	retryFirst, retryMost = 20 * time.Millisecond, 500 * time.Millisecond
	// maxAway is how many commands are with the active controller at once.
	maxAway = 64
)

// core decides what becomes of commands on one broker of several. It is pure: its driver (replicated)
// tells what happened, and does what step says.
//
//	                 active: leads, Ready, all applied       another leads
//	submit ──► queue ──► flight: one batch ──► applied       queue ──► forward ──► forwarded
//	             ▲          │ cut off, deposed    │            ▲           │ refused   │ done
//	             └──────────┤ nothing was written ▼            └───────────┤           ▼
//	                        └ written: unknown  reply                      └ unknown  wait for the image
type core struct {
	// execute runs a command on an image and adds its records to the batch.
	execute func(*meta.Image, meta.Command, *batch.Builder, int64) (*meta.Image, meta.Result, error)
	self    kafkaproto.NodeID

	image  *meta.Image // committed, and seen by all subscribers
	lead   engine.Leadership
	queue  []*pending            // in the order of arrival
	away   map[*pending]struct{} // with the active controller
	waits  []*pending            // carried out elsewhere, and not in the image yet
	flight *flight
	failed error // the log cannot be applied
	out    effects
}

// pending is a command on its way.
type pending struct {
	command meta.Command
	reply   func(meta.Result, error) // of a caller on this broker
	answer  func(answer)             // of another broker
	until   time.Time                // when it is given up
	after   time.Time                // when it may be forwarded again
	tries   int
	maybe   bool // an earlier try may have been carried out
	got     answer
}

// flight is the commands that share one batch.
type flight struct {
	epoch   kafkaproto.LeaderEpoch
	base    kafkaproto.Offset
	end     kafkaproto.Offset // behind the batch; base when there is none
	batch   batch.Batch       // nil: nothing is to be written, only leadership confirmed
	nowMs   int64
	members []aboard
}

type aboard struct {
	p      *pending
	wrote  bool // it has records in the batch
	result meta.Result
	err    error
}

// effects is what the driver is to do.
type effects struct {
	flight  *flight // to be appended, or confirmed when it has no batch
	forward []forwarding
	replies []replied
	wake    time.Time // when to call step again; zero: when something happens
}

type forwarding struct {
	to kafkaproto.NodeID
	p  *pending
}

type replied struct {
	p *pending
	a answer
}

// span is a batch of the committed log.
type span struct {
	base, end kafkaproto.Offset
	epoch     kafkaproto.LeaderEpoch
}

// finish tells whoever waits.
func (r replied) finish() {
	if r.p.answer != nil {
		r.p.answer(r.a)
		return
	}
	r.p.reply(r.a.result, r.a.err)
}

func (c *core) say(p *pending, a answer) { c.out.replies = append(c.out.replies, replied{p, a}) }

// submit takes a command.
func (c *core) submit(p *pending, now time.Time) {
	p.until = now.Add(commandTimeout)
	c.queue = append(c.queue, p)
}

// leadership tells who leads. What a leader of an earlier epoch worked out is of no use any more.
func (c *core) leadership(l engine.Leadership) {
	if l.Leader != c.lead.Leader || l.Epoch != c.lead.Epoch {
		for _, p := range c.queue {
			p.after, p.tries = time.Time{}, 0
		}
	}
	c.lead = l
	if f := c.flight; f != nil && (!l.Ready || !l.Leading || l.Epoch != f.epoch) {
		c.lose()
	}
}

// applied tells that the committed log was applied and published up to the image; spans are the batches
// since the last call. A batch is told by its offset and epoch: no other has both.
func (c *core) applied(img *meta.Image, spans []span) {
	c.image = img
	if f := c.flight; f != nil && f.batch != nil && kafkaproto.Offset(img.Version()) > f.base {
		if slices.Contains(spans, span{f.base, f.end, f.epoch}) {
			c.land()
		} else {
			c.lose()
		}
	}
	c.waits = slices.DeleteFunc(c.waits, func(p *pending) bool {
		if p.got.version > img.Version() {
			return false
		}
		c.say(p, p.got)
		return true
	})
}

// appendFailed tells that nothing of the flight was written.
func (c *core) appendFailed(f *flight, err error) {
	if c.flight != f {
		return
	}
	if errors.Is(err, kerr.NotLeaderForPartition) {
		for i := range f.members {
			f.members[i].wrote = false
		}
		c.lose()
		return
	}
	c.flight = nil
	for _, m := range f.members {
		c.say(m.p, answer{outcome: outcomeDone, version: c.image.Version(), err: err})
	}
}

// fate tells what became of the flight: nil once its batch is committed, which counts when it is
// applied, or once leadership was confirmed after it had begun.
func (c *core) fate(f *flight, err error) {
	switch {
	case c.flight != f:
	case err != nil:
		c.lose()
	case f.batch == nil:
		c.land()
	}
}

// land answers the commands of the flight.
func (c *core) land() {
	f := c.flight
	c.flight = nil
	for _, m := range f.members {
		c.say(m.p, answer{outcome: outcomeDone, version: c.image.Version(), result: m.result, err: m.err})
	}
}

// lose ends the flight without its effect: what it wrote may still be committed by another leader, and
// comes through the log then.
func (c *core) lose() {
	f := c.flight
	c.flight = nil
	var again []*pending
	for _, m := range f.members {
		switch {
		case m.wrote:
			c.unsure(m.p, errLost())
		case m.p.answer != nil:
			c.say(m.p, answer{outcome: outcomeRefused})
		default:
			again = append(again, m.p)
		}
	}
	c.queue = append(again, c.queue...)
}

func errLost() error {
	return kafkaproto.Faultf(kerr.NotController, "this broker is not the active controller any more: what was "+
		"asked for may have been carried out")
}

// unsure ends a try that may have been carried out: it is repeated only when that does no harm.
func (c *core) unsure(p *pending, err error) {
	switch {
	case p.answer != nil:
		c.say(p, answer{outcome: outcomeUnknown})
	case idempotent(p.command):
		p.maybe = true
		c.queue = append(c.queue, p)
	default:
		c.say(p, answer{err: err})
	}
}

// idempotent tells whether a command that was carried out can be carried out again, with the same
// answer and no harm. A block of producer ids that nobody got is lost, which is none.
func idempotent(cmd meta.Command) bool {
	switch cmd := cmd.(type) {
	case meta.RegisterBroker, meta.InitCluster, meta.AllocateProducerIDs, meta.GrowInternalTopics:
		return true
	case meta.CreateTopics:
		return cmd.ValidateOnly
	case meta.CreatePartitions:
		return cmd.ValidateOnly
	case meta.AlterConfigs:
		return cmd.ValidateOnly
	case meta.UpdateFeatures:
		return cmd.ValidateOnly
	case meta.ChangeBroker:
		return cmd.IfVersion == 0
	}
	return false
}

// forwarded tells how a command that was forwarded fared.
func (c *core) forwarded(p *pending, a answer, now time.Time) {
	if _, ok := c.away[p]; !ok {
		return
	}
	delete(c.away, p)
	switch a.outcome {
	case outcomeDone:
		if a.version <= c.image.Version() {
			c.say(p, a)
			return
		}
		p.got = a
		c.waits = append(c.waits, p)
	case outcomeRefused:
		p.backOff(now)
		c.queue = append(c.queue, p)
	default:
		p.backOff(now)
		c.unsure(p, kafkaproto.Faultf(kerr.RequestTimedOut, "the active controller was lost before it answered: "+
			"what was asked for may have been carried out"))
	}
}

func (p *pending) backOff(now time.Time) {
	p.after = now.Add(min(retryFirst<<min(p.tries, 10), retryMost))
	p.tries++
}

// fail ends it all: the log cannot be applied.
func (c *core) fail(err error) {
	c.failed = err
	if c.flight != nil {
		c.lose()
	}
}

// step does what can be done now. logEnd is the log's, read after the leadership.
func (c *core) step(now time.Time, logEnd kafkaproto.Offset) effects {
	if c.flight == nil && c.active(logEnd) && len(c.queue) > 0 {
		c.begin(now)
	}
	keep := c.queue[:0]
	for _, p := range c.queue {
		switch {
		case c.failed != nil:
			c.say(p, answer{outcome: outcomeDone, err: c.failed})
		case !now.Before(p.until):
			c.giveUp(p)
		case !c.lead.Leading && p.answer != nil:
			c.say(p, answer{outcome: outcomeRefused})
		case !c.lead.Leading && c.lead.Leader >= 0 && c.lead.Leader != c.self && !now.Before(p.after) &&
			len(c.away) < maxAway:
			if c.away == nil {
				c.away = make(map[*pending]struct{})
			}
			c.away[p] = struct{}{}
			c.out.forward = append(c.out.forward, forwarding{c.lead.Leader, p})
		default:
			keep = append(keep, p)
		}
	}
	clear(c.queue[len(keep):])
	c.queue = keep
	c.waits = slices.DeleteFunc(c.waits, func(p *pending) bool {
		if now.Before(p.until) {
			return false
		}
		c.say(p, answer{err: kafkaproto.Faultf(kerr.RequestTimedOut, "it was carried out, but this broker does "+
			"not get the metadata that say so")})
		return true
	})
	out := c.out
	c.out = effects{}
	out.wake = c.deadline(now)
	return out
}

// active tells whether this broker is the active controller: all there is in the log is in its image,
// and nobody else can have added to it.
func (c *core) active(logEnd kafkaproto.Offset) bool {
	return c.failed == nil && c.lead.Leading && c.lead.Ready && int64(logEnd) == c.image.Version()
}

func (c *core) giveUp(p *pending) {
	switch {
	case p.answer != nil:
		c.say(p, answer{outcome: outcomeRefused})
	case p.maybe:
		c.say(p, answer{err: kafkaproto.Faultf(kerr.RequestTimedOut, "no controller has answered: what was asked "+
			"for may have been carried out")})
	default:
		c.say(p, answer{err: kafkaproto.Faultf(kerr.NotController, "no active controller was found within %v",
			commandTimeout)})
	}
}

// begin executes what is queued on the image, one command after the other, up to a full batch.
func (c *core) begin(now time.Time) {
	f := &flight{epoch: c.lead.Epoch, base: kafkaproto.Offset(c.image.Version()), nowMs: clock.Millis(now)}
	builder := batch.NewBuilder(batch.BuilderOptions{})
	img, taken := c.image, 0
	for taken < len(c.queue) && builder.Size() < batchBytes {
		p := c.queue[taken]
		taken++
		before := builder.Len()
		next, res, err := c.execute(img, p.command, builder, f.nowMs)
		if err == nil {
			img = next
		}
		f.members = append(f.members, aboard{p: p, wrote: builder.Len() > before, result: res, err: err})
	}
	c.queue = slices.Delete(c.queue, 0, taken)
	f.end = kafkaproto.Offset(img.Version())
	c.flight = f
	if builder.Len() > 0 {
		built, err := builder.Build()
		if err != nil {
			c.appendFailed(f, err)
			return
		}
		f.batch = built
	}
	c.out.flight = f
}

// deadline is when something is due without anything having happened.
func (c *core) deadline(now time.Time) (at time.Time) {
	soonest := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, p := range c.queue {
		soonest(p.until)
		soonest(p.after)
	}
	for _, p := range c.waits {
		soonest(p.until)
	}
	return at
}

// close answers everything.
func (c *core) close() []replied {
	if c.flight != nil {
		c.lose()
	}
	for p := range c.away {
		c.queue = append(c.queue, p)
	}
	for _, p := range slices.Concat(c.queue, c.waits) {
		if p.answer != nil {
			c.say(p, answer{outcome: outcomeRefused})
		} else {
			c.say(p, answer{err: errClosed()})
		}
	}
	c.queue, c.waits, c.away = nil, nil, nil
	return c.out.replies
}
