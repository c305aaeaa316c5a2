package transport

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// keepAlive finds a machine that vanished without a word when nothing is sent to it.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}

// control is asked by the net package with each address it is about to use, names resolved: without
// secret and TLS only the machine's own will do. loss, if not 0, is for setLossTime.
func (o *Options) control(loss time.Duration) func(network, addr string, c syscall.RawConn) error {
	return func(_, addr string, c syscall.RawConn) error {
		if err := o.checkAddr(addr); err != nil || loss == 0 {
			return err
		}
		return setLossTime(c, loss)
	}
}

// dial makes a connection. Those that may be left unread for a while get the time for it.
func (t *TCP) dial(ctx context.Context, addr string, r role) (net.Conn, error) {
	if t.opt.dial != nil {
		return t.opt.dial(ctx, addr)
	}
	loss := lossTime
	if r.data() {
		loss = stallTime
	}
	d := net.Dialer{KeepAliveConfig: keepAlive, Control: t.opt.control(loss)}
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetNoDelay(true)
	}
	return conn, nil
}

// channelLabel is for the key material that ties a handshake to its TLS connection.
const channelLabel = "EXPORTER-sluice-peer"

// secureDial puts TLS over conn, if there is to be any, and checks who answers. It gives conn back in
// any case.
func (t *TCP) secureDial(ctx context.Context, conn net.Conn, addr string, to kafkaproto.NodeID, p *party) (net.Conn, error) {
	if t.opt.TLS == nil {
		return conn, nil
	}
	conf, err := t.opt.tlsNow(&tls.ClientHelloInfo{})
	if err != nil {
		return conn, err
	}
	if conf.ServerName == "" {
		if conf.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return conn, err
		}
	}
	c := tls.Client(conn, conf)
	if err := c.HandshakeContext(ctx); err != nil {
		return conn, fmt.Errorf("TLS with %s: %w", addr, err)
	}
	state := c.ConnectionState()
	if err := t.opt.Admit(state, to); err != nil {
		return c, fmt.Errorf("TLS with %s: %w", addr, err)
	}
	p.channel, err = state.ExportKeyingMaterial(channelLabel, nil, 32)
	return c, err
}

// secureAccept puts TLS over conn, if there is to be any.
func (t *TCP) secureAccept(ctx context.Context, conn net.Conn, p *party) (net.Conn, *tls.ConnectionState, error) {
	if t.opt.TLS == nil {
		return conn, nil, nil
	}
	outer := &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: t.opt.tlsNow}
	c := tls.Server(conn, outer)
	if err := c.HandshakeContext(ctx); err != nil {
		return conn, nil, fmt.Errorf("TLS: %w", err)
	}
	state := c.ConnectionState()
	var err error
	p.channel, err = state.ExportKeyingMaterial(channelLabel, nil, 32)
	return c, &state, err
}

// guard watches a connection for stalls.
func (t *TCP) guard(conn net.Conn) *guard {
	return &guard{clock: t.opt.Clock, conn: conn, after: stallTime}
}
