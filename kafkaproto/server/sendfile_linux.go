package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// canSendfile says that Conn.sendfile may be tried.
const canSendfile = true

// rawSocket is the descriptor of a TCP connection, fetched when it is first needed.
type rawSocket struct{ rc syscall.RawConn }

func (c *Conn) rawSocket() (syscall.RawConn, error) {
	if c.out.sock.rc == nil {
		rc, err := c.tcp.SyscallConn()
		if err != nil {
			return nil, err
		}
		c.out.sock.rc = rc
	}
	return c.out.sock.rc, nil
}

// sendMore writes the pieces and tells the kernel that more follows.
func (c *Conn) sendMore(iov [][]byte) (written int64, err error) {
	rc, err := c.rawSocket()
	if err != nil {
		return 0, err
	}
	var failed error
	err = rc.Write(func(fd uintptr) bool {
		for len(iov) > 0 {
			n, e := unix.SendmsgBuffers(int(fd), iov, nil, nil, unix.MSG_MORE|unix.MSG_NOSIGNAL)
			switch {
			case e == unix.EINTR:
				continue
			case e == unix.EAGAIN:
				return false
			case e != nil:
				failed = fmt.Errorf("sendmsg: %w", e)
				return true
			}
			written += int64(n)
			iov = skip(iov, n)
		}
		return true
	})
	if err == nil {
		err = failed
	}
	return written, err
}

// skip drops the first n bytes of iov.
func skip(iov [][]byte, n int) [][]byte {
	for len(iov) > 0 && n >= len(iov[0]) {
		n -= len(iov[0])
		iov = iov[1:]
	}
	if n > 0 {
		iov[0] = iov[0][n:]
	}
	return iov
}

// sendfile sends n bytes of f from off without passing them through our memory. The offset is
// given to each call: the file's own position is shared with everybody who has it open. The
// error is errors.ErrUnsupported where the file can't be sent that way.
func (c *Conn) sendfile(f *os.File, off, n int64) (sent int64, err error) {
	sock, err := c.rawSocket()
	if err != nil {
		return 0, err
	}
	file, err := f.SyscallConn()
	if err != nil {
		return 0, &shortFileError{err}
	}
	// Control keeps the file's descriptor from being closed, and its number from being reused,
	// while the kernel reads from it.
	ctlErr := file.Control(func(in uintptr) {
		c.armWrite()
		piece := int64(0)
		for sent < n && err == nil {
			var step int
			step, err = sendfileOnce(sock, int(in), off+sent, n-sent)
			sent += int64(step)
			if piece += int64(step); piece >= writePiece {
				piece = 0
				c.armWrite()
			}
		}
	})
	if ctlErr != nil {
		return sent, &shortFileError{ctlErr}
	}
	return sent, err
}

// sendfileOnce waits until the socket takes bytes and hands it some.
func sendfileOnce(sock syscall.RawConn, in int, off, n int64) (step int, err error) {
	var failed error
	err = sock.Write(func(out uintptr) bool {
		for {
			at := off
			step, failed = unix.Sendfile(int(out), in, &at, int(n))
			switch {
			case failed == unix.EINTR:
				continue
			case failed == unix.EAGAIN:
				failed = nil
				return false
			}
			return true
		}
	})
	step = max(step, 0)
	switch {
	case err != nil:
		return step, err
	case failed == unix.EINVAL || failed == unix.ENOSYS || failed == unix.EOPNOTSUPP:
		return 0, errors.ErrUnsupported
	case failed == unix.EIO:
		return 0, &shortFileError{fmt.Errorf("sendfile %d bytes at %d: %w", n, off, failed)}
	case failed != nil:
		return 0, fmt.Errorf("sendfile: %w", failed)
	case step == 0:
		err = fmt.Errorf("sendfile %d bytes at %d: %w", n, off, io.ErrUnexpectedEOF)
		return 0, &shortFileError{err}
	}
	return step, nil
}
