package cli

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

func (e *env) logDumpCommand() *cobra.Command {
	var o store.DumpOptions
	var live bool
	cmd := &cobra.Command{
		Use:   "dump PATH...",
		Short: "Print the batches of a log, in the words of kafka-dump-log.sh",
		Long:  "PATH is a file of a log, the directory of a partition, or a data directory.",
		Example: `  sluice log dump ./sluicedata/orders-0
  sluice log dump ./sluicedata/orders-0/00000000000000000000.log --records
  sluice log dump ./sluicedata/orders-0/00000000000000000000.timeindex
  sluice log dump --live ./sluicedata/orders-0       # while the broker runs`,
		Args: e.minArgs(1, "the path of a log"),
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, path := range args {
				errs = append(errs, e.logDump(path, o, live))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVarP(&o.Records, "records", "r", false, "print the records of each batch")
	cmd.Flags().BoolVar(&live, "live", false, "read also while a broker writes; the last batch may be cut")
	return cmd
}

func (e *env) logDump(path string, o store.DumpOptions, live bool) error {
	if err := present(path); err != nil {
		return err
	}
	if !live {
		lock, err := claim(path)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	var errs []error
	for _, p := range partitionsIn(path) {
		errs = append(errs, store.Dump(vfs.OS(), p, e.stdout, o))
	}
	return errors.Join(errs...)
}

// partitionsIn is path itself, or the directories of partitions in it when it is a data directory.
func partitionsIn(path string) []string {
	found, err := filepath.Glob(filepath.Join(path, "*", "*.log"))
	if err != nil || len(found) == 0 {
		return []string{path}
	}
	var out []string
	for _, f := range found {
		dir := filepath.Dir(f)
		if _, err := os.Stat(filepath.Join(dir, "partition.metadata")); err != nil {
			continue
		}
		if len(out) == 0 || out[len(out)-1] != dir {
			out = append(out, dir)
		}
	}
	if len(out) == 0 {
		return []string{path}
	}
	return out
}
