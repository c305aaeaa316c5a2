package node

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"

	"github.com/sluicelog/sluice/controller/config"
	"github.com/sluicelog/sluice/controller/meta"
	"github.com/sluicelog/sluice/kafkaproto/clock"
	"github.com/sluicelog/sluice/kafkaproto/server"
)

// serve binds the listeners and lets clients in.
func (n *Node) serve() error {
	cfg := n.config.Broker()
	o := server.Options{
		MaxRequestBytes: cfg.MaxRequestBytes, IdleTimeout: cfg.IdleTimeout,
		MaxConns: cfg.MaxConns, MaxConnsPerIP: cfg.MaxConnsPerIP,
		InflightBytes: max(cfg.InflightBytes, 0),
		SendBuffer:    cfg.SendBuffer, RecvBuffer: cfg.ReceiveBuffer,
		Clock: clock.System, Logger: n.o.Logger.With("component", "server"), Handler: n.broker,
		Observer: &n.connections,
	}
	for _, l := range cfg.Listeners {
		sl := server.Listener{Name: l.Name, Protocol: l.Protocol, Addr: l.Addr()}
		if l.Protocol == server.SSL {
			var err error
			if sl.TLS, err = n.loadTLS(cfg.TLS[l.Name]); err != nil {
				return fmt.Errorf("listener %s: %w", l.Name, err)
			}
		}
		o.Listeners = append(o.Listeners, sl)
	}
	s, err := server.New(o)
	if err != nil {
		return err
	}
	n.server = s
	if err := s.Start(); err != nil {
		return err
	}
	n.serving = true
	n.listened = s.Addrs()
	n.advertise.bound(n.listened)
	return nil
}

func (n *Node) loadTLS(t config.TLS) (*tls.Config, error) {
	auth := map[string]tls.ClientAuthType{
		"required": tls.RequireAndVerifyClientCert, "requested": tls.VerifyClientCertIfGiven,
	}
	if t.KeystoreFile == "" {
		return nil, fmt.Errorf("ssl.keystore.location must name a PEM file with key and certificate chain")
	}
	return server.LoadTLS(server.TLSFiles{
		Cert: t.KeystoreFile, Key: t.KeystoreFile, CA: t.TruststoreFile, ClientAuth: auth[t.ClientAuth],
	}, n.o.Logger)
}

// endpoints are the addresses that the metadata keeps of this broker.
func endpoints(cfg *config.Broker) []meta.Endpoint {
	var es []meta.Endpoint
	for _, l := range cfg.Advertised {
		es = append(es, meta.Endpoint{Listener: l.Name, Protocol: l.Protocol, Host: l.Host, Port: l.Port})
	}
	return es
}

// advertiser answers "where does this client reach the broker". An advertised.listeners value
// always wins; without one the answer is chosen for each connection: a loopback peer and the
// default gateway (a published container port) get localhost, all others the local address that
// they connected to.
type advertiser struct {
	explicit map[string]config.Listener
	ports    map[string]int32
	gateway  net.IP
}

func newAdvertiser(cfg *config.Broker) *advertiser {
	a := &advertiser{explicit: make(map[string]config.Listener), gateway: defaultGateway()}
	for _, l := range cfg.Advertised {
		a.explicit[l.Name] = l
	}
	return a
}

// bound takes in the ports that the listeners got; it is called before clients are answered.
func (a *advertiser) bound(addrs map[string]net.Addr) {
	ports := make(map[string]int32, len(addrs))
	for name, addr := range addrs {
		if t, ok := addr.(*net.TCPAddr); ok {
			ports[name] = int32(t.Port)
		}
	}
	a.ports = ports
}

// address gives host and port for a client on c.
func (a *advertiser) address(c *server.Conn) (string, int32) {
	name := c.Listener().Name
	if l, ok := a.explicit[name]; ok && l.Host != "" {
		port := l.Port
		if port == 0 {
			port = a.localPort(c)
		}
		return l.Host, port
	}
	peer, _ := c.RemoteAddr().(*net.TCPAddr)
	local, _ := c.LocalAddr().(*net.TCPAddr)
	if peer == nil || local == nil {
		return "localhost", a.localPort(c)
	}
	if peer.IP.IsLoopback() || a.gateway != nil && a.gateway.Equal(peer.IP) {
		// The loopback address itself, not the name: "localhost" may resolve to ::1 where the
		// listener is bound to IPv4 alone.
		if local.IP.IsLoopback() {
			return local.IP.String(), int32(local.Port)
		}
		return "localhost", int32(local.Port)
	}
	if state := c.TLS(); state != nil && state.ServerName != "" {
		return state.ServerName, int32(local.Port)
	}
	return local.IP.String(), int32(local.Port)
}

func (a *advertiser) localPort(c *server.Conn) int32 {
	if t, ok := c.LocalAddr().(*net.TCPAddr); ok {
		return int32(t.Port)
	}
	_, port, err := net.SplitHostPort(c.LocalAddr().String())
	if err != nil {
		return 0
	}
	p, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return 0
	}
	return int32(p)
}
