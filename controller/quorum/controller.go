package quorum

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

// Options are what a Controller is made of.
type Options struct {
	// Store holds the metadata log. The controller uses no other log of it.
	Store *store.Store
	// FS and Dir are the store's own, for meta.properties and snapshots.
	FS  vfs.FS
	Dir string
	// Config gives the wanted ids, the settings of the metadata log and the defaults of commands.
	// The controller sets its dynamic layers from each image, and pins node.id.
	Config *config.Resolver
	Clock  clock.Clock
	Logger *slog.Logger
	// Endpoints are where clients reach this broker; RegisterBroker can change them later.
	Endpoints []meta.Endpoint
	// Random draws ids; nil means crypto/rand.
	Random io.Reader
}

// errClosed is the answer of a controller that was closed. It is not fatal to clients: they ask
// again, and another process may answer.
func errClosed() error { return kafkaproto.Faultf(kerr.NotController, "this broker is stopping") }

// Controller is the metadata of the cluster, live.
type Controller struct {
	o        Options
	log      metadataLog // alone
	cut      snapshotLog
	rep      *replicated // on one broker of several
	logger   *slog.Logger
	identity Identity

	image atomic.Pointer[meta.Image] // what Image gives

	mu struct {
		sync.Mutex
		queue  []request
		closed bool
	}
	wake   chan struct{} // something is in the queue, or due
	synced chan struct{} // the log was synced further, or failed
	stop   chan struct{}
	done   chan struct{}

	// subMu is held while subscribers are called, and while one is added.
	subMu       sync.Mutex
	subscribers []func(old, new *meta.Image)

	// The rest belongs to the loop.
	current *meta.Image // synced and told to subscribers
	failed  error       // set once: nothing is taken any more
	snap    snapshotState
}

// request is a command on its way.
type request struct {
	command meta.Command
	reply   func(meta.Result, error)
	answer  func(answer) // instead of reply: another broker asks
}

// Open loads the newest snapshot, replays the log behind it, makes the cluster on the first start
// and registers this broker. When it returns, commands can be given.
func Open(o Options) (*Controller, error) {
	if member, err := Member(o.FS, o.Dir); err != nil || member {
		return nil, errors.Join(err, fmt.Errorf("data directory %s belongs to a broker that has peers (%s): start it "+
			"with the seeds of its cluster", o.Dir, membershipFile))
	}
	id, tp := MetadataPartition()
	l, err := o.Store.OpenLog(id, tp, logConfig(o.Config.Broker().Metadata))
	if err != nil {
		return nil, fmt.Errorf("open metadata log: %w", err)
	}
	return open(o, l, func() error { return o.Store.StartSolo(l) })
}

// open is Open on any log; lead begins its term.
func open(o Options, l metadataLog, lead func() error) (*Controller, error) {
	c := &Controller{
		o: o, log: l, cut: l, logger: o.Logger.With("component", "controller"),
		wake: make(chan struct{}, 1), synced: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	img, snapshot, err := loadSnapshot(o.FS, l.Dir(), func(file string, err error) {
		c.logger.Warn("metadata snapshot is damaged, an older one or the whole log is read instead",
			"file", file, "error", err)
	})
	if err != nil {
		return nil, err
	}
	if img, c.snap.bytes, err = replay(l, img); err != nil {
		return nil, err
	}
	if c.identity, err = settleIdentity(o, wantedBy(o.Config.Static()), img); err != nil {
		return nil, err
	}
	if err := lead(); err != nil {
		return nil, err
	}
	l.Observe(func(store.Event) { signal(c.synced) })
	l.Commit(l.EndOffset())
	c.pin()
	c.current = meta.Empty()
	if c.snap.last = snapshot; snapshot != nil {
		c.snap.version = int64(snapshot.offset)
	}
	c.publish(img)
	go c.loop()
	if err := c.bootstrap(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// pin makes the number that this broker got the one that its settings show.
func (c *Controller) pin() {
	c.o.Config.Pin(map[string]string{
		"node.id": nodeName(c.identity.NodeID), "broker.id": nodeName(c.identity.NodeID),
	})
}

// bootstrap makes the cluster on the first start, finalizes the features of a new release, and
// registers this broker as it is now.
func (c *Controller) bootstrap() error {
	if _, err := c.Do(meta.InitCluster{ClusterID: c.identity.ClusterID}); err != nil {
		return fmt.Errorf("make cluster: %w", err)
	}
	_, err := c.Do(meta.RegisterBroker{
		ID: c.identity.NodeID, Directory: c.identity.Directory, Rack: c.o.Config.Broker().Rack,
		Endpoints: c.o.Endpoints,
	})
	if err != nil {
		return fmt.Errorf("register broker: %w", err)
	}
	return nil
}

// Image is the newest metadata that is durable and that all subscribers have seen.
func (c *Controller) Image() *meta.Image { return c.image.Load() }

// NodeID is this broker's number.
func (c *Controller) NodeID() kafkaproto.NodeID { return c.identity.NodeID }

// ClusterID is the cluster's identity, 22 characters.
func (c *Controller) ClusterID() string { return c.identity.ClusterID }

// Identity is what this data directory is.
func (c *Controller) Identity() Identity { return c.identity }

// Subscribe calls fn for the present image, with an empty old one, and then for each later one, in
// order: after its records are durable, before Image gives it, and before the commands that made it
// are answered. fn runs on the controller's goroutine and must not call Do, Subscribe or Close.
func (c *Controller) Subscribe(fn func(old, new *meta.Image)) {
	c.subMu.Lock()
	defer c.subMu.Unlock()
	c.subscribers = append(c.subscribers, fn)
	fn(meta.Empty(), c.image.Load())
}

// Do runs a command and returns when its records are durable and all subscribers have seen them.
// The result's type is the one that the command's doc names. The error is for the command as a
// whole; what is wrong with one topic or resource stands in the result.
func (c *Controller) Do(cmd meta.Command) (meta.Result, error) {
	type answer struct {
		result meta.Result
		err    error
	}
	answered := make(chan answer, 1)
	c.Submit(cmd, func(r meta.Result, err error) { answered <- answer{r, err} })
	a := <-answered
	return a.result, a.err
}

// Submit is Do without waiting. reply is called once: on the controller's goroutine, where it must
// not block nor call Do or Close, or on the caller's when the controller is closed.
func (c *Controller) Submit(cmd meta.Command, reply func(meta.Result, error)) {
	if !c.enqueue(request{command: cmd, reply: reply}) {
		reply(nil, errClosed())
	}
}

// enqueue gives a request to the loop; false when the controller is closed.
func (c *Controller) enqueue(q request) bool {
	c.mu.Lock()
	closed := c.mu.closed
	if !closed {
		c.mu.queue = append(c.mu.queue, q)
	}
	c.mu.Unlock()
	if !closed {
		c.kick()
	}
	return !closed
}

// Call is Do with the result's type.
func Call[R meta.Result](c *Controller, cmd meta.Command) (R, error) {
	res, err := c.Do(cmd)
	r, _ := res.(R)
	return r, err
}

// Close answers what is under way, refuses what is queued, and waits for the goroutines. The store
// stays open.
func (c *Controller) Close() error {
	c.mu.Lock()
	first := !c.mu.closed
	c.mu.closed = true
	c.mu.Unlock()
	if first {
		close(c.stop)
	}
	<-c.done
	return nil
}

func (c *Controller) kick() { signal(c.wake) }

// signal leaves a mark in a channel of one place.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
