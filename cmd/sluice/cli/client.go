package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// defaultPort is what an address without a port means.
const defaultPort = "9092"

// client is a connection to a cluster. The dialler remembers what could not be reached, because the
// protocol's client retries until time is up and then tells only that.
type client struct {
	*kgo.Client
	adm    *kadm.Client
	dialer *dialer
}

// dialer opens connections for the client.
type dialer struct {
	tls   *tls.Config
	seeds []string
	// lost is told of connections that fail, when it is set.
	lost func(addr string, err error)

	mu struct {
		sync.Mutex
		addr string // the last that failed; "" after a success
		err  error
	}
}

// seeds are the addresses to start from, with ports.
func (e *env) seeds(props properties) []string {
	given := e.bootstrap
	if len(given) == 0 {
		given = props.list("bootstrap.servers")
	}
	if len(given) == 0 {
		given = []string{"localhost"}
	}
	var out []string
	for _, s := range given {
		s = strings.TrimSpace(s)
		if _, _, err := net.SplitHostPort(s); err != nil {
			s = net.JoinHostPort(strings.Trim(s, "[]"), defaultPort)
		}
		out = append(out, s)
	}
	return out
}

// connect reaches a broker within ctx and makes a client on it. A broker that is down is found at
// once, not when the client's retries end.
func (e *env) connect(ctx context.Context, opts ...kgo.Opt) (*client, error) {
	if e.timeout <= 0 {
		return nil, usagef("--timeout %v leaves no time to wait", e.timeout)
	}
	props, err := e.clientProperties()
	if err != nil {
		return nil, err
	}
	d := &dialer{seeds: e.seeds(props)}
	if d.tls, err = props.tls(); err != nil {
		return nil, err
	}
	if err := d.probe(ctx); err != nil {
		return nil, err
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(d.seeds...), kgo.Dialer(d.dial), kgo.ClientID(props.get("client.id", "sluice")),
		kgo.RetryTimeout(e.timeout), kgo.SoftwareNameAndVersion("sluice", softwareVersion(version())),
	}
	if e.verbose {
		base = append(base, kgo.WithLogger(kgo.BasicLogger(e.stderr, kgo.LogLevelInfo, nil)))
	}
	cl, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, usagef("%w", err)
	}
	adm := kadm.NewClient(cl)
	adm.SetTimeoutMillis(int32(e.timeout.Milliseconds()))
	return &client{Client: cl, adm: adm, dialer: d}, nil
}

// admin runs fn with a client and a bound on its time, and explains what went wrong.
func (e *env) admin(fn func(ctx context.Context, c *client) error) error {
	ctx, cancel := context.WithTimeout(e.ctx, e.timeout)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.explain(fn(ctx, c))
}

// probe tries the seeds in turn and is content with the first that accepts.
func (d *dialer) probe(ctx context.Context) error {
	var errs []string
	for _, addr := range d.seeds {
		conn, err := d.open(ctx, addr)
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		errs = append(errs, fmt.Sprintf("%s: %s", addr, why(err)))
	}
	return failf(exitUnreachable, "no broker answers at %s; start one with \"sluice serve\", or name "+
		"another with -b host:port", strings.Join(errs, "; "))
}

// dial is the client's way to open a connection.
func (d *dialer) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	conn, err := d.open(ctx, addr)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.addr == "" && err != nil && d.lost != nil {
		d.lost(addr, err)
	}
	d.mu.addr, d.mu.err = addr, err
	if err == nil {
		d.mu.addr = ""
	}
	return conn, err
}

func (d *dialer) open(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var nd net.Dialer
	if d.tls == nil {
		return nd.DialContext(ctx, "tcp", addr)
	}
	config := d.tls.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	td := tls.Dialer{NetDialer: &nd, Config: config}
	return td.DialContext(ctx, "tcp", addr)
}

// failed gives the last address that could not be reached, and why.
func (d *dialer) failed() (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.addr, d.mu.err
}

// explain turns the end of the client's patience into the cause: an advertised address that is no
// good from here, or a listener that speaks another protocol.
func (c *client) explain(err error) error {
	if err == nil || codeOf(err) != exitUnreachable && !errors.Is(err, kgo.ErrClientClosed) {
		return closedEarly(c, err)
	}
	addr, cause := c.dialer.failed()
	switch {
	case tlsAlert(err) != nil: // a client's certificate is judged after its connection is made
		return failf(exitUnreachable, "%s: %s", strings.Join(c.dialer.seeds, ","), why(err))
	case addr == "":
		if errors.Is(err, context.DeadlineExceeded) {
			return failf(exitUnreachable, "%s did not answer in time; wait longer with --timeout, or "+
				"look at the broker's log: %w", strings.Join(c.dialer.seeds, ","), err)
		}
		return err
	}
	for _, s := range c.dialer.seeds {
		if s == addr {
			return failf(exitUnreachable, "%s went away: %s", addr, why(cause))
		}
	}
	return failf(exitUnreachable, "the broker at %s tells clients to use %s, which cannot be reached "+
		"from here (%s); set advertised.listeners on the broker to an address that can",
		strings.Join(c.dialer.seeds, ","), addr, why(cause))
}

// closedEarly explains a broker that hung up at once.
func closedEarly(c *client, err error) error {
	var first *kgo.ErrFirstReadEOF
	if !errors.As(err, &first) {
		return err
	}
	hint := "its listener may want TLS: give --command-config a file with security.protocol=SSL"
	if c.dialer.tls != nil {
		hint = "its listener may want a client certificate, or no TLS at all"
	}
	return failf(exitUnreachable, "%s closed the connection at once; %s",
		strings.Join(c.dialer.seeds, ","), hint)
}

// why is the cause of a connection that failed, in a few words.
func why(err error) string {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &dns):
		return "no such host"
	case errors.As(err, &record), errors.Is(err, io.EOF):
		return "it does not speak TLS, drop security.protocol=SSL"
	case errors.As(err, &verify):
		return verify.Err.Error() + "; name its CA with ssl.truststore.location"
	case tlsAlert(err) != nil:
		return "it refused the TLS handshake (" + tlsAlert(err).Error() + "); give a certificate that it " +
			"trusts with ssl.keystore.location"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case err == nil:
		return "unknown"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// tlsAlert is the alert that the other side sent, if err is one.
func tlsAlert(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return op.Err
	}
	return nil
}

// softwareVersion spells a version as KIP-511 lets clients name theirs: letters, digits, '.' and
// '-', with none of the latter at the ends.
func softwareVersion(v string) string {
	v = strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '.':
			return r
		}
		return '-'
	}, v)
	if v = strings.Trim(v, "-."); v == "" {
		return "devel"
	}
	return v
}
