package quorum

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/transport"
)

// Partition is what the controller needs of the metadata's partition; *engine.Partition is one. The
// controller is the only one that appends.
type Partition interface {
	Append(b batch.Batch, o engine.AppendOptions) (engine.AppendResult, error)
	WhenCommitted(end kafkaproto.Offset, fn func(error))
	Confirm(epoch kafkaproto.LeaderEpoch, fn func(error))
	Watch(w *engine.Watcher)
	Unwatch(w *engine.Watcher)
	Leadership() engine.Leadership
	Members() engine.Members
	Know(replicas []engine.Replica)
	Place(epoch kafkaproto.LeaderEpoch, replicas []engine.Replica)
	HighWatermark() kafkaproto.Offset
	LogStart() kafkaproto.Offset
	LogEnd() kafkaproto.Offset
	Read(off kafkaproto.Offset, maxBytes int, iso engine.Isolation, minOne bool) (engine.Read, error)
	Roll() error
	DeleteRecords(off kafkaproto.Offset) (kafkaproto.Offset, error)
	Offline() error
}

// Cluster is what a controller on one broker of several has beside Options.
type Cluster struct {
	Partition  Partition
	Transport  Transport
	Membership Membership
	// Peer is where other brokers reach this one, host:port; Incarnation tells its start from others.
	Peer        string
	Incarnation uint64
}

// replicated is what a controller on one broker of several has beside the image: the core's driver. All
// but shown, inbox and what stop needs belongs to the loop.
type replicated struct {
	c     *Controller
	g     Cluster
	p     Partition
	core  core
	watch *engine.Watcher
	shown atomic.Pointer[shownImage]

	in struct {
		sync.Mutex
		events []func()
	}
	ctx    context.Context // of forwards and streams
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	enrolled chan struct{} // closed when this broker is registered

	epoch    kafkaproto.LeaderEpoch // of the last batch in the image
	timer    clock.Timer
	fetching bool
	fetchAt  time.Time // not before
	fetches  int
	placed   placed
	ledFrom  kafkaproto.LeaderEpoch // the last epoch in which this broker was the active controller
	founded  bool                   // this leader has begun the log
}

// shownImage is what other brokers are given.
type shownImage struct {
	img   *meta.Image
	epoch kafkaproto.LeaderEpoch
}

// placed is what the partition was last told of its replicas for.
type placed struct {
	nodes   []*meta.Node
	epoch   kafkaproto.LeaderEpoch
	members engine.Members
}

// OpenReplicated loads the newest snapshot and follows the log behind it; it does not wait for an active
// controller. Enrolled tells when this broker is registered. The partition is open and stays so until
// Close has returned.
func OpenReplicated(o Options, g Cluster) (*Controller, error) {
	_, tp := MetadataPartition()
	r := &replicated{g: g, p: g.Partition, enrolled: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	c := &Controller{
		o: o, logger: o.Logger.With("component", "controller"), rep: r,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		identity: g.Membership.Identity,
	}
	r.c = c
	c.cut = memberLog{r, path.Join(o.Dir, tp.String())}
	img, snapshot, err := loadSnapshot(o.FS, c.cut.Dir(), func(file string, err error) {
		c.logger.Warn("metadata snapshot is damaged, an older one, the log or another broker is asked instead",
			"file", file, "error", err)
	})
	if err != nil {
		return nil, err
	}
	if err := c.identity.check(o.Dir, wantedBy(o.Config.Static()), img); err != nil {
		return nil, err
	}
	c.pin()
	c.current = meta.Empty()
	if c.snap.last = snapshot; snapshot != nil {
		c.snap.version, r.epoch = int64(snapshot.offset), snapshot.epoch
	}
	r.core = core{execute: c.execute, self: c.identity.NodeID, image: img, lead: engine.Leadership{Leader: -1}}
	r.watch = engine.NewWatcher(c.kick)
	r.p.Watch(r.watch)
	r.show(img)
	r.know(g.Membership.replicas())
	go r.loop()
	r.tasks.Go(r.enroll)
	return c, nil
}

// Enrolled is closed when this broker is registered with the active controller; of a controller alone
// it is so from the start.
func (c *Controller) Enrolled() <-chan struct{} {
	if c.rep == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return c.rep.enrolled
}

// Leadership is who the active controller is.
func (c *Controller) Leadership() engine.Leadership {
	if c.rep == nil {
		return engine.Leadership{Leader: c.identity.NodeID, Epoch: c.cut.Term(), Leading: true, Ready: true}
	}
	return c.rep.p.Leadership()
}

// post has f called by the loop.
func (r *replicated) post(f func()) {
	r.in.Lock()
	r.in.events = append(r.in.events, f)
	r.in.Unlock()
	r.c.kick()
}

func (r *replicated) happened() {
	r.in.Lock()
	events := r.in.events
	r.in.events = nil
	r.in.Unlock()
	for _, f := range events {
		f()
	}
}

// loop runs until Close. It is the only one that applies, and appends.
func (r *replicated) loop() {
	c := r.c
	defer close(c.done)
	for !c.stopping() {
		r.watch.Arm()
		r.happened()
		r.core.leadership(r.p.Leadership())
		r.catchUp()
		now := c.o.Clock.Now()
		for _, q := range c.take() {
			r.core.submit(&pending{command: q.command, reply: q.reply, answer: q.answer}, now)
		}
		if r.core.active(r.p.LogEnd()) {
			r.ledFrom = r.core.lead.Epoch
		}
		r.found(now)
		r.perform(r.core.step(now, r.p.LogEnd()), now)
		r.place()
		c.maybeSnapshot()
		select {
		case <-c.stop:
		case <-c.wake:
		}
	}
	r.p.Unwatch(r.watch)
	r.cancel()
	if r.timer != nil {
		r.timer.Stop()
	}
	for _, q := range c.take() {
		r.core.submit(&pending{command: q.command, reply: q.reply, answer: q.answer}, time.Time{})
	}
	for _, a := range r.core.close() {
		a.finish()
	}
	r.tasks.Wait()
	c.snap.wait()
}

// perform does what the core asks for.
func (r *replicated) perform(out effects, now time.Time) {
	for _, a := range out.replies {
		a.finish()
	}
	for _, f := range out.forward {
		r.forward(f)
	}
	if out.flight != nil {
		r.append(out.flight)
	}
	if !out.wake.IsZero() {
		if d := out.wake.Sub(now); r.timer == nil {
			r.timer = r.c.o.Clock.AfterFunc(d, r.c.kick)
		} else {
			r.timer.Reset(d)
		}
	}
}

// append writes a flight's batch, in the epoch in which it was worked out.
func (r *replicated) append(f *flight) {
	fate := func(err error) { r.post(func() { r.core.fate(f, err) }) }
	if f.batch == nil {
		r.p.Confirm(f.epoch, fate)
		return
	}
	a, err := r.p.Append(f.batch, engine.AppendOptions{NowMs: f.nowMs, Epoch: f.epoch})
	if err != nil {
		r.c.logger.Warn("cannot append to the metadata log", "error", err)
		r.post(func() { r.core.appendFailed(f, err) })
		return
	}
	if a.BaseOffset != f.base || a.End != f.end {
		panic(fmt.Sprintf("metadata of version %d to %d were appended at %d to %d in epoch %d", f.base, f.end,
			a.BaseOffset, a.End, f.epoch))
	}
	r.p.WhenCommitted(a.End, fate)
}

// catchUp applies what is committed, and publishes it.
func (r *replicated) catchUp() {
	for r.core.failed == nil {
		at, end := kafkaproto.Offset(r.core.image.Version()), r.p.HighWatermark()
		if at < r.p.LogStart() {
			r.fetch()
			return
		}
		if at >= end {
			return
		}
		buf, err := readRange(r, at, end)
		var spans []span
		img := r.core.image
		if err == nil {
			img, spans, err = applySpans(img, buf)
		}
		switch {
		case err == nil && img.Version() > int64(at):
		case at < r.p.LogStart(): // it has moved meanwhile
			continue
		case err == nil:
			err = kafkaproto.Corruptf("it does not go on")
			fallthrough
		case kafkaproto.IsCorrupt(err) || errors.Is(err, meta.ErrNewerRelease):
			r.core.fail(fmt.Errorf("metadata log %s at offset %d: %w", r.c.cut.Dir(), at, err))
			r.c.failed = r.core.failed
			r.c.logger.Error("metadata log cannot be applied, this broker's metadata stay as they are",
				"error", r.core.failed)
			return
		default:
			r.c.logger.Warn("metadata log cannot be read", "offset", at, "error", err)
			return
		}
		r.c.snap.bytes += int64(len(buf))
		r.epoch = spans[len(spans)-1].epoch
		r.show(img)
		r.core.applied(img, spans)
	}
}

// Read is the log's, for readRange.
func (r *replicated) Read(off kafkaproto.Offset, maxBytes int, _ kafkaproto.Offset, minOne bool) (store.Range, error) {
	got, err := r.p.Read(off, maxBytes, engine.ReadUncommitted, minOne)
	return got.Range, err
}

// applySpans is applyBatches, with which batches they were.
func applySpans(img *meta.Image, buf []byte) (*meta.Image, []span, error) {
	var spans []span
	at := kafkaproto.Offset(img.Version())
	next, err := applyBatches(img, buf)
	if err != nil {
		return nil, nil, err
	}
	_, err = batch.Scan(buf, func(_ int, b batch.Batch) (bool, error) {
		if b.NextOffset() > at {
			spans = append(spans, span{b.BaseOffset(), b.NextOffset(), b.LeaderEpoch()})
		}
		return true, nil
	})
	return next, spans, err
}

// show publishes an image to subscribers, callers and other brokers.
func (r *replicated) show(img *meta.Image) {
	r.c.publish(img)
	r.shown.Store(&shownImage{img, r.epoch})
}

// know tells partition and transport where the replicas are.
func (r *replicated) know(replicas []engine.Replica, peers map[kafkaproto.NodeID]transport.Peer) {
	r.p.Know(replicas)
	r.g.Transport.SetPeers(peers)
}

// found has the first leader of a new cluster begin the log: its name and its founders, in one batch.
func (r *replicated) found(now time.Time) {
	if r.core.image.Version() > 0 || r.founded || !r.core.active(r.p.LogEnd()) {
		return
	}
	r.founded = true
	m := r.g.Membership
	first := []meta.Command{meta.InitCluster{ClusterID: m.Identity.ClusterID}}
	for _, f := range m.Founders {
		first = append(first, meta.RegisterBroker{ID: f.Node, Directory: f.Directory, Peer: f.Peer})
	}
	mine := r.core.queue
	r.core.queue = nil
	for _, cmd := range first {
		r.core.submit(&pending{command: cmd, reply: func(_ meta.Result, err error) {
			if err != nil {
				r.founded = false // by the next leader, or by this one again
				r.c.logger.Warn("the cluster was not founded", "command", fmt.Sprintf("%T", cmd), "error", err)
			}
		}}, now)
	}
	r.core.queue = append(r.core.queue, mine...)
}

// place tells the partition of changed brokers, and when this one is the active controller, who of them
// is to vote.
func (r *replicated) place() {
	img := r.core.image
	nodes, lead := img.Nodes(), r.core.lead
	if len(nodes) == 0 {
		return
	}
	if len(nodes) != len(r.placed.nodes) || &nodes[0] != &r.placed.nodes[0] {
		r.placed = placed{nodes: nodes}
		peers := make(map[kafkaproto.NodeID]transport.Peer, len(nodes))
		for _, n := range nodes {
			if n.Peer != "" {
				peers[n.ID] = transport.Peer{Addr: n.Peer}
			}
		}
		r.know(replicasOf(nodes), peers)
	}
	// Once active in an epoch its image is never behind what others have decided.
	members := r.p.Members()
	if !lead.Ready || lead.Epoch != r.ledFrom || lead.Epoch == r.placed.epoch && slices.Equal(members.Voters, r.placed.members.Voters) {
		return
	}
	if target := placeReplicas(nodes, members, r.core.self); target != nil {
		r.placed.epoch, r.placed.members = lead.Epoch, members
		r.p.Place(lead.Epoch, target)
	}
}

// enroll registers this broker as it is now, until it is.
func (r *replicated) enroll() {
	c := r.c
	for tries := 0; ; tries++ {
		_, err := c.Do(meta.InitCluster{ClusterID: c.identity.ClusterID})
		if err == nil {
			_, err = c.Do(meta.RegisterBroker{
				ID: c.identity.NodeID, Directory: c.identity.Directory, Rack: c.o.Config.Broker().Rack,
				Endpoints: c.o.Endpoints, Peer: r.g.Peer, Incarnation: r.g.Incarnation,
			})
		}
		if err == nil {
			close(r.enrolled)
			return
		}
		if c.stopping() {
			return
		}
		c.logger.Warn("this broker is not registered yet", "error", err)
		if !r.pause(min(retryMost<<min(tries, 4), 5*time.Second)) {
			return
		}
	}
}

// pause waits; false when the controller is closed meanwhile.
func (r *replicated) pause(d time.Duration) bool {
	over := make(chan struct{})
	t := r.c.o.Clock.AfterFunc(d, func() { close(over) })
	defer t.Stop()
	select {
	case <-over:
		return true
	case <-r.c.stop:
		return false
	}
}
