package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicelog/sluice/kafkaproto"
)

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	var der []byte
	a.key, der = sign(t, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

func sign(t *testing.T, c *x509.Certificate, by *authority) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

// config makes a certificate for 127.0.0.1 with these usages, and a configuration that trusts a.
func (a *authority) config(t *testing.T, usage ...x509.ExtKeyUsage) *tls.Config {
	t.Helper()
	key, der := sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: usage, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, a)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientCAs: a.pool}
}

var nodeUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

// TestTLS connects nodes over mutual TLS alone and with a secret, and keeps everybody else out.
func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	node := ours.config(t, nodeUsage...)
	for _, secret := range [][]byte{nil, testSecret} {
		a, b := &recorder{}, &recorder{}
		one, two := startPair(t, a, b, func(o *Options) { o.TLS, o.Secret = node, secret })
		one.Send(2, appendMessage(group(1), 1, 2<<20, 100))
		eventually(t, "messages arrive", func() bool { return len(b.received()) == 2 })
		if _, err := one.Call(context.Background(), 2, 1, nil); err != nil {
			t.Error(err)
		}
		other := party{cluster: "c", node: 1, incarnation: 1, secret: secret, random: rand.Reader}
		mixed := theirs.config(t, nodeUsage...)
		mixed.ClientCAs = ours.pool
		none := &tls.Config{ClientCAs: ours.pool}
		for name, conf := range map[string]*tls.Config{
			"another authority": mixed, "no certificate": none,
			"a client of the cluster":   ours.config(t, x509.ExtKeyUsageClientAuth),
			"a certificate for anybody": ours.config(t),
		} {
			c, err := net.Dial("tcp", two.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conf.RootCAs, conf.ServerName = ours.pool, "127.0.0.1"
			s := tls.Client(c, conf)
			if err := s.Handshake(); err == nil {
				state := s.ConnectionState()
				other.channel, _ = state.ExportKeyingMaterial(channelLabel, nil, 32)
				if _, err := other.dial(s, roleControl, 2); err == nil {
					t.Errorf("%s gets in", name)
				}
				_, _ = s.Write(someFrames())
				_, _ = io.Copy(io.Discard, s)
			}
			_ = c.Close()
		}
		c, err := net.Dial("tcp", two.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.dial(c, roleControl, 2); err == nil {
			t.Error("who speaks no TLS gets in")
		}
		_ = c.Close()
		_ = two.Close()
		if n, calls := len(b.received()), b.mu.calls; n != 2 || calls != 1 {
			t.Errorf("%d messages, %d calls", n, calls)
		}
	}
}

// TestTLSRefuses checks configurations that would trust anybody.
func TestTLSRefuses(t *testing.T) {
	a := newAuthority(t)
	for name, change := range map[string]func(*tls.Config){
		"without certificate": func(c *tls.Config) { c.Certificates = nil },
		"without authority":   func(c *tls.Config) { c.ClientCAs = nil },
		"without verifying":   func(c *tls.Config) { c.InsecureSkipVerify = true },
	} {
		conf := a.config(t, nodeUsage...)
		change(conf)
		if n, err := NewTCP(Options{Listen: "127.0.0.1:0", TLS: conf}); err == nil {
			_ = n.Close()
			t.Errorf("TLS %s passes", name)
		}
	}
	// What GetConfigForClient gives must ask for certificates, whatever it says itself.
	conf := a.config(t, nodeUsage...)
	lax := conf.Clone()
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return lax, nil }
	b := &recorder{}
	two := startNode(t, 2, b, func(o *Options) { o.TLS, o.Secret = conf, nil })
	c, err := tls.Dial("tcp", two.Addr().String(), &tls.Config{RootCAs: a.pool, ServerName: "127.0.0.1"})
	if err == nil {
		p := party{cluster: "c", node: 1, random: rand.Reader}
		if _, err := p.dial(c, roleControl, 2); err == nil {
			t.Error("no certificate was asked for")
		}
		_ = c.Close()
	}
	one := startNode(t, 1, &recorder{}, func(o *Options) {
		o.TLS, o.Secret = conf, nil
		o.Admit = func(tls.ConnectionState, kafkaproto.NodeID) error { return errors.New("not that one") }
	})
	if _, err := one.CallAddr(t.Context(), two.Addr().String(), 1, nil); err == nil || !strings.Contains(err.Error(), "not that one") {
		t.Errorf("Admit is not asked about who accepted: %v", err)
	}
}
