package cli

import (
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/kafkaproto"
	"github.com/sluicelog/sluice/log/store"
)

// importedRow is one log of a directory that became ours.
type importedRow struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start_offset"`
	End       int64  `json:"end_offset"`
	Bytes     int64  `json:"bytes"`
}

func (e *env) logImportCommand() *cobra.Command {
	var form string
	var yes bool
	cmd := &cobra.Command{
		Use:   "import DIR",
		Short: "Make a data directory ours that Kafka wrote",
		Long: `Every batch is read and checked first; when a log is damaged nothing is changed. Segments stay
as they are. Work on a copy: Kafka does not expect to get the directory back.`,
		Example: `  cp -r /var/lib/kafka/data ./copy && sluice log import ./copy
  sluice log import ./copy --yes -o json
  sluice serve --data ./copy`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.logImport(args[0], form, yes) },
	}
	outputFlag(cmd, &form, formTable)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (e *env) logImport(dir, form string, yes bool) error {
	if err := present(dir); err != nil {
		return err
	}
	lock, err := claim(dir)
	if err != nil {
		return err
	}
	if err := lock.Close(); err != nil { // the import takes it itself
		return err
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*", "partition.metadata"))
	if err != nil {
		return err
	}
	what := dir + ": " + count(int64(len(logs)), "partition") + "; Kafka must not use it afterwards"
	if ok, err := e.confirm("import", []string{what}, yes, false); !ok {
		return err
	}
	found, err := store.Import(store.Options{Dir: dir})
	if err != nil {
		return err
	}
	var rows []importedRow
	for _, f := range found {
		rows = append(rows, importedRow{
			Topic: f.TP.Topic, TopicID: f.ID.Topic.String(), Partition: f.TP.Partition,
			Start: int64(f.Start), End: int64(f.End), Bytes: f.Bytes,
		})
	}
	if err := show(e, form, importedListing(), rows); err != nil {
		return err
	}
	e.say("imported %s; start it with \"sluice serve --data %s\"", count(int64(len(rows)), "log"), dir)
	return nil
}

func importedListing() listing[importedRow] {
	tp := func(r importedRow) string {
		return kafkaproto.TopicPartition{Topic: r.Topic, Partition: r.Partition}.String()
	}
	return listing[importedRow]{
		name: tp,
		columns: []column[importedRow]{
			{head: "PARTITION", cell: tp},
			{head: "START", cell: func(r importedRow) string { return strconv.FormatInt(r.Start, 10) }},
			{head: "END", cell: func(r importedRow) string { return strconv.FormatInt(r.End, 10) }},
			{head: "BYTES", cell: func(r importedRow) string { return strconv.FormatInt(r.Bytes, 10) }},
			{head: "TOPIC-ID", cell: func(r importedRow) string { return r.TopicID }, wide: true},
		},
	}
}
