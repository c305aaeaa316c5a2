package quorum

import (
	"fmt"
	"strconv"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
)

// batchBytes is about how large a batch of several commands gets. A command's records are never
// divided (Q2).
const batchBytes = 1 << 20

// answered is a command that was executed and waits for the sync.
type answered struct {
	reply  func(meta.Result, error)
	result meta.Result
	err    error
}

// round is the commands that share one sync.
type round struct {
	image   *meta.Image // after the commands so far
	end     kafkaproto.Offset
	replies []answered
}

// loop runs until Close. It is the only one that appends.
func (c *Controller) loop() {
	defer close(c.done)
	defer c.snap.wait()
	for !c.stopping() {
		if requests := c.take(); len(requests) > 0 {
			c.run(requests)
		}
		c.maybeSnapshot()
		select {
		case <-c.stop:
		case <-c.wake:
		}
	}
	for _, r := range c.take() {
		r.reply(nil, errClosed())
	}
}

func (c *Controller) stopping() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *Controller) take() []request {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests := c.mu.queue
	c.mu.queue = nil
	return requests
}

// run executes the requests, makes their records durable together, and answers.
func (c *Controller) run(requests []request) {
	r := round{image: c.current, end: -1}
	for len(requests) > 0 && c.failed == nil {
		requests = c.append(&r, requests)
	}
	for _, q := range requests {
		r.replies = append(r.replies, answered{reply: q.reply, err: c.failed})
	}
	err := c.waitSynced(r.end)
	if err != nil {
		c.failed = fmt.Errorf("metadata log has stopped: %w", err)
		c.logger.Error("metadata log has stopped, no metadata can be changed any more", "error", err)
	} else if r.image != c.current {
		c.log.Commit(r.end)
		c.publish(r.image)
	}
	for _, a := range r.replies {
		if err != nil {
			a.result, a.err = nil, c.failed
		}
		a.reply(a.result, a.err)
	}
}

// append executes requests until a batch is full, and appends it. It gives back what is left. When
// the append fails, its requests fail and the round's image is as before (Q7).
func (c *Controller) append(r *round, requests []request) []request {
	nowMs := clock.Millis(c.o.Clock.Now())
	builder := batch.NewBuilder(batch.BuilderOptions{})
	img := r.image
	var batched []answered
	taken := 0
	for taken < len(requests) && builder.Size() < batchBytes {
		q := requests[taken]
		taken++
		next, res, err := c.execute(img, q.command, builder, nowMs)
		if err == nil {
			img = next
		}
		batched = append(batched, answered{reply: q.reply, result: res, err: err})
	}
	if builder.Len() > 0 {
		a, err := c.appendBatch(builder, nowMs, img)
		if err != nil {
			c.logger.Error("cannot append to the metadata log", "error", err)
			for i := range batched {
				batched[i].result, batched[i].err = nil, err
			}
		} else {
			r.image, r.end = img, a.End
		}
	}
	r.replies = append(r.replies, batched...)
	return requests[taken:]
}

// execute runs one command on an image and adds its records to the batch.
func (c *Controller) execute(
	img *meta.Image, cmd meta.Command, b *batch.Builder, nowMs int64,
) (*meta.Image, meta.Result, error) {
	records, res, err := img.Execute(cmd, meta.Env{
		Static: c.o.Config.Static(), Node: c.identity.NodeID, Random: c.o.Random,
	})
	if err != nil {
		return img, nil, err
	}
	next, err := img.Apply(records...)
	if err != nil {
		panic(fmt.Sprintf("metadata version %d: the records of %T do not apply: %v", img.Version(),
			cmd, err))
	}
	for _, rec := range records {
		if err := addRecord(b, rec, nowMs); err != nil {
			panic(fmt.Sprintf("metadata version %d: a record of %T: %v", img.Version(), cmd, err))
		}
	}
	return next, res, nil
}

func (c *Controller) appendBatch(
	b *batch.Builder, nowMs int64, img *meta.Image,
) (store.Appended, error) {
	built, err := b.Build()
	if err != nil {
		return store.Appended{}, err
	}
	a, err := c.log.Append(built, store.AppendOptions{NowMs: nowMs})
	if err != nil {
		return a, err
	}
	if int64(a.End) != img.Version() {
		panic(fmt.Sprintf("metadata log ends at %d and the image at %d", a.End, img.Version()))
	}
	c.snap.bytes += int64(len(built))
	return a, nil
}

// waitSynced waits until the log is durable up to end; -1 means that there is nothing to wait for.
func (c *Controller) waitSynced(end kafkaproto.Offset) error {
	for c.log.SyncedOffset() < end {
		if err := c.log.Offline(); err != nil {
			return err
		}
		<-c.synced
	}
	return nil
}

// publish makes an image the current one: settings first, then subscribers, then everybody (Q4).
func (c *Controller) publish(img *meta.Image) {
	c.subMu.Lock()
	defer c.subMu.Unlock()
	c.o.Config.SetDynamic(img.BrokerConfig(""), img.BrokerConfig(nodeName(c.identity.NodeID)))
	for _, fn := range c.subscribers {
		fn(c.current, img)
	}
	c.current = img
	c.image.Store(img)
}

func nodeName(id kafkaproto.NodeID) string { return strconv.Itoa(int(id)) }
