package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
	"github.com/sluicelog/sluice/replica/engine"
	"github.com/sluicelog/sluice/replica/transport"
)

// fabric joins the brokers of a test in memory. It lives in a synctest bubble.
type fabric struct {
	t       *testing.T
	ctx     context.Context
	cancel  context.CancelFunc
	brokers []*broker
	values  map[string]string
	seeds   []string

	mu  sync.Mutex
	cut map[[2]string]bool // by address, one way
	// loseAnswers: calls of a method to an address are carried out, and their answers are lost.
	loseAnswers map[string]uint16
	calls       map[uint16]int
	lines       map[*line]bool
	wg          sync.WaitGroup
}

// line keeps the order of messages from one start of a broker to one of another.
type line struct{ c chan func() }

// broker is a data directory with what runs on it.
type broker struct {
	f     *fabric
	addr  string
	fs    vfs.FS
	boots uint64
	wants int32

	mu       sync.Mutex
	up       bool
	founding *Founding
	engine   *engine.Engine
	c        *Controller
	store    *store.Store
	member   Membership
	peers    map[kafkaproto.NodeID]transport.Peer
	to       map[string]*line
	cancel   context.CancelFunc
}

func newFabric(t *testing.T, n int) *fabric {
	f := &fabric{t: t, cut: map[[2]string]bool{}, loseAnswers: map[string]uint16{}, calls: map[uint16]int{},
		lines: map[*line]bool{}, values: map[string]string{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for i := range n {
		f.add()
		f.seeds = append(f.seeds, f.brokers[i].addr)
	}
	return f
}

// add makes a broker with an empty disk; it is not started.
func (f *fabric) add() *broker {
	b := &broker{f: f, addr: fmt.Sprintf("b%d:9093", len(f.brokers)+1), fs: vfs.Memory(), wants: -1}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.brokers = append(f.brokers, b)
	return b
}

func (f *fabric) at(addr string) *broker {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, b := range f.brokers {
		if b.addr == addr {
			return b
		}
	}
	return nil
}

func (f *fabric) passes(from, to string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.cut[[2]string{from, to}]
}

// isolate cuts a broker off from all others, or joins it again.
func (f *fabric) isolate(b *broker, off bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.brokers {
		f.cut[[2]string{b.addr, o.addr}], f.cut[[2]string{o.addr, b.addr}] = off && o != b, off && o != b
	}
}

// start brings a broker up; it returns before the broker is a member.
func (b *broker) start() {
	b.f.t.Helper()
	values := map[string]string{}
	for k, v := range b.f.values {
		values[k] = v
	}
	if b.wants >= 0 {
		values["node.id"] = fmt.Sprint(b.wants)
	}
	static, _, err := config.NewStatic(config.Layer{Name: "test", Values: values})
	if err != nil {
		b.f.t.Fatal(err)
	}
	if err := b.fs.MkdirAll("data", 0o755); err != nil {
		b.f.t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	b.boots++
	fo, err := NewFounding(FoundOptions{FS: b.fs, Dir: "data", Static: static, Seeds: SeedsOf(b.f.seeds, static),
		Transport: b, Clock: clock.System, Logger: logger, Peer: b.addr, Incarnation: b.boots})
	if err != nil {
		b.f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.f.ctx)
	b.mu.Lock()
	b.founding, b.up, b.cancel, b.to = fo, true, cancel, map[string]*line{}
	b.mu.Unlock()
	b.f.wg.Go(func() {
		m, err := fo.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = b.run(m, static, logger)
		}
		if err != nil {
			b.f.t.Errorf("%s: %v", b.addr, err)
		}
	})
}

func (b *broker) run(m Membership, static *config.Static, logger *slog.Logger) error {
	st, err := store.Open(store.Options{FS: b.fs, Dir: "data", Logger: logger, BootID: "boot"})
	if err != nil {
		return err
	}
	e := engine.New(engine.Options{Store: st, Clock: clock.System, Logger: logger, Self: m.Identity.NodeID, Transport: b,
		Files: b})
	resolver := config.NewResolver(static)
	s := m.Spec(resolver.Broker().Metadata)
	b.mu.Lock()
	b.store, b.engine, b.member = st, e, m
	_, b.peers = m.replicas()
	b.mu.Unlock()
	if err := e.Open(s); err != nil {
		return err
	}
	c, err := OpenReplicated(Options{FS: b.fs, Dir: "data", Config: resolver, Clock: clock.System, Logger: logger},
		Cluster{Partition: e.ByID(s.ID), Transport: b, Membership: m, Peer: b.addr, Incarnation: b.boots})
	b.mu.Lock()
	b.c = c
	b.mu.Unlock()
	return err
}

// stop ends a broker, its disk stays.
func (b *broker) stop() {
	b.mu.Lock()
	up, c, e, st := b.up, b.c, b.engine, b.store
	b.up, b.c, b.engine, b.founding, b.store = false, nil, nil, nil, nil
	b.mu.Unlock()
	if !up {
		return
	}
	b.cancel()
	if c != nil {
		_ = c.Close()
	}
	if e != nil {
		e.Close()
	}
	if st != nil {
		if err := st.Close(); err != nil {
			b.f.t.Error(err)
		}
	}
}

func (f *fabric) close() {
	for _, b := range f.brokers {
		b.stop()
	}
	f.cancel()
	f.mu.Lock()
	for l := range f.lines {
		close(l.c)
	}
	f.lines = nil
	f.mu.Unlock()
	f.wg.Wait()
}

// controller is nil while the broker is no member.
func (b *broker) controller() *Controller {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.c
}

func (b *broker) peer(n kafkaproto.NodeID) *broker {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.f.at(b.peers[n].Addr)
}

func (b *broker) handlers() (*Founding, *engine.Engine, *Controller) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.founding, b.engine, b.c
}

// Send is the engine's.
func (b *broker) Send(to kafkaproto.NodeID, m transport.Message) {
	o := b.peer(to)
	if o == nil || !b.f.passes(b.addr, o.addr) {
		return
	}
	if m.Payload != nil {
		parts, release, err := m.Payload.Load()
		if err != nil {
			return
		}
		m.Payload = transport.Bytes(bytes.Join(parts, nil))
		release()
	}
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	if b.f.lines == nil {
		return
	}
	l := b.to[o.addr]
	if l == nil {
		l = &line{c: make(chan func(), 1000)}
		b.to[o.addr] = l
		b.f.lines[l] = true
		b.f.wg.Go(func() {
			for deliver := range l.c {
				deliver()
			}
		})
	}
	self := b.member.Identity.NodeID
	select {
	case l.c <- func() {
		if _, e, _ := o.handlers(); e != nil {
			e.Raft(self, []transport.Message{m})
		}
	}:
	default:
	}
}

// SetPeers is the controller's.
func (b *broker) SetPeers(peers map[kafkaproto.NodeID]transport.Peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers = peers
}

// Call is the controller's.
func (b *broker) Call(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	o := b.peer(to)
	if o == nil {
		return nil, transport.ErrUnreachable
	}
	return b.exchange(ctx, o, b.member.Identity.NodeID, method, body)
}

// CallAddr is the founding's.
func (b *broker) CallAddr(ctx context.Context, addr string, method uint16, body []byte) ([]byte, error) {
	o := b.f.at(addr)
	if o == nil {
		return nil, transport.ErrUnreachable
	}
	return b.exchange(ctx, o, transport.NoNode, method, body)
}

func (b *broker) exchange(ctx context.Context, o *broker, from kafkaproto.NodeID, method uint16, body []byte) ([]byte, error) {
	fo, _, c := o.handlers()
	if !b.f.passes(b.addr, o.addr) || fo == nil {
		return nil, transport.ErrUnreachable
	}
	b.f.mu.Lock()
	b.f.calls[method]++
	b.f.mu.Unlock()
	var out []byte
	var err error
	if c != nil {
		out, err = c.HandleCall(ctx, from, method, body)
	} else {
		out, err = fo.HandleCall(ctx, from, method, body)
	}
	b.f.mu.Lock()
	lost := b.f.loseAnswers[o.addr] == method
	b.f.mu.Unlock()
	if lost || !b.f.passes(o.addr, b.addr) {
		return nil, transport.ErrLost
	}
	return out, err
}

// OpenStream is the controller's and the engine's.
func (b *broker) OpenStream(ctx context.Context, to kafkaproto.NodeID, method uint16, body []byte) (io.ReadCloser, error) {
	o := b.peer(to)
	if o == nil || !b.f.passes(b.addr, o.addr) {
		return nil, transport.ErrUnreachable
	}
	_, e, c := o.handlers()
	b.f.mu.Lock()
	b.f.calls[method]++
	b.f.mu.Unlock()
	switch {
	case c == nil:
		return nil, transport.ErrUnreachable
	case method == MethodImage:
		return c.HandleStream(ctx, b.member.Identity.NodeID, method, body)
	}
	return e.Stream(ctx, b.member.Identity.NodeID, body)
}

// startAll starts all brokers and waits until they are registered.
func (f *fabric) startAll() {
	f.t.Helper()
	for _, b := range f.brokers {
		b.start()
	}
	f.enrolled(f.brokers...)
}

func (f *fabric) enrolled(brokers ...*broker) {
	f.t.Helper()
	f.until("all brokers are registered", func() bool {
		for _, b := range brokers {
			c := b.controller()
			if c == nil {
				return false
			}
			select {
			case <-c.Enrolled():
			default:
				return false
			}
		}
		return true
	})
}

// until waits for a condition, for a minute of the bubble's time.
func (f *fabric) until(what string, ok func() bool) {
	f.t.Helper()
	for range 1200 {
		synctest.Wait()
		if ok() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, b := range f.brokers {
		if c := b.controller(); c != nil {
			f.t.Logf("%s: node %d version %d %+v members %+v", b.addr, c.NodeID(), c.Image().Version(), c.Leadership(), c.rep.p.Members())
		} else if fo, _, _ := b.handlers(); fo != nil {
			f.t.Logf("%s: %s", b.addr, fo.said)
		}
	}
	f.t.Fatalf("never: %s", what)
}

// leader waits until one broker, not being in except, is the active controller.
func (f *fabric) leader(except ...*broker) *broker {
	f.t.Helper()
	var found *broker
	f.until("somebody leads", func() bool {
		for _, b := range f.brokers {
			if c := b.controller(); c != nil && c.Leadership().Ready && !slices.Contains(except, b) {
				found = b
				return true
			}
		}
		return false
	})
	return found
}

// agree waits until all brokers that run show the same metadata, and gives them.
func (f *fabric) agree() *meta.Image {
	f.t.Helper()
	var img *meta.Image
	f.until("all show the same", func() bool {
		img = nil
		version := f.leader().controller().Image().Version()
		for _, b := range f.brokers {
			c := b.controller()
			if c == nil {
				continue
			}
			if c.Image().Version() != version {
				return false
			}
			img = c.Image()
		}
		return true
	})
	want, _ := encodeSnapshot(img, 1, 0)
	for _, b := range f.brokers {
		if c := b.controller(); c != nil {
			if got, _ := encodeSnapshot(c.Image(), 1, 0); !bytes.Equal(got, want) {
				f.t.Fatalf("%s shows other metadata of version %d", b.addr, img.Version())
			}
		}
	}
	return img
}

// voters waits for a number of voters and learners.
func (f *fabric) voters(voters, learners int) {
	f.t.Helper()
	f.until(fmt.Sprintf("%d voters and %d learners", voters, learners), func() bool {
		m := f.leader().controller().rep.p.Members()
		return len(m.Voters) == voters && len(m.Learners) == learners
	})
}

func createCmd(name string) meta.Command {
	return meta.CreateTopics{Topics: []meta.NewTopic{{Name: name, Partitions: 1, Replication: 1}}}
}

// made gives the error for the topic of a createCmd.
func made(res meta.Result, err error) error {
	if err != nil {
		return err
	}
	return res.(meta.CreateTopicsResult).Topics[0].Err
}

func (b *broker) metaDir() string { return path.Join("data", "__cluster_metadata-0") }

var errNothing = errors.New("nothing was answered")

// do submits a command and gives the channel of its answer.
func do(c *Controller, cmd meta.Command) chan error {
	got := make(chan error, 1)
	c.Submit(cmd, func(r meta.Result, err error) {
		if _, ok := r.(meta.CreateTopicsResult); ok || err != nil {
			err = made(r, err)
		}
		got <- err
	})
	return got
}

func fate(got chan error) error {
	synctest.Wait()
	select {
	case err := <-got:
		return err
	default:
		return errNothing
	}
}
