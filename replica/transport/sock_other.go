//go:build !linux

package transport

import (
	"syscall"
	"time"
)

// setLossTime is for Linux; elsewhere keep-alive must do.
func setLossTime(syscall.RawConn, time.Duration) error { return nil }
