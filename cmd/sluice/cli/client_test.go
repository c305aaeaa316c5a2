package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAdvertised names the address that the broker hands out when that is no good from here.
func TestAdvertised(t *testing.T) {
	f := start(t, "advertised.listeners=PLAINTEXT://127.0.0.1:1")
	for _, args := range [][]string{
		{"produce", "orders", "--timeout", "1s"}, {"consume", "orders", "-e", "--timeout", "1s"},
	} {
		r := f.run("a\n", args...)
		want := "the broker at " + f.addr + " tells clients to use 127.0.0.1:1, which cannot be reached from " +
			"here (connection refused); set advertised.listeners on the broker to an address that can"
		if r.code != exitUnreachable || !strings.Contains(r.errOut, want) {
			t.Errorf("%v: exit %d, said %q", args, r.code, r.errOut)
		}
	}
}

// TestSilentBroker gives up in time on something that accepts and never answers.
func TestSilentBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := offline(t).run("", "topic", "list", "-b", l.Addr().String(), "--timeout", "300ms")
	if r.code != exitUnreachable || !strings.Contains(r.errOut, "did not answer in time; wait longer with --timeout") {
		t.Errorf("exit %d, said %q", r.code, r.errOut)
	}
}

// TestSecondSeed goes to the next address when the first is down.
func TestSecondSeed(t *testing.T) {
	f := start(t)
	f.ok("", "topic", "list", "-b", "127.0.0.1:1,"+f.addr)
	f.ok("", "topic", "list", "--brokers", f.addr)
}

// pemFiles are a CA, and a key with its certificate for 127.0.0.1, as PEM.
func pemFiles(t *testing.T, dir string) (ca, server string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "sluice test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	ca, server = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "server.pem")
	for name, text := range map[string][]byte{ca: cert, server: append(private, cert...)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ca, server
}

// TestTLS speaks to an SSL listener with PEM files, and explains each way in which it may fail.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	ca, server := pemFiles(t, dir)
	_, other := pemFiles(t, t.TempDir())
	f := start(t, "listeners=SSL://127.0.0.1:0", "ssl.keystore.location="+server, "ssl.keystore.type=PEM",
		"ssl.truststore.location="+ca, "ssl.truststore.type=PEM", "ssl.client.auth=required")
	plain := start(t)
	config := func(lines ...string) string {
		name := filepath.Join(t.TempDir(), "client.properties")
		if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	whole := []string{
		"security.protocol=SSL", "ssl.truststore.location=" + ca, "ssl.truststore.type=PEM",
		"ssl.keystore.location=" + server, "ssl.keystore.type=PEM",
	}
	f.ok("", "topic", "create", "orders", "--command-config", config(whole...))
	f.ok("a\n", "produce", "orders", "--command-config", config(whole...))
	named := config(append(whole, "bootstrap.servers="+f.addr)...)
	without := offline(t)
	if out := without.ok("", "consume", "orders", "-e", "--command-config", named); out != "a\n" {
		t.Errorf("over TLS: %q", out)
	}
	skip := config(append(whole, "ssl.endpoint.identification.algorithm=")...)
	_, port, _ := net.SplitHostPort(f.addr)
	f.ok("", "healthcheck", "-b", "localhost:"+port, "--command-config", skip)

	for _, c := range []struct {
		name, at, config, said string
	}{
		{"plain text on TLS", f.addr, "", "may want TLS"},
		{"no certificate", f.addr, config(whole[:3]...), "ssl.keystore.location"},
		{"unknown CA", f.addr, config("security.protocol=SSL"), "ssl.truststore.location"},
		{"another CA", f.addr, config("security.protocol=SSL", "ssl.truststore.location="+other), "ssl.truststore.location"},
		{"TLS on plain text", plain.addr, config(whole...), "does not speak TLS"},
		{"another name", "localhost:" + port, config(whole...), "ssl."},
	} {
		args := []string{"topic", "list", "--timeout", "3s", "-b", c.at}
		if c.config != "" {
			args = append(args, "--command-config", c.config)
		}
		r := f.run("", args...)
		if r.code != exitUnreachable || !strings.Contains(r.errOut, c.said) {
			t.Errorf("%s: exit %d, said %q", c.name, r.code, r.errOut)
		}
	}
}
