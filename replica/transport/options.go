package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/kafkaproto/clock"
)

// Options are the settings of a TCP. What is zero has a default, except as said.
type Options struct {
	// ClusterID and Node say who this is; a node that is yet to join has "" and NoNode, answers calls of
	// CallAddr only, and gets them by SetIdentity.
	ClusterID string
	Node      kafkaproto.NodeID
	// Incarnation is larger at each start of the node: peers refuse one lower than they have seen.
	Incarnation uint64
	// Listen is host:port of the controller listener.
	Listen string

	// Secret is what all nodes share, at least 16 bytes.
	Secret []byte
	// TLS makes all connections mutual TLS 1.3: a certificate and ClientCAs must be set; RootCAs are the
	// same when nil. The host of a peer's address must be in its certificate. GetConfigForClient, if
	// set, is asked for both directions, so that files can be read again; its argument may be empty.
	TLS *tls.Config
	// Admit judges the certificate of who claims to be node. The default wants one made for servers
	// and clients both (extended key usage), which no client of the cluster should have.
	Admit func(s tls.ConnectionState, node kafkaproto.NodeID) error

	Clock  clock.Clock
	Logger *slog.Logger

	// BacklogBytes and BacklogMessages bound what waits for one peer: payloads on data connections
	// (64 MiB, 16384); messages on the control connection have the same again.
	BacklogBytes    int64
	BacklogMessages int
	// ReceiveBytes bounds payloads that were received and not released (64 MiB).
	ReceiveBytes int64
	// MaxBatch is the most payload of one entry (128 MiB).
	MaxBatch int
	// StreamRate is in bytes/s, 0 for no limit: of streams sent, and again of those received.
	StreamRate int64

	// random, dial and listener are the tests'.
	random   io.Reader
	dial     func(ctx context.Context, addr string) (net.Conn, error)
	listener net.Listener
}

const (
	dialTime      = 3 * time.Second        // for dialling and the handshake
	handshakeTime = 10 * time.Second       // for the handshake of who dialled us
	stallTime     = 30 * time.Second       // without a byte inside a frame, or in a write
	lossTime      = 5 * time.Second        // without acknowledgement of what the control connection sent
	backoffMin    = 50 * time.Millisecond  // after the second attempt that failed
	backoffMax    = 500 * time.Millisecond // between attempts
	steadyTime    = 5 * time.Second        // a connection that lived so long ended by accident

	secretMin = 16
)

func (o *Options) complete() error {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.random == nil {
		o.random = rand.Reader
	}
	if o.BacklogBytes == 0 {
		o.BacklogBytes = 64 << 20
	}
	if o.BacklogMessages == 0 {
		o.BacklogMessages = 16384
	}
	if o.ReceiveBytes == 0 {
		o.ReceiveBytes = 64 << 20
	}
	if o.MaxBatch == 0 {
		o.MaxBatch = 128 << 20
	}
	if n := len(o.Secret); n > 0 && n < secretMin {
		return fmt.Errorf("the secret of the peers has %d bytes; it must have at least %d", n, secretMin)
	}
	if len(o.ClusterID) > clusterMax {
		return fmt.Errorf("the cluster id %q is longer than %d bytes", o.ClusterID, clusterMax)
	}
	if o.TLS != nil {
		return o.completeTLS()
	}
	return nil
}

func (o *Options) completeTLS() error {
	c := o.TLS.Clone()
	if len(c.Certificates) == 0 && c.GetCertificate == nil && c.GetConfigForClient == nil || c.InsecureSkipVerify {
		return errors.New("peers over TLS need a certificate, and must verify the other side's")
	}
	if c.ClientCAs == nil && c.GetConfigForClient == nil {
		return errors.New("peers over TLS need the authority (ClientCAs) that signs the nodes' certificates")
	}
	o.TLS = c
	if o.Admit == nil {
		o.Admit = madeForNodes
	}
	return nil
}

// tlsNow is the configuration for the next handshake; files may have been read again.
func (o *Options) tlsNow(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	c := o.TLS
	if c.GetConfigForClient != nil {
		newer, err := c.GetConfigForClient(hello)
		if err != nil {
			return nil, err
		}
		if newer != nil {
			c = newer
		}
	}
	c = c.Clone()
	c.GetConfigForClient = nil
	if c.RootCAs == nil {
		c.RootCAs = c.ClientCAs
	}
	if c.ClientCAs == nil {
		return nil, errors.New("no authority for the peers' certificates")
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.InsecureSkipVerify = false
	c.MinVersion = tls.VersionTLS13
	c.SessionTicketsDisabled = true // a resumed session would go on with an authority that is gone
	c.ClientSessionCache = nil
	return c, nil
}

// madeForNodes tells nodes' certificates from those of clients, which the same authority may sign.
func madeForNodes(s tls.ConnectionState, _ kafkaproto.NodeID) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("no certificate")
	}
	usage := s.PeerCertificates[0].ExtKeyUsage
	if slices.Contains(usage, x509.ExtKeyUsageServerAuth) && slices.Contains(usage, x509.ExtKeyUsageClientAuth) {
		return nil
	}
	return errors.New("the certificate is not made for both servers and clients (extendedKeyUsage = serverAuth, clientAuth)")
}

// guarded reports whether connections prove who is at their other end.
func (o *Options) guarded() bool { return len(o.Secret) > 0 || o.TLS != nil }

// checkAddr refuses to leave the machine unguarded.
func (o *Options) checkAddr(addr string) error {
	if o.guarded() {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("the address %s of the controller listener leaves this machine: that takes a secret that all "+
		"nodes share, or mutual TLS", addr)
}
