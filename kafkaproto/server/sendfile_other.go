//go:build !linux

package server

import (
	"errors"
	"net"
	"os"
)

// canSendfile says that Conn.sendfile may be tried: other systems copy through a buffer.
const canSendfile = false

type rawSocket struct{}

func (c *Conn) sendMore(iov [][]byte) (int64, error) {
	bufs := net.Buffers(iov)
	return bufs.WriteTo(c.tcp)
}

func (c *Conn) sendfile(*os.File, int64, int64) (int64, error) {
	return 0, errors.ErrUnsupported
}
