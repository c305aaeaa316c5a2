package cli

import (
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/log/store"
	"github.com/sluicelog/sluice/log/vfs"
)

// verifiedRow is what was found in one log.
type verifiedRow struct {
	Partition string   `json:"partition"`
	Start     int64    `json:"start_offset"`
	End       int64    `json:"end_offset"`
	Segments  int      `json:"segments"`
	Batches   int64    `json:"batches"`
	Bytes     int64    `json:"bytes"`
	Holes     int64    `json:"holes"`
	Problems  []string `json:"problems"`
}

func (e *env) logVerifyCommand() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Read every batch and check it",
		Long: `DIR is a data directory or the directory of a partition. Nothing is changed. Exit code 1 when
there is damage; what a crash left behind the last sync shows as damage until the broker has recovered.`,
		Example: `  sluice log verify ./sluicedata
  sluice log verify ./sluicedata/orders-0 -o json
  sluice log verify ./sluicedata -q && echo sound`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.logVerify(args[0], form) },
	}
	outputFlag(cmd, &form, formTable)
	return cmd
}

func (e *env) logVerify(dir, form string) error {
	if err := present(dir); err != nil {
		return err
	}
	lock, err := claim(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	found, err := store.Verify(vfs.OS(), dir)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return failf(exitNotFound, "%s holds no logs", dir)
	}
	var rows []verifiedRow
	damaged := 0
	for _, v := range found {
		row := verifiedRow{
			Partition: filepath.Base(v.Dir), Start: int64(v.Start), End: int64(v.End),
			Segments: v.Segments, Batches: v.Batches, Bytes: v.Bytes, Holes: v.Holes,
			Problems: append([]string{}, v.Problems...),
		}
		if len(v.Problems) > 0 {
			damaged++
		}
		rows = append(rows, row)
		for _, p := range v.Problems {
			writeTo(e.stderr, "%s\n", p)
		}
	}
	if err := show(e, form, verifiedListing(), rows); err != nil {
		return err
	}
	if damaged > 0 {
		return failf(exitFailed, "%d of %s in %s damaged", damaged, count(int64(len(rows)), "log"), dir)
	}
	e.say("%s in %s, no damage", count(int64(len(rows)), "log"), dir)
	return nil
}

func verifiedListing() listing[verifiedRow] {
	number := func(f func(verifiedRow) int64) func(verifiedRow) string {
		return func(r verifiedRow) string { return strconv.FormatInt(f(r), 10) }
	}
	return listing[verifiedRow]{
		name: func(r verifiedRow) string { return r.Partition },
		columns: []column[verifiedRow]{
			{head: "PARTITION", cell: func(r verifiedRow) string { return r.Partition }},
			{head: "START", cell: number(func(r verifiedRow) int64 { return r.Start })},
			{head: "END", cell: number(func(r verifiedRow) int64 { return r.End })},
			{head: "SEGMENTS", cell: func(r verifiedRow) string { return strconv.Itoa(r.Segments) }},
			{head: "BATCHES", cell: number(func(r verifiedRow) int64 { return r.Batches })},
			{head: "BYTES", cell: number(func(r verifiedRow) int64 { return r.Bytes })},
			{head: "HOLES", cell: number(func(r verifiedRow) int64 { return r.Holes }), wide: true},
			{head: "PROBLEMS", cell: func(r verifiedRow) string { return strconv.Itoa(len(r.Problems)) }},
		},
	}
}
