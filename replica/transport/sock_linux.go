package transport

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setLossTime ends a connection whose bytes are not acknowledged for d: after a cut that was healed
// the system would otherwise go on with pauses of minutes.
func setLossTime(c syscall.RawConn, d time.Duration) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
