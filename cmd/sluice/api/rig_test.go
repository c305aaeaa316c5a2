package api

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/controller/quorum"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/server"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/txn/pid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rigOptions say how a broker under test differs from the usual one.
type rigOptions struct {
	config map[string]string // over: relaxed durability, no auto-creation
	fs     vfs.FS            // default: in memory
	dir    string
	server func(*server.Options)
	raw    bool // the file system without faults, so that ranges of files can be sent
	quiet  bool // connections are made by net.Pipe: no socket is opened (synctest)
}

// rig is a broker assembled in process, as the node does it, on a file system with faults.
type rig struct {
	t      testing.TB
	fs     *vfs.ErrFS
	store  *store.Store
	broker *Broker
	server *server.Server
	config *config.Resolver

	gate chan struct{} // closed: syncs of records go on; nil when they are not held
	stop sync.Once
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	values := map[string]string{
		"sluice.durability": "relaxed", "auto.create.topics.enable": "false",
		"listeners": "PLAINTEXT://127.0.0.1:0", "group.initial.rebalance.delay.ms": "0",
		"node.id": "7",
	}
	for k, v := range o.config {
		values[k] = v
	}
	static, _, err := config.NewStatic(config.Layer{Name: "test", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	if o.fs == nil {
		o.fs, o.dir = vfs.Memory(), "/data"
	}
	r := &rig{t: t, fs: vfs.Inject(o.fs), config: config.NewResolver(static)}
	r.start(o)
	t.Cleanup(r.close)
	return r
}

func (r *rig) start(o rigOptions) {
	r.t.Helper()
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		if _, bench := r.t.(*testing.B); !bench {
			logger = slog.New(slog.NewTextHandler(r.t.Output(), nil))
		}
	}
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	var err error
	fsys := vfs.FS(r.fs)
	if o.raw {
		fsys = o.fs
	}
	r.store, err = store.Open(store.Options{
		FS: fsys, Dir: o.dir, Clock: clock.System, Logger: logger, BootID: "boot",
	})
	must(err)
	b := &Broker{
		Engine: engine.New(engine.Options{Store: r.store, Clock: clock.System, Logger: logger}),
		Config: r.config, Clock: clock.System, Log: logger,
		Advertise: func(*server.Conn) (string, int32) { return "broker.example", 9092 },
	}
	r.broker = b
	b.Controller, err = quorum.Open(quorum.Options{
		Store: r.store, FS: fsys, Dir: o.dir, Config: r.config, Clock: clock.System, Logger: logger,
	})
	must(err)
	b.NodeID, b.ClusterID = b.Controller.NodeID(), b.Controller.ClusterID()
	b.PIDs = pid.New(b.Controller, b.NodeID)
	b.Controller.Subscribe(r.imageChanged)
	b.Groups = group.New(group.Options{
		Clock: clock.System, Logger: logger, Config: group.ConfigOf(r.config.Broker()), Workers: 1,
		Topics:      func() group.Topics { return group.ImageTopics(b.Controller.Image()) },
		Open:        r.offsetsPartition,
		EnsureTopic: func() error { return r.makeInternal(group.OffsetsTopic) },
	})
	b.Controller.Subscribe(b.Groups.ImageChanged)
	b.Groups.Start()
	b.Start()
	so := server.Options{
		Listeners: []server.Listener{{Name: "PLAINTEXT", Protocol: server.Plaintext, Addr: "127.0.0.1:0"}},
		Handler:   b, Logger: logger, Poison: true,
	}
	if o.server != nil {
		o.server(&so)
	}
	r.server, err = server.New(so)
	must(err)
	if !o.quiet {
		must(r.server.Start())
	}
}

// imageChanged is the node's: the engine follows, then the handlers see the image.
func (r *rig) imageChanged(old, img *meta.Image) {
	for _, c := range meta.TopicChanges(old, img) {
		if c.New == nil {
			for i := range c.Old.Partitions {
				if err := r.broker.Engine.Delete(kafkaproto.PartitionID{Topic: c.Old.ID, Partition: int32(i)}); err != nil {
					r.t.Error(err)
				}
			}
			continue
		}
		settings := c.New.Settings(r.config)
		for i := range c.New.Partitions {
			id := kafkaproto.PartitionID{Topic: c.New.ID, Partition: int32(i)}
			if p := r.broker.Engine.ByID(id); p != nil {
				p.SetConfig(settings.StoreConfig(id))
				continue
			}
			if err := r.broker.Engine.Open(engine.Spec{
				ID: id, TP: kafkaproto.TopicPartition{Topic: c.New.Name, Partition: int32(i)},
				Config: settings.StoreConfig(id),
			}); err != nil {
				r.t.Error(err)
			}
		}
	}
	r.broker.PublishTopics(img)
}

func (r *rig) offsetsPartition(partition int32) (coord.Log, error) {
	p := r.broker.Engine.Get(group.OffsetsTopic, partition)
	if p == nil {
		return nil, kerr.NotCoordinator
	}
	return coord.OnPartition(p)
}

func (r *rig) makeInternal(name string) error {
	_, err := quorum.Call[meta.CreateTopicsResult](r.broker.Controller, meta.CreateTopics{
		Internal: true, Topics: []meta.NewTopic{meta.InternalTopic(name, r.config.Broker())},
	})
	return err
}

// close stops everything in the node's order; more calls do nothing.
func (r *rig) close() {
	r.stop.Do(func() {
		r.letGo()
		r.broker.Groups.Close()
		if err := r.server.Close(); err != nil {
			r.t.Error(err)
		}
		r.broker.Engine.Close()
		r.broker.Close()
		if err := errors.Join(r.broker.Controller.Close(), r.store.Close()); err != nil && r.store.Err() == nil {
			r.t.Error(err)
		}
		if n := r.server.InflightBytes(); n != 0 {
			r.t.Errorf("%d bytes of requests were never given back", n)
		}
	})
}

// dial connects a client.
func (r *rig) dial() *client {
	r.t.Helper()
	addr, ok := r.server.Addrs()["PLAINTEXT"]
	if !ok {
		return r.pipe("PLAINTEXT")
	}
	return dialTCP(r.t, addr.String())
}

// pipe connects a client without a socket.
func (r *rig) pipe(listener string) *client {
	r.t.Helper()
	here, there := net.Pipe()
	if err := r.server.ServeConn(listener, there); err != nil {
		r.t.Fatal(err)
	}
	return newClient(r.t, here)
}

// hold keeps the committer from syncing records until letGo.
func (r *rig) hold() {
	gate := make(chan struct{})
	r.gate = gate
	r.fs.Hook(func(op vfs.Op, name string) error {
		records := op == vfs.OpSync && strings.HasSuffix(name, ".log") &&
			!strings.Contains(name, "__cluster_metadata")
		if records || op == vfs.OpSyncFS {
			<-gate
		}
		return nil
	})
}

func (r *rig) letGo() {
	if r.gate != nil {
		close(r.gate)
		r.gate = nil
	}
}

// create makes a topic; settings are name, value, name, value.
func (r *rig) create(name string, partitions int32, settings ...string) *Topic {
	r.t.Helper()
	nt := meta.NewTopic{Name: name, Partitions: partitions, Replication: 1}
	for i := 0; i < len(settings); i += 2 {
		nt.Config = append(nt.Config, meta.ConfigValue{Name: settings[i], Value: &settings[i+1]})
	}
	res, err := quorum.Call[meta.CreateTopicsResult](r.broker.Controller,
		meta.CreateTopics{Topics: []meta.NewTopic{nt}})
	if err == nil {
		err = res.Topics[0].Err
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return r.topic(name)
}

func (r *rig) delete(name string) {
	r.t.Helper()
	if _, err := r.broker.Controller.Do(meta.DeleteTopics{Topics: []meta.TopicRef{{Name: name}}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) topic(name string) *Topic {
	r.t.Helper()
	t := r.broker.Topics()[name]
	if t == nil {
		r.t.Fatalf("topic %s is not there", name)
	}
	return t
}

// fill appends batches of one record each of the given size and waits until they are visible.
func (r *rig) fill(t *Topic, partition int32, batches, size int) {
	r.t.Helper()
	p := t.Partitions[partition]
	for range batches {
		b := recordsOf(batch.BuilderOptions{}, size)
		if _, err := p.Append(b, engine.AppendOptions{NowMs: r.broker.nowMs()}); err != nil {
			r.t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	p.WhenCommitted(p.LogEnd(), func(err error) { done <- err })
	if err := <-done; err != nil {
		r.t.Fatal(err)
	}
}

// recordsOf builds a batch with a record of each size, stamped now.
func recordsOf(o batch.BuilderOptions, sizes ...int) batch.Batch {
	bld := batch.NewBuilder(o)
	for i, n := range sizes {
		bld.Add(batch.Record{
			Timestamp: time.Now().UnixMilli(), Key: fmt.Appendf(nil, "k%d", i), Value: make([]byte, n),
		})
	}
	b, err := bld.Build()
	if err != nil {
		panic(err)
	}
	return b
}

// produceRequest is a request with one batch for each partition named.
func produceRequest(t *Topic, acks int16, b batch.Batch, partitions ...int32) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10_000
	rt := kmsg.NewProduceRequestTopic()
	if t != nil {
		rt.Topic, rt.TopicID = t.Name, t.ID
	}
	for _, n := range partitions {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = n, b.Clone()
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

// produceOne sends one batch to partition 0 and gives its part of the answer.
func (c *client) produceOne(t *Topic, acks int16, b batch.Batch, version int16) kmsg.ProduceResponseTopicPartition {
	c.t.Helper()
	resp := ask[*kmsg.ProduceResponse](c, produceRequest(t, acks, b, 0), version)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		c.t.Fatalf("produce answered %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}
