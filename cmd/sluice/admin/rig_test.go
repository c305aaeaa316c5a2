package admin_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sluicelog/sluice/cmd/sluice/node"
	"github.com/sluicelog/sluice/controller/config"
)

// rig is a broker in this process, and clients that count what they do.
type rig struct {
	t     *testing.T
	node  *node.Node
	http  http.Client
	count counts
}

// counts is what the clients saw themselves: the other side of the broker's numbers.
type counts struct {
	mu           sync.Mutex
	opened       int
	requests     map[int16]int // answered, by key
	requestBytes map[int16]int // with the size before each
	out, in      int           // of all of these
}

func (c *counts) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.opened++
	}
}

func (c *counts) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Err() != nil {
		return
	}
	if c.requests == nil {
		c.requests, c.requestBytes = make(map[int16]int), make(map[int16]int)
	}
	c.requests[key]++
	c.requestBytes[key] += e.BytesWritten
	c.out += e.BytesWritten
	c.in += e.BytesRead
}

func (c *counts) bytes() (out, in int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out, c.in
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, http: http.Client{Transport: &http.Transport{}}}
	static, _, err := config.NewStatic(config.Layer{Name: "test", Values: map[string]string{
		"node.id": "7", "broker.rack": "r1", "listeners": "PLAINTEXT://127.0.0.1:0",
		"sluice.http.listeners": "127.0.0.1:0", "group.initial.rebalance.delay.ms": "0",
		"offsets.topic.num.partitions": "4",
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.node, err = node.Start(t.Context(), node.Options{
		Static: static, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Version: "1.2.3",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.http.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.node.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) client(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	opts = append(opts, kgo.SeedBrokers(r.node.Addrs()["PLAINTEXT"].String()), kgo.WithHooks(&r.count))
	c, err := kgo.NewClient(opts...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) get(path string) (int, string) {
	r.t.Helper()
	resp, err := r.http.Get("http://" + r.node.HTTPAddrs()[0].String() + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// scrape is one answer of /metrics: values by series, as written, and the kinds of the families.
type scrape struct {
	t      *testing.T
	text   string
	values map[string]float64
	kinds  map[string]string
}

func (r *rig) scrape() *scrape {
	r.t.Helper()
	code, text := r.get("/metrics")
	if code != http.StatusOK {
		r.t.Fatalf("scrape: %d\n%s", code, text)
	}
	s := &scrape{t: r.t, text: text, values: make(map[string]float64), kinds: make(map[string]string)}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if kind, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(kind, " ")
			s.kinds[name] = kind
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			r.t.Fatalf("%q: %v", line, err)
		}
		s.values[line[:at]] = v
	}
	return s
}

func (s *scrape) want(series string, want float64) {
	s.t.Helper()
	if got, ok := s.values[series]; !ok || got != want {
		s.t.Errorf("%s is %v (there: %v), want %v", series, got, ok, want)
	}
}

func (s *scrape) wantNone(series string) {
	s.t.Helper()
	if v, ok := s.values[series]; ok {
		s.t.Errorf("%s is there: %v", series, v)
	}
}

// eventually scrapes until the series has the value.
func (r *rig) eventually(series string, want float64) *scrape {
	r.t.Helper()
	var s *scrape
	for range 200 {
		if s = r.scrape(); s.values[series] == want {
			return s
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("%s is %v and does not become %v", series, s.values[series], want)
	return nil
}
