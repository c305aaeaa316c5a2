package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// scrapesAtOnce bounds the scrapes that run side by side; further ones are told 503.
	scrapesAtOnce = 4
	// stopWithin bounds the wait for answers under way when the server stops: a profile may run for
	// minutes, and nobody's data hangs on it.
	stopWithin = time.Second
)

// Options is what the HTTP side is made of.
type Options struct {
	Addrs   []string // host:port; none serves nothing
	Logger  *slog.Logger
	Version string // of this build
	// State tells how far the broker is; it may be called at any time, from any goroutine.
	State func() State
}

// Server is the HTTP listener.
type Server struct {
	o        Options
	registry *prometheus.Registry
	http     http.Server
	bound    []net.Addr
	running  sync.WaitGroup // accept loops and connections
	source   atomic.Pointer[collector]
}

// New makes the server; Start binds it.
func New(o Options) *Server {
	s := &Server{o: o, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		scraped{s},
	)
	s.http = http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		ConnState:         s.connState,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve lets /metrics show a broker. With nil it shows none any more.
func (s *Server) Serve(src *Source) {
	if src == nil {
		s.source.Store(nil)
		return
	}
	s.source.Store(newCollector(*src))
}

// Start binds the addresses. An error is one sentence that names the address and the setting.
func (s *Server) Start() error {
	for _, addr := range s.o.Addrs {
		l, err := net.Listen("tcp", addr)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("HTTP address %s is in use by another process: give "+
				"sluice.http.listeners a free address, or nothing to do without metrics and health", addr)
		}
		if err != nil {
			return fmt.Errorf("HTTP address %s (sluice.http.listeners) cannot be bound: %w", addr, err)
		}
		s.bound = append(s.bound, l.Addr())
		s.running.Go(func() {
			if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.o.Logger.Error("HTTP listener ended", "addr", addr, "err", err)
			}
		})
	}
	return nil
}

// Addrs are the bound addresses.
func (s *Server) Addrs() []net.Addr { return s.bound }

// Stop lets answers out for a moment, within ctx, cuts what is left, and waits.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = s.http.Close()
	}
	s.running.Wait()
	return err
}

// connState lets Stop wait for connections: the first state is told by an accept loop, the last one
// when the connection's goroutine ends.
func (s *Server) connState(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.running.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.running.Done()
	}
}

const index = `sluice: a log broker that speaks Kafka's protocol

/metrics           Prometheus metrics
/livez             200 while the process answers
/readyz            200 while clients are served
/readyz?verbose    the same, with each check
/debug/pprof/      Go profiles, for loopback peers
`

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog: promErrors{s.o.Logger}, ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: scrapesAtOnce,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, index)
	})
	for path, h := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/trace": pprof.Trace, "/debug/pprof/symbol": pprof.Symbol,
	} {
		mux.Handle(path, loopbackOnly(h))
	}
	return mux
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // a peer that is gone needs no answer
}

// loopbackOnly keeps profiles, which show memory, from other machines: by the peer's address, and
// by the name it used, so that no web page reaches them through a name that leads here.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.RemoteAddr) || !loopback(r.Host) {
			say(w, http.StatusForbidden, "profiles are for loopback peers\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether an address, with or without port, is this machine's own.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// promErrors logs what a scrape could not give.
type promErrors struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (p promErrors) Println(v ...any) { p.log.Warn("scrape", "err", fmt.Sprint(v...)) }
