package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/log/vfs"
)

func (e *env) logCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look into a data directory while no broker uses it",
		Example: `  sluice log dump ./sluicedata/orders-0 --records
  sluice log verify ./sluicedata
  sluice log import ./copy-of-kafka-data`,
		Args: cobra.ArbitraryArgs,
		RunE: e.noun,
	}
	cmd.AddCommand(e.logDumpCommand(), e.logVerifyCommand(), e.logImportCommand())
	return cmd
}

// lockName is the file that a broker holds in its data directory.
const lockName = "LOCK"

// claim keeps brokers out of the data directory that path is, or lies in, until the closer is
// closed. A directory without a lock is not in use by a broker of ours.
func claim(path string) (io.Closer, error) {
	for _, dir := range []string{path, filepath.Dir(path), filepath.Dir(filepath.Dir(path))} {
		name := filepath.Join(dir, lockName)
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			continue
		}
		lock, err := vfs.OS().Lock(name)
		if errors.Is(err, vfs.ErrLocked) {
			return nil, failf(exitConflict, "a broker uses %s; stop it first", dir)
		}
		if err != nil {
			break // it cannot be written, so no broker can use it either
		}
		return lock, nil
	}
	return io.NopCloser(nil), nil
}

// present wants a path that is there.
func present(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return failf(exitNotFound, "%s does not exist", path)
	}
	return err
}
