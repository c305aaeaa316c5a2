package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/batch"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a metadata log in memory. It syncs at once, or with hold when it is told to.
type fakeLog struct {
	dir string

	mu       sync.Mutex
	batches  []batch.Batch
	begin    kafkaproto.Offset
	end      kafkaproto.Offset
	synced   kafkaproto.Offset
	epoch    kafkaproto.LeaderEpoch
	hold     bool
	appended chan struct{} // one mark per append, when hold
	fail     error         // of the next append
	offline  error
	rolls    int
	observer func(store.Event)
}

func newFakeLog() *fakeLog {
	return &fakeLog{dir: "data/__cluster_metadata-0", appended: make(chan struct{}, 100)}
}

// restart is the log after a crash: what was synced, or with all everything that was written.
func (l *fakeLog) restart(all bool) *fakeLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := newFakeLog()
	next.begin, next.epoch = l.begin, l.epoch
	for _, b := range l.batches {
		if all || b.NextOffset() <= l.synced {
			next.batches, next.end = append(next.batches, b), b.NextOffset()
		}
	}
	next.end = max(next.end, next.begin)
	next.synced = next.end
	return next
}

func (l *fakeLog) lead() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	return nil
}

func (l *fakeLog) Dir() string { return l.dir }

func (l *fakeLog) Term() kafkaproto.LeaderEpoch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch
}

func (l *fakeLog) Offline() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offline
}

func (l *fakeLog) Observe(fn func(store.Event)) { l.observer = fn }

func (l *fakeLog) offset(of *kafkaproto.Offset) kafkaproto.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *of
}

func (l *fakeLog) StartOffset() kafkaproto.Offset  { return l.offset(&l.begin) }
func (l *fakeLog) EndOffset() kafkaproto.Offset    { return l.offset(&l.end) }
func (l *fakeLog) SyncedOffset() kafkaproto.Offset { return l.offset(&l.synced) }
func (l *fakeLog) Commit(kafkaproto.Offset)        {}

func (l *fakeLog) Append(b batch.Batch, _ store.AppendOptions) (store.Appended, error) {
	l.mu.Lock()
	if err := l.fail; err != nil {
		l.fail = nil
		l.mu.Unlock()
		return store.Appended{}, err
	}
	b.SetBaseOffset(l.end)
	b.SetLeaderEpoch(l.epoch)
	l.batches = append(l.batches, append(batch.Batch(nil), b...))
	l.end = b.NextOffset()
	a, hold := store.Appended{BaseOffset: b.BaseOffset(), End: l.end}, l.hold
	l.mu.Unlock()
	if hold {
		l.appended <- struct{}{}
	} else {
		l.sync()
	}
	return a, nil
}

// sync makes everything durable and tells the observer.
func (l *fakeLog) sync() {
	l.mu.Lock()
	l.synced = l.end
	ev := store.Event{Kind: store.Synced, Offset: l.end}
	l.mu.Unlock()
	l.observer(ev)
}

// break_ fails the log.
func (l *fakeLog) break_(err error) {
	l.mu.Lock()
	l.offline = err
	l.mu.Unlock()
	l.observer(store.Event{Kind: store.Failed, Err: err})
}

func (l *fakeLog) Read(off kafkaproto.Offset, maxBytes int, limit kafkaproto.Offset, minOne bool) (store.Range, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var data []byte
	for _, b := range l.batches {
		if b.NextOffset() <= off {
			continue
		}
		if b.NextOffset() > limit || len(data)+len(b) > maxBytes && (data != nil || !minOne) {
			break
		}
		data = append(data, b...)
	}
	f, err := vfs.Create(vfs.Memory(), "range")
	if err == nil {
		_, err = f.WriteAt(data, 0)
	}
	return store.Range{File: f, Len: len(data)}, err
}

func (l *fakeLog) Roll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rolls++
	return nil
}

func (l *fakeLog) DeleteRecords(to kafkaproto.Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to < l.begin || to > l.end {
		return fmt.Errorf("delete up to %d of [%d, %d]", to, l.begin, l.end)
	}
	l.begin = to
	for len(l.batches) > 0 && l.batches[0].NextOffset() <= to {
		l.batches = l.batches[1:]
	}
	return nil
}

// world is what outlives a controller in a test.
type world struct {
	t      testing.TB
	fs     vfs.FS
	log    *fakeLog
	clock  *clock.Manual
	static map[string]string
	logged *bytes.Buffer
	seed   byte
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, fs: vfs.Memory(), log: newFakeLog(), static: map[string]string{},
		clock: clock.NewManual(time.Unix(1_700_000_000, 0)), logged: &bytes.Buffer{},
	}
	if err := w.fs.MkdirAll(w.log.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) options() Options {
	w.t.Helper()
	s, _, err := config.NewStatic(config.Layer{Name: "server.properties", Values: w.static})
	if err != nil {
		w.t.Fatal(err)
	}
	w.seed++
	out := io.Discard
	if w.logged != nil {
		out = w.logged
	}
	return Options{
		FS: w.fs, Dir: "data", Config: config.NewResolver(s), Clock: w.clock,
		Logger: slog.New(slog.NewTextHandler(out, nil)), Random: rand.NewChaCha8([32]byte{w.seed}),
	}
}

func (w *world) tryOpen() (*Controller, error) { return open(w.options(), w.log, w.log.lead) }

func (w *world) open() *Controller {
	w.t.Helper()
	c, err := w.tryOpen()
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// reopen closes a controller, crashes its log and opens it again.
func (w *world) reopen(c *Controller) *Controller {
	w.t.Helper()
	_ = c.Close()
	w.log = w.log.restart(false)
	return w.open()
}

func create(t testing.TB, c *Controller, names ...string) {
	t.Helper()
	var cmd meta.CreateTopics
	for _, n := range names {
		cmd.Topics = append(cmd.Topics, meta.NewTopic{Name: n, Partitions: 1, Replication: 1})
	}
	res, err := Call[meta.CreateTopicsResult](c, cmd)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range res.Topics {
		if row.Err != nil {
			t.Fatal(row.Err)
		}
	}
}

func topics(img *meta.Image) []string {
	var all []string
	for t := range img.Topics() {
		all = append(all, t.Name)
	}
	return all
}

var errTest = errors.New("injected")
