package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluicelog/sluice/cmd/sluice/node"
	"github.com/sluicelog/sluice/controller/config"
)

func (e *env) devCommand() *cobra.Command {
	var overrides []string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a broker to try things: fresh data, removed on exit",
		Example: `  sluice dev
  sluice dev --override listeners=PLAINTEXT://127.0.0.1:19092
  sluice dev --override num.partitions=6`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) (err error) {
			layers, err := e.layers(nil, overrides)
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "sluice-dev-")
			if err != nil {
				return fmt.Errorf("make a temporary data directory: %w", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			dev := config.Layer{Name: "sluice dev", Values: map[string]string{
				"sluice.durability": "relaxed", "group.initial.rebalance.delay.ms": "0",
			}}
			return e.run(append([]config.Layer{dev}, layers...), dir, e.recipes)
		},
	}
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "set one key, as key=value; may be repeated")
	return cmd
}

// recipes prints lines to paste into a second terminal.
func (e *env) recipes(_ string, n *node.Node) {
	addr := "localhost:9092"
	for _, a := range n.Addrs() {
		addr = a.String()
	}
	writeTo(e.stderr, `data: temporary, gone on exit. Try in a second terminal:
  echo 'u1:{"total":1}' | kcat -b %[1]s -P -t orders -K:
  kcat -b %[1]s -C -t orders -o beginning -e
  kcat -b %[1]s -L
`, addr)
}
