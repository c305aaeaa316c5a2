package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// control runs call with f's descriptor held open, and again while a signal interrupts it.
func control(f *os.File, op string, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := conn.Control(func(fd uintptr) {
		for inner = call(int(fd)); errors.Is(inner, unix.EINTR); inner = call(int(fd)) {
		}
	}); err != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: os.ErrClosed}
	}
	if inner != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: inner}
	}
	return nil
}

func fdatasync(f *os.File) error { return control(f, "fdatasync", unix.Fdatasync) }

// syncFS refuses on kernels before 5.8: there syncfs does not report failed writes.
func syncFS(d *os.File) error {
	if !kernelAtLeast(5, 8) {
		return fmt.Errorf("syncfs %s: kernel is older than 5.8: %w", d.Name(), ErrUnsupported)
	}
	err := control(d, "syncfs", unix.Syncfs)
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %w", err, ErrUnsupported)
	}
	return err
}

// kernelAtLeast parses uname's release, "6.18.44-fc"; an unreadable one counts as old.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

func startWriteback(f *os.File, off, n int64) error {
	return control(f, "sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}

func dropCache(f *os.File, off, n int64) error {
	return control(f, "fadvise", func(fd int) error {
		return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED)
	})
}

func flock(f *os.File) error {
	err := control(f, "flock", func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

func statfsFree(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, nil
}
