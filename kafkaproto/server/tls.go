package server

import (
	"crypto/tls"
	"log/slog"
)

// TLSFiles names the PEM files of an SSL listener.
type TLSFiles struct {
	// Cert and Key may be one file.
	Cert, Key string
	// CA verifies client certificates; empty when ClientAuth asks for none.
	CA string
	// ClientAuth is ssl.client.auth: none, requested or required.
	ClientAuth tls.ClientAuthType
}

// LoadTLS reads the files and gives a configuration that reads them again when they change. A
// reload that fails keeps what was there and logs why.
func LoadTLS(f TLSFiles, logger *slog.Logger) (*tls.Config, error) { panic("todo") }
