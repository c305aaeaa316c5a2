package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// certs is an authority with a server's and a client's certificate, and their PEM files.
type certs struct {
	dir          string
	ca           *x509.Certificate
	caKey        *ecdsa.PrivateKey
	cert, key    string
	caFile       string
	roots        *x509.CertPool
	clientKeyPEM tls.Certificate
}

func newCerts(t testing.TB) *certs {
	t.Helper()
	dir := t.TempDir()
	c := &certs{
		dir: dir, roots: x509.NewCertPool(),
		cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"),
		caFile: filepath.Join(dir, "ca.pem"),
	}
	der, key := c.sign(t, "test authority", nil, nil)
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	c.ca, c.caKey = ca, key
	c.roots.AddCert(ca)
	writePEM(t, c.caFile, "CERTIFICATE", der)
	c.issueServer(t, "localhost")
	der, key = c.sign(t, "client", c.ca, c.caKey)
	c.clientKeyPEM = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return c
}

// sign makes a certificate; without a parent it is an authority of its own.
func (c *certs) sign(
	t testing.TB, name string, parent *x509.Certificate, by *ecdsa.PrivateKey,
) ([]byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames:    []string{name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		tmpl.IsCA, tmpl.BasicConstraintsValid, tmpl.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, by = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

func (c *certs) issueServer(t testing.TB, name string) {
	t.Helper()
	der, key := c.sign(t, name, c.ca, c.caKey)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, c.cert, "CERTIFICATE", der)
	writePEM(t, c.key, "PRIVATE KEY", pkcs8)
}

func writePEM(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (c *certs) files() TLSFiles { return TLSFiles{Cert: c.cert, Key: c.key} }

func (c *certs) server(t testing.TB) *tls.Config {
	t.Helper()
	conf, err := LoadTLS(c.files(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return conf
}

func (c *certs) client() *tls.Config {
	return &tls.Config{RootCAs: c.roots, ServerName: "localhost"}
}

func dialTLS(t testing.TB, s *Server, conf *tls.Config) *client {
	t.Helper()
	c := dialRaw(t, s)
	session := tls.Client(c.Conn, conf)
	return &client{t, session}
}

func dialRaw(t testing.TB, s *Server) *client {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addrs()["ssl"].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	return &client{t, nc}
}

func startTLS(t testing.TB, serve func(*Request), conf *tls.Config, o Options) *Server {
	t.Helper()
	o.Listeners = []Listener{{Name: "ssl", Protocol: SSL, Addr: "127.0.0.1:0", TLS: conf}}
	return startServer(t, serve, o)
}

func TestTLS(t *testing.T) {
	certs := newCerts(t)
	s := startTLS(t, func(r *Request) {
		if r.Conn.TLS() == nil || !r.Conn.TLS().HandshakeComplete {
			t.Error("the handler sees no TLS state")
		}
		echo(r)
	}, certs.server(t), Options{Poison: true})
	c := dialTLS(t, s, certs.client())
	big := pattern(1 << 20)
	for range 3 {
		c.send([]byte("small"), big, []byte("last"))
		c.want("small")
		if string(c.recv()) != string(big) {
			t.Fatal("a large frame comes back changed")
		}
		c.want("last")
	}
}

// TestTLSFail: the earlier answer and a proper end of the session arrive.
func TestTLSFail(t *testing.T) {
	certs := newCerts(t)
	s := startTLS(t, func(r *Request) {
		if string(r.Frame) == "bad" {
			r.Fail("bad")
			return
		}
		echo(r)
	}, certs.server(t), Options{})
	c := dialTLS(t, s, certs.client())
	c.send([]byte("good"), []byte("bad"))
	c.want("good")
	if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
		t.Fatalf("after the answer: %d bytes, %v; want the end of the session", len(b), err)
	}
}

func TestMutualTLS(t *testing.T) {
	certs := newCerts(t)
	f := certs.files()
	f.ClientAuth = tls.RequireAndVerifyClientCert
	if _, err := LoadTLS(f, nil); err == nil {
		t.Fatal("client certificates are demanded without an authority")
	}
	f.CA = certs.caFile
	conf, err := LoadTLS(f, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	s := startTLS(t, func(r *Request) {
		r.ReplyBuf([]byte(r.Conn.TLS().VerifiedChains[0][0].Subject.CommonName), nil)
	}, conf, Options{Logger: log.logger()})

	with := certs.client()
	with.Certificates = []tls.Certificate{certs.clientKeyPEM}
	with.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for range 2 {
		c := dialTLS(t, s, with)
		c.send([]byte("who am I"))
		c.want("client")
		if c.Conn.(*tls.Conn).ConnectionState().DidResume {
			t.Fatal("a session with a client certificate was resumed")
		}
		c.Close()
	}
	stranger := newCerts(t)
	foreign := certs.client()
	foreign.Certificates = []tls.Certificate{stranger.clientKeyPEM}
	for _, conf := range []*tls.Config{certs.client(), foreign} {
		c := dialTLS(t, s, conf)
		_, _ = c.Write(frame([]byte("x")))
		if _, err := readFrame(c); err == nil {
			t.Fatal("a client without our certificate is served")
		}
	}
	eventually(t, "one line", func() bool { return len(log.all()) == 1 })
}

// TestTLSReload: new files are taken for new connections; broken ones are not, and are logged
// once.
func TestTLSReload(t *testing.T) {
	certs := newCerts(t)
	var log lines
	l, err := newTLSLoader(certs.files(), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	s := startTLS(t, echo, l.config(), Options{})
	nameNow := func() string {
		any := certs.client()
		any.InsecureSkipVerify = true
		c := dialTLS(t, s, any)
		c.send([]byte("x"))
		c.want("x")
		return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	nameLater := func() string { // as if the interval were over
		l.mu.Lock()
		l.mu.checked = time.Time{}
		l.mu.Unlock()
		return nameNow()
	}
	if got := nameNow(); got != "localhost" {
		t.Fatalf("the certificate is %s's, want localhost's", got)
	}
	if err := os.WriteFile(certs.cert, []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := nameNow(); got != "localhost" || len(log.all()) != 0 {
		t.Fatalf("certificate %s, log %q; the files are looked at too often", got, log.all())
	}
	if got := nameLater(); got != "localhost" {
		t.Fatalf("with a broken file the certificate is %s's, want localhost's", got)
	}
	if got := nameLater(); got != "localhost" || len(log.all()) != 1 {
		t.Fatalf("certificate %s, log %q; want localhost and one line", got, log.all())
	}
	certs.issueServer(t, "renewed")
	if got := nameLater(); got != "renewed" {
		t.Fatalf("after the change the certificate is %s's, want renewed", got)
	}
}

// TestNoTLS: plain bytes on an SSL listener get a clear line, browsers a hint, port checks none.
func TestNoTLS(t *testing.T) {
	certs := newCerts(t)
	for _, tc := range []struct{ name, send, answer, line string }{
		{"kafka", string(frame([]byte("\x00\x12\x00\x03\x00\x00\x00\x01"))), "", "speaks no TLS"},
		{"http", "GET / HTTP/1.1\r\n\r\n", httpHint, "plain HTTP"},
		{"port check", "", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var log lines
			var obs counts
			s := startTLS(t, echo, certs.server(t), Options{Logger: log.logger(), Observer: &obs})
			c := dialRaw(t, s)
			_, _ = io.WriteString(c, tc.send)
			_ = c.Conn.(*net.TCPConn).CloseWrite()
			got, _ := io.ReadAll(c)
			// A TLS server answers plain bytes with an alert record; the hint must be there.
			if !strings.Contains(string(got), tc.answer) {
				t.Fatalf("answer %q, want %q", got, tc.answer)
			}
			eventually(t, "counted", func() bool {
				return obs.why(RefusedHandshake) == 1 && s.Conns() == 0
			})
			if tc.line == "" {
				if len(log.all()) != 0 {
					t.Fatalf("log is %q, want nothing", log.all())
				}
				return
			}
			if got := log.all(); len(got) != 1 || !strings.Contains(got[0], tc.line) {
				t.Fatalf("log is %q, want one line with %q", got, tc.line)
			}
		})
	}
}

// TestHandshakeStall: who connects and stays silent is closed.
func TestHandshakeStall(t *testing.T) {
	certs := newCerts(t)
	var obs counts
	s := startTLS(t, echo, certs.server(t), Options{
		HandshakeTimeout: 400 * time.Millisecond, Observer: &obs,
	})
	silent := dialRaw(t, s)
	silent.wantEnd()
	eventually(t, "counted", func() bool { return obs.why(RefusedHandshake) == 1 })
	// The handshake's deadline is not the session's.
	c := dialTLS(t, s, certs.client())
	c.send([]byte("x"))
	c.want("x")
	time.Sleep(450 * time.Millisecond)
	c.send([]byte("still here"))
	c.want("still here")
}

// TestShutdownInHandshake: a handshake under way does not hold Shutdown.
func TestShutdownInHandshake(t *testing.T) {
	certs := newCerts(t)
	s := startTLS(t, echo, certs.server(t), Options{})
	dialRaw(t, s)
	eventually(t, "connected", func() bool { return s.Conns() == 1 })
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestTLSIdle: a read deadline that fires early leaves the session whole.
func TestTLSIdle(t *testing.T) {
	certs := newCerts(t)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, echo, Options{IdleTimeout: time.Minute, Listeners: []Listener{
			{Name: "ssl", Protocol: SSL, TLS: certs.server(t)},
		}})
		a, b := net.Pipe()
		if err := s.ServeConn("ssl", b); err != nil {
			t.Fatal(err)
		}
		conf := certs.client()
		conf.InsecureSkipVerify = true // the bubble's clock is before the certificate
		session := tls.Client(a, conf)
		defer a.Close()
		if err := session.Handshake(); err != nil {
			t.Fatal(err)
		}
		c := &client{t, session}
		for range 5 {
			time.Sleep(50 * time.Second)
			c.send([]byte("alive"))
			c.want("alive")
		}
		if got := life(c); got != time.Minute {
			t.Fatalf("closed %v after the last request, want 1m", got)
		}
	})
}
