package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testServer(addrs []string, state func() State) *Server {
	return New(Options{
		Addrs: addrs, Logger: slog.New(slog.DiscardHandler), Version: "test", State: state,
	})
}

// get asks the handler as a peer at the given address.
func get(s *Server, url, peer string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.RemoteAddr = peer
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	return w
}

const (
	here  = "127.0.0.1:4000"
	there = "10.1.2.3:4000"
)

func TestReadyz(t *testing.T) {
	ok, bad := Check{Name: "listeners"}, Check{Name: "offsets", Problem: "3 of 50 are loaded"}
	for _, tc := range []struct {
		name          string
		state         State
		code          int
		plain, speech string
	}{
		{"running", State{Running, []Check{ok}}, 200, "ready\n", "[+] listeners\nready\n"},
		{
			"running with a problem", State{Running, []Check{ok, bad}}, 503,
			"[-] offsets: 3 of 50 are loaded\nnot ready\n",
			"[+] listeners\n[-] offsets: 3 of 50 are loaded\nnot ready\n",
		},
		{
			"running with a note", State{Running, []Check{ok, {Name: "partitions", Note: "2 are missing"}}}, 200,
			"[!] partitions: 2 are missing\nready\n",
			"[+] listeners\n[!] partitions: 2 are missing\nready\n",
		},
		{
			"recovering", State{Recovery, []Check{{Name: "data directory", Problem: "recovering"}}}, 503,
			"[-] data directory: recovering\nnot ready\n", "[-] data directory: recovering\nnot ready\n",
		},
		{"stopping", State{Stopping, nil}, 503, "not ready\n", "not ready\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := testServer(nil, func() State { return tc.state })
			for url, want := range map[string]string{"/readyz": tc.plain, "/readyz?verbose": tc.speech} {
				w := get(s, url, there)
				if w.Code != tc.code || w.Body.String() != want {
					t.Errorf("%s: %d %q; want %d %q", url, w.Code, w.Body, tc.code, want)
				}
			}
			if w := get(s, "/livez", there); w.Code != 200 {
				t.Errorf("livez: %d", w.Code)
			}
		})
	}
}

// TestPages: what is there, and that profiles are for this machine alone.
func TestPages(t *testing.T) {
	s := testServer(nil, func() State { return State{Broker: Starting} })
	for _, tc := range []struct {
		url, peer string
		code      int
		holds     string
	}{
		{"http://localhost:8080/", there, 200, "/readyz?verbose"},
		{"http://localhost:8080/nothing", there, 404, ""},
		{"http://localhost:8080/debug/pprof/", here, 200, "goroutine"},
		{"http://127.0.0.1:8080/debug/pprof/goroutine?debug=1", here, 200, "TestPages"},
		{"http://[::1]:8080/debug/pprof/", "[::1]:5", 200, "goroutine"},
		{"http://localhost:8080/debug/pprof/", there, 403, "loopback"},
		{"http://localhost:8080/debug/pprof/profile?seconds=1", there, 403, "loopback"},
		{"http://evil.example/debug/pprof/heap", here, 403, "loopback"},
		{"http://localhost:8080/debug/pprof/cmdline", here, 404, ""},
	} {
		w := get(s, tc.url, tc.peer)
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.holds) {
			t.Errorf("%s from %s: %d %.100q; want %d with %q", tc.url, tc.peer, w.Code, w.Body, tc.code, tc.holds)
		}
	}
}

// TestMetricsBeforeServing: a broker that does not serve shows its state and its build alone (M3).
func TestMetricsBeforeServing(t *testing.T) {
	s := testServer(nil, func() State { return State{Broker: Recovery} })
	text := get(s, "/metrics", there).Body.String()
	for _, want := range []string{
		"kafka_server_kafkaserver_brokerstate 2\n", "sluice_build_info{version=\"test\"} 1\n",
		"\ngo_goroutines ", "\nprocess_start_time_seconds ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "# TYPE kafka_") + strings.Count(text, "# TYPE sluice_"); n != 2 {
		t.Errorf("%d families of a broker that does not serve", n)
	}
}

// TestAddressInUse: the error is one sentence that names the address and what to do.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	s := testServer([]string{"127.0.0.1:0", addr}, nil)
	err = s.Start()
	want := "HTTP address " + addr + " is in use by another process: give sluice.http.listeners a free " +
		"address, or nothing to do without metrics and health"
	if err == nil || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", s.Addrs()[0].String()); err == nil {
		c.Close()
		t.Error("the address that was free is still open")
	}
}

// TestStop: it cuts a request that goes on for longer than the bound, and waits for its end.
func TestStop(t *testing.T) {
	s := testServer([]string{"127.0.0.1:0"}, func() State { return State{} })
	began, ended := make(chan struct{}), make(chan struct{})
	s.http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + s.Addrs()[0].String())
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("the request is still under way")
	}
	if err := <-answered; err == nil {
		t.Error("the request was answered")
	}
}
