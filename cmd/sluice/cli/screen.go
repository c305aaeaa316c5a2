package cli

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicelog/sluice/cmd/sluice/node"
	"github.com/sluicelog/sluice/controller/config"
)

// screen is the first thing that a broker says: what it is and how it is reached.
type screen struct {
	version    string
	took       time.Duration
	cluster    string
	nodeID     int32
	listeners  []listenerRow
	http       []string // links
	dir        string
	durability string
	security   string
	log        *slog.Logger
}

// listenerRow is one listener: where it is bound, and what clients are told.
type listenerRow struct {
	Name       string `json:"name"`
	Protocol   string `json:"protocol"`
	Bound      string `json:"bound"`
	Advertised string `json:"advertised"` // host:port, or auto
	// local is where clients on this machine connect.
	local string
}

// auto is what clients are told when advertised.listeners is not set: for each connection the
// address that it came by.
const auto = "auto"

func newScreen(n *node.Node, static *config.Static, b broker, took time.Duration) *screen {
	cfg := config.NewResolver(static).Broker()
	s := &screen{
		version: version(), took: took, cluster: n.ClusterID(), nodeID: int32(n.Broker().NodeID),
		dir: b.dir, durability: static.Get("sluice.durability"), log: b.log,
	}
	if abs, err := filepath.Abs(b.dir); err == nil {
		s.dir = abs
	}
	advertised := make(map[string]string)
	for _, l := range cfg.Advertised {
		if l.Host != "" {
			advertised[l.Name] = net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
		}
	}
	addrs := n.Addrs()
	for _, l := range cfg.Listeners {
		row := listenerRow{Name: l.Name, Protocol: l.Protocol, Advertised: auto}
		if a := advertised[l.Name]; a != "" {
			row.Advertised = a
		}
		if a := addrs[l.Name]; a != nil {
			row.Bound, row.local = a.String(), localAddress(a)
		}
		s.listeners = append(s.listeners, row)
	}
	for _, a := range n.HTTPAddrs() {
		s.http = append(s.http, "http://"+localAddress(a)+"/")
	}
	s.security = securityOf(cfg)
	return s
}

// localAddress is how a program on this machine reaches a bound address.
func localAddress(a net.Addr) string {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return a.String()
	}
	host := t.IP.String()
	if t.IP.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, strconv.Itoa(t.Port))
}

// securityOf says in a few words who can do what.
func securityOf(cfg *config.Broker) string {
	protocols := make(map[string]bool)
	verified := true
	for _, l := range cfg.Listeners {
		protocols[l.Protocol] = true
		verified = verified && cfg.TLS[l.Name].ClientAuth == "required"
	}
	names := strings.Join(slices.Sorted(maps.Keys(protocols)), " and ")
	if verified && len(cfg.Listeners) > 0 {
		return names + " with client certificates; whoever has one may do all"
	}
	return names + ", no authentication: whoever can connect may do all"
}

// bootstrap is the address to give to clients on this machine.
func (s *screen) bootstrap() string {
	if len(s.listeners) == 0 {
		return ""
	}
	return s.listeners[0].local
}

// text is the screen for people.
func (s *screen) text(w io.Writer) {
	fmt.Fprintf(w, "sluice %s ready in %d ms\n", s.version, s.took.Milliseconds())
	fmt.Fprintf(w, "  cluster   %s, node %d\n", s.cluster, s.nodeID)
	for _, l := range s.listeners {
		told := l.Advertised
		if told == auto {
			told = "auto (each client is told the address it came by)"
		}
		fmt.Fprintf(w, "  kafka     %s %s -> %s\n", l.Name, l.Bound, told)
	}
	for _, h := range s.http {
		fmt.Fprintf(w, "  http      %s\n", h)
	}
	fmt.Fprintf(w, "  data      %s (%s)\n", s.dir, durabilityText(s.durability))
	fmt.Fprintf(w, "  security  %s\n", s.security)
}

func durabilityText(d string) string {
	if d == "relaxed" {
		return "relaxed: acknowledged before it is on disk"
	}
	return "strict: on disk before it is acknowledged"
}

// firstScreen is serve's: text for somebody who looks, one line of the log for others.
func (e *env) firstScreen(s *screen) error {
	if isTerminal(e.stderr) {
		if !e.quiet {
			s.text(e.stderr)
		}
		return nil
	}
	s.log.Info("ready", "version", s.version, "took_ms", s.took.Milliseconds(), "cluster_id", s.cluster,
		"node", s.nodeID, "listeners", s.listeners, "http", s.http, "data", s.dir,
		"durability", s.durability, "security", s.security)
	return nil
}
