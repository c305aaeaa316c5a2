package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sluicelog/sluice/cmd/sluice/admin"
	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/coord"
	"github.com/sluicelog/sluice/controller/group"
	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

// output is a log that a test reads while the broker writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start runs a broker on free ports with the settings above those.
func start(t *testing.T, dir string, log io.Writer, settings map[string]string) (*Node, error) {
	t.Helper()
	values := map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "4",
	}
	for k, v := range settings {
		values[k] = v
	}
	static, _, err := config.NewStatic(config.Layer{Name: "test", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	return Start(t.Context(), Options{
		Static: static, Dir: dir, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

func running(t *testing.T, dir string) *Node {
	t.Helper()
	n, err := start(t, dir, io.Discard, map[string]string{"sluice.http.listeners": "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, n) })
	return n
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func readyz(t *testing.T, n *Node) (int, string) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + n.HTTPAddrs()[0].String() + "/readyz?verbose")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestReadyWhenRunning: a broker that serves is ready, also after a restart, when it has groups to
// load first.
func TestReadyWhenRunning(t *testing.T) {
	const ready = "[+] listeners\n[+] metadata\n[+] partitions\n[+] offsets\n[+] data directory\nready\n"
	dir := t.TempDir()
	n := running(t, dir)
	if code, text := readyz(t, n); code != 200 || text != ready {
		t.Errorf("%d %s", code, text)
	}
	if err := n.ensureOffsetsTopic(); err != nil {
		t.Fatal(err)
	}
	stop(t, n)
	n = running(t, dir)
	deadline := time.Now().Add(5 * time.Second)
	for code, text := readyz(t, n); code != 200; code, text = readyz(t, n) {
		if !strings.Contains(text, " of 4 partitions of __consumer_offsets are loaded") ||
			time.Now().After(deadline) {
			t.Fatalf("%d %s", code, text)
		}
		time.Sleep(time.Millisecond)
	}
	if n := n.groups.Counters().Loaded.Load(); n != 4 {
		t.Errorf("ready with %d partitions loaded", n)
	}
}

// TestNotReadyBeforeOffsets: groups that are not loaded keep the broker from being ready, once: what
// is loaded again later does not take it out of service.
func TestNotReadyBeforeOffsets(t *testing.T) {
	n := running(t, t.TempDir())
	if err := n.ensureOffsetsTopic(); err != nil {
		t.Fatal(err)
	}
	real := n.groups
	n.groups = group.New(group.Options{
		Clock: clock.System, Logger: n.o.Logger, Config: group.DefaultConfig(),
		Topics: func() group.Topics { return group.ImageTopics(n.controller.Image()) },
		Open:   func(int32) (coord.Log, error) { return nil, errors.New("not yet") },
	})
	n.groups.Start()
	code, text := readyz(t, n)
	want := "[+] listeners\n[+] metadata\n[+] partitions\n[-] offsets: 0 of 4 partitions of __consumer_offsets are loaded\n" +
		"[+] data directory\nnot ready\n"
	if code != 503 || text != want {
		t.Errorf("%d %s", code, text)
	}
	real.Start()
	n.groups.Close()
	none := n.groups
	n.groups = real
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		if code, text = readyz(t, n); code == 200 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(text)
		}
	}
	n.groups = none
	if code, text = readyz(t, n); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	n.groups = real
}

// TestNotReadyInPhases: what is not served yet, or no more, answers 503 with the reason.
func TestNotReadyInPhases(t *testing.T) {
	n := running(t, t.TempDir())
	for _, p := range []phase{
		{admin.Recovery, admin.Check{Name: "data directory", Problem: "recovering"}},
		{admin.Stopping, admin.Check{Name: "broker", Problem: "stopping"}},
	} {
		n.enter(p.state, p.check.Name, p.check.Problem)
		code, text := readyz(t, n)
		if want := "[-] " + p.check.Name + ": " + p.check.Problem + "\nnot ready\n"; code != 503 || text != want {
			t.Errorf("%d %s; want %s", code, text, want)
		}
		if got := n.health().Broker; got != p.state {
			t.Errorf("broker state %d, want %d", got, p.state)
		}
	}
	n.running()
	if code, _ := readyz(t, n); code != 200 {
		t.Errorf("running again: %d", code)
	}
}

// TestNotReadyWhenStopping: while clients are let go the broker is alive and not ready, and its
// metrics are those of its state and no more. Then the HTTP listener is closed too.
func TestNotReadyWhenStopping(t *testing.T) {
	n, err := start(t, t.TempDir(), io.Discard, map[string]string{"sluice.http.listeners": "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(n.Addrs()["PLAINTEXT"].String()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if _, err := kadm.NewClient(c).CreateTopic(ctx, 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	var fetching sync.WaitGroup
	fetching.Go(func() { _, _ = emptyFetch(n).RequestWith(ctx, c) }) // nobody will answer it
	for n.broker.Stats.All.FetchRequests.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(ctx) }()
	for n.health().Broker != admin.Stopping {
		time.Sleep(time.Millisecond)
	}
	if code, text := readyz(t, n); code != 503 || text != "[-] broker: stopping\nnot ready\n" {
		t.Errorf("%d %s", code, text)
	}
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a request that waits: %v", err)
	default:
	}
	cancel() // no more time for anybody
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	fetching.Wait()
	if c, err := net.Dial("tcp", n.HTTPAddrs()[0].String()); err == nil {
		c.Close()
		t.Error("the HTTP listener is still open")
	}
}

// emptyFetch waits a minute for records of topic t, which has none.
func emptyFetch(n *Node) *kmsg.FetchRequest {
	f := kmsg.NewPtrFetchRequest()
	f.MaxWaitMillis, f.MinBytes, f.MaxBytes, f.SessionEpoch = 60_000, 1, 1<<20, -1
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = "t", n.broker.Topics()["t"].ID
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 1 << 20
	ft.Partitions = append(ft.Partitions, fp)
	f.Topics = append(f.Topics, ft)
	return f
}

// TestNotReadyWithFailedDirectory: a data directory that takes no writes is not ready.
func TestNotReadyWithFailedDirectory(t *testing.T) {
	n := running(t, t.TempDir())
	n.health() // the offsets are known to be loaded from here on
	fs := vfs.Inject(vfs.Memory())
	s, err := store.Open(store.Options{FS: fs, Dir: "/data"})
	if err != nil {
		t.Fatal(err)
	}
	real := n.store
	n.store = s
	defer func() { n.store = real }()
	id := kafkaproto.PartitionID{Topic: kafkaproto.TopicID{1}}
	l, err := s.OpenLog(id, kafkaproto.TopicPartition{Topic: "t"}, store.Config{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if code, text := readyz(t, n); code != 200 {
		t.Errorf("before: %d %s", code, text)
	}
	fs.Hook(func(op vfs.Op, _ string) error {
		if op == vfs.OpSync || op == vfs.OpSyncFS || op == vfs.OpSyncDir {
			return errors.New("the disk is gone")
		}
		return nil
	})
	if err := errors.Join(s.StartSolo(l), l.Flush()); err == nil {
		t.Fatal("no sync failed")
	}
	code, text := readyz(t, n)
	if code != 503 || !strings.Contains(text, "[-] data directory: ") || !strings.Contains(text, "the disk is gone") {
		t.Errorf("%d %s", code, text)
	}
	_ = s.Close()
}

// TestHTTPPortInUse: at the default address a broker does without the HTTP listener and says so in
// one line; an address that was asked for must be had.
func TestHTTPPortInUse(t *testing.T) {
	const byDefault = "127.0.0.1:8080"
	if l, err := net.Listen("tcp", byDefault); err == nil {
		defer l.Close() // else another process has it, which is as good
	}
	sentence := func(addr string) string {
		return "HTTP address " + addr + " is in use by another process: give sluice.http.listeners a free " +
			"address, or nothing to do without metrics and health"
	}
	var log output
	n, err := start(t, t.TempDir(), &log, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, n)
	if got := strings.Count(log.String(), "metrics and health are not served: "+sentence(byDefault)); got != 1 {
		t.Errorf("the line is there %d times:\n%s", got, log.String())
	}
	if len(n.HTTPAddrs()) != 0 || len(n.Addrs()) != 1 {
		t.Errorf("bound: %v, %v", n.HTTPAddrs(), n.Addrs())
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	_, err = start(t, t.TempDir(), io.Discard, map[string]string{"sluice.http.listeners": addr})
	if err == nil || err.Error() != sentence(addr) {
		t.Errorf("%v; want %s", err, sentence(addr))
	}
}

// TestNoHTTP: without an address there is no listener, and nothing to warn about.
func TestNoHTTP(t *testing.T) {
	var log output
	n, err := start(t, t.TempDir(), &log, map[string]string{"sluice.http.listeners": ""})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, n)
	if len(n.HTTPAddrs()) != 0 || strings.Contains(log.String(), "HTTP") {
		t.Errorf("bound: %v, log %s", n.HTTPAddrs(), log.String())
	}
}
