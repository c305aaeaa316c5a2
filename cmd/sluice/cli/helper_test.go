package cli

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/sluicelog/sluice/cmd/sluice/node"
	"github.com/sluicelog/sluice/controller/config"
)

// fixture is a broker in this process, and the environment of command lines that use it.
type fixture struct {
	t    *testing.T
	node *node.Node
	addr string
	stop func() // of the broker, once; the test's end does it too
	dir  string // for files of the test
	env  []string
	// asked, and now when it is set, replace what the environment of a verb says.
	asked bool
	now   func() time.Time
}

// start runs a broker on a free loopback port, with its data in a directory of the test.
func start(t *testing.T, overrides ...string) *fixture {
	t.Helper()
	return startIn(t, t.TempDir(), overrides...)
}

// startIn runs a broker on a data directory that may have been used before.
func startIn(t *testing.T, data string, overrides ...string) *fixture {
	t.Helper()
	values := map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "sluice.http.listeners": "",
		"sluice.durability": "relaxed", "group.initial.rebalance.delay.ms": "0",
		"sluice.cluster.id": "clusterclusterclusterA",
	}
	pairs, err := keyValues("override", overrides)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pairs {
		values[p[0]] = p[1]
	}
	static, _, err := config.NewStatic(config.Layer{Name: "test", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Options{
		Static: static, Dir: data, Logger: slog.New(slog.DiscardHandler),
		OnFailed: func(err error) { t.Errorf("the data directory failed: %v", err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	f := offline(t)
	f.node = n
	f.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := n.Stop(ctx); err != nil {
			t.Errorf("stop the broker: %v", err)
		}
	})
	t.Cleanup(f.stop)
	for _, a := range n.Addrs() {
		f.addr = a.String()
	}
	f.env = append(f.env, "SLUICE_BOOTSTRAP_SERVER="+f.addr)
	return f
}

// offline is a fixture without a broker.
func offline(t *testing.T) *fixture {
	dir := t.TempDir()
	return &fixture{t: t, dir: dir, env: []string{"HOME=" + dir}}
}

// result is what a command line came to.
type result struct {
	code        int
	out, errOut string
}

// run runs one command line to its end.
func (f *fixture) run(stdin string, args ...string) result {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var out, errOut buffer
	code := f.start(ctx, bytes.NewBufferString(stdin), &out, &errOut, args...)
	return result{code, out.String(), errOut.String()}
}

// ok runs a command line that must succeed and gives its output.
func (f *fixture) ok(stdin string, args ...string) string {
	f.t.Helper()
	r := f.run(stdin, args...)
	if r.code != 0 {
		f.t.Fatalf("sluice %v: exit %d\n%s%s", args, r.code, r.out, r.errOut)
	}
	return r.out
}

func (f *fixture) start(ctx context.Context, in io.Reader, out, errOut io.Writer, args ...string) int {
	e := &env{
		ctx: ctx, environ: f.env, stdin: in, stdout: out, stderr: errOut, now: time.Now, asked: f.asked,
	}
	if f.now != nil {
		e.now = f.now
	}
	root := e.root()
	root.SetArgs(args)
	return e.exit(root.Execute())
}

// running is a command line that goes on.
type running struct {
	t           *testing.T
	cancel      context.CancelFunc
	done        chan int
	out, errOut buffer
}

// background starts a command line that ends with stop, or with the test.
func (f *fixture) background(in io.Reader, args ...string) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: f.t, cancel: cancel, done: make(chan int, 1)}
	go func() { r.done <- f.start(ctx, in, &r.out, &r.errOut, args...) }()
	f.t.Cleanup(func() {
		cancel()
		select {
		case <-r.done:
		case <-time.After(10 * time.Second):
			f.t.Errorf("sluice %v did not end", args)
		}
	})
	return r
}

// await waits until the output, or what is said, satisfies a condition.
func (r *running) await(what string, cond func(out, errOut string) bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if cond(r.out.String(), r.errOut.String()) {
			return
		}
	}
	r.t.Fatalf("no %s:\n%s%s", what, r.out.String(), r.errOut.String())
}

// stop interrupts and gives the exit code.
func (r *running) stop() int {
	r.t.Helper()
	r.cancel()
	return r.wait()
}

// wait gives the exit code.
func (r *running) wait() int {
	r.t.Helper()
	select {
	case code := <-r.done:
		r.done <- code // for the cleanup
		return code
	case <-time.After(10 * time.Second):
		r.t.Fatal("it did not end")
		return 0
	}
}

// buffer is a bytes.Buffer that may be read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
