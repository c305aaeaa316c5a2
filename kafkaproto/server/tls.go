package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// tlsCheckInterval is the least time between two looks at the files' times.
const tlsCheckInterval = time.Second

// TLSFiles names the PEM files of an SSL listener.
type TLSFiles struct {
	// Cert is the chain, leaf first. Cert and Key may be one file. The key must not be encrypted.
	Cert, Key string
	// CA verifies client certificates; empty when ClientAuth asks for none.
	CA string
	// ClientAuth is ssl.client.auth: tls.NoClientCert, VerifyClientCertIfGiven (requested) or
	// RequireAndVerifyClientCert (required).
	ClientAuth tls.ClientAuthType
	// MinVersion is the oldest TLS version taken; 0 is TLS 1.2.
	MinVersion uint16
}

// LoadTLS reads the files and gives a configuration that reads them again when they change. A
// reload that fails keeps what was there and logs why.
//
// A client that shows a certificate can't resume a session: it would go on with the authority it
// was verified by, after that is gone.
func LoadTLS(f TLSFiles, logger *slog.Logger) (*tls.Config, error) {
	l, err := newTLSLoader(f, logger)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return l.config(), nil
}

func newTLSLoader(f TLSFiles, logger *slog.Logger) (*tlsLoader, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	stamp, err := f.stamp()
	if err != nil {
		return nil, err
	}
	conf, err := f.load()
	if err != nil {
		return nil, err
	}
	l := &tlsLoader{files: f, logger: logger}
	l.mu.stamp, l.mu.conf, l.mu.checked = stamp, conf, time.Now()
	return l, nil
}

// config is what a listener is given: it asks for the newest at each handshake.
func (l *tlsLoader) config() *tls.Config {
	outer := l.mu.conf.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return l.current(), nil
	}
	return outer
}

// tlsLoader keeps the newest configuration that could be read.
type tlsLoader struct {
	files  TLSFiles
	logger *slog.Logger

	mu struct {
		sync.Mutex
		stamp   tlsStamp
		failed  *tlsStamp // the files that could not be read, when that was logged
		conf    *tls.Config
		checked time.Time
	}
}

// fileStamp tells a changed file from the one that was read.
type fileStamp struct {
	modified time.Time
	size     int64
}

type tlsStamp [3]fileStamp

// current gives the configuration for the next handshake.
func (l *tlsLoader) current() *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.mu.checked) < tlsCheckInterval {
		return l.mu.conf
	}
	l.mu.checked = now
	stamp, err := l.files.stamp()
	if err == nil && stamp == l.mu.stamp {
		return l.mu.conf
	}
	var conf *tls.Config
	if err == nil {
		conf, err = l.files.load()
	}
	if err != nil {
		// The stamp stays old, so a certificate and key that are replaced one after the other are
		// read once both are there. Each state of the files is logged once.
		if l.mu.failed == nil || *l.mu.failed != stamp {
			l.mu.failed = &stamp
			l.logger.Error("TLS files changed and can't be read; the old ones stay", "err", err)
		}
		return l.mu.conf
	}
	l.mu.stamp, l.mu.conf, l.mu.failed = stamp, conf, nil
	l.logger.Info("TLS files changed and were read again", "cert", l.files.Cert)
	return conf
}

// names are the files that matter.
func (f *TLSFiles) names() [3]string { return [3]string{f.Cert, f.Key, f.CA} }

func (f *TLSFiles) stamp() (s tlsStamp, err error) {
	for i, name := range f.names() {
		if name == "" {
			continue
		}
		st, err := os.Stat(name)
		if err != nil {
			return s, err
		}
		s[i] = fileStamp{st.ModTime(), st.Size()}
	}
	return s, nil
}

func (f *TLSFiles) load() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s, key %s: %w", f.Cert, f.Key, err)
	}
	conf := &tls.Config{
		Certificates: []tls.Certificate{cert},
		ClientAuth:   f.ClientAuth,
		MinVersion:   max(f.MinVersion, tls.VersionTLS12),
	}
	if f.ClientAuth != tls.NoClientCert {
		conf.SessionTicketsDisabled = true
	}
	if f.CA == "" {
		if f.ClientAuth >= tls.VerifyClientCertIfGiven {
			return nil, errors.New("client certificates can't be verified without a CA file")
		}
		return conf, nil
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, err
	}
	conf.ClientCAs = x509.NewCertPool()
	if !conf.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", f.CA)
	}
	return conf, nil
}
