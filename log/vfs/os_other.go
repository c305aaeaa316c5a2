//go:build unix && !linux

package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func fdatasync(f *os.File) error { return f.Sync() }

func syncFS(d *os.File) error { return fmt.Errorf("syncfs %s: %w", d.Name(), ErrUnsupported) }

func startWriteback(*os.File, int64, int64) error { return nil }

func dropCache(*os.File, int64, int64) error { return nil }

func flock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
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
	return int64(st.Bavail) * int64(st.Bsize), nil
}
