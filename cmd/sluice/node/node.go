package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sluicelog/sluice/cmd/sluice/admin"
	"github.com/sluicelog/sluice/cmd/sluice/api"
	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/controller/quorum"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/txn/pid"
)

// Options is what a broker is started with.
type Options struct {
	Static *config.Static
	// Dir is the data directory; it is made when missing.
	Dir    string
	Logger *slog.Logger
	// Version is what the build calls itself, for metrics.
	Version string
	// OnFailed is told when the data directory can take no more writes: the process must end.
	OnFailed func(error)
}

// Node is one running broker.
type Node struct {
	o          Options
	config     *config.Resolver
	store      *store.Store
	engine     *engine.Engine
	controller *quorum.Controller
	cluster    *cluster // nil of a broker that is alone
	pids       *pid.Allocator
	groups     *group.Service
	groupsUp   atomic.Pointer[group.Service] // once it runs
	broker     *api.Broker
	server     *server.Server
	advertise  *advertiser
	reopen     reopener
	layers     *config.Layers // applied to the partitions; the controller's goroutine alone

	admin       *admin.Server
	connections admin.Connections
	phase       atomic.Pointer[phase] // nil while clients are served
	// offsetsLoaded is set once the partitions with the groups were loaded.
	offsetsLoaded atomic.Bool

	stop     sync.Once
	stopErr  error
	serving  bool
	listened map[string]net.Addr
}

// Start opens the data directory, recovers it and serves; when it returns clients can connect. A broker
// with seeds waits for its cluster as long as ctx lets it.
func Start(ctx context.Context, o Options) (*Node, error) {
	n := &Node{o: o, config: config.NewResolver(o.Static)}
	n.reopen = reopener{clock: clock.System, log: o.Logger, open: n.openMissing}
	n.enter(admin.Starting, "data directory", "being opened")
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.Stop(context.Background()))
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) error {
	if err := n.startAdmin(); err != nil {
		return err
	}
	fsys := vfs.OS()
	if err := fsys.MkdirAll(n.o.Dir, 0o755); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := quorum.Check(fsys, n.o.Dir, n.o.Static); err != nil {
		return err
	}
	n.config.Pin(map[string]string{"log.dirs": n.o.Dir})
	joined, err := quorum.Member(fsys, n.o.Dir)
	if err != nil {
		return err
	}
	if joined || len(seedsOf(n.o.Static, n.config.Broker())) > 0 {
		n.enter(admin.Starting, "cluster", "looking for it")
		if err := n.join(ctx, fsys); err != nil {
			return err
		}
	}
	n.enter(admin.Recovery, "data directory", "recovering")
	if err := n.openStore(fsys); err != nil {
		return err
	}
	n.enter(admin.Starting, "metadata", "loading")
	if n.cluster != nil {
		err = n.openCluster(ctx, fsys)
	} else {
		err = n.openAlone(fsys)
	}
	if err != nil {
		return err
	}
	if err := n.finishDeletions(); err != nil {
		return fmt.Errorf("finish deletions: %w", err)
	}
	n.assemble()
	n.enter(admin.Starting, "listeners", "opening")
	if err := n.awaitLeaders(ctx); err != nil {
		return err
	}
	if err := n.serve(); err != nil {
		return err
	}
	n.running()
	return nil
}

// openAlone makes engine and controller of a broker without peers.
func (n *Node) openAlone(fsys vfs.FS) error {
	n.engine = engine.New(engine.Options{Store: n.store, Clock: clock.System, Logger: n.o.Logger})
	var err error
	n.controller, err = quorum.Open(quorum.Options{
		Store: n.store, FS: fsys, Dir: n.o.Dir, Config: n.config, Clock: clock.System,
		Logger: n.o.Logger, Endpoints: endpoints(n.config.Broker()),
	})
	if err != nil {
		return fmt.Errorf("open the metadata: %w", err)
	}
	return nil
}

func (n *Node) openStore(fsys vfs.FS) error {
	cfg := n.config.Broker()
	s, err := store.Open(store.Options{
		FS: fsys, Dir: n.o.Dir, Clock: clock.System, Logger: n.o.Logger, BootID: bootID(),
		MaxOpenFiles: cfg.MaxOpenFiles, Reserve: cfg.DiskReserve,
		PageCache:         pageCache(cfg.PageCache, os.DirFS("/")),
		RetentionInterval: cfg.RetentionInterval, OnFailed: n.o.OnFailed,
		Cleaner: store.CleanerOptions{
			Enabled: cfg.Cleaner.Enabled, Backoff: cfg.Cleaner.Backoff,
			BytesPerSec: cfg.Cleaner.BytesPerSec, DedupeBytes: cfg.Cleaner.DedupeBytes,
		},
	})
	if err != nil {
		return fmt.Errorf("open the data directory: %w", err)
	}
	n.store = s
	return nil
}

// bootID names this run of the machine; "" where the system does not tell.
func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// assemble joins the parts and loads them from the image.
func (n *Node) assemble() {
	n.pids = pid.New(n.controller, n.controller.NodeID())
	n.broker = &api.Broker{
		Engine: n.engine, Controller: n.controller, Config: n.config, PIDs: n.pids,
		Clock: clock.System, Log: n.o.Logger.With("component", "api"),
		NodeID: n.controller.NodeID(), ClusterID: n.controller.ClusterID(),
	}
	if n.cluster != nil {
		n.broker.Peers = n.cluster.member.Load()
	}
	n.controller.Subscribe(n.imageChanged)
	n.groups = group.New(group.Options{
		Clock: clock.System, Logger: n.o.Logger, Config: group.ConfigOf(n.config.Broker()),
		Topics:      func() group.Topics { return group.ImageTopics(n.controller.Image()) },
		Open:        n.offsetsPartition,
		EnsureTopic: n.ensureOffsetsTopic,
		Workers:     2,
	})
	n.broker.Groups = n.groups
	n.controller.Subscribe(n.groups.ImageChanged)
	n.groups.Start()
	n.reopen.attach(n.groups)
	n.groupsUp.Store(n.groups)
	for _, p := range n.engine.All() { // those that were led before that
		n.led(p, p.Leadership())
	}
	n.groups.Sweep(group.ImageTopics(n.controller.Image()))
	n.advertise = newAdvertiser(n.config.Broker())
	n.broker.Advertise = n.advertise.address
	n.broker.Start()
}

func (n *Node) offsetsPartition(partition int32) (coord.Log, error) {
	p := n.engine.Get(group.OffsetsTopic, partition)
	if p == nil {
		return nil, kerr.NotCoordinator
	}
	return coord.OnPartition(p)
}

func (n *Node) ensureOffsetsTopic() error {
	if n.controller.Image().Topic(group.OffsetsTopic) != nil {
		return nil
	}
	res, err := quorum.Call[meta.CreateTopicsResult](n.controller, meta.CreateTopics{
		Internal: true,
		Topics:   []meta.NewTopic{meta.InternalTopic(group.OffsetsTopic, n.config.Broker())},
	})
	if err != nil {
		return err
	}
	for _, t := range res.Topics {
		if t.Err != nil && !errors.Is(t.Err, kerr.TopicAlreadyExists) {
			return t.Err
		}
	}
	return nil
}

// imageChanged makes the engine follow the image, then shows the image to the handlers (N1, N2).
// It runs on the controller's goroutine, before the commands behind the image are answered.
func (n *Node) imageChanged(old, img *meta.Image) {
	n.reopen.mu.Lock()
	defer n.reopen.mu.Unlock()
	n.reopen.img = img
	var specs []engine.Spec // of all topics: they share one journal commit
	for _, c := range meta.TopicChanges(old, img) {
		switch {
		case c.New == nil:
			n.deleteTopic(c.Old)
		default:
			specs = append(specs, n.follow(c.New)...)
		}
	}
	if len(specs) == 0 {
		// Nothing to open; while a broker stops there is no engine to open it in.
	} else if err := n.engine.Open(specs...); err != nil {
		// The topics are in the metadata: their partitions show as without a leader.
		n.reopen.failedLocked(len(n.missing(img)), err)
	}
	n.applySettings(img)
	n.broker.PublishTopics(img)
}

// follow gives a topic's settings to its open partitions and names those to be opened.
func (n *Node) follow(t *meta.Topic) []engine.Spec {
	settings := t.Settings(n.config)
	var specs []engine.Spec
	for i := range t.Partitions {
		id := kafkaproto.PartitionID{Topic: t.ID, Partition: int32(i)}
		s := engine.Spec{
			ID: id, TP: kafkaproto.TopicPartition{Topic: t.Name, Partition: int32(i)},
			Config: settings.StoreConfig(id), MinInSync: int32(settings.MinInsync),
		}
		here := n.replicas(&s, &t.Partitions[i])
		p := n.engine.ByID(id)
		switch {
		case !here && p != nil: // a committed record has taken the replica out
			if err := n.engine.Delete(id); err != nil {
				n.o.Logger.Error("replica not deleted", "partition", s.TP.String(), "err", err)
			}
			continue
		case !here:
			continue
		case p != nil:
			p.SetConfig(s.Config)
			p.SetMinInSync(s.MinInSync)
			if n.cluster == nil {
				continue
			}
		}
		specs = append(specs, s)
	}
	return specs
}

// finishDeletions removes the logs of topics that were deleted when the last run ended in the midst
// of it. Each goes on a committed deletion of its topic id: a log that the metadata merely do not know
// is left alone (G16).
func (n *Node) finishDeletions() error {
	unknown := n.unknownLogs()
	if len(unknown) == 0 {
		return nil
	}
	deleted, err := n.controller.Deleted()
	if err != nil {
		return err
	}
	for _, l := range unknown {
		if !deleted[l.ID().Topic] {
			n.o.Logger.Warn("no topic in the metadata has this log; it is left alone",
				"partition", l.TP().String(), "topic_id", l.ID().Topic.String())
			continue
		}
		if err := n.store.DeleteLog(l.ID()); err != nil {
			n.o.Logger.Error("partition not deleted", "partition", l.TP().String(), "err", err)
		}
	}
	return nil
}

// unknownLogs are the logs of topics that are not in the metadata.
func (n *Node) unknownLogs() []*store.Log {
	img := n.controller.Image()
	metadata, _ := quorum.MetadataPartition()
	var unknown []*store.Log
	for _, l := range n.store.Logs() {
		if id := l.ID(); id != metadata && img.TopicByID(id.Topic) == nil {
			unknown = append(unknown, l)
		}
	}
	return unknown
}

func (n *Node) deleteTopic(t *meta.Topic) {
	for i := range t.Partitions {
		id := kafkaproto.PartitionID{Topic: t.ID, Partition: int32(i)}
		if err := n.engine.Delete(id); err != nil {
			n.o.Logger.Error("partition not deleted", "topic", t.Name, "partition", i, "err", err)
		}
	}
}

// applySettings passes on dynamic broker settings: they are the defaults of every topic.
func (n *Node) applySettings(img *meta.Image) {
	layers := n.config.Layers()
	if n.layers == layers {
		return
	}
	n.layers = layers
	for t := range img.Topics() {
		settings := t.Settings(n.config)
		for i := range t.Partitions {
			id := kafkaproto.PartitionID{Topic: t.ID, Partition: int32(i)}
			if p := n.engine.ByID(id); p != nil {
				p.SetConfig(settings.StoreConfig(id))
			}
		}
	}
	if n.server != nil {
		cfg := n.config.Broker()
		n.server.SetConnLimits(cfg.MaxConns, cfg.MaxConnsPerIP)
	}
}

// Broker gives the API side, for the admin surface.
func (n *Node) Broker() *api.Broker { return n.broker }

// Addrs gives the bound address of each listener by name.
func (n *Node) Addrs() map[string]net.Addr { return n.listened }

// ClusterID is the cluster's identity.
func (n *Node) ClusterID() string { return n.controller.ClusterID() }

// Stop ends the broker within ctx, cleanly when there is time; it may be called more than once.
func (n *Node) Stop(ctx context.Context) error {
	n.stop.Do(func() { n.stopErr = n.shutdown(ctx) })
	return n.stopErr
}

func (n *Node) shutdown(ctx context.Context) error {
	var errs []error
	n.enter(admin.Stopping, "broker", "stopping")
	if n.admin != nil {
		n.admin.Serve(nil) // what is closing has no numbers to be alarmed by
	}
	n.reopen.close()
	if n.groups != nil {
		n.groups.Close()
	}
	if n.serving {
		n.broker.Drain() // clients that wait for records would hold the server up
		if err := n.server.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop serving: %w", err))
		}
	}
	if n.cluster != nil {
		errs = append(errs, n.leave(ctx))
	}
	if n.engine != nil {
		n.engine.Close()
	}
	if n.broker != nil {
		n.broker.Close()
	}
	if n.controller != nil && n.cluster == nil {
		if err := n.controller.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the metadata: %w", err))
		}
	}
	if n.store != nil {
		if err := n.store.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the data directory: %w", err))
		}
	}
	if n.admin != nil {
		if err := n.admin.Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop the HTTP listener: %w", err))
		}
	}
	return errors.Join(errs...)
}
