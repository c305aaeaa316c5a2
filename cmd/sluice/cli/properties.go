package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"strings"

	"github.com/sluicelog/sluice/controller/config"
)

// properties is a client.properties file (--command-config), with the keys of Kafka's Java client.
type properties struct {
	name   string
	values map[string]string
}

func (p properties) get(key, otherwise string) string {
	if v := strings.TrimSpace(p.values[key]); v != "" {
		return v
	}
	return otherwise
}

func (p properties) list(key string) []string {
	if v := p.get(key, ""); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

func (e *env) clientProperties() (properties, error) {
	p := properties{name: e.commandConfig}
	if p.name == "" {
		return p, nil
	}
	f, err := os.Open(p.name)
	if err != nil {
		return p, usagef("--command-config: %w", err)
	}
	p.values, err = config.ParseProperties(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return p, usagef("%s: %w", p.name, err)
	}
	return p, nil
}

// tls is what the properties ask for; nil means plain text.
func (p properties) tls() (*tls.Config, error) {
	switch protocol := strings.ToUpper(p.get("security.protocol", "PLAINTEXT")); protocol {
	case "PLAINTEXT":
		return nil, nil
	case "SSL":
	default:
		return nil, usagef("%s: security.protocol %s is not known here: PLAINTEXT or SSL", p.name,
			protocol)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, key := range []string{"ssl.truststore.type", "ssl.keystore.type"} {
		if kind := p.get(key, "PEM"); !strings.EqualFold(kind, "PEM") {
			return nil, usagef("%s: %s %s cannot be read: convert it to PEM", p.name, key, kind)
		}
	}
	trust, err := p.pem("ssl.truststore.certificates", "ssl.truststore.location")
	if err != nil {
		return nil, err
	}
	if trust != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(trust) {
			return nil, usagef("%s: no PEM certificate in ssl.truststore", p.name)
		}
	}
	if err := p.identity(config); err != nil {
		return nil, err
	}
	if check, set := p.values["ssl.endpoint.identification.algorithm"]; set && strings.TrimSpace(check) == "" {
		skipHostname(config)
	}
	return config, nil
}

// identity adds the client's own certificate, if there is one.
func (p properties) identity(config *tls.Config) error {
	chain, err := p.pem("ssl.keystore.certificate.chain", "ssl.keystore.location")
	if err != nil || chain == nil {
		return err
	}
	key := chain
	if v := p.get("ssl.keystore.key", ""); v != "" {
		key = []byte(v)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return usagef("%s: ssl.keystore: %w", p.name, err)
	}
	config.Certificates = []tls.Certificate{pair}
	return nil
}

// pem is the text under one key, or the file named by another; nil when neither is set.
func (p properties) pem(inline, location string) ([]byte, error) {
	if v := p.get(inline, ""); v != "" {
		return []byte(v), nil
	}
	name := p.get(location, "")
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usagef("%s: %s: %w", p.name, location, err)
	}
	if !strings.Contains(string(text), "-----BEGIN") {
		return nil, usagef("%s: %s %s is not PEM: convert it", p.name, location, name)
	}
	return text, nil
}

// skipHostname checks the chain but not the name, which is what an empty
// ssl.endpoint.identification.algorithm means to the Java client.
func skipHostname(config *tls.Config) {
	roots := config.RootCAs
	config.InsecureSkipVerify = true // VerifyConnection does it, without the name
	config.VerifyConnection = func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}
