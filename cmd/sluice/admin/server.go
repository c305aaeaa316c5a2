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
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// State is how far the broker is, for /readyz.
type State struct {
	Ready bool
	// Why is one line for each thing that was checked.
	Why []string
}

// Options is what the HTTP side is made of.
type Options struct {
	Addrs  []string // host:port; none serves nothing
	Logger *slog.Logger
	// State tells whether clients are served.
	State func() State
}

// Server is the HTTP listener.
type Server struct {
	o        Options
	registry *prometheus.Registry
	http     http.Server
	bound    []net.Addr
	running  sync.WaitGroup
	source   atomic.Pointer[collector]
}

// New makes the server; Start binds it.
func New(o Options) *Server {
	s := &Server{o: o, registry: prometheus.NewRegistry()}
	s.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		scraped{&s.source},
	)
	s.http = http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	return s
}

// Serve lets /metrics show a broker; before it there are those of the process alone.
func (s *Server) Serve(src Source) { s.source.Store(newCollector(src)) }

// Start binds the addresses. An error names the address.
func (s *Server) Start() error {
	for _, addr := range s.o.Addrs {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("HTTP listener %s (sluice.http.listeners): %w", addr, err)
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

// Stop lets answers out within ctx, then closes what is left, and waits.
func (s *Server) Stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.running.Wait()
	return err
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog: promErrors{s.o.Logger}, ErrorHandling: promhttp.ContinueOnError,
	}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusOK, "sluice\n\n/metrics\n/livez\n/readyz?verbose\n/debug/pprof/\n")
	})
	mux.Handle("/debug/pprof/", loopbackOnly(http.HandlerFunc(pprof.Index)))
	mux.Handle("/debug/pprof/profile", loopbackOnly(http.HandlerFunc(pprof.Profile)))
	mux.Handle("/debug/pprof/trace", loopbackOnly(http.HandlerFunc(pprof.Trace)))
	mux.Handle("/debug/pprof/symbol", loopbackOnly(http.HandlerFunc(pprof.Symbol)))
	return mux
}

func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	state := s.o.State()
	code, text := http.StatusOK, "ok\n"
	if !state.Ready {
		code, text = http.StatusServiceUnavailable, "not ready\n"
	}
	if r.URL.Query().Has("verbose") || !state.Ready {
		for _, line := range state.Why {
			text += line + "\n"
		}
	}
	say(w, code, text)
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // a peer that is gone needs no answer
}

// loopbackOnly keeps profiles, which show memory, from other machines.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			say(w, http.StatusForbidden, "profiles are for loopback peers\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// promErrors logs what a scrape could not give.
type promErrors struct{ log *slog.Logger }

// Println implements promhttp.Logger.
func (p promErrors) Println(v ...any) { p.log.Warn("scrape", "err", fmt.Sprint(v...)) }
