package config

import (
	"fmt"
	"strings"
)

// TLS is the settings of one SSL listener. PEM text wins over a PEM file; files are read by the
// node, and again when they change.
type TLS struct {
	Listener string
	// KeystoreFile holds private key and certificate chain; Key and Chain are the same as text.
	KeystoreFile, Key, Chain string
	// TruststoreFile, or Trust as text, is what client certificates are checked against.
	TruststoreFile, Trust string
	// ClientAuth is required, requested or none.
	ClientAuth string
	Protocols  []string // TLSv1.2, TLSv1.3
	Ciphers    []string // IANA names; empty means Go's defaults
	// KeyPassword is set when the private key is said to be encrypted.
	KeyPassword string

	keystoreType, truststoreType string
}

// tls reads the ssl.* keys, each overridden by listener.name.<listener>.ssl.*.
func (s *Static) tls(listener string) TLS {
	get := func(key string) string {
		own := "listener.name." + strings.ToLower(listener) + "." + key
		if v, ok := s.values[own]; ok {
			return v
		}
		return s.Get(key)
	}
	return TLS{
		Listener:       listener,
		KeystoreFile:   get("ssl.keystore.location"),
		Key:            get("ssl.keystore.key"),
		Chain:          get("ssl.keystore.certificate.chain"),
		TruststoreFile: get("ssl.truststore.location"),
		Trust:          get("ssl.truststore.certificates"),
		ClientAuth:     get("ssl.client.auth"),
		Protocols:      splitList(get("ssl.enabled.protocols")),
		Ciphers:        splitList(get("ssl.cipher.suites")),
		KeyPassword:    get("ssl.key.password"),
		keystoreType:   get("ssl.keystore.type"),
		truststoreType: get("ssl.truststore.type"),
	}
}

// check refuses what could not be served, or would be served weaker than meant.
func (t TLS) check() error {
	for _, store := range []struct{ key, kind, file, text string }{
		{"ssl.keystore", t.keystoreType, t.KeystoreFile, t.Chain},
		{"ssl.truststore", t.truststoreType, t.TruststoreFile, t.Trust},
	} {
		if (store.file != "" || store.text != "") && !strings.EqualFold(store.kind, "PEM") {
			return fmt.Errorf("listener %s: %s.type is %s, but only PEM is read; convert it, for "+
				"example with: openssl pkcs12 -in store.p12 -nodes -out store.pem",
				t.Listener, store.key, store.kind)
		}
	}
	switch {
	case t.KeystoreFile == "" && (t.Key == "" || t.Chain == ""):
		return fmt.Errorf("listener %s speaks SSL but has no certificate: set "+
			"ssl.keystore.location to a PEM file with private key and certificate chain, or "+
			"ssl.keystore.key and ssl.keystore.certificate.chain", t.Listener)
	case t.KeyPassword != "":
		return fmt.Errorf("listener %s: ssl.key.password is set, but encrypted keys are not read; "+
			"decrypt it, for example with: openssl pkey -in key.pem -out plain.pem", t.Listener)
	case t.ClientAuth != "none" && t.TruststoreFile == "" && t.Trust == "":
		return fmt.Errorf("listener %s: ssl.client.auth=%s needs ssl.truststore.location or "+
			"ssl.truststore.certificates", t.Listener, t.ClientAuth)
	}
	for _, p := range t.Protocols {
		if p != "TLSv1.2" && p != "TLSv1.3" {
			return fmt.Errorf("listener %s: ssl.enabled.protocols names %s; TLSv1.2 and TLSv1.3 "+
				"are served", t.Listener, p)
		}
	}
	return nil
}
